"""The libraries of agents, unmodified, as clients of the relay."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from effort import THOROUGH
from model_fixtures import MODEL_KEY
from model_server import Asked, ModelServer, RawReply, completion, error, response, text_item
from relay_fixtures import TOKEN, open_relay
from streamed_events import (
    STREAM_HEADERS,
    message,
    message_error,
    stream_completion,
    stream_message,
    stream_response,
)

from harness.models.endpoint import Prices
from harness.models.messages import Generation
from harness.models.reply_cache import ReplyCache
from harness.models.server_errors import ModelError, ModelRefusedError
from harness.models.spending import Budget, BudgetReached

AT_ONCE = 200 if THOROUGH else 20
HELLO: Any = [{"role": "user", "content": "hello"}]
TOOL: Any = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}


async def test_chat_completions_pass_with_the_key_and_the_model_of_the_run(server: ModelServer) -> None:
    async with open_relay(server, generation=Generation(temperature=0.5)) as relay:
        reply = await relay.openai.chat.completions.create(
            model="gpt-999", messages=HELLO, temperature=2, tools=[TOOL]
        )
    assert reply.choices[0].message.content == "hi"
    asked = server.asked[0]
    assert asked.headers["authorization"] == f"Bearer {MODEL_KEY}"
    assert TOKEN not in json.dumps(dict(asked.headers)) + json.dumps(asked.body)
    assert not [name for name in asked.headers if name.startswith("x-stainless")]
    assert (asked.body["model"], asked.body["temperature"], asked.body["seed"]) == ("scripted", 0.5, 7)
    assert asked.body["tools"] == [TOOL]
    entry = relay.requests[0]
    assert entry["dropped"] == {"temperature": 2}
    assert entry["usage"]["output_tokens"] == 5
    assert [each["text"] for each in entry["messages"]] == ["hello"]
    assert entry["reply"]["text"] == "hi"


async def test_responses_pass_and_the_server_stores_nothing(server: ModelServer) -> None:
    async with open_relay(server, endpoint={"api": "responses"}) as relay:
        reply = await relay.openai.responses.create(model="x", input="hello", max_output_tokens=9)
    assert reply.output_text == "hi"
    assert server.asked[0].body == {"model": "scripted", "input": "hello", "store": False}


async def test_messages_pass_with_the_key_in_the_field_of_that_api(server: ModelServer) -> None:
    server.script = lambda asked: message("hi", calls=[("run", {"command": "ls"})])
    async with open_relay(server) as relay:
        reply = await relay.anthropic.messages.create(
            model="claude", max_tokens=100, messages=HELLO, system="be brief", extra_body={"temperature": 1}
        )
    assert [block.type for block in reply.content] == ["text", "tool_use"]
    asked = server.asked[0]
    assert (asked.headers["x-api-key"], asked.headers["anthropic-version"]) == (MODEL_KEY, "2023-06-01")
    assert asked.body == {
        "model": "scripted",
        "max_tokens": 100,
        "messages": HELLO,
        "system": "be brief",
    }
    assert relay.requests[0]["reply"]["tool_calls"][0]["name"] == "run"


async def test_a_parameter_of_the_run_that_the_model_lacks_is_left_out_of_messages(
    server: ModelServer,
) -> None:
    text = "`temperature` is deprecated for this model."
    server.script = lambda asked: (
        message_error(400, "invalid_request_error", text) if "temperature" in asked.body else message("hi")
    )
    async with open_relay(
        server, endpoint={"api": "messages"}, generation=Generation(temperature=0.0)
    ) as relay:
        for _ in range(2):
            await relay.anthropic.messages.create(model="claude", max_tokens=100, messages=HELLO)
    assert "temperature" not in server.asked[-1].body
    assert [entry["reply"]["text"] for entry in relay.requests] == ["hi", "hi"]


async def test_a_stream_of_chat_completions_comes_back_with_its_usage_counted(server: ModelServer) -> None:
    server.script = lambda asked: stream_completion("hel", "lo")
    async with open_relay(server) as relay:
        stream = await relay.openai.chat.completions.create(model="x", messages=HELLO, stream=True)
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "hello"
    assert server.asked[0].body["stream_options"] == {"include_usage": True}
    # The client has not asked for the usage, so it does not get the chunk without choices.
    assert all(chunk.choices for chunk in chunks)
    assert relay.requests[0]["reply"]["text"] == "hello"
    assert relay.session.metrics["output_tokens"] == 5


async def test_a_client_that_asks_for_the_usage_of_a_stream_gets_it(server: ModelServer) -> None:
    server.script = lambda asked: stream_completion("hello")
    async with open_relay(server) as relay:
        stream = await relay.openai.chat.completions.create(
            model="x", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        usages = [chunk.usage async for chunk in stream if chunk.usage]
    assert [usage.completion_tokens for usage in usages] == [5]


async def test_a_stream_of_responses_comes_back(server: ModelServer) -> None:
    server.script = lambda asked: stream_response(text_item("hello"))
    async with open_relay(server) as relay:
        stream = await relay.openai.responses.create(model="x", input="hello", stream=True)
        events = [event async for event in stream]
    assert events[-1].type == "response.completed"
    assert relay.requests[0]["reply"]["text"] == "hello"


async def test_a_stream_of_messages_comes_back(server: ModelServer) -> None:
    server.script = lambda asked: stream_message("hel", "lo", calls=[("run", {"command": "ls"})])
    async with (
        open_relay(server) as relay,
        relay.anthropic.messages.stream(model="x", max_tokens=50, messages=HELLO) as stream,
    ):
        final = await stream.get_final_message()
    assert final.content[0].text == "hello"  # type: ignore[union-attr]
    entry = relay.requests[0]
    assert json.loads(entry["reply"]["tool_calls"][0]["arguments"]) == {"command": "ls"}
    assert entry["usage"]["input_tokens"] == 10


async def test_the_model_list_and_the_count_of_tokens_are_answered_without_the_server(
    server: ModelServer,
) -> None:
    async with open_relay(server) as relay:
        assert [model.id async for model in relay.openai.models.list()] == ["scripted"]
        assert [model.id async for model in relay.anthropic.models.list()] == ["scripted"]
        count = await relay.anthropic.messages.count_tokens(model="x", messages=HELLO)
    assert count.input_tokens > 0
    assert server.asked == []


@each_case("is_stream", [False, True])
async def test_a_key_that_the_server_repeats_reaches_no_client(server: ModelServer, is_stream: bool) -> None:
    escaped = MODEL_KEY.replace("/", "\\/").replace("s", "\\u0073")
    reply = (
        stream_completion("KEY1 KEY2") if is_stream else RawReply(body=json.dumps(completion("KEY1 KEY2")))
    )
    body = str(reply.body).replace("KEY1", MODEL_KEY).replace("KEY2", escaped)
    server.script = lambda asked: RawReply(body=body, headers=reply.headers)
    async with open_relay(server) as relay:
        raw = await relay.openai.chat.completions.with_raw_response.create(
            model="x", messages=HELLO, stream=is_stream
        )
        received = (await raw.http_response.aread()).decode()
    assert "[key] [key]" in received
    assert MODEL_KEY not in received
    assert MODEL_KEY not in json.dumps(relay.transcript.entries)


@each_case("token", ["sk-other", TOKEN[:-1], f"{TOKEN}x"])
@each_case("api", ["chat", "messages"])
async def test_a_wrong_token_is_refused_in_the_form_of_the_api(
    server: ModelServer, api: str, token: str
) -> None:
    import anthropic
    import openai

    async with open_relay(server) as relay:
        if api == "chat":
            with pytest.raises(openai.AuthenticationError):
                await relay.openai.with_options(api_key=token).chat.completions.create(
                    model="x", messages=HELLO
                )
        else:
            with pytest.raises(anthropic.AuthenticationError) as refused:
                await relay.anthropic.with_options(api_key=token).messages.create(
                    model="x", max_tokens=5, messages=HELLO
                )
            assert refused.value.body["error"]["type"] == "authentication_error"  # type: ignore[index]
    assert server.asked == []


async def test_capabilities_of_the_provider_are_withheld_and_recorded(server: ModelServer) -> None:
    tools: Any = [
        {"type": "web_search"},
        {"type": "mcp", "server_label": "x", "server_url": "https://example.com"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "function", "name": "run", "parameters": {}, "strict": False},
    ]
    content: Any = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        {"type": "input_file", "file_id": "file-1"},
    ]
    given: Any = [{"role": "user", "content": content}, {"type": "item_reference", "id": "rs_1"}]
    async with open_relay(server) as relay:
        await relay.openai.responses.create(
            model="x", input=given, tools=tools, prompt={"id": "pmpt_1"}, include=["file_search_call.results"]
        )
    body = server.asked[0].body
    assert [tool["type"] for tool in body["tools"]] == ["function"]
    sent = json.dumps(body)
    assert "data:image/png" in sent
    assert not [each for each in ("example.com", "file-1", "pmpt_1", "rs_1", "file_search") if each in sent]
    withheld = " ".join(relay.requests[0]["withheld"])
    for each in (
        "web_search",
        "mcp",
        "code_interpreter",
        "input_image",
        "input_file",
        "item_reference",
        "prompt",
    ):
        assert each in withheld


async def test_addresses_and_remote_servers_in_messages_are_withheld(server: ModelServer) -> None:
    server.script = lambda asked: message("hi")
    inside = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    content: Any = [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "tool_result", "tool_use_id": "t", "content": [inside]},
    ]
    async with open_relay(server) as relay:
        await relay.anthropic.messages.create(
            model="x",
            max_tokens=5,
            messages=[{"role": "user", "content": content}],
            tools=[{"type": "web_search_20250305", "name": "web_search"}],
            extra_headers={"anthropic-beta": "mcp-client-2025-04-04"},
            extra_body={"mcp_servers": [{"type": "url", "url": "https://example.com"}], "container": "c_1"},
        )
    asked = server.asked[0]
    assert not [each for each in ("example.com", "file_1", "c_1", "tools") if each in json.dumps(asked.body)]
    assert "anthropic-beta" not in asked.headers
    assert {"mcp_servers", "container"} <= set(relay.requests[0]["withheld"])


@each_case(
    ("field", "value"),
    [
        ("store", True),
        ("background", True),
        ("previous_response_id", "resp_1"),
        ("conversation", "c_1"),
        ("n", 2),
    ],
)
async def test_a_request_that_needs_a_state_of_the_server_is_refused(
    server: ModelServer, field: str, value: Any
) -> None:
    import openai

    async with open_relay(server) as relay:
        with pytest.raises(openai.BadRequestError, match=field):
            await relay.openai.responses.create(model="x", input="hello", extra_body={field: value})
    assert server.asked == []
    assert field in str(relay.transcript.entries)


async def test_parameters_of_a_client_count_if_the_run_keeps_them(server: ModelServer) -> None:
    async with open_relay(
        server, generation=Generation(temperature=0.5, max_tokens=50), keeps_client_generation=True
    ) as relay:
        await relay.openai.chat.completions.create(model="x", messages=HELLO, temperature=1, stop="END")
    body = server.asked[0].body
    assert (body["temperature"], body["stop"], body["max_tokens"]) == (1, ["END"], 50)


async def test_a_used_up_budget_ends_the_attempt_and_no_library_retries(server: ModelServer) -> None:
    import openai

    async with open_relay(server, attempt_budget=Budget(output_tokens=12)) as relay:
        for _ in range(3):
            await relay.openai.chat.completions.create(model="x", messages=HELLO)
        assert [asked.body["max_tokens"] for asked in server.asked] == [12, 7, 2]
        with pytest.raises(openai.BadRequestError, match="budget") as refused:
            await relay.openai.chat.completions.create(model="x", messages=HELLO)
        failure = await relay.session.wait_until_ended()
    assert refused.value.code == "budget_reached"
    assert len(server.asked) == 3
    assert isinstance(failure, BudgetReached)
    assert relay.session.failure is failure


async def test_a_budget_ends_a_stream_before_its_end(server: ModelServer) -> None:
    import anthropic

    """The server reports at the beginning of the stream that the conversation is too expensive."""
    server.script = lambda asked: stream_message("hel", "lo", usage=(1000, 5))
    async with open_relay(server, attempt_budget=Budget(total_tokens=100)) as relay:
        with pytest.raises(anthropic.APIStatusError, match="budget"):
            async with relay.anthropic.messages.stream(model="x", max_tokens=50, messages=HELLO) as stream:
                await stream.get_final_message()
    assert isinstance(relay.session.failure, BudgetReached)
    assert relay.session.metrics["input_tokens"] == 1000


async def test_requests_at_once_keep_the_budget_together(server: ModelServer) -> None:
    import openai

    server.wait_seconds = 0.05
    server.script = lambda asked: completion("hi", usage=(10, asked.body["max_tokens"]))
    async with open_relay(
        server, generation=Generation(max_tokens=10), attempt_budget=Budget(output_tokens=25)
    ) as relay:
        asking = [relay.openai.chat.completions.create(model="x", messages=HELLO) for _ in range(6)]
        replies = await asyncio.gather(*asking, return_exceptions=True)
    assert sorted(asked.body["max_tokens"] for asked in server.asked) == [5, 10, 10]
    assert sum(isinstance(reply, openai.BadRequestError) for reply in replies) == 3
    assert relay.session.metrics["output_tokens"] == 25


async def test_a_stream_that_breaks_off_ends_with_an_error_and_is_charged(server: ModelServer) -> None:
    import openai

    server.script = lambda asked: stream_completion("hello " * 100, ends=False)
    async with open_relay(server, prices=Prices(input=1, output=1)) as relay:
        stream = await relay.openai.chat.completions.create(model="x", messages=HELLO, stream=True)
        with pytest.raises(openai.APIError, match="broke off"):
            async for _ in stream:
                pass
    entry = relay.requests[0]
    assert entry["usage_is_estimated"]
    assert entry["usage"]["output_tokens"] == 200
    assert isinstance(relay.session.failure, ModelError)


async def test_a_client_that_leaves_a_stream_pays_for_it_nevertheless(server: ModelServer) -> None:
    body = str(stream_completion("hello " * 50, "more").body)
    server.script = lambda asked: RawReply(
        body=body, headers=STREAM_HEADERS, seconds_between_bytes=0.0005, announced_bytes=len(body) + 10**6
    )
    async with open_relay(server) as relay:
        stream = await relay.openai.chat.completions.create(model="x", messages=HELLO, stream=True)
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        await stream.close()
        await relay.transcript.has_request.wait()
    assert relay.requests[0]["cut_off"]
    # The text so far counts. The last word may have arrived before the relay noticed the end.
    assert relay.session.metrics["output_tokens"] in (100, 101)


async def test_an_error_of_the_server_reaches_the_client_in_its_form(server: ModelServer) -> None:
    import anthropic

    async with open_relay(server) as relay:
        # The server must have answered once, or its refusals would end the run.
        await relay.openai.chat.completions.create(model="x", messages=HELLO)
        server.script = lambda asked: error(400, f"bad schema {MODEL_KEY}")
        with pytest.raises(anthropic.BadRequestError, match=r"bad schema \[key\]"):
            await relay.anthropic.messages.create(model="x", max_tokens=5, messages=HELLO)
    assert relay.session.failure is None


async def test_a_refusal_that_only_one_request_provokes_does_not_end_the_run(server: ModelServer) -> None:
    import openai

    def refuse_word(asked: Asked) -> Any:
        return error(403, "flagged") if "forbidden" in json.dumps(asked.body) else completion("hi")

    server.script = refuse_word
    async with open_relay(server) as relay:
        with pytest.raises(openai.BadRequestError, match="flagged"):
            await relay.openai.chat.completions.create(
                model="x", messages=[{"role": "user", "content": "forbidden"}]
            )
    assert relay.session.failure is None


async def test_a_wrong_key_ends_the_run(server: ModelServer) -> None:
    import openai

    server.script = lambda asked: error(401, "wrong key")
    async with open_relay(server) as relay:
        with pytest.raises(openai.InternalServerError) as refused:
            await relay.openai.chat.completions.create(model="x", messages=HELLO)
        assert isinstance(await relay.session.wait_until_ended(), ModelRefusedError)
    assert "127.0.0.1" not in str(refused.value)


async def test_a_rate_limit_is_retried_before_the_first_byte(server: ModelServer) -> None:
    server.script = lambda asked: error(429, "slow down") if asked.number == 0 else stream_completion("hi")
    async with open_relay(server) as relay:
        stream = await relay.openai.chat.completions.create(model="x", messages=HELLO, stream=True)
        texts = [chunk.choices[0].delta.content async for chunk in stream]
    assert "hi" in texts
    assert (relay.requests[0]["retries"], len(relay.requests)) == (1, 1)


async def test_a_retry_of_a_library_is_recorded_as_one(server: ModelServer) -> None:
    async with open_relay(server) as relay:
        for count in ("0", "1"):
            await relay.openai.chat.completions.create(
                model="x", messages=HELLO, extra_headers={"x-stainless-retry-count": count}
            )
    assert [entry.get("library_retry") for entry in relay.requests] == [None, 1]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_equal_request_is_answered_from_the_cache(
    server: ModelServer, is_stream: bool, tmp_path: Path
) -> None:
    server.script = lambda asked: stream_message("hello") if is_stream else message("hello")
    received = []
    for _ in range(2):
        async with open_relay(server, cache=ReplyCache(tmp_path)) as relay:
            raw = await relay.anthropic.messages.with_raw_response.create(
                model="x", max_tokens=5, messages=HELLO, stream=is_stream
            )
            received.append(await raw.http_response.aread())
    assert received[0] == received[1]
    assert len(server.asked) == 1
    assert relay.requests[0]["cached"]
    assert relay.session.metrics["output_tokens"] == 0


async def test_a_conversation_is_written_once(server: ModelServer) -> None:
    async with open_relay(server) as relay:
        await relay.openai.chat.completions.create(model="x", messages=HELLO)
        further: Any = [*HELLO, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "more"}]
        await relay.openai.chat.completions.create(model="x", messages=further)
    assert [message["text"] for message in relay.requests[1]["messages"]] == ["more"]


async def test_many_requests_at_once_are_all_answered(server: ModelServer) -> None:
    def answer(asked: Asked) -> Any:
        return stream_response(text_item("hi")) if asked.body.get("stream") else response(text_item("hi"))

    server.script = answer
    async with open_relay(server) as relay:

        async def ask(is_stream: bool) -> str:
            if not is_stream:
                return (await relay.openai.responses.create(model="x", input="hello")).output_text
            stream = await relay.openai.responses.create(model="x", input="hello", stream=True)
            return "".join(
                [event.delta async for event in stream if event.type == "response.output_text.delta"]
            )

        assert await asyncio.gather(*(ask(number % 2 == 0) for number in range(AT_ONCE))) == ["hi"] * AT_ONCE
