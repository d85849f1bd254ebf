"""Programs that try to make a fault of the infrastructure, or the end of the run, of their requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from contexts import no_context
from model_server import Asked, ModelServer, completion, error, response, text_item
from relay_fixtures import TOKEN, Relay, connect_to, exchange, open_relay
from streamed_events import message, stream_completion

from harness.environments.base import open_without_world
from harness.models.concurrency import SharedPause
from harness.models.endpoint import Prices
from harness.models.messages import Generation
from harness.models.relay.app import make_relay_app
from harness.models.relay.exchange import MAX_BODY_BYTES
from harness.models.relay.mcp_server import make_mcp_app
from harness.models.relay.serving import serve_app
from harness.models.server_errors import ModelError
from harness.models.spending import Budget, BudgetReached
from harness.runs import transcripts
from harness.runs.transcripts import TranscriptFile, read_entries

HELLO: Any = [{"role": "user", "content": "hello"}]
# Values that no table looks into, by path.
FREE_VALUES = {
    "/v1/chat/completions": '{"messages":[{"role":"user","content":"a"}],"response_format":%s}',
    "/v1/responses": '{"input":"a","tools":[{"type":"function","name":"f","parameters":%s}]}',
    "/v1/messages": '{"max_tokens":5,"messages":[{"role":"user","content":"a"}],'
    '"tools":[{"name":"f","input_schema":%s}]}',
}


@pytest.fixture
async def relay(server: ModelServer) -> AsyncIterator[Relay]:
    server.script = answer_in_its_api
    async with open_relay(server) as opened:
        yield opened


def answer_in_its_api(asked: Asked) -> Any:
    if asked.path.endswith("/messages"):
        return message("hi")
    return response(text_item("hi")) if asked.path.endswith("/responses") else completion("hi")


def request(path: str, body: bytes, fields: str = "") -> bytes:
    """Return the bytes of a request that asks for the end of its connection."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    fields += f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{fields}\r\n".encode() + body


@pytest.mark.parametrize("path", FREE_VALUES)
# A longer body is read in a thread, which has more of its stack left.
@pytest.mark.parametrize("padding", [0, 300_000])
async def test_no_nesting_that_can_be_read_fails_when_it_is_written(
    relay: Relay, path: str, padding: int
) -> None:
    for depth in (90, 150, *range(880, 1000, 20)):
        nested = "[" * depth + "]" * depth
        body = (FREE_VALUES[path] % nested + " " * padding).encode()
        answer = await exchange(relay.connect(), request(path, body))
        assert answer.startswith(b"HTTP/1.1 200" if depth < 100 else b"HTTP/1.1 400"), depth
    assert relay.session.failure is None


async def test_a_count_of_retries_that_is_no_number_is_ignored(relay: Relay) -> None:
    body = json.dumps({"messages": HELLO}).encode()
    for _ in range(2):
        asked = request("/v1/chat/completions", body, "x-stainless-retry-count: \N{SUPERSCRIPT TWO}\r\n")
        asked = asked.replace("\N{SUPERSCRIPT TWO}".encode(), b"\xb2")
        assert (await exchange(relay.connect(), asked)).startswith(b"HTTP/1.1 200")


@each_case("status", [500, 403, 404])
async def test_the_choice_of_an_api_that_fails_is_no_fault_of_the_server(
    server: ModelServer, status: int
) -> None:
    server.script = lambda asked: (
        error(status, "no") if asked.path.endswith("/messages") else completion("hi")
    )
    async with open_relay(server, endpoint={"request_seconds": 1}) as relay:
        body = json.dumps({"messages": HELLO, "max_tokens": 5}).encode()
        answer = await exchange(relay.connect(), request("/v1/messages", body))
    assert b"does not answer at /messages" in answer
    assert relay.session.failure is None


async def test_a_question_about_an_unknown_api_is_asked_once_and_counted(server: ModelServer) -> None:
    server.script = lambda asked: (
        error(404, "no such path") if asked.path.endswith("/messages") else completion("hi", usage=(10, 5))
    )
    body = json.dumps({"messages": HELLO, "max_tokens": 5}).encode()
    async with open_relay(server, endpoint={"request_seconds": 1}) as relay:
        for _ in range(5):
            await exchange(relay.connect(), request("/v1/messages", body))
    answered = [asked for asked in server.asked if asked.path.endswith("/chat/completions")]
    assert len(answered) == 1
    assert relay.session.metrics["model_requests"] == 1
    assert relay.session.metrics["output_tokens"] == 5


