"""The client of a model endpoint, against a server that speaks the real protocol."""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from model_fixtures import MODEL_KEY
from model_server import Asked, ModelServer, RawReply, completion, error

from harness.core.errors import UsageError
from harness.models import client as client_module
from harness.models import codecs, streamed_replies
from harness.models.client import MOST_MALFORMED_REPLIES, MOST_TOO_LONG_REPLIES, open_client
from harness.models.connection import SENT_HEADERS
from harness.models.endpoint import Endpoint
from harness.models.messages import (
    Finish,
    Generation,
    Message,
    ModelReply,
    ModelRequest,
    Role,
    ToolCall,
    ToolSchema,
    Usage,
)
from harness.models.server_errors import (
    ContextTooLongError,
    InvalidRequestError,
    MalformedReplyError,
    ModelError,
    ModelRefusedError,
)

HELLO = ModelRequest((Message(Role.USER, "hello"),))


async def ask(server: ModelServer, request: ModelRequest = HELLO, **settings: Any) -> ModelReply:
    async with open_client(Endpoint(model="scripted", base_url=server.url, **settings)) as client:
        return await client.ask(request)


async def test_a_reply_has_its_text_its_usage_and_the_servers_json(server: ModelServer) -> None:
    reply = await ask(server)
    (choice,) = reply.choices
    assert (choice.message, choice.finish) == (Message(Role.ASSISTANT, "hi"), Finish.STOP)
    assert reply.usage == Usage(10, 5)
    assert reply.raw == completion("hi")
    assert (reply.model, reply.retries) == ("scripted", 0)


async def test_the_key_is_sent_in_the_header_alone(server: ModelServer) -> None:
    await ask(server)
    (asked,) = server.asked
    assert asked.headers["authorization"] == f"Bearer {MODEL_KEY}"
    assert MODEL_KEY not in str(asked.body)


async def test_a_request_says_nothing_about_this_machine(server: ModelServer) -> None:
    await ask(server)
    (asked,) = server.asked
    assert {name.lower() for name in asked.headers} <= SENT_HEADERS | {"authorization"}


FAULTS = {
    "rate limit": error(429, "slow down", retry_after="0"),
    "server error": error(500, "oops"),
    "overloaded": RawReply(503, b"<html>busy</html>"),
    "request timeout": error(408, "timeout"),
    "conflict": error(409, "conflict"),
    "no json": RawReply(200, b"<html>gateway</html>"),
    "no choices": RawReply(200, {"object": "chat.completion"}),
    "null": RawReply(200, b"null"),
    "cut body": RawReply(200, b'{"choices": [', announced_bytes=500),
    "deep json": RawReply(200, b"[" * 100_000),
    "error in a reply": RawReply(200, {"error": {"code": 502, "message": "the provider failed"}}),
    "error in a choice": RawReply(
        200, {"choices": [{"message": {"content": "half"}, "finish_reason": "error"}]}
    ),
    "broken gzip": RawReply(200, b"no gzip", {"content-encoding": "gzip"}),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_fault_that_may_pass_is_retried(server: ModelServer, fault: RawReply) -> None:
    server.script = lambda asked: fault if asked.number < 2 else completion("at last")
    reply = await ask(server)
    assert (reply.choices[0].message.text, reply.retries, len(server.asked)) == ("at last", 2, 3)


async def test_a_server_that_never_recovers_is_a_model_error(server: ModelServer) -> None:
    server.script = lambda asked: error(500, "oops")
    with pytest.raises(ModelError, match=r"failed (once|\d+ times) .* oops"):
        await ask(server, request_seconds=0.05)


@pytest.mark.parametrize(
    "refusal",
    [
        error(401, "wrong key"),
        error(403, "no permission"),
        error(404, "the model `scripted` does not exist", code="model_not_found"),
        error(429, "no credit", code="insufficient_quota"),
        RawReply(200, {"error": {"code": 401, "message": "wrong key"}}),
    ],
    ids=["key", "permission", "model", "credit", "key-with-status-200"],
)
async def test_an_endpoint_that_refuses_everything_is_asked_once(
    server: ModelServer, refusal: RawReply
) -> None:
    server.script = lambda asked: refusal
    with pytest.raises(ModelRefusedError, match="refuses all requests"):
        await ask(server)
    assert len(server.asked) == 1


@each_case(
    "fault",
    [
        error(400, "too long", code="context_length_exceeded"),
        error(400, "This model's maximum context length is 4096 tokens."),
        RawReply(
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size",
                    "type": "exceed_context_size_error",
                }
            },
        ),
        error(413, "payload too large"),
    ],
    ids=["openai", "vllm", "llama.cpp", "413"],
)
async def test_a_full_context_is_recognised(server: ModelServer, fault: RawReply) -> None:
    server.script = lambda asked: fault
    with pytest.raises(ContextTooLongError):
        await ask(server)


