"""Requests and replies in the form of OpenAI's Chat Completions API, as many servers speak it.

Source: https://platform.openai.com/docs/api-reference/chat, and the deviations of llama.cpp, Ollama, SGLang,
vLLM and OpenRouter that the comments name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.models.messages import (
    Choice,
    Finish,
    Generation,
    Message,
    ModelReply,
    ModelRequest,
    Reasoning,
    Role,
    ToolCall,
    Usage,
    keep_unknown,
)
from harness.models.server_errors import MalformedReplyError
from harness.models.wire import (
    MOST_CALLS,
    MOST_PARTS,
    StreamedReply,
    join_parts,
    make_reply,
    mapping,
    mappings,
    name_call,
    read_arguments,
    read_parts,
    read_role,
    read_usage,
    repair_arguments,
    repair_name,
    short_text,
)

# A request can do without these.
OPTIONAL_PARAMETERS = frozenset(
    (
        *("temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed"),
        *("reasoning_effort", "n", "response_format"),
    )
)
MISSING_PARAMETERS: frozenset[str] = frozenset()
DEFAULT_MAX_TOKENS: int | None = None
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
_THINK_START, _THINK_END = "<think>", "</think>"


def encode_parameters(generation: Generation, max_tokens_field: str) -> dict[str, Any]:
    """Return the parameters of generation, None for each that is not set."""
    return {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        max_tokens_field: generation.max_tokens,
        "stop": list(generation.stop) or None,
        "seed": generation.seed,
        "reasoning_effort": generation.reasoning_effort,
    }


def encode_request(request: ModelRequest, max_tokens_field: str, replay_reasoning: bool) -> dict[str, Any]:
    """Return the JSON body of a request. Reasoning is sent back in the fields that it came in."""
    body: dict[str, Any] = {
        "messages": [_encode_message(message, replay_reasoning) for message in request.messages],
        **encode_parameters(request.generation, max_tokens_field),
        "n": request.n if request.n > 1 else None,
    }
    if (schema := request.reply_schema) is not None:
        form = {"name": schema.name, "schema": dict(schema.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
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
    return body


def decode_reply(raw: Any) -> ModelReply:
    """Return the reply in a server's JSON. Raises MalformedReplyError if it holds no choice."""
    choices = tuple(map(_decode_choice, read_parts(raw, "choices")))
    return make_reply(raw, choices, decode_usage(raw.get("usage")))


def decode_usage(usage: Any) -> Usage:
    """Return the usage in a server's JSON, with None for each number that it lacks."""
    return read_usage(usage, "prompt", "completion")


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


def read_conversation(body: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the messages in the JSON of a client's request."""
    for each in mappings(body.get("messages")):
        calls = [
            ToolCall(
                short_text(call.get("id")),
                short_text(mapping(call.get("function") or call.get("custom")).get("name")),
                read_arguments(
                    mapping(call.get("function")).get("arguments", mapping(call.get("custom")).get("input"))
                ),
            )
            for call in mappings(each.get("tool_calls"))
        ]
        role = read_role(each)
        call_id = short_text(each.get("tool_call_id")) if role is Role.TOOL else None
        yield Message(role, join_parts(each.get("content")), tuple(calls), call_id)


class Streamed(StreamedReply):
    """A streamed reply."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, dict[str, str]] = {}
        self._finish: str | None = None
        self._usage: Any = None
        self._model = ""

    def add(self, data: Mapping[str, Any]) -> None:
        if isinstance(data.get("usage"), Mapping):
            self._usage = data["usage"]
            self.usage = decode_usage(self._usage)
        if isinstance(data.get("model"), str):
            self._model = data["model"][:200]
        choice = next(mappings(data.get("choices")), {})
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish, self.is_complete = finish[:100], True
        delta = mapping(choice.get("delta"))
        for name in ("content", "refusal", "reasoning", "reasoning_content"):
            self.texts.add(name, delta.get(name))
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._add_call(mapping(call))

    def _add_call(self, call: Mapping[str, Any]) -> None:
        index, function = call.get("index", 0), mapping(call.get("function"))
        if not isinstance(index, int) or (index not in self._calls and len(self._calls) >= MOST_PARTS):
            return
        known = self._calls.setdefault(index, {"id": "", "name": ""})
        for name, value in (("id", call.get("id")), ("name", function.get("name"))):
            if isinstance(value, str) and not known[name]:
                known[name] = value[:200]
        self.texts.add(index, function.get("arguments"))

    def build(self) -> dict[str, Any]:
        join = self.texts.join
        message: dict[str, Any] = {"role": "assistant", "content": join("content") or None}
        for name in ("refusal", "reasoning", "reasoning_content"):
            if join(name):
                message[name] = join(name)
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": join(index)},
                }
                for index, call in sorted(self._calls.items())
            ]
        reply: dict[str, Any] = {
            "model": self._model,
            "choices": [{"index": 0, "message": message, "finish_reason": self._finish}],
        }
        return reply if self._usage is None else {**reply, "usage": self._usage}
