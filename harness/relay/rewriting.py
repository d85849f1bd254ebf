"""A client's request as it goes on: within the rules of its API, with the parameters of the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harness.inputs.json_text import MAX_DEPTH, require_shallow
from harness.models.endpoint import Api
from harness.models.messages import Generation, ToolSchema
from harness.models.raw_conversation import read_conversation
from harness.models.raw_request import RawRequest
from harness.relay.chat_rules import rewrite_completion
from harness.relay.errors import RelayError
from harness.relay.messages_rules import rewrite_messages
from harness.relay.responses_rules import rewrite_response
from harness.relay.rules import Notes, name_tool, refuse_stored_state

_RULES: Mapping[Api, Callable[[Mapping[str, Any], Notes], dict[str, Any]]] = {
    "chat": rewrite_completion,
    "responses": rewrite_response,
    "messages": rewrite_messages,
}
# The parameters of generation of each API. The run decides them.
_PARAMETERS: Mapping[Api, frozenset[str]] = {
    "chat": frozenset(
        {
            "temperature",
            "top_p",
            "max_tokens",
            "max_completion_tokens",
            "stop",
            "seed",
            "reasoning_effort",
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "verbosity",
            "prediction",
        }
    ),
    "responses": frozenset(
        {"temperature", "top_p", "max_output_tokens", "reasoning", "top_logprobs", "truncation"}
    ),
    "messages": frozenset({"temperature", "top_p", "top_k", "max_tokens", "stop_sequences", "thinking"}),
}
# The fields that the rules of an API read, or that the relay sets.
_READ: Mapping[Api, frozenset[str]] = {
    "chat": frozenset(
        {
            "messages",
            "tools",
            "tool_choice",
            "functions",
            "function_call",
            "parallel_tool_calls",
            "response_format",
            "stream_options",
        }
    ),
    "responses": frozenset(
        {"input", "instructions", "text", "include", "tools", "tool_choice", "parallel_tool_calls"}
    ),
    "messages": frozenset({"messages", "system", "tools", "tool_choice", "output_config"}),
}
_READ_ALWAYS = frozenset(
    {"model", "stream", "store", "background", "previous_response_id", "conversation", "n"}
)
# Anthropic's API needs a bound in each request. No reply is longer.
_MOST_FALLBACK_TOKENS = 128_000


def parse_body(content: bytes) -> dict[str, Any]:
    """Return the object in a body. Raises RelayError."""
    try:
        # Python would accept UTF-16 as well, in which the values of a body cannot be counted.
        text = content.decode("utf-8-sig", "surrogatepass")
        body = json.loads(text, parse_constant=_refuse_constant)
        # Deeper values could be read here, and not be written later, which would seem a defect of ours.
        require_shallow(body)
    except RecursionError:
        reason = f"the body of the request is nested too deeply, more than {MAX_DEPTH} levels"
        raise RelayError(400, "invalid_json", reason) from None
    except ValueError:
        raise RelayError(400, "invalid_json", "the body of the request is no valid JSON") from None
    if not isinstance(body, dict):
        raise RelayError(400, "invalid_json", "the body of the request is no JSON object")
    return body


def rewrite_request(
    api: Api, body: Mapping[str, Any], *, keeps_parameters: bool, marks: Mapping[str, Any]
) -> RawRequest:
    """Return the request that goes on. Raises RelayError for one that the relay refuses.

    Args:
        api: the API of the request.
        body: the JSON of the client.
        keeps_parameters: whether the client's parameters of generation override those of the run.
        marks: further fields of the entry in the transcript.
    """
    is_stream = body.get("stream")
    if not isinstance(is_stream, bool | None):
        raise RelayError(400, "invalid_request", "'stream' must be true or false")
    refuse_stored_state(body)
    notes = Notes()
    kept = _RULES[api](body, notes)
    bound = _read_count(body.get("max_tokens")) if api == "messages" else None
    if api == "messages" and bound is None:
        raise RelayError(400, "invalid_request", "'max_tokens' must be a positive number")
    generation = _read_parameters(api, body) if keeps_parameters else Generation()
    for name, value in body.items():
        if value is None or name in _READ[api] | _READ_ALWAYS:
            continue
        if name not in _PARAMETERS[api]:
            notes.withhold(name)
        elif not keeps_parameters:
            notes.drop(name, value)
    options = body.get("stream_options")
    return RawRequest(
        api,
        kept,
        read_conversation(api, kept),
        tuple(_list_tools(api, kept.get("tools", ()))),
        bool(is_stream),
        isinstance(options, dict) and options.get("include_usage") is True,
        generation,
        None if bound is None else min(bound, _MOST_FALLBACK_TOKENS),
        {**marks, **_describe_notes(notes)},
    )


def _list_tools(api: Api, tools: Iterable[Mapping[str, Any]]) -> Iterator[ToolSchema]:
    """Yield the tools for the transcript. The name of a tool of a group follows that of the group."""
    for tool in tools:
        if api == "responses" and tool["type"] == "namespace":
            for each in tool["tools"]:
                yield _read_tool(each, f"{name_tool(tool)}.{name_tool(each)}")
        else:
            inside = tool.get(tool["type"], tool) if api == "chat" else tool
            yield _read_tool(inside, name_tool(inside))


def _read_tool(tool: Mapping[str, Any], name: str) -> ToolSchema:
    description = tool.get("description")
    parameters = tool.get("input_schema", tool.get("parameters"))
    return ToolSchema(
        name,
        description if isinstance(description, str) else "",
        parameters if isinstance(parameters, dict) else {},
    )


def _describe_notes(notes: Notes) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if notes.withheld:
        described["withheld"] = notes.withheld
    if notes.dropped:
        described["dropped"] = notes.dropped
    return described


def _read_parameters(api: Api, body: Mapping[str, Any]) -> Generation:
    """Return those parameters of a client that a run can have, too."""
    stop = body.get("stop_sequences" if api == "messages" else "stop")
    texts = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    effort = body.get("reasoning_effort")
    reasoning = body.get("reasoning" if api == "responses" else "output_config")
    if api != "chat" and isinstance(reasoning, dict):
        effort = reasoning.get("effort")
    bounds = [body.get(name) for name in ("max_completion_tokens", "max_output_tokens", "max_tokens")]
    counts = [count for count in map(_read_count, bounds) if count is not None]
    seed = body.get("seed")
    return Generation(
        _read_number(body.get("temperature"), 5.0),
        _read_number(body.get("top_p"), 1.0),
        counts[0] if counts else None,
        tuple(text for text in texts if isinstance(text, str))[:16],
        seed if type(seed) is int and abs(seed) < 2**63 else None,
        effort if isinstance(effort, str) and len(effort) <= 32 else None,
    )


def _read_number(value: Any, most: float) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= most else None


def _read_count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 10**9 else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