async def test_an_invalid_request_is_not_retried(server: ModelServer) -> None:
    server.script = lambda asked: error(400, "messages must not be empty")
    with pytest.raises(InvalidRequestError, match="must not be empty"):
        await ask(server)
    assert len(server.asked) == 1


async def test_malformed_arguments_are_never_sent_back(server: ModelServer) -> None:
    call = ToolCall("1", "bash", '{"command": "ls')
    request = ModelRequest(
        (*HELLO.messages, Message(Role.ASSISTANT, "", (call,)), Message(Role.TOOL, "bad", tool_call_id="1")),
        tools=(ToolSchema("bash", "Run.", {"type": "object"}),),
    )
    await ask(server, request)
    sent = server.asked[0].messages
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert server.asked[0].body["tools"][0]["function"]["name"] == "bash"


async def test_a_reply_that_does_not_come_is_asked_for_again(server: ModelServer) -> None:
    slow = RawReply(200, completion("late"), wait_seconds=3600)
    server.script = lambda asked: slow if asked.number == 0 else completion("hi")
    reply = await ask(server, try_seconds=0.5)
    assert (reply.choices[0].message.text, reply.retries) == ("hi", 1)


async def test_the_key_gets_into_no_reply_and_no_message(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    escaped = MODEL_KEY.replace("/", "\\/").replace("s", "\\u0073")
    assert json.loads(f'"{escaped}"') == MODEL_KEY
    body = json.dumps(completion("your key is KEY", KEY="as a name"))
    server.script = lambda asked: RawReply(200, body.replace("KEY", escaped))
    reply = await ask(server)
    assert reply.choices[0].message.text == "your key is [key]"
    assert MODEL_KEY not in str(reply.raw)
    for fault in (error(401, f"the key {MODEL_KEY} is wrong"), RawReply(401, f"<p>{MODEL_KEY}</p>")):
        server.script = lambda asked, fault=fault: fault  # type: ignore[misc]
        with pytest.raises(ModelRefusedError, match=r"\[key\]") as refused:
            await ask(server)
        assert refused.value.__cause__ is None
        assert MODEL_KEY not in str(refused.value)
    server.script = lambda asked: error(400, f"no parameter {MODEL_KEY}")
    with pytest.raises(InvalidRequestError, match=r"\[key\]"):
        await ask(server)
    assert MODEL_KEY not in caplog.text


async def test_a_key_that_no_header_can_carry_is_refused_without_its_text(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\nsk-other")
    with pytest.raises(UsageError, match="line break") as refused:
        await ask(server)
    assert "secret" not in str(refused.value)
    assert server.asked == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_named_and_never_followed(server: ModelServer, status: int) -> None:
    place = f"{server.url.replace('127.0.0.1', 'localhost')}/chat/completions"
    server.script = lambda asked: RawReply(status, b"", {"location": place})
    with pytest.raises(ModelRefusedError, match=r"redirects to http://localhost.*set base_url"):
        await ask(server)
    assert len(server.asked) == 1


async def test_an_address_without_a_server_ends_the_run_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "UNREACHED_SECONDS", 0.02)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    endpoint = Endpoint(model="scripted", base_url=f"http://127.0.0.1:{port}/v1")
    async with open_client(endpoint) as client:
        with pytest.raises(ModelRefusedError, match="no server answers at"):
            await client.ask(ModelRequest((Message(Role.USER, "hi"),)))


async def test_a_server_that_was_reached_may_be_away_for_a_while(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "UNREACHED_SECONDS", 0.0)
    replies = iter((error(503, "loading"), error(503, "loading")))
    server.script = lambda asked: next(replies, None) or completion("hi")
    assert (await ask(server)).choices[0].message.text == "hi"


async def test_a_reply_that_is_too_long_is_not_retried_for_ever(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed_replies, "MAX_REPLY_BYTES", 10_000)
    server.script = lambda asked: completion("x" * 20_000)
    with pytest.raises(ModelError, match="longer than 10,000 bytes"):
        await ask(server)
    assert len(server.asked) == MOST_TOO_LONG_REPLIES


async def test_a_reply_with_too_many_values_is_not_parsed(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed_replies, "MAX_REPLY_VALUES", 1000)
    monkeypatch.setattr("harness.models.connection.read_reply", None)
    server.script = lambda asked: RawReply(200, json.dumps({"junk": [[]] * 1000}).encode())
    with pytest.raises(ModelError, match="more than 1,000 values"):
        await ask(server)


def test_json_in_the_texts_of_a_reply_is_bounded_by_its_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "MAX_CHARACTERS", 100)
    call = {"id": "1", "function": {"name": "look", "arguments": "[" + "[]," * 16}}
    message = {"content": "x" * 51, "tool_calls": [call]}
    reply = codecs.decode_reply("chat", {"choices": [{"message": message}]})
    assert len(reply.choices[0].message.text) == 51
    with pytest.raises(MalformedReplyError, match="longer than 100 characters"):
        codecs.decode_reply("chat", {"choices": [{"message": {**message, "content": "x" * 52}}]})