async def test_an_api_that_the_server_speaks_can_fail_by_the_servers_fault(server: ModelServer) -> None:
    server.script = answer_in_its_api
    body = json.dumps({"messages": HELLO, "max_tokens": 5}).encode()
    async with open_relay(server, endpoint={"request_seconds": 1}) as relay:
        await exchange(relay.connect(), request("/v1/messages", body))
        server.script = lambda asked: (
            error(500, "no") if asked.path.endswith("/messages") else completion("hi")
        )
        await exchange(relay.connect(), request("/v1/messages", body))
    assert isinstance(relay.session.failure, ModelError)


async def test_a_request_that_makes_the_server_break_a_stream_off_fails_alone(server: ModelServer) -> None:
    import openai

    server.script = lambda asked: (
        stream_completion("hello", ends=False) if asked.body.get("stream") else completion("hi")
    )
    async with open_relay(server) as relay:
        stream = await relay.openai.chat.completions.create(model="x", messages=HELLO, stream=True)
        with pytest.raises(openai.APIError, match="broke off"):
            async for _ in stream:
                pass
        for _ in range(100):
            if any("not answered" in str(entry) for entry in relay.transcript.entries):
                break
            await asyncio.sleep(0.01)
    assert relay.session.failure is None


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_reply_without_a_count_of_tokens_is_charged_with_an_estimate(
    server: ModelServer, is_stream: bool
) -> None:
    text = "hello " * 50
    server.script = lambda asked: (
        stream_completion(text, usage=None) if is_stream else completion(text, usage=None)
    )
    async with open_relay(server, attempt_budget=Budget(total_tokens=1000)) as relay:
        body = json.dumps({"messages": HELLO, "stream": is_stream}).encode()
        answer = await exchange(relay.connect(), request("/v1/chat/completions", body))
    assert answer.startswith(b"HTTP/1.1 200")
    assert relay.session.failure is None
    assert relay.session.metrics["output_tokens"] == 100
    assert relay.requests[0]["usage_is_estimated"]


async def test_the_memory_of_parsed_values_counts_as_bytes_of_bodies(relay: Relay) -> None:
    values = b",".join([b"{}"] * (MAX_BODY_BYTES // 4))
    body = FREE_VALUES["/v1/chat/completions"].encode().replace(b"%s", b"[" + values + b"]")
    answer = await exchange(relay.connect(), request("/v1/chat/completions", body))
    assert answer.startswith(b"HTTP/1.1 413")


async def test_bodies_for_tools_count_among_the_bodies_under_way(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.models.relay.app.MOST_BODY_BYTES", 10_000)
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "none", "arguments": {"a": [{}] * 1000}},
    }
    async with (
        make_mcp_app(open_without_world(no_context())) as mcp,
        serve_app(make_relay_app(TOKEN, model=None, mcp=mcp)) as served,
    ):
        answer = await exchange(connect_to(served), request("/mcp", json.dumps(call).encode()))
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_transcript_without_an_end_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "MAX_TRANSCRIPT_BYTES", 5000)
    monkeypatch.setattr(transcripts, "END_BYTES", 900)
    transcript = TranscriptFile(tmp_path / "t.jsonl")
    for number in range(100):
        transcript.write({"round": number, "arguments": "a" * 1000})
    assert (tmp_path / "t.jsonl").stat().st_size < 6000
    entries = list(read_entries(tmp_path / "t.jsonl"))
    assert [entry.get("round") for entry in entries[:-1]] == [0, 1, 2]
    assert entries[-1]["kind"] == "full"


@pytest.mark.parametrize("budget", [Budget(total_tokens=700), Budget(cost=0.0007)])
async def test_requests_at_once_keep_a_budget_of_all_tokens_and_of_the_cost(
    server: ModelServer, budget: Budget
) -> None:
    server.wait_seconds = 0.05
    server.script = lambda asked: completion("hi", usage=(300, 5))
    async with open_relay(
        server,
        prices=Prices(input=1, output=1),
        generation=Generation(max_tokens=10),
        attempt_budget=budget,
    ) as relay:
        messages: Any = [{"role": "user", "content": "x" * 900}]
        asking = [relay.openai.chat.completions.create(model="x", messages=messages) for _ in range(8)]
        await asyncio.gather(*asking, return_exceptions=True)
    assert len(server.asked) == 3
    assert isinstance(relay.session.failure, BudgetReached)


def test_a_request_that_waits_stops_no_clock_while_another_is_answered() -> None:
    states: list[str] = []

    @contextlib.contextmanager
    def stop_clock() -> Iterator[None]:
        states.append("stands")
        yield
        states.append("runs")

    pause = SharedPause(stop_clock)
    with pause.hold_request(), pause.wait():
        assert states == ["stands"]
        with pause.hold_request():
            assert states == ["stands", "runs"]
            with pause.wait():
                assert states == ["stands", "runs", "stands"]
    assert states == ["stands", "runs", "stands", "runs", "stands", "runs"]
