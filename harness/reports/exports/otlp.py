"""Spans of OpenTelemetry (`gen_ai.*`) as OTLP JSON, one line for each attempt, as collectors read files.

Ids are hexadecimal and 64-bit numbers are texts, as the JSON encoding of OTLP demands.
Source: https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

from harness.core.version import __version__
from harness.reports.trajectories.attempts import ExportedRun
from harness.reports.trajectories.spans import Attribute, Span, build_spans, describe_resource

SUFFIXES = (".jsonl", ".json")
_KINDS = {"internal": 1, "client": 3}
_ERROR = 2


def write_export(run: ExportedRun, stream: TextIO) -> None:
    """Write the spans of each attempt on a line."""
    resource = {"attributes": _encode_attributes(describe_resource(run))}
    scope = {"name": "harness", "version": __version__}
    for attempt in run.read_attempts():
        spans = [_encode_span(span) for span in build_spans(run, attempt)]
        traces = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}
        stream.write(json.dumps(traces) + "\n")


def _encode_span(span: Span) -> dict[str, Any]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        **({} if span.parent_id is None else {"parentSpanId": span.parent_id.hex()}),
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.started),
        "endTimeUnixNano": str(span.ended),
        "attributes": _encode_attributes(span.attributes),
        "events": [
            {
                "name": event.name,
                "timeUnixNano": str(event.time),
                "attributes": _encode_attributes(event.attributes),
            }
            for event in span.events
        ],
        "status": {} if span.error is None else {"code": _ERROR, "message": span.error},
    }


def _encode_attributes(attributes: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _encode_value(value)} for name, value in attributes.items()]


def _encode_value(value: Attribute) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_encode_value(each) for each in value]}}
    return {"stringValue": value}