@each_case("status", [200, 400])
async def test_a_compressed_body_is_bounded_by_its_size_when_unpacked(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(streamed_replies, "MAX_REPLY_BYTES", 100_000)
    bomb = gzip.compress(b" " * 50_000_000)
    server.script = lambda asked: RawReply(status, bomb, {"content-encoding": "gzip"})
    expected = ModelError if status == 200 else InvalidRequestError
    with pytest.raises(expected):
        await ask(server)


async def test_a_malformed_reply_is_not_paid_for_without_end(server: ModelServer) -> None:
    server.script = lambda asked: RawReply(200, b"{")
    with pytest.raises(ModelError, match="malformed"):
        await ask(server)
    assert len(server.asked) == MOST_MALFORMED_REPLIES


async def test_a_body_that_trickles_ends_with_the_time_of_the_try(server: ModelServer) -> None:
    trickle = RawReply(200, json.dumps(completion("late")), seconds_between_bytes=1.0)
    server.script = lambda asked: trickle if asked.number == 0 else completion("hi")
    reply = await ask(server, try_seconds=0.5)
    assert (reply.choices[0].message.text, reply.retries) == ("hi", 1)


async def test_a_request_waits_as_long_as_the_server_asks(server: ModelServer) -> None:
    busy = error(429, "slow down", retry_after_ms="300")
    server.script = lambda asked: busy if asked.number == 0 else completion("hi")
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as client:
        begun = time.monotonic()
        reply = await client.ask(HELLO)
        assert time.monotonic() - begun >= 0.3
        assert reply.waiting_seconds >= 0.3
        assert client.limit.limit == 16


async def test_a_server_that_asks_for_a_longer_pause_than_the_limit_ends_the_request(
    server: ModelServer,
) -> None:
    server.script = lambda asked: error(429, "come back tomorrow", retry_after="86400")
    with pytest.raises(ModelError, match=r"failed once .* come back tomorrow"):
        await ask(server, request_seconds=60)


async def test_a_caller_can_bound_the_tries(server: ModelServer) -> None:
    server.script = lambda asked: error(500, "oops")
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as client:
        with pytest.raises(ModelError, match="failed 2 times"):
            await client.ask(HELLO, most_tries=2)


async def test_invalid_utf8_costs_only_its_own_characters(server: ModelServer) -> None:
    body = json.dumps(completion("caf@"), ensure_ascii=False).encode().replace(b"@", b"\xc3")
    server.script = lambda asked: RawReply(200, body)
    assert (await ask(server)).choices[0].message.text == "caf\ufffd"


async def test_lone_surrogates_do_not_stop_a_request(server: ModelServer) -> None:
    call = ToolCall("1", "bash", '{"command": "\udc80"}')
    messages = (
        Message(Role.USER, "a\ud800b"),
        Message(Role.ASSISTANT, "", (call,)),
        Message(Role.TOOL, "\udcff", tool_call_id="1"),
    )
    await ask(server, ModelRequest(messages))
    sent = server.asked[0].messages
    assert [sent[0]["content"], sent[2]["content"]] == ["a?b", "?"]


@each_case(("returned", "returns_n"), [(2, True), (1, False)])
async def test_the_client_notes_whether_the_server_returns_n_choices(
    server: ModelServer, returned: int, returns_n: bool
) -> None:
    server.script = lambda asked: completion("hi", n=returned)
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as client:
        before = client.dialect.returns_n
        reply = await client.ask(ModelRequest(HELLO.messages, n=2))
        assert (len(reply.choices), before, client.dialect.returns_n) == (returned, None, returns_n)


async def test_missing_usage_is_unknown(server: ModelServer) -> None:
    server.script = lambda asked: completion("hi", usage=None)
    assert (await ask(server)).usage == Usage()


async def test_arguments_that_are_an_object_become_text(server: ModelServer) -> None:
    reply = completion(calls=[("bash", "{}"), ("bash", "{}")])
    functions = [call["function"] for call in reply["choices"][0]["message"]["tool_calls"]]
    functions[0]["arguments"], functions[1]["arguments"] = {"command": "ls"}, None
    server.script = lambda asked: RawReply(200, reply)
    calls = (await ask(server)).choices[0].message.tool_calls
    assert [json.loads(call.arguments) for call in calls] == [{"command": "ls"}, {}]


async def test_a_call_as_plain_text_stays_text(server: ModelServer) -> None:
    text = '<tool_call>{"name": "bash", "arguments": {}}</tool_call>'
    server.script = lambda asked: completion(text)
    (choice,) = (await ask(server)).choices
    assert (choice.message.text, choice.message.tool_calls) == (text, ())


async def test_a_choice_without_a_message_is_empty(server: ModelServer) -> None:
    """SGLang sends this when generation stops at the marker of a tool call."""
    server.script = lambda asked: RawReply(
        200, {"choices": [{"index": 0, "message": None, "finish_reason": "tool_calls"}]}
    )
    (choice,) = (await ask(server)).choices
    assert choice.message == Message(Role.ASSISTANT)


UNABLE = {
    "vllm": error(
        400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    ),
    "ollama": error(400, "registry.ollama.ai/library/gemma:2b does not support tools"),
    "llama.cpp": error(500, "tools param requires --jinja flag"),
    "openrouter": error(404, "No endpoints found that support tool use."),
    "not implemented": error(501, "not implemented"),
}


@pytest.mark.parametrize("fault", UNABLE.values(), ids=UNABLE)
async def test_a_server_that_cannot_take_tools_refuses_the_request_and_not_the_run(
    server: ModelServer, fault: RawReply
) -> None:
    server.script = lambda asked: fault
    with pytest.raises(InvalidRequestError):
        await ask(server)
    assert len(server.asked) == 1


REFUSALS = {
    "openai": ("temperature", error(400, "Unsupported value", code="unsupported_value", param="temperature")),
    "gemini": ("seed", error(400, 'Invalid JSON payload received. Unknown name "seed": Cannot find field.')),
    "groq": ("seed", error(400, "property 'seed' is unsupported")),
    "mistral": (
        "seed",
        RawReply(
            422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs"}]}
        ),
    ),
    "vllm": ("stop", error(400, "[{'type': 'extra_forbidden', 'loc': ('body', 'stop'), 'msg': 'Extra'}]")),
}


@pytest.mark.parametrize(("name", "fault"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refused_parameter_is_noted_in_the_dialect(
    server: ModelServer, name: str, fault: RawReply
) -> None:
    server.script = lambda asked: fault if name in asked.body else completion("hi")
    generation = Generation(temperature=0.0, seed=1, stop=("x",))
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as client:
        await client.ask(ModelRequest(HELLO.messages, generation=generation))
        assert client.dialect.left_out == {name}
    assert len(server.asked) == 2


async def test_a_server_that_refuses_the_tools_is_never_asked_without_them(server: ModelServer) -> None:
    server.script = lambda asked: error(400, "Unsupported parameter: 'tools'", param="tools")
    request = ModelRequest(HELLO.messages, tools=(ToolSchema("bash", "Run.", {"type": "object"}),))
    with pytest.raises(InvalidRequestError):
        await ask(server, request)
    assert len(server.asked) == 1


@each_case("accepted", ["max_tokens", "max_completion_tokens", None])
async def test_the_field_for_the_most_tokens_is_the_one_that_the_server_accepts(
    server: ModelServer, accepted: str | None
) -> None:
    fields = {"max_tokens", "max_completion_tokens"}

    def script(asked: Asked) -> Any:
        refused = (asked.body.keys() & fields) - {accepted}
        return error(400, f"unknown field '{refused.pop()}'") if refused else completion("hi")

    server.script = script
    await ask(server, ModelRequest(HELLO.messages, generation=Generation(max_tokens=7)))
    assert server.asked[-1].body.keys() & fields == ({accepted} if accepted else set())


async def test_names_of_tools_are_sent_back_in_the_form_of_the_api(server: ModelServer) -> None:
    calls = (
        ToolCall("1", "functions.bash", "{}"),
        ToolCall("2", "", "NaN"),
        ToolCall("3", "f", '{"a": NaN}'),
    )
    await ask(server, ModelRequest((*HELLO.messages, Message(Role.ASSISTANT, "", calls))))
    sent = [call["function"] for call in server.asked[0].messages[1]["tool_calls"]]
    assert [function["name"] for function in sent] == ["functions_bash", "unknown", "f"]
    assert [function["arguments"] for function in sent] == ["{}", "{}", "{}"]


def test_the_extra_body_of_an_endpoint_cannot_offer_tools_of_the_provider() -> None:
    with pytest.raises(ValueError, match="must not hold tools"):
        Endpoint(model="m", extra_body={"tools": [{"type": "web_search"}]})


async def test_a_missing_package_is_an_error_that_names_the_command(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UsageError) as missing:
        await ask(server)
    assert str(missing.value.hint).endswith("pip install 'sealed-harness[models]'")


def test_the_page_lists_every_key_of_an_endpoint() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "models.md").read_text()
    table = page.partition("| key | default | meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.M)) == set(Endpoint.model_fields)
