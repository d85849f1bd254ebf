"""Send the spans of a run to a server that speaks OTLP over HTTP. Needs the extra `otlp`."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.errors import HarnessError, UsageError, describe_installation
from harness.reports.trajectories.attempts import ExportedRun
from harness.reports.trajectories.spans import Span, build_spans, describe_resource
from harness.secret_forms import describe_url_value
from harness.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

# Collectors refuse requests of more than some megabytes.
_SPANS_PER_REQUEST = 200
_TIMEOUT_SECONDS = 30
_PATH = "/v1/traces"


class SendError(HarnessError):
    """A server did not take the spans. Those that it took before stay there."""

    exit_code = 3


def send_spans(run: ExportedRun, endpoint: str) -> int:
    """Send the spans of all attempts, and return their number.

    The headers that a server demands are in OTEL_EXPORTER_OTLP_HEADERS, because arguments are visible to all
    users of a machine.

    Args:
        run: the run.
        endpoint: the URL of the server, such as http://localhost:4318, or the whole URL of its traces.

    Raises:
        UsageError: for an endpoint that is no URL, or if the extra is not installed.
        SendError: if the server refuses spans or cannot be reached.
        DataError: for a damaged transcript.
    """
    url = _complete_url(endpoint)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import SpanExportResult

        from harness.reports.trajectories.collector_session import CollectorSession
    except ImportError as error:
        raise UsageError(
            "spans cannot be sent, because OpenTelemetry is not installed",
            hint=f"{describe_installation('otlp')}, or write a file with -o spans.jsonl",
        ) from error
    resource = Resource(describe_resource(run))
    spans = (
        _convert(span, resource) for attempt in run.read_attempts() for span in build_spans(run, attempt)
    )
    # The error below has the reason. Without a handler Python would also print the lines of the library.
    library = logging.getLogger("opentelemetry")
    if not library.handlers:
        library.addHandler(logging.NullHandler())
    session = CollectorSession()
    exporter = OTLPSpanExporter(endpoint=url, timeout=_TIMEOUT_SECONDS, session=session)
    sent = 0
    try:
        while batch := list(islice(spans, _SPANS_PER_REQUEST)):
            if exporter.export(batch) is not SpanExportResult.SUCCESS:
                reason = f" ({session.reason})" if session.reason else ""
                raise SendError(
                    f"{url}: did not take the spans{reason}; it took {sent:,} before",
                    hint="check the URL, and OTEL_EXPORTER_OTLP_HEADERS if the server needs a key",
                )
            sent += len(batch)
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return sent


def _complete_url(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"--endpoint must be a URL such as http://localhost:4318{describe_url_value(endpoint)}"
        )
    if parts.username or parts.password:
        raise UsageError(
            "--endpoint must hold no user name or password", hint="set OTEL_EXPORTER_OTLP_HEADERS instead"
        )
    return endpoint if parts.path.strip("/") else endpoint.rstrip("/") + _PATH


def _convert(span: Span, resource: Resource) -> ReadableSpan:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def name_span(span_id: bytes) -> SpanContext:
        numbers = int.from_bytes(span.trace_id), int.from_bytes(span_id)
        return SpanContext(*numbers, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    return ReadableSpan(
        name=span.name,
        context=name_span(span.span_id),
        parent=None if span.parent_id is None else name_span(span.parent_id),
        resource=resource,
        attributes=dict(span.attributes),
        events=[Event(event.name, dict(event.attributes), event.time) for event in span.events],
        kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
        status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
        start_time=span.started,
        end_time=span.ended,
        instrumentation_scope=InstrumentationScope("harness", __version__),
    )
