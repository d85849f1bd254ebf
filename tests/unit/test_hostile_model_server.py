"""A model server that breaks its protocol on purpose: no reply of it ends an attempt, or shows the key."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from case_checks import each_case
from model_fixtures import MODEL_KEY
from model_server import (
    ModelServer,
    RawReply,
    call_item,
    completion,
    error,
    response,
    text_item,
)
from streamed_events import message

from harness.core.errors import UsageError
from harness.models.client import open_client
from harness.models.endpoint import Endpoint
from harness.models.messages import Message, ModelReply, ModelRequest, Role
from harness.models.reply_cache import ReplyCache
from harness.models.server_errors import InvalidRequestError
from harness.models.settings import HiddenKey
from harness.models.wire import MOST_CALLS

HELLO = Message(Role.USER, "hello")


async def converse(server: ModelServer, requests: int = 2, **settings: str) -> ModelReply:
    """Ask repeatedly in one conversation, and return the last reply."""
    messages = [HELLO]
    endpoint = Endpoint.model_validate({"model": "scripted", "base_url": server.url, **settings})
    async with open_client(endpoint) as client:
        for _ in range(requests):
            reply = await client.ask(ModelRequest(tuple(messages)))
            messages.append(reply.choices[0].message)
    return reply


@each_case("number", ["NaN", "-Infinity", "1e999"])
async def test_a_number_that_no_request_can_carry_does_not_end_the_conversation(
    server: ModelServer, number: str
) -> None:
    reply = json.dumps(completion("hi", reasoning_details=[{"text": "so", "score": 0.25}]))
    server.script = lambda asked: RawReply(200, reply.replace("0.25", number))
    await converse(server)
    assert server.asked[1].messages[1]["reasoning_details"] == [{"text": "so", "score": None}]


@each_case("tokens", [10**12 + 1, 10**400, -1])
async def test_a_count_that_no_request_can_have_is_unknown(server: ModelServer, tokens: int) -> None:
    reply = completion("hi")
    reply["usage"]["completion_tokens"] = tokens
    server.script = lambda asked: reply
    assert (await converse(server, 1)).usage.output_tokens is None


@each_case("api", ["chat", "responses", "messages"])
async def test_calls_with_one_id_are_told_apart(server: ModelServer, api: str) -> None:
    reply = completion(calls=[("look", {}), ("look", {})])
    for call in reply["choices"][0]["message"]["tool_calls"]:
        call["id"] = "same"
    item, block = (
        call_item("look", {}, "same"),
        {"type": "tool_use", "id": "same", "name": "look", "input": {}},
    )
    replies = {
        "chat": reply,
        "responses": response(item, item),
        "messages": message(blocks=[block, block], stop="tool_use"),
    }
    server.script = lambda asked: replies[api]
    await converse(server, api=api)
    body = server.asked[-1].body
    sent = {
        "chat": lambda: [call["id"] for call in body["messages"][1]["tool_calls"]],
        "responses": lambda: [
            item["call_id"] for item in body["input"] if item.get("type") == "function_call"
        ],
        "messages": lambda: [block["id"] for block in body["messages"][1]["content"]],
    }[api]()
    assert (sent[0], len(set(sent))) == ("same", 2)


@each_case("api", ["chat", "responses", "messages"])
async def test_the_calls_of_one_reply_are_bounded(server: ModelServer, api: str) -> None:
    calls: list[tuple[str, dict[str, str]]] = [("look", {})] * (MOST_CALLS + 10)
    items = [call_item("look", {}, f"call_{number}") for number in range(len(calls))]
    replies = {
        "chat": completion(calls=calls),
        "responses": response(*items),
        "messages": message(calls=calls),
    }
    server.script = lambda asked: replies[api]
    reply = await converse(server, 1, api=api)
    assert len(reply.choices[0].message.tool_calls) == MOST_CALLS


async def test_a_cookie_is_not_sent_back(server: ModelServer) -> None:
    server.script = lambda asked: RawReply(200, completion("hi"), {"set-cookie": "attempt=1; Path=/"})
    await converse(server)
    assert [asked.headers.get("cookie") for asked in server.asked] == [None, None]


async def test_other_settings_of_openai_reach_no_server(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-private")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-private")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: private\nAuthorization: Bearer private")
    await converse(server, 1)
    (asked,) = server.asked
    assert [name for name, value in asked.headers.items() if "private" in value] == []
    assert asked.headers["authorization"] == f"Bearer {MODEL_KEY}"


def list_forms() -> list[str]:
    """Return the key as a hostile server may repeat it."""
    key = MODEL_KEY
    shifted = [base64.b64encode(f"{'x' * count}{key}{'y' * count}".encode()).decode() for count in range(3)]
    encoded = [base64.urlsafe_b64encode(f"Bearer {key}".encode()).decode(), quote(key, safe="")]
    return [key, key.upper(), key.swapcase(), key.encode().hex(), *shifted, *encoded]


@each_case("form", list_forms())
async def test_the_key_is_hidden_in_each_form(server: ModelServer, form: str) -> None:
    server.script = lambda asked: completion(f"a {form} b")
    text = (await converse(server, 1)).text
    assert text.startswith("a ")
    assert text.endswith(" b")
    assert "[key]" in text
    server.script = lambda asked: error(400, f"bad {form}")
    with pytest.raises(InvalidRequestError, match=r"\[key\]"):
        await converse(server, 1)


def test_an_ordinary_text_stays_as_it_is() -> None:
    text = "Secret keys begin with SK-, such as sk-secret/0124."
    assert HiddenKey(MODEL_KEY).remove_from(text) == text
    assert HiddenKey("none").remove_from("none") == "none"


@each_case(
    "url",
    [
        "http://localhost:8000/v1?key=secret",
        "http://localhost:8000/v1?",
        "http://localhost:8000/v1#part",
        "http://localhost:99999/v1",
        "http://local\nhost:8000/v1",
        "http://localhost:8000/v 1",
    ],
)
def test_a_url_that_no_request_can_use_or_that_may_hold_a_key_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        Endpoint(model="scripted", base_url=url)


@each_case("value", [float("nan"), float("inf"), {1, 2}])
def test_an_extra_body_that_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be JSON"):
        Endpoint(model="scripted", extra_body={"field": value})


@each_case("name", ["search_parameters", "enable_search", "web_search"])
def test_a_search_of_the_provider_cannot_be_switched_on(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Endpoint(model="scripted", extra_body={name: True})


@each_case(("name", "value"), [("ALL_PROXY", "socks9://localhost:1"), ("SSL_CERT_FILE", "/missing")])
async def test_a_proxy_or_a_certificate_that_cannot_be_used_is_an_error_of_the_user(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-key")
    with pytest.raises(UsageError, match="proxy") as raised:
        async with open_client(Endpoint(model="scripted", base_url="https://localhost:1/v1")):
            pytest.fail("the client was opened")
    assert name in (raised.value.hint or "")


async def test_a_text_that_an_error_quotes_does_not_end_the_run(server: ModelServer) -> None:
    server.script = lambda asked: error(400, "invalid message: 'print(\"model_not_found\")'")
    with pytest.raises(InvalidRequestError):
        await converse(server, 1)


async def test_a_field_of_the_servers_own_does_not_change_a_kept_reply(
    server: ModelServer, tmp_path: Path
) -> None:
    server.script = lambda asked: {**completion("hi"), "output": [text_item("another answer")]}
    async with open_client(Endpoint(model="scripted", base_url=server.url)) as client:
        reply = await client.ask(ModelRequest((HELLO,)))
    cache = ReplyCache(tmp_path)
    cache.keep("key", reply)
    kept = cache.find("chat", "key")
    assert kept is not None
    assert kept.text == "hi"
