"""The client of an endpoint with `api: messages`, against a server that speaks the real protocol."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from contexts import ListTranscript
from model_fixtures import MODEL_KEY
from model_server import Asked, ModelServer, RawReply
from streamed_events import message, message_error

from harness.models.access import ModelAccess
from harness.models.anthropic_messages import DEFAULT_MAX_TOKENS, NO_CONTENT
from harness.models.client import open_client
from harness.models.endpoint import Endpoint, Prices
from harness.models.messages import (
    Finish,
    Generation,
    Message,
    ModelReply,
    ModelRequest,
    Reasoning,
    ReplySchema,
    Role,
    ToolCall,
    ToolSchema,
    Usage,
)
from harness.models.probe import probe_model
from harness.models.reply_cache import ReplyCache
from harness.models.server_errors import ContextTooLongError, InvalidRequestError, ModelRefusedError
from harness.models.spending import Budget

HELLO = Message(Role.USER, "hello")
BASH = ToolSchema("bash", "Run.", {"type": "object", "properties": {}})
SIGNED = {"type": "thinking", "thinking": "first", "signature": "s1"}
HIDDEN = {"type": "redacted_thinking", "data": "d2"}
# To load the certificates takes longer than a test.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def make_endpoint(server: ModelServer, **settings: Any) -> Endpoint:
    return Endpoint(model="scripted", base_url=server.url, api="messages", **settings)


async def ask(server: ModelServer, *messages: Message, **fields: Any) -> ModelReply:
    """Return the reply to a conversation, which is a greeting without messages."""
    async with open_client(make_endpoint(server)) as client:
        return await client.ask(ModelRequest(messages or (HELLO,), **fields))


def tool_use(identity: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": "bash", "input": {}}


async def test_a_reply_has_its_text_and_its_usage(server: ModelServer) -> None:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 4,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
    }
    server.script = lambda asked: message("hi", usage_fields=usage)
    reply = await ask(server)
    (choice,) = reply.choices
    assert (choice.message, choice.finish) == (Message(Role.ASSISTANT, "hi"), Finish.STOP)
    assert (reply.usage, reply.model) == (Usage(17, 5, 2, 4), "scripted")


async def test_the_key_and_the_version_are_in_the_headers_of_the_api(server: ModelServer) -> None:
    await ask(server)
    (asked,) = server.asked
    assert asked.path == "/v1/messages"
    assert (asked.headers["x-api-key"], asked.headers["anthropic-version"]) == (MODEL_KEY, "2023-06-01")


async def test_a_request_is_the_one_that_the_library_of_anthropic_sends(server: ModelServer) -> None:
    messages = (
        Message(Role.SYSTEM, "be brief"),
        Message(Role.SYSTEM, "be kind"),
        HELLO,
        Message(
            Role.ASSISTANT, "two", (ToolCall("c1", "bash", '{"a": 1}'), ToolCall("c2", "bash", '{"a": '))
        ),
        Message(Role.TOOL, "one", tool_call_id="c1"),
        Message(Role.TOOL, "", tool_call_id="c2"),
        Message(Role.USER, "go on"),
    )
    await ask(
        server,
        *messages,
        tools=(BASH,),
        generation=Generation(max_tokens=99, reasoning_effort="low", stop=("x",), seed=1),
        reply_schema=ReplySchema("answer", {"type": "object"}),
        n=2,
    )
    body = server.asked[0].body
    assert body == {
        "model": "scripted",
        "max_tokens": 99,
        "system": "be brief\n\nbe kind",
        "messages": [
            {"role": "user", "content": "hello"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "two"},
                    {"type": "tool_use", "id": "c1", "name": "bash", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "bash", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": ""},
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        "stop_sequences": ["x"],
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "tools": [{"name": "bash", "description": "Run.", "input_schema": BASH.parameters}],
    }
    # Imported here, because the import takes a second, which the collection of the tests would take too.
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

    http = DefaultAsyncHttpxClient(verify=NO_TLS)
    async with AsyncAnthropic(api_key="k", base_url=server.url.removesuffix("/v1"), http_client=http) as own:
        await own.messages.create(**body)
    assert server.asked[1].body == body


async def test_sampling_parameters_are_sent_to_models_that_have_them(server: ModelServer) -> None:
    await ask(server, generation=Generation(temperature=0.5, top_p=0.9))
    body = server.asked[0].body
    assert (body["temperature"], body["top_p"]) == (0.5, 0.9)


async def test_turns_alternate_and_none_is_empty(server: ModelServer) -> None:
    messages = (
        HELLO,
        Message(Role.USER, " "),
        Message(Role.ASSISTANT, ""),
        Message(Role.SYSTEM, "a rule"),
        Message(Role.USER, "and?"),
        Message(Role.ASSISTANT, "", (ToolCall("call 1/a", "my tool", "{}"),)),
        Message(Role.USER, "before the result"),
        Message(Role.TOOL, "r", tool_call_id="call 1/a"),
    )
    await ask(server, *messages)
    assert server.asked[0].body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": each} for each in ("hello", NO_CONTENT)]},
        {"role": "assistant", "content": NO_CONTENT},
        {"role": "user", "content": [{"type": "text", "text": each} for each in ("a rule", "and?")]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_1_a", "name": "my_tool", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1_a", "content": "r"},
                {"type": "text", "text": "before the result"},
            ],
        },
    ]


async def test_a_request_without_a_bound_gets_one_and_the_transcript_shows_it(server: ModelServer) -> None:
    transcript = ListTranscript()
    async with open_client(make_endpoint(server)) as client:
        session = ModelAccess(client).open_session(number=0, seed=7, transcript=transcript)
        await session.ask("hello")
    assert server.asked[0].body["max_tokens"] == DEFAULT_MAX_TOKENS
    assert transcript.entries[0]["parameters"] == {"max_tokens": DEFAULT_MAX_TOKENS, "seed": 7}
    assert transcript.entries[0]["not_sent"] == ["seed"]


async def test_the_rest_of_a_budget_lowers_the_bound_and_never_raises_it(server: ModelServer) -> None:
    server.script = lambda asked: message("hi", usage=(10, 100_000 - 50))
    async with open_client(make_endpoint(server)) as client:
        access = ModelAccess(client, attempt_budget=Budget(output_tokens=100_000))
        session = access.open_session(number=0, seed=7, transcript=ListTranscript())
        await session.ask("hello")
        await session.ask("hello")
    assert [asked.body["max_tokens"] for asked in server.asked] == [DEFAULT_MAX_TOKENS, 50]


async def test_the_cost_counts_cached_tokens_at_their_price(server: ModelServer) -> None:
    usage = {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 10}
    server.script = lambda asked: message("hi", usage_fields=usage)
    prices = Prices(input=10, output=100, cached_input=1)
    async with open_client(make_endpoint(server, prices=prices)) as client:
        session = ModelAccess(client).open_session(number=0, seed=7, transcript=ListTranscript())
        await session.ask("hello")
    assert session.metrics["cost"] == pytest.approx((100 * 10 + 900 * 1 + 10 * 100) / 1e6)


async def test_thoughts_are_sent_back_unchanged_and_in_their_order(server: ModelServer) -> None:
    content = [SIGNED, {"type": "text", "text": "let me"}, HIDDEN, {"type": "text", "text": " see"}]
    second = {"type": "thinking", "thinking": "", "signature": "s3"}
    content += [second, tool_use("t1"), SIGNED, tool_use("t2")]
    server.script = lambda asked: message(blocks=content, stop="tool_use")
    (choice,) = (await ask(server)).choices
    replied = choice.message
    assert choice.finish is Finish.TOOL_CALLS
    assert (replied.text, [call.id for call in replied.tool_calls]) == ("let me see", ["t1", "t2"])
    assert replied.reasoning is not None
    assert replied.reasoning.text == "first\nfirst"
    results = [Message(Role.TOOL, "ok", tool_call_id=each) for each in ("t1", "t2")]
    await ask(server, HELLO, replied, *results)
    assert server.asked[1].body["messages"][1] == {"role": "assistant", "content": content}


async def test_a_call_that_the_agent_drops_takes_its_thoughts_with_it(server: ModelServer) -> None:
    content = [SIGNED, tool_use("t1"), HIDDEN, tool_use("t2")]
    server.script = lambda asked: message(blocks=content, stop="tool_use")
    replied = (await ask(server)).choices[0].message
    kept = Message(Role.ASSISTANT, replied.text, replied.tool_calls[:1], reasoning=replied.reasoning)
    await ask(server, HELLO, kept, Message(Role.TOOL, "ok", tool_call_id="t1"))
    assert server.asked[1].body["messages"][1]["content"] == [SIGNED, tool_use("t1")]


async def test_a_text_that_the_agent_has_changed_follows_the_first_thoughts(server: ModelServer) -> None:
    content = [SIGNED, {"type": "text", "text": "a"}, tool_use("t1")]
    server.script = lambda asked: message(blocks=content, stop="tool_use")
    replied = (await ask(server)).choices[0].message
    changed = Message(Role.ASSISTANT, "b", replied.tool_calls, reasoning=replied.reasoning)
    await ask(server, HELLO, changed, Message(Role.TOOL, "ok", tool_call_id="t1"))
    sent = server.asked[1].body["messages"][1]["content"]
    assert sent == [SIGNED, {"type": "text", "text": "b"}, tool_use("t1")]


async def test_a_thought_that_ends_a_reply_is_not_sent_back(server: ModelServer) -> None:
    server.script = lambda asked: message(blocks=[SIGNED], stop="max_tokens")
    (choice,) = (await ask(server)).choices
    assert (choice.message.text, choice.finish) == ("", Finish.LENGTH)
    await ask(server, HELLO, choice.message, HELLO)
    assert server.asked[1].body["messages"][1] == {"role": "assistant", "content": NO_CONTENT}


async def test_thoughts_without_a_signature_are_kept_and_not_sent_back(server: ModelServer) -> None:
    unsigned = {"type": "thinking", "thinking": "hm", "signature": ""}
    server.script = lambda asked: message("answer", blocks=[unsigned])
    replied = (await ask(server)).choices[0].message
    assert replied.reasoning == Reasoning("hm")
    await ask(server, HELLO, replied, HELLO)
    assert server.asked[1].body["messages"][1] == {"role": "assistant", "content": "answer"}


@pytest.mark.parametrize(
    "text",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message "
        "cannot be modified. These blocks must remain as they were in the original response.",
    ],
)
async def test_a_server_that_refuses_its_own_thoughts_gets_none_again(server: ModelServer, text: str) -> None:
    def script(asked: Asked) -> Any:
        if "signature" in str(asked.body["messages"]):
            return message_error(400, "invalid_request_error", text)
        return message("answer", blocks=[SIGNED])

    server.script = script
    replied = (await ask(server)).choices[0].message
    reply = await ask(server, HELLO, replied, HELLO)
    assert (reply.text, len(server.asked)) == ("answer", 3)


async def test_an_agents_own_blocks_in_another_form_are_not_sent(server: ModelServer) -> None:
    blocks = [{"type": "thinking"}, "text", {"type": "server_tool_use", "id": "t"}, {"type": ["text"]}]
    own = Reasoning("a thought", {"thinking_blocks": blocks})
    await ask(server, HELLO, Message(Role.ASSISTANT, "answer", reasoning=own), HELLO)
    assert server.asked[0].body["messages"][1] == {"role": "assistant", "content": "answer"}


@each_case(
    ("fields", "finish", "refusal"),
    [
        ({"stop": "stop_sequence"}, Finish.STOP, None),
        ({"stop": "model_context_window_exceeded"}, Finish.LENGTH, None),
        ({"stop": "refusal"}, Finish.REFUSAL, "the model declined"),
        (
            {
                "stop": "refusal",
                "stop_details": {"type": "refusal", "category": "bio", "explanation": "No labs."},
            },
            Finish.REFUSAL,
            "No labs.",
        ),
    ],
    ids=["stop sequence", "context", "refusal", "explained refusal"],
)
async def test_the_reason_for_the_end_is_read(
    server: ModelServer, fields: dict[str, Any], finish: Finish, refusal: str | None
) -> None:
    server.script = lambda asked: message("ha", **fields)
    (choice,) = (await ask(server)).choices
    assert (choice.finish, choice.refusal) == (finish, refusal)


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("`temperature` is deprecated for this model.", "temperature"),
        ("temperature: Extra inputs are not permitted", "temperature"),
        ("This model does not support the effort parameter.", "output_config"),
        ("output_config.effort: Extra inputs are not permitted", "output_config"),
    ],
)
async def test_a_parameter_that_the_model_lacks_is_left_out_and_named_in_the_transcript(
    server: ModelServer, text: str, left_out: str
) -> None:
    server.script = lambda asked: (
        message_error(400, "invalid_request_error", text) if left_out in asked.body else message("hi")
    )
    transcript = ListTranscript()
    generation = Generation(temperature=0.0, reasoning_effort="low")
    async with open_client(make_endpoint(server)) as client:
        session = ModelAccess(client, generation).open_session(number=0, seed=7, transcript=transcript)
        await session.ask("hello")
        await session.ask("hello")
    assert [left_out in asked.body for asked in server.asked] == [True, False, False]
    named = {"temperature": "temperature", "output_config": "reasoning_effort"}[left_out]
    assert transcript.entries[0]["not_sent"] == sorted([named, "seed"])


async def test_two_parameters_that_exclude_each_other_are_an_error(server: ModelServer) -> None:
    text = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
    server.script = lambda asked: message_error(400, "invalid_request_error", text)
    with pytest.raises(InvalidRequestError, match="cannot both"):
        await ask(server, generation=Generation(temperature=0.5, top_p=0.9))


@pytest.mark.parametrize(
    "fault",
    [
        message_error(529, "overloaded_error", "Overloaded"),
        message_error(429, "rate_limit_error", "slow down", retry_after="0.001"),
        message_error(500, "api_error", "oops"),
        RawReply(200, message_error(529, "overloaded_error", "Overloaded").body),
        RawReply(200, {"type": "message"}),
    ],
    ids=["overloaded", "rate limit", "server error", "overloaded with status 200", "no content"],
)
async def test_a_fault_that_may_pass_is_asked_for_again(server: ModelServer, fault: RawReply) -> None:
    server.script = lambda asked: fault if asked.number == 0 else message("hi")
    reply = await ask(server)
    assert (reply.text, reply.retries) == ("hi", 1)


async def test_an_overloaded_server_gets_fewer_requests_at_once(server: ModelServer) -> None:
    overloaded = message_error(529, "overloaded_error", "Overloaded")
    server.script = lambda asked: overloaded if asked.number == 0 else message("hi")
    async with open_client(make_endpoint(server)) as client:
        before = client.limit.limit
        await client.ask(ModelRequest((HELLO,)))
        assert client.limit.limit < before


SPENT = {
    "type": "error",
    "error": {
        "type": "rate_limit_error",
        "message": "the monthly limit is reached",
        "details": {"error_code": "enforced_spend_limit_reached"},
    },
}


@pytest.mark.parametrize(
    "refusal",
    [
        message_error(401, "authentication_error", "invalid x-api-key"),
        message_error(403, "permission_error", "no access"),
        message_error(404, "not_found_error", "model: scripted"),
        message_error(400, "invalid_request_error", "Your credit balance is too low to access the API."),
        RawReply(429, SPENT),
        RawReply(200, message_error(401, "authentication_error", "invalid x-api-key").body),
    ],
    ids=["key", "permission", "model", "credit", "spend limit", "key with status 200"],
)
async def test_a_refusal_of_every_request_names_the_variable_of_the_key(
    server: ModelServer, refusal: RawReply
) -> None:
    server.script = lambda asked: refusal
    with pytest.raises(ModelRefusedError) as raised:
        await ask(server)
    assert "ANTHROPIC_API_KEY" in (raised.value.hint or "")
    assert len(server.asked) == 1


TOO_LARGE = {"type": "error", "error": {"type": "request_too_large", "message": "too many bytes"}}


@each_case(
    "refusal",
    [
        message_error(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        message_error(
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease input "
            "length or `max_tokens` and try again",
        ),
        RawReply(413, TOO_LARGE),
    ],
    ids=["prompt", "prompt and bound", "bytes"],
)
async def test_a_conversation_that_is_too_long_can_be_shortened(
    server: ModelServer, refusal: RawReply
) -> None:
    server.script = lambda asked: refusal
    with pytest.raises(ContextTooLongError):
        await ask(server)


async def test_a_reply_survives_the_cache(server: ModelServer, tmp_path: Path) -> None:
    server.script = lambda asked: message("hm", blocks=[SIGNED], calls=[("bash", {"command": "ls"})])
    reply = await ask(server)
    cache = ReplyCache(tmp_path)
    cache.keep("key", reply)
    found = cache.find("messages", "key")
    assert found is not None
    assert (found.choices, found.usage) == (reply.choices, reply.usage)


async def test_samples_of_one_task_get_a_request_each(server: ModelServer) -> None:
    async with open_client(make_endpoint(server)) as client:
        reply = await client.ask(ModelRequest((HELLO,), n=3))
    assert (len(reply.choices), client.dialect.returns_n) == (1, False)


async def test_the_probe_describes_a_server_of_this_api(server: ModelServer) -> None:
    def script(asked: Asked) -> Any:
        prompt = str(asked.body["messages"][0]["content"])
        if "tools" in asked.body:
            calls = [("get_temperature", {"city": city}) for city in ("Oslo", "Lima")]
            return message(calls=calls if "twice" in prompt else calls[:1])
        if asked.body.get("stop_sequences"):
            return message("1 2 3 4 ", stop="stop_sequence")
        if asked.body["max_tokens"] == 16:
            return message("1 2 3", stop="max_tokens")
        return message("BANANA" if "system" in asked.body else "ready", blocks=[SIGNED])

    server.script = script
    facts = await probe_model(make_endpoint(server))
    assert {asked.path for asked in server.asked} == {"/v1/messages"}
    assert (facts.tool_mode, facts.parallel_calls, facts.max_tokens_field) == ("native", True, "max_tokens")
    assert (facts.returns_n, facts.honours_stop, facts.honours_seed) == (False, True, False)
    assert (facts.honours_system, facts.reasoning_field) == (True, "thinking_blocks")
