"""The spans of an attempt by OpenTelemetry's conventions for generative AI.

An attempt is one trace: `invoke_agent` with a `chat` for each request to a model and an `execute_tool` for
each call. The verdict is the event `gen_ai.evaluation.result`. Ids are hashes of the run and the task, so
that a second export does not double a trace.

Source: https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import MaxRetryError, NewConnectionError

from harness.core.errors import HarnessError, UsageError, describe_installation
from harness.core.secret_forms import describe_url_value
from harness.core.text import escape_terminal
from harness.core.types import Status
from harness.core.version import __version__
from harness.reports.recorded_attempts import read_count
from harness.reports.trajectories.attempts import ExportedAttempt, ExportedRun, drop_none, name_attempt
from harness.reports.trajectories.turns import Message, Observation, Prompt, Request, Turn
from harness.runs.manifest import read_grading_version

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan


Attribute = str | bool | int | float | tuple[str, ...]
# The provider whose protocol a server speaks, by the API of a request. The server may belong to another one.
_PROVIDERS = {"messages": "anthropic"}
_USUAL_PROVIDER = "openai"
# The reasons for the end of a reply that have another name in the conventions.
_FINISHES = {"tool_calls": "tool_call", "refusal": "content_filter"}
_FAULTS = (
    Status.AGENT_ERROR,
    Status.GRADER_ERROR,
    Status.INFRA_ERROR,
    Status.CANCELLED,
    Status.TIMEOUT,
    Status.LIMIT_REACHED,
    Status.CRASHED,
)
# Collectors refuse requests of more than some megabytes.
_SPANS_PER_REQUEST = 200
_TIMEOUT_SECONDS = 30
_PATH = "/v1/traces"
_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """A point in time within a span, in nanoseconds since 1970."""

    name: str
    time: int
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Span:
    """A span. Ids are as in OpenTelemetry, times are nanoseconds since 1970."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    kind: Literal["internal", "client"]
    started: int
    ended: int
    attributes: Mapping[str, Attribute]
    events: tuple[SpanEvent, ...] = ()
    # The reason why the operation ended in an error, None if it did not.
    error: str | None = None


def describe_resource(run: ExportedRun) -> dict[str, Attribute]:
    """Return the attributes that all spans of a run share."""
    return {
        "service.name": "harness",
        "service.version": str(run.manifest.get("harness_version", "")),
        "harness.run_id": run.run_id,
        "harness.benchmark": run.benchmark,
        "harness.grading_version": read_grading_version(run.manifest),
    }


def build_spans(run: ExportedRun, attempt: ExportedAttempt) -> Iterator[Span]:
    """Yield the spans of an attempt, the first one last, because it ends last. Raises DataError."""
    record = attempt.record
    name = name_attempt(run, record)
    trace = hashlib.sha256(name.encode()).digest()[:16]
    root = _number_span(trace, 0)
    places = _Places(attempt)
    prompt = ""
    for number, part in enumerate(attempt.read_parts(), start=1):
        if isinstance(part, Prompt):
            prompt = part.text
        if not isinstance(part, Turn):
            continue
        if part.request is not None:
            started, ended = places.find(part.time, part.request.seconds)
            yield Span(
                trace,
                _number_span(trace, number, 0),
                root,
                f"chat {run.model or 'unknown'}",
                "client",
                started,
                ended,
                _describe_request(run, name, part, part.request),
            )
        for place, seen in enumerate(part.observations, start=1):
            started, ended = places.find(seen.time, seen.seconds)
            failed = seen.ended or ("refused" if seen.refused else None)
            yield Span(
                trace,
                _number_span(trace, number, place),
                root,
                f"execute_tool {seen.call.name}",
                "internal",
                started,
                ended,
                _describe_call(run, seen, failed),
                error=failed,
            )
    yield _build_root(run, attempt, trace, root, prompt)


