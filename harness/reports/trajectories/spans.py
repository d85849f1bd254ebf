"""The spans of an attempt by OpenTelemetry's conventions for generative AI.

An attempt is one trace: `invoke_agent` with a `chat` for each request to a model and an `execute_tool` for
each call. The verdict is the event `gen_ai.evaluation.result`. Ids are hashes of the run and the task, so
that a second export does not double a trace.

Source: https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.reports.recorded_values import read_count
from harness.reports.trajectories.attempts import ExportedAttempt, ExportedRun, name_attempt
from harness.reports.trajectories.portable import drop_none
from harness.reports.trajectories.turns import Message, Observation, Prompt, Request, Turn
from harness.types import Status

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


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """A point in time within a span, in nanoseconds since 1970."""

    name: str
    time: int
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Span:
    """A span. Ids are those of OpenTelemetry, times are nanoseconds since 1970."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    kind: Literal["internal", "client"]
    started: int
    ended: int
    attributes: Mapping[str, Attribute]
    events: tuple[SpanEvent, ...] = ()
    # The reason for which the operation ended in an error, None if it did not.
    error: str | None = None


def describe_resource(run: ExportedRun) -> dict[str, Attribute]:
    """Return the attributes that all spans of a run share."""
    return {
        "service.name": "harness",
        "service.version": str(run.manifest.get("harness_version", "")),
        "harness.run_id": run.run_id,
        "harness.benchmark": run.benchmark,
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
