"""Fields that a server sends with its messages and calls: the next request sends them back unchanged."""

from __future__ import annotations

from typing import Any

from model_server import Asked, ModelServer, RawReply, completion, error

from harness.models.client import open_client
from harness.models.codecs import Dialect, decode_reply, encode_request
from harness.models.endpoint import Api, Endpoint
from harness.models.messages import Message, ModelRequest, Role

HELLO = Message(Role.USER, "hello")
SIGNATURE = {"google": {"thought_signature": "c2lnbmF0dXJl"}}
CALL: dict[str, Any] = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
TOOL_USE = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
FUNCTION_CALL = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
# The part of each reply that must be a part of the next request.
KEPT: list[tuple[Api, dict[str, Any]]] = [
    ("chat", {"content": None, "tool_calls": [{**CALL, "extra_content": SIGNATURE}]}),
    ("chat", {"content": "hi", "extra_content": SIGNATURE}),
    ("chat", {"content": "hi", "provider_specific_fields": {"thought_signatures": ["x"]}}),
    ("chat", {"content": "hi", "reasoning_opaque": "x"}),
    ("chat", {"content": None, "tool_calls": [{**CALL, "thought_signature": "x"}]}),
    ("chat", {"content": None, "tool_calls": [{**CALL, "function": {**CALL["function"], "signature": "x"}}]}),
    ("chat", {"content": None, "tool_calls": [{**CALL, "extra_content": SIGNATURE}, {**CALL, "id": "b"}]}),
    ("messages", {**TOOL_USE, "thought_signature": "x"}),
    ("messages", {**TOOL_USE, "caller": {"type": "direct"}}),
    ("messages", {"type": "text", "text": "hi", "extra_content": SIGNATURE}),
    ("responses", {**FUNCTION_CALL, "extra_content": SIGNATURE}),
    ("responses", {**FUNCTION_CALL, "namespace": "functions"}),
    ("responses", {"role": "assistant", "content": "hi", "phase": "final_answer"}),
]
# These only describe a reply, are empty, or are sent back in another way.
DROPPED: list[tuple[Api, dict[str, Any], list[str]]] = [
    (
        "chat",
        {"content": "hi", "annotations": [], "audio": None, "refusal": None, "x": {}},
        ["content", "role"],
    ),
    ("chat", {"content": "hi", "annotations": [{"type": "url_citation"}]}, ["content", "role"]),
    ("chat", {"content": None, "tool_calls": [{**CALL, "index": 0}]}, ["content", "role", "tool_calls"]),
    (
        "responses",
        {"type": "message", "id": "m", "status": "completed", "content": "hi"},
        ["content", "role"],
    ),
]


def wrap(api: Api, part: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of an API with one message or item."""
    match api:
        case "chat":
            return {"choices": [{"message": {"role": "assistant", **part}, "finish_reason": "stop"}]}
        case "messages":
            return {"content": [part], "stop_reason": "end_turn"}
        case "responses":
            return {"status": "completed", "output": [{"type": "message", **part}]}


def send_back(api: Api, part: dict[str, Any], **dialect: Any) -> dict[str, Any]:
    message = decode_reply(api, wrap(api, part)).choices[0].message
    body = encode_request(
        api, ModelRequest((HELLO, message)), model="m", dialect=Dialect("max_tokens", **dialect)
    )
    sent: dict[str, Any] = body["input" if api == "responses" else "messages"][1]
    if api == "messages":
        found: dict[str, Any] = sent["content"][0]
        return found
    return sent


def test_fields_that_no_codec_knows_are_sent_back_unchanged() -> None:
    offenders = [
        (part, sent) for api, part in KEPT if not (sent := send_back(api, part)).items() >= {**part}.items()
    ]
    assert offenders == []


def test_fields_that_describe_a_reply_are_not_sent_back() -> None:
    offenders = [
        (part, sent)
        for api, part, names in DROPPED
        if sorted(sent := send_back(api, part)) != names or "index" in str(sent)
    ]
    assert offenders == []


async def test_a_second_request_without_the_signature_would_be_refused(server: ModelServer) -> None:
    def script(asked: Asked) -> Any:
        calls = [call for message in asked.messages for call in message.get("tool_calls", ())]
        if any(call.get("extra_content") != SIGNATURE for call in calls):
            return error(400, "Function call is missing a thought_signature in functionCall parts.")
        reply = completion(calls=[("look", {})])
        reply["choices"][0]["message"]["tool_calls"][0]["extra_content"] = SIGNATURE
        return RawReply(200, reply)

    server.script = script
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as client:
        message = (await client.ask(ModelRequest((HELLO,)))).choices[0].message
        result = Message(Role.TOOL, "nothing", tool_call_id=message.tool_calls[0].id)
        await client.ask(ModelRequest((HELLO, message, result)))
    assert len(server.asked) == 2


async def test_a_server_that_refuses_its_own_field_does_not_get_it_again(server: ModelServer) -> None:
    def script(asked: Asked) -> Any:
        if any("trace_tag" in message for message in asked.messages):
            return error(400, "messages.1.trace_tag: Extra inputs are not permitted")
        return completion("answer", trace_tag="x")

    server.script = script
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as client:
        first = (await client.ask(ModelRequest((HELLO,)))).choices[0].message
        for _ in range(2):
            await client.ask(ModelRequest((HELLO, first)))
        assert client.dialect.replays_extra is False
    assert len(server.asked) == 4