def _build_root(run: ExportedRun, attempt: ExportedAttempt, trace: bytes, root: bytes, prompt: str) -> Span:
    record = attempt.record
    fault = record.status.value if record.status in _FAULTS else None
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": None if run.model is None else _name_provider(run.api),
        "gen_ai.agent.name": run.agent,
        "gen_ai.request.model": run.model,
        "gen_ai.conversation.id": name_attempt(run, record),
        "gen_ai.usage.input_tokens": read_count(record.metrics.get("input_tokens")),
        "gen_ai.usage.output_tokens": read_count(record.metrics.get("output_tokens")),
        "gen_ai.usage.cache_read.input_tokens": read_count(record.metrics.get("cached_tokens")),
        "gen_ai.usage.reasoning.output_tokens": read_count(record.metrics.get("reasoning_tokens")),
        "harness.task_id": record.task_id,
        "harness.attempt": record.attempt,
        "harness.category": record.category,
        "harness.status": record.status.value,
        "harness.resolved": record.resolved,
        "harness.times_estimated": attempt.is_estimated or None,
        "error.type": fault,
    }
    if run.has_content:
        output = record.submission if record.submission is not None else record.agent_output
        attributes["gen_ai.input.messages"] = _describe_messages([Message("user", prompt)])
        attributes["gen_ai.output.messages"] = _describe_messages([Message("assistant", output)], "stop")
    verdict = {
        "gen_ai.evaluation.name": run.benchmark,
        "gen_ai.evaluation.score.value": record.score,
        "gen_ai.evaluation.score.label": record.status.value,
        # The evidence quotes the output of the program.
        "gen_ai.evaluation.explanation": record.error if run.has_content else None,
    }
    ended = _to_nanoseconds(attempt.ended)
    return Span(
        trace,
        root,
        None,
        f"invoke_agent {run.agent}",
        "internal",
        _to_nanoseconds(attempt.started),
        ended,
        drop_none(attributes),
        (SpanEvent("gen_ai.evaluation.result", ended, drop_none(verdict)),),
        fault,
    )


def _describe_request(
    run: ExportedRun, conversation: str, turn: Turn, request: Request
) -> dict[str, Attribute]:
    finish = None if request.finish is None else _FINISHES.get(request.finish, request.finish)
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _name_provider(request.api or run.api),
        "gen_ai.conversation.id": conversation,
        "gen_ai.request.model": run.model,
        **{f"gen_ai.request.{name}": value for name, value in run.generation.items()},
        "gen_ai.request.stop_sequences": run.stop_sequences or None,
        "gen_ai.usage.input_tokens": request.tokens.input,
        "gen_ai.usage.output_tokens": request.tokens.output,
        "gen_ai.usage.cache_read.input_tokens": request.tokens.cached,
        "gen_ai.usage.reasoning.output_tokens": request.tokens.reasoning,
        "gen_ai.response.finish_reasons": None if finish is None else (finish,),
        "harness.cached_reply": request.cached or None,
        "harness.retries": request.retries or None,
    }
    if run.has_content:
        attributes["gen_ai.input.messages"] = _describe_messages(request.messages)
        attributes["gen_ai.output.messages"] = _describe_messages([turn.reply], finish or "unknown")
        if request.tools:
            tools = [{"type": "function", **tool.as_function()} for tool in request.tools]
            attributes["gen_ai.tool.definitions"] = json.dumps(tools)
    return drop_none(attributes)


def _describe_call(run: ExportedRun, seen: Observation, failed: str | None) -> dict[str, Attribute]:
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": seen.call.name,
        "gen_ai.tool.call.id": seen.call.id,
        "gen_ai.tool.type": "function",
        "error.type": failed,
    }
    if run.has_content:
        attributes["gen_ai.tool.call.arguments"] = json.dumps(dict(seen.call.arguments))
        attributes["gen_ai.tool.call.result"] = seen.text
    return drop_none(attributes)


def _name_provider(api: str) -> str:
    return _PROVIDERS.get(api, _USUAL_PROVIDER)


