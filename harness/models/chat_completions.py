"""Requests and replies in the form of OpenAI's Chat Completions API, as many servers speak it.

Source: https://platform.openai.com/docs/api-reference/chat, and the deviations of llama.cpp, Ollama, SGLang,
vLLM and OpenRouter that the comments name.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from harness.models.messages import (
    Choice,
    Finish,
    Message,
    ModelReply,
    ModelRequest,
    Reasoning,
    Role,
    ToolCall,
    Usage,
    keep_unknown,
    read_count,
)
from harness.models.server_errors import MalformedReplyError

# A request can do without these.
OPTIONAL_PARAMETERS = frozenset(
    {
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "reasoning_effort",
        "n",
        "response_format",
    }
)
# The fields that servers send reasoning in. vLLM renamed `reasoning_content` to `reasoning`, and OpenRouter
# sends `reasoning_details`, which it wants back unchanged.
REASONING_FIELDS = ("reasoning", "reasoning_content", "reasoning_details")
# The fields that this codec reads, and those that only describe a reply.
_FUNCTION = "function"
_MESSAGE_FIELDS = frozenset(
    {"role", "content", "tool_calls", "function_call", "refusal", "audio", "annotations", "name"}
) | set(REASONING_FIELDS)
_CALL_FIELDS = frozenset({"id", "type", "index", _FUNCTION})
_FINISHES = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    # Mistral's model_length is the end of the context. Gateways pass on the words of the API behind them.
    **dict.fromkeys(("model_length", "max_tokens", "max_output_tokens", "max_length"), Finish.LENGTH),
    **dict.fromkeys(("model_context_window_exceeded", "incomplete", "truncated"), Finish.LENGTH),
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "content_filter": Finish.REFUSAL,
}
# Longer ones are parsed again for each request, because all that are remembered stay in memory.
_SHORT_ARGUMENTS = 10_000
_THINK_START, _THINK_END = "<think>", "</think>"
# No useful reply has more calls of tools. The others are dropped, as if the model had not made them.
MOST_CALLS = 1000


def encode_request(
    request: ModelRequest,
    *,
    model: str,
    max_tokens_field: str,
    left_out: frozenset[str] = frozenset(),
    replay_reasoning: bool = True,
) -> dict[str, Any]:
    """Return the JSON body of a request.

    Args:
        request: the request.
        model: the name of the model at the server.
        max_tokens_field: `max_tokens` or `max_completion_tokens`.
        left_out: parameters that the server has refused.
        replay_reasoning: whether reasoning is sent back in the fields that it came in.
    """
    generation = request.generation
    body: dict[str, Any] = {
        "model": model,
        "messages": [_encode_message(message, replay_reasoning) for message in request.messages],
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        max_tokens_field: generation.max_tokens,
        "stop": list(generation.stop) or None,
        "seed": generation.seed,
        "reasoning_effort": generation.reasoning_effort,
        "n": request.n if request.n > 1 else None,
    }
    if request.reply_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {
                "name": request.reply_schema.name,
                "schema": dict(request.reply_schema.schema),
                "strict": True,
            },
        }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in request.tools
        ]
    return {name: value for name, value in body.items() if value is not None and name not in left_out}


def decode_reply(raw: Any) -> ModelReply:
    """Return the reply in a server's JSON. Raises MalformedReplyError if it holds no choice."""
    if not isinstance(raw, Mapping):
        raise MalformedReplyError(f"the reply is a JSON {type(raw).__name__}, not an object")
    found = raw.get("choices")
    if not isinstance(found, list) or not found:
        raise MalformedReplyError(f"the reply has no choices, only: {', '.join(sorted(map(str, raw)))}")
    model = raw.get("model")
    return ModelReply(
        tuple(_decode_choice(choice) for choice in found),
        decode_usage(raw.get("usage")),
        model if isinstance(model, str) else "",
        raw,
    )


def name_call(identity: Any, number: int, taken: Collection[str]) -> str:
    """Return the id of a call: the server's, unless it sent none or has used it for another call.

    Two calls with one id would make the next request invalid, and the agent is not to blame for that.
    """
    name = identity if isinstance(identity, str) and identity else f"call_{number}"
    while name in taken:
        name = f"{name}_{number}"
    return name


def read_arguments(arguments: Any) -> str:
    """Return the arguments of a call as text.

    llama.cpp may send an object, and others send null for a tool without arguments.
    """
    if isinstance(arguments, str):
        return arguments
    return json.dumps({} if arguments is None else arguments)


def repair_arguments(arguments: str) -> str:
    """Return arguments that a server takes back: as they are, or an empty object if they are not JSON.

    llama.cpp answers 500 to every later request with arguments that are not JSON.
    """
    return arguments if _is_object(arguments) else "{}"


