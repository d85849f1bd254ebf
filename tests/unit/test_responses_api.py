"""The client of an endpoint with `api: responses`, against a server that speaks the real protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from model_server import (
    Asked,
    ModelServer,
    RawReply,
    call_item,
    error,
    reasoning_item,
    response,
    text_item,
)

from harness.models.client import open_client
from harness.models.endpoint import Endpoint
from harness.models.messages import (
    Finish,
    Generation,
    Message,
    ModelReply,
    ModelRequest,
    Reasoning,
    Role,
    ToolCall,
    ToolSchema,
    Usage,
)
from harness.models.reply_cache import ReplyCache
from harness.models.server_errors import InvalidRequestError

HELLO = Message(Role.USER, "hello")
BASH = ToolSchema("bash", "Run.", {"type": "object", "properties": {}})


async def ask(server: ModelServer, request: ModelRequest = ModelRequest((HELLO,))) -> ModelReply:  # noqa: B008
    endpoint = Endpoint(model="scripted", base_url=server.url, api="responses")
    async with open_client(endpoint) as client:
        return await client.ask(request)


async def test_a_reply_has_its_text_and_its_usage(server: ModelServer) -> None:
    reply = await ask(server)
    (choice,) = reply.choices
    assert (choice.message, choice.finish) == (Message(Role.ASSISTANT, "hi"), Finish.STOP)
    assert reply.usage == Usage(10, 5, 3, 2)
    assert reply.model == "scripted"


async def test_a_request_has_the_form_of_the_api_and_leaves_nothing_at_the_server(
    server: ModelServer,
) -> None:
    messages = (
        Message(Role.SYSTEM, "be brief"),
        HELLO,
        Message(Role.ASSISTANT, "", (ToolCall("c1", "bash", '{"command": '),)),
        Message(Role.TOOL, "bad", tool_call_id="c1"),
    )
    generation = Generation(max_tokens=99, reasoning_effort="low", stop=("x",), seed=1)
    await ask(server, ModelRequest(messages, (BASH,), generation))
    (asked,) = server.asked
    assert asked.path == "/v1/responses"
    assert asked.body == {
        "model": "scripted",
        "instructions": "be brief",
        "input": [
            {"role": "user", "content": "hello"},
            {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "bad"},
        ],
        "max_output_tokens": 99,
        "reasoning": {"effort": "low"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [
            {
                "type": "function",
                "name": "bash",
                "description": "Run.",
                "parameters": BASH.parameters,
                "strict": False,
            }
        ],
    }


async def test_reasoning_is_sent_back_before_the_item_that_it_led_to(server: ModelServer) -> None:
    server.script = lambda asked: response(
        reasoning_item("first", encrypted="e1", identity="rs_1"),
        text_item("let me see"),
        reasoning_item("second", encrypted="e2", identity="rs_2"),
        call_item("bash", {"command": "ls"}, "c1"),
        reasoning_item("third", encrypted="e3", identity="rs_3"),
        call_item("bash", {"command": "pwd"}, "c2"),
    )
    (choice,) = (await ask(server)).choices
    message = choice.message
    assert choice.finish is Finish.TOOL_CALLS
    assert message.text == "let me see"
    assert [call.id for call in message.tool_calls] == ["c1", "c2"]
    assert message.reasoning is not None
    assert message.reasoning.text == "first\nsecond\nthird"
    # An agent that may make only one call drops the others, and their reasoning must go with them.
    kept = Message(Role.ASSISTANT, message.text, message.tool_calls[:1], reasoning=message.reasoning)
    await ask(server, ModelRequest((HELLO, kept, Message(Role.TOOL, "a.txt", tool_call_id="c1"))))
    sent = server.asked[1].body["input"]
    assert [item.get("id") or item.get("role") or item["type"] for item in sent] == [
        "user",
        "rs_1",
        "assistant",
        "rs_2",
        "function_call",
        "function_call_output",
    ]
    assert sent[1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "first"}],
        "encrypted_content": "e1",
    }


async def test_reasoning_that_no_server_takes_back_is_kept_and_not_sent(server: ModelServer) -> None:
    server.script = lambda asked: response(reasoning_item("a thought"), text_item("answer"))
    message = (await ask(server)).choices[0].message
    assert message.reasoning == Reasoning("a thought")
    await ask(server, ModelRequest((HELLO, message, HELLO)))
    assert [item["role"] for item in server.asked[1].body["input"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    "refusal",
    [
        error(400, "The encrypted content e1 could not be verified.", code="invalid_encrypted_content"),
        error(404, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
    ],
    ids=["other organization", "not found"],
)
async def test_a_server_that_refuses_its_own_reasoning_gets_none_again(
    server: ModelServer, refusal: RawReply
) -> None:
    def script(asked: Asked) -> Any:
        if any(item.get("type") == "reasoning" for item in asked.body["input"]):
            return refusal
        return response(reasoning_item("a thought", encrypted="e1"), text_item("answer"))

    server.script = script
    message = (await ask(server)).choices[0].message
    reply = await ask(server, ModelRequest((HELLO, message, HELLO)))
    assert (reply.choices[0].message.text, len(server.asked)) == ("answer", 3)


async def test_an_agents_own_reasoning_in_another_form_is_not_sent(server: ModelServer) -> None:
    own = Reasoning("a thought", {"reasoning_items": [{"before": ""}, "text"], "reasoning": "a thought"})
    await ask(server, ModelRequest((HELLO, Message(Role.ASSISTANT, "answer", reasoning=own), HELLO)))
    assert [item["role"] for item in server.asked[0].body["input"]] == ["user", "assistant", "user"]


async def test_a_reply_survives_the_cache(server: ModelServer, tmp_path: Path) -> None:
    server.script = lambda asked: response(reasoning_item("hm", encrypted="e"), call_item("bash", {}))
    reply = await ask(server)
    cache = ReplyCache(tmp_path)
    cache.keep("key", reply)
    found = cache.find("responses", "key")
    assert found is not None
    assert (found.choices, found.usage) == (reply.choices, reply.usage)


REFUSAL = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "refusal", "refusal": "I cannot do that."}],
}


@each_case(
    ("reply", "finish", "refusal"),
    [
        (response(REFUSAL), Finish.REFUSAL, "I cannot do that."),
        (
            response(text_item("ha"), status="incomplete", incomplete="content_filter"),
            Finish.REFUSAL,
            "a content filter removed the answer",
        ),
        (
            response(text_item("ha"), status="incomplete", incomplete="max_output_tokens"),
            Finish.LENGTH,
            None,
        ),
    ],
    ids=["refusal", "filter", "length"],
)
async def test_the_reason_for_the_end_is_read(
    server: ModelServer, reply: dict[str, Any], finish: Finish, refusal: str | None
) -> None:
    server.script = lambda asked: reply
    (choice,) = (await ask(server)).choices
    assert (choice.finish, choice.refusal) == (finish, refusal)


FAULTS = {
    "server error": {**response(status="failed"), "error": {"code": "server_error", "message": "oops"}},
    "rate limit": {**response(status="failed"), "error": {"code": "rate_limit_exceeded", "message": "slow"}},
    "failed": response(status="failed"),
    "no output": {"object": "response"},
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_failed_response_is_asked_for_again(server: ModelServer, fault: dict[str, Any]) -> None:
    server.script = lambda asked: RawReply(200, fault) if asked.number == 0 else response(text_item("hi"))
    reply = await ask(server)
    assert (reply.choices[0].message.text, reply.retries) == ("hi", 1)


async def test_an_invalid_prompt_is_not_retried(server: ModelServer) -> None:
    failed = {**response(status="failed"), "error": {"code": "invalid_prompt", "message": "flagged"}}
    server.script = lambda asked: RawReply(200, failed)
    with pytest.raises(InvalidRequestError, match="flagged"):
        await ask(server)


async def test_a_model_without_reasoning_is_asked_without_it(server: ModelServer) -> None:
    def script(asked: Asked) -> Any:
        if "include" in asked.body:
            return error(400, "Encrypted content is not supported with this model.", param="include")
        if "reasoning" in asked.body:
            message = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
            return error(400, message, code="unsupported_parameter", param="reasoning.effort")
        return response(text_item("hi"))

    server.script = script
    reply = await ask(server, ModelRequest((HELLO,), generation=Generation(reasoning_effort="low")))
    assert (reply.choices[0].message.text, len(server.asked)) == ("hi", 3)