def _describe_messages(messages: Iterable[Message], finish: str | None = None) -> str:
    """Return messages as JSON, in the form of `gen_ai.input.messages`."""
    described = []
    for message in messages:
        parts: list[dict[str, Any]] = []
        if message.reasoning:
            parts.append({"type": "reasoning", "content": message.reasoning})
        if message.role == "tool":
            parts.append({"type": "tool_call_response", "id": message.answers, "response": message.text})
        elif message.text or not message.calls:
            parts.append({"type": "text", "content": message.text})
        parts += [
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": dict(call.arguments)}
            for call in message.calls
        ]
        ending = {} if finish is None else {"finish_reason": finish}
        described.append({"role": message.role, "parts": parts, **ending})
    return json.dumps(described)


@dataclass(slots=True)
class _Places:
    """Where the spans of an attempt lie in time."""

    attempt: ExportedAttempt
    # The end of the last span whose time is unknown.
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.attempt.started

    def find(self, ended: float | None, seconds: float) -> tuple[int, int]:
        """Return start and end in nanoseconds. Spans of unknown times follow one another."""
        end = self._last + seconds if ended is None else ended
        self._last = end
        start = max(end - seconds, self.attempt.started)
        return _to_nanoseconds(start), _to_nanoseconds(max(start, end))


def _number_span(trace: bytes, number: int, place: int = 0) -> bytes:
    return hashlib.sha256(trace + f"{number}.{place}".encode()).digest()[:8]


def _to_nanoseconds(seconds: float) -> int:
    # A float has no room for nanoseconds, so microseconds are exact and nanoseconds are not invented.
    return round(seconds * 1_000_000) * 1000


class SendError(HarnessError):
    """A server did not take the spans. It keeps the spans that it took before."""

    exit_code = 3


def send_spans(run: ExportedRun, endpoint: str) -> int:
    """Send the spans of all attempts, and return their number.

    The headers that a server demands are in OTEL_EXPORTER_OTLP_HEADERS, because arguments are visible to all
    users of a machine.

    Args:
        run: the run.
        endpoint: the URL of the server, such as http://localhost:4318, or the whole URL of its traces.

    Raises:
        UsageError: for an endpoint that is not a URL, or if the extra is not installed.
        SendError: if the server refuses spans or cannot be reached.
        DataError: for a damaged transcript.
    """
    url = _complete_url(endpoint)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import SpanExportResult
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


class _RefusedError(Exception):
    """The request has failed, and another try would fail as well."""


class CollectorSession(requests.Session):
    """A session that takes only a status of 2xx for success, and gives up if no connection can be made."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""
        """Why the last request failed, safe to print."""
        # Otherwise a password of ~/.netrc would replace the key of the user.
        self.auth = _keep_headers

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request.

        Raises requests.ConnectionError if another try may succeed, and _RefusedError if it would not.
        """
        self.reason = ""
        try:
            response = super().send(request, **options)
        except requests.ConnectionError as error:
            self.reason = _explain(error)
            if _find_connection_fault(error) is not None:
                raise _RefusedError(self.reason) from error
            raise
        except requests.Timeout:
            self.reason = "it did not answer in time"
            raise
        if response.status_code >= 300:
            self.reason = _shorten(f"HTTP status {response.status_code} {response.reason or ''}".rstrip())
        if 300 <= response.status_code < 400:
            target = response.headers.get("location")
            self.reason += f", which leads to {_shorten(target)}" if target else ""
            response.close()
            raise _RefusedError(self.reason)
        return response


def _keep_headers(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _explain(error: requests.ConnectionError) -> str:
    fault = _find_connection_fault(error)
    cause = None if fault is None else fault.__cause__ or fault.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return _shorten(cause.strerror)
    return "it cannot be reached" if fault is not None else "the connection broke"


def _find_connection_fault(error: requests.ConnectionError) -> NewConnectionError | None:
    """Return the error of a connection that could not be made, None for one that broke later."""
    inner = error.args[0] if error.args else None
    if isinstance(inner, MaxRetryError):
        inner = inner.reason
    return inner if isinstance(inner, NewConnectionError) else None


def _shorten(text: str) -> str:
    return escape_terminal(text, _REASON_CHARACTERS)