def repair_name(name: str) -> str:
    """Return a name of a tool that a server takes back, because OpenAI refuses all others."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"


def _encode_call(call: ToolCall) -> dict[str, Any]:
    inner = call.extra.get(_FUNCTION)
    function = {"name": repair_name(call.name), "arguments": repair_arguments(call.arguments)}
    return {
        **call.extra,
        "id": call.id,
        "type": "function",
        _FUNCTION: {**inner, **function} if isinstance(inner, Mapping) else function,
    }


def _encode_message(message: Message, replay_reasoning: bool) -> dict[str, Any]:
    encoded: dict[str, Any] = {**message.extra, "role": message.role.value, "content": message.text}
    if message.role is Role.TOOL:
        encoded["tool_call_id"] = message.tool_call_id or ""
    if message.tool_calls:
        encoded["content"] = message.text or None
        encoded["tool_calls"] = [_encode_call(call) for call in message.tool_calls]
    if replay_reasoning and message.reasoning is not None:
        encoded.update(message.reasoning.fields)
    return encoded


def _decode_choice(choice: Any) -> Choice:
    choice = choice if isinstance(choice, Mapping) else {}
    if choice.get("finish_reason") == "error":
        # OpenRouter reports in this way that the provider behind it failed in the middle of a reply.
        raise MalformedReplyError("the server broke off the reply with an error")
    # SGLang sends no message if generation stops at the marker of a tool call.
    sent = choice.get("message")
    sent = sent if isinstance(sent, Mapping) else {}
    text, reasoning = _separate_reasoning(_decode_text(sent.get("content")), sent)
    calls = _decode_calls(sent.get("tool_calls"))
    finish = _FINISHES.get(str(choice.get("finish_reason")).lower(), Finish.STOP)
    refusal = sent.get("refusal")
    if isinstance(refusal, str) and refusal:
        finish = Finish.REFUSAL
    elif finish is Finish.REFUSAL:
        refusal = "a content filter removed the answer"
    else:
        refusal = None
    if calls and finish is Finish.STOP:
        finish = Finish.TOOL_CALLS
    extra = keep_unknown(sent, _MESSAGE_FIELDS)
    return Choice(Message(Role.ASSISTANT, text, calls, reasoning=reasoning, extra=extra), finish, refusal)


def _decode_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _separate_reasoning(text: str, sent: Mapping[str, Any]) -> tuple[str, Reasoning | None]:
    """Return the text without reasoning, and the reasoning from the fields or from `<think>` tags."""
    fields = {name: sent[name] for name in REASONING_FIELDS if sent.get(name)}
    texts = [value for value in fields.values() if isinstance(value, str)]
    if not texts:
        details = fields.get("reasoning_details")
        texts = [_decode_details(details)] if isinstance(details, list) else []
        texts += _decode_thinking(sent.get("content"))
    thought, text = _split_thought(text)
    if not fields and not thought and not texts:
        return text, None
    return text, Reasoning("\n".join(part for part in (*texts[:1], thought) if part), fields)


def _split_thought(text: str) -> tuple[str, str]:
    """Return the thought and the rest of a text that begins with a thought.

    Some chat templates put the opening tag into the prompt, so that the text has only the closing tag. A
    thought that was cut off has only the opening tag.
    """
    begun = text.lstrip()
    if begun.startswith(_THINK_START):
        thought, _, rest = begun.removeprefix(_THINK_START).partition(_THINK_END)
        return thought.strip(), rest.lstrip("\n")
    thought, end, rest = text.partition(_THINK_END)
    if end and _THINK_START not in thought:
        return thought.strip(), rest.lstrip("\n")
    return "", text


def _decode_thinking(content: Any) -> list[str]:
    """Return the texts of the parts that hold the thoughts of Mistral's reasoning models."""
    parts = content if isinstance(content, list) else []
    thoughts = [
        _decode_text(part.get("thinking"))
        for part in parts
        if isinstance(part, Mapping) and part.get("type") == "thinking"
    ]
    return ["\n".join(thoughts)] if thoughts else []


def _decode_details(details: list[Any]) -> str:
    texts = [detail.get("text") or detail.get("summary") for detail in details if isinstance(detail, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _decode_calls(calls: Any) -> tuple[ToolCall, ...]:
    if not isinstance(calls, list):
        return ()
    decoded: dict[str, ToolCall] = {}
    for number, call in enumerate(calls[:MOST_CALLS]):
        call = call if isinstance(call, Mapping) else {}
        function = call.get("function")
        function = function if isinstance(function, Mapping) else {}
        identity = name_call(call.get("id"), number, decoded)
        extra = keep_unknown(call, _CALL_FIELDS)
        if inner := keep_unknown(function, ("name", "arguments")):
            extra[_FUNCTION] = inner
        decoded[identity] = ToolCall(
            identity, str(function.get("name") or ""), read_arguments(function.get("arguments")), extra
        )
    return tuple(decoded.values())


def decode_usage(usage: Any) -> Usage:
    """Return the usage in a server\'s JSON, with None for each number that it lacks."""
    if not isinstance(usage, Mapping):
        return Usage()
    output, prompt = usage.get("completion_tokens_details"), usage.get("prompt_tokens_details")
    return Usage(
        read_count(usage.get("prompt_tokens")),
        read_count(usage.get("completion_tokens")),
        read_count(output.get("reasoning_tokens")) if isinstance(output, Mapping) else None,
        read_count(prompt.get("cached_tokens")) if isinstance(prompt, Mapping) else None,
    )


def _is_object(text: str) -> bool:
    """Return whether a text is a JSON object. Each request repeats the calls of the whole conversation."""
    return _is_short_object(text) if len(text) <= _SHORT_ARGUMENTS else _parses_as_object(text)


@functools.lru_cache(maxsize=4096)
def _is_short_object(text: str) -> bool:
    return _parses_as_object(text)


def _parses_as_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
