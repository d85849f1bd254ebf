"""The session of an attempt with its model: budgets, samples, cache, transcript and counts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from case_checks import each_case
from contexts import ListTranscript
from model_server import Asked, ModelServer, completion, error

from harness.models import sampling
from harness.models.access import ModelAccess
from harness.models.client import open_client
from harness.models.codecs import MOST_REFUSED_VALUES
from harness.models.endpoint import ConcurrencyBounds, Endpoint, Prices
from harness.models.messages import Generation, Message, ModelReply, ModelRequest, Role, Usage
from harness.models.reply_cache import ReplyCache
from harness.models.server_errors import (
    InvalidRequestError,
    ModelError,
    ModelRefusedError,
    UnknownSpendingError,
)
from harness.models.session import ModelSession
from harness.models.spending import Budget, BudgetReached, Spending
from harness.models.wire import RawRequest


@contextlib.asynccontextmanager
async def open_access(
    server: ModelServer, *, prices: Prices | None = None, **settings: Any
) -> AsyncIterator[ModelAccess]:
    async with open_client(Endpoint(model="scripted", base_url=server.url, prices=prices)) as client:
        yield ModelAccess(client, **settings)


def open_session(access: ModelAccess, number: int = 0, **settings: Any) -> ModelSession:
    settings = {"transcript": ListTranscript(), **settings}
    return access.open_session(number=number, seed=100 + number, **settings)


async def ask_repeatedly(session: ModelSession, times: int) -> None:
    for _ in range(times):
        await session.ask("hello")


async def test_each_request_carries_the_seed_of_the_attempt(server: ModelServer) -> None:
    async with open_access(server, generation=Generation(temperature=0.5)) as access:
        await open_session(access, 3).ask("hello")
    assert (server.asked[0].body["seed"], server.asked[0].body["temperature"]) == (103, 0.5)


@pytest.mark.parametrize(
    ("budget", "limit", "requests"),
    [
        (Budget(output_tokens=12), "output_tokens", 3),
        (Budget(total_tokens=30), "total_tokens", 2),
        (Budget(cost=0.000020), "cost", 2),
    ],
    ids=["output tokens", "all tokens", "cost"],
)
async def test_an_attempt_ends_at_its_budget(
    server: ModelServer, budget: Budget, limit: str, requests: int
) -> None:
    """Each request uses 10 tokens of input and 5 of output."""
    async with open_access(server, prices=Prices(input=0.5, output=1.0), attempt_budget=budget) as access:
        session = open_session(access)
        with pytest.raises(BudgetReached) as reached:
            await ask_repeatedly(session, 10)
        assert (reached.value.limit, reached.value.is_of_run) == (limit, False)
        assert len(server.asked) == requests
        await open_session(access).ask("another attempt has its own budget")


async def test_the_last_reply_is_bounded_by_the_rest_of_the_budget(server: ModelServer) -> None:
    async with open_access(server, attempt_budget=Budget(output_tokens=12)) as access:
        session = open_session(access)
        for _ in range(3):
            await session.ask("hello")
    assert [asked.body["max_tokens"] for asked in server.asked] == [12, 7, 2]


async def test_all_attempts_share_the_budget_of_the_run(server: ModelServer) -> None:
    async with open_access(server, spending=Spending(Budget(total_tokens=30))) as access:
        for number in range(2):
            await open_session(access, number).ask("hello")
        with pytest.raises(BudgetReached) as reached:
            await open_session(access, 2).ask("hello")
    assert reached.value.is_of_run


async def test_requests_that_wait_for_a_place_end_with_the_budget(server: ModelServer) -> None:
    bounds = ConcurrencyBounds(start=2, least=2, most=2)
    endpoint = Endpoint(model="scripted", base_url=server.url, concurrency=bounds)
    async with open_client(endpoint) as client:
        session = open_session(ModelAccess(client, attempt_budget=Budget(total_tokens=30)))
        ended = await asyncio.gather(*(session.ask("hello") for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(each, BudgetReached) for each in ended) >= 47
    assert len(server.asked) <= 3


async def test_replies_that_one_attempt_does_not_read_leave_places_to_the_others(server: ModelServer) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}]}
    bounds = ConcurrencyBounds(start=4, least=4, most=4)
    endpoint = Endpoint(model="scripted", base_url=server.url, concurrency=bounds)
    async with open_client(endpoint) as client:
        access = ModelAccess(client)
        slow, other = open_session(access), open_session(access, 1)

        opened = asyncio.Semaphore(0)

        async def hold_reply() -> None:
            async with slow.forward(RawRequest("chat", body)):
                opened.release()
                await asyncio.Event().wait()

        unread = [asyncio.create_task(hold_reply()) for _ in range(10)]
        for _ in range(2):
            await opened.acquire()
        async with asyncio.timeout(60):
            await asyncio.gather(*(other.ask("hello") for _ in range(3)))
        for task in unread:
            task.cancel()
        await asyncio.gather(*unread, return_exceptions=True)
    assert len(server.asked) == 5


async def test_a_failure_that_the_agent_did_not_cause_is_kept_until_a_request_succeeds(
    server: ModelServer,
) -> None:
    server.script = lambda asked: error(500, "no") if asked.number == 0 else completion("hi")
    endpoint = Endpoint(model="scripted", base_url=server.url, request_seconds=0.0001)
    async with open_client(endpoint) as client:
        session = open_session(ModelAccess(client))
        with pytest.raises(ModelError) as raised:
            await session.ask("hello")
        assert session.failure is raised.value
        await session.ask("hello")
        assert session.failure is None


async def test_a_request_counts_although_its_cost_is_unknown(server: ModelServer) -> None:
    kept: list[float | None] = []
    spending = Spending(Budget(cost=1), keep=lambda usage, cost, of_attempt: kept.append(cost))
    server.script = lambda asked: completion("hi", usage=None)
    async with open_access(server, prices=Prices(input=1, output=1), spending=spending) as access:
        session = open_session(access)
        with pytest.raises(UnknownSpendingError, match="reports no usage"):
            await session.ask("hello")
    assert (session.metrics["model_requests"], kept) == (1, [None])


@pytest.fixture
def kept() -> list[tuple[int | None, bool]]:
    """Return the input tokens of each request, and whether an attempt has made it."""
    return []


@pytest.fixture
def spending(kept: list[tuple[int | None, bool]]) -> Spending:
    def keep(usage: Usage, _cost: float | None, of_attempt: bool) -> None:
        kept.append((usage.input_tokens, of_attempt))

    return Spending(Budget(total_tokens=40), keep=keep)


async def test_the_probe_of_the_tool_mode_is_charged_to_the_run_alone(
    server: ModelServer, spending: Spending, kept: list[tuple[int | None, bool]]
) -> None:
    async with open_access(server, spending=spending) as access:
        session = open_session(access)
        assert await session.find_tool_mode() == await open_session(access, 1).find_tool_mode() == "text"
        assert session.metrics == {}
        await session.ask("hello")
    assert kept == [(10, False), (10, True)]
    assert (session.metrics["input_tokens"], spending.usage.input_tokens) == (10, 20)


async def test_the_probe_of_the_tool_mode_ends_at_the_budget_of_the_run(
    server: ModelServer, spending: Spending
) -> None:
    spending.usage = Usage(30, 10, 0, 0)
    async with open_access(server, spending=spending) as access:
        with pytest.raises(BudgetReached):
            await open_session(access).find_tool_mode()
    assert server.asked == []


@pytest.mark.parametrize("known", [None, "native"])
async def test_the_tool_mode_is_kept_once_and_a_resumed_run_does_not_probe_again(
    server: ModelServer, known: Literal["native"] | None
) -> None:
    kept: list[str] = []
    async with open_access(server, known_tool_mode=known, keep_tool_mode=kept.append) as access:
        for number in range(2):
            await open_session(access, number).find_tool_mode()
    assert (kept, len(server.asked)) == ((["text"], 1) if known is None else (["native"], 0))


async def test_the_plain_request_after_a_refusal_is_charged_to_the_run_alone(
    server: ModelServer, spending: Spending, kept: list[tuple[int | None, bool]]
) -> None:
    server.script = lambda asked: error(400, "flagged") if asked.number == 0 else completion("hi")
    async with open_access(server, spending=spending) as access:
        session = open_session(access)
        with pytest.raises(InvalidRequestError, match="flagged"):
            await session.ask("bad")
    assert (kept, session.metrics) == ([(10, False)], {})


async def test_unknown_spending_before_a_resume_is_an_error_before_a_request(server: ModelServer) -> None:
    spending = Spending(Budget(total_tokens=100), usage=Usage(None, 5))
    async with open_access(server, spending=spending) as access:
        with pytest.raises(UnknownSpendingError, match="earlier request"):
            await open_session(access).ask("hello")
    assert server.asked == []


@each_case("budget", [Budget(total_tokens=30), Budget(cost=1)])
async def test_a_budget_that_cannot_be_kept_is_an_error(server: ModelServer, budget: Budget) -> None:
    server.script = lambda asked: completion("hi", usage=None)
    async with open_access(server, prices=Prices(input=0.5, output=1.0), attempt_budget=budget) as access:
        with pytest.raises(UnknownSpendingError, match=r"' cannot be kept, .* reports no usage"):
            await open_session(access).ask("hello")


async def test_unknown_usage_is_not_counted_as_zero(server: ModelServer) -> None:
    server.script = lambda asked: completion("hi", usage=None if asked.number == 1 else (10, 5))
    async with open_access(server) as access:
        session = open_session(access)
        for _ in range(3):
            await session.ask("hello")
    metrics = session.metrics
    assert (metrics["model_requests"], metrics["input_tokens"], metrics["cost"]) == (3, None, None)


async def ask_together(access: ModelAccess, attempts: int) -> list[str]:
    access.merger.expect("task", attempts)
    sessions = [open_session(access, number, group="task") for number in range(attempts)]
    replies = await asyncio.gather(*(session.ask("hello") for session in sessions))
    return [reply.choices[0].message.text for reply in replies]


def number_choices(asked: Asked, most: int = 100) -> dict[str, Any]:
    reply = completion("", n=min(asked.body.get("n", 1), most), usage=(10, 7))
    for choice in reply["choices"]:
        choice["message"] = {**choice["message"], "content": f"{asked.number}/{choice['index']}"}
    return reply


async def test_the_samples_of_a_task_are_one_request(server: ModelServer) -> None:
    server.script = number_choices
    async with open_access(server) as access:
        texts = await ask_together(access, 4)
        assert texts == ["0/0", "0/1", "0/2", "0/3"]
        assert [asked.body["n"] for asked in server.asked] == [4]
        assert (access.spending.usage.input_tokens, access.spending.usage.output_tokens) == (10, 7)


async def test_a_shared_request_is_stated_with_its_seed_and_its_time_counts_once(server: ModelServer) -> None:
    server.script, server.wait_seconds = number_choices, 0.05
    transcripts = [ListTranscript() for _ in range(3)]
    async with open_access(server) as access:
        access.merger.expect("task", 3)
        sessions = [
            open_session(access, number, group="task", transcript=transcript)
            for number, transcript in enumerate(transcripts)
        ]
        await asyncio.gather(*(session.ask("hello") for session in sessions))
        await sessions[2].ask("hello")
    first = [transcript.entries[0] for transcript in transcripts]
    assert [(entry["parameters"], entry["n"]) for entry in first] == [({"seed": 100}, 3)] * 3
    assert [asked.body["seed"] for asked in server.asked] == [100, 102]
    times = [session.metrics["model_seconds"] for session in sessions]
    assert (times[0] > 0, times[1], "n" in transcripts[2].entries[1]) == (True, 0, False)
    assert times[2] == pytest.approx(transcripts[2].entries[1]["seconds"], abs=0.001)


async def test_a_server_that_ignores_n_is_asked_for_each_sample(server: ModelServer) -> None:
    server.script = lambda asked: number_choices(asked, most=1)
    async with open_access(server) as access:
        assert len(set(await ask_together(access, 3))) == 3
        assert sorted(asked.body["seed"] for asked in server.asked) == [100, 101, 102]
        server.asked.clear()
        await ask_together(access, 3)
    assert [asked.body.get("n") for asked in server.asked] == [None] * 3


async def test_samples_do_not_wait_for_an_attempt_that_does_not_come(server: ModelServer) -> None:
    server.script = number_choices
    async with open_access(server) as access:
        access.merger.expect("task", 5)
        reply = await open_session(access, group="task").ask("hello")
    assert reply.choices[0].message.text == "0/0"


async def test_different_requests_are_not_merged(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "GATHER_SECONDS", 0.001)
    async with open_access(server) as access:
        access.merger.expect("task", 2)
        sessions = [open_session(access, number, group="task") for number in range(2)]
        await asyncio.gather(*(session.ask(f"hello {n}") for n, session in enumerate(sessions)))
    assert len(server.asked) == 2


async def test_a_cancelled_sample_does_not_end_the_others(server: ModelServer) -> None:
    server.script = number_choices
    server.wait_seconds = 0.2
    async with open_access(server) as access:
        access.merger.expect("task", 2)
        tasks = [
            asyncio.create_task(open_session(access, number, group="task").ask("hello"))
            for number in range(2)
        ]
        await asyncio.to_thread(server.wait_until_asked)
        tasks[0].cancel()
        reply = await tasks[1]
        assert reply.choices[0].message.text == "0/1"
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]


async def test_a_refusal_of_the_endpoint_reaches_every_sample(server: ModelServer) -> None:
    server.script = lambda asked: error(401, "wrong key")
    async with open_access(server) as access:
        access.merger.expect("task", 2)
        sessions = [open_session(access, number, group="task") for number in range(2)]
        found = await asyncio.gather(*(each.ask("hello") for each in sessions), return_exceptions=True)
    assert [type(each) for each in found] == [ModelRefusedError, ModelRefusedError]
    assert len(server.asked) == 1


async def test_an_identical_request_is_answered_from_the_cache(server: ModelServer, tmp_path: Path) -> None:
    async with open_access(server, cache=ReplyCache(tmp_path)) as access:
        first = await open_session(access, 1).ask("hello")
        session = open_session(access, 1)
        again = await session.ask("hello")
        await open_session(access, 2).ask("hello")
    assert again.choices == first.choices
    assert len(server.asked) == 2
    assert (session.metrics["cached_replies"], session.metrics["model_requests"]) == (1, 0)


async def test_a_refused_answer_is_not_kept(server: ModelServer, tmp_path: Path) -> None:
    server.script = lambda asked: completion(None, refusal="I cannot")
    async with open_access(server, cache=ReplyCache(tmp_path)) as access:
        for _ in range(2):
            await open_session(access, 1).ask("hello")
    assert len(server.asked) == 2


def damage_only_file(folder: Path) -> None:
    (kept,) = folder.rglob("*.json")
    kept.write_text("[" * 100_000)


async def test_a_damaged_reply_in_the_cache_is_asked_for_again(server: ModelServer, tmp_path: Path) -> None:
    async with open_access(server, cache=ReplyCache(tmp_path)) as access:
        await open_session(access, 1).ask("hello")
        damage_only_file(tmp_path)
        reply = await open_session(access, 1).ask("hello")
    assert (reply.choices[0].message.text, len(server.asked)) == ("hi", 2)


async def test_the_transcript_has_each_message_once(server: ModelServer) -> None:
    transcript = ListTranscript()
    async with open_access(server) as access:
        session = open_session(access, transcript=transcript)
        messages = (Message(Role.USER, "one"),)
        reply = await session.ask(messages)
        await session.ask((*messages, reply.choices[0].message, Message(Role.USER, "two")))
    first, second = transcript.entries
    assert first["messages"] == [{"role": "user", "text": "one"}]
    assert first["reply"] == {"text": "hi", "finish": "stop"}
    assert first["parameters"] == {"seed": 100}
    assert second["messages"] == [{"role": "user", "text": "two"}]
    assert second["usage"]["input_tokens"] == 10


async def test_a_server_that_cuts_the_context_silently_is_noticed(server: ModelServer) -> None:
    server.script = lambda asked: completion("hi", usage=(100 if asked.number == 0 else 40, 5))
    transcript = ListTranscript()
    async with open_access(server) as access:
        session = open_session(access, transcript=transcript)
        messages = (Message(Role.USER, "one"),)
        reply = await session.ask(messages)
        await session.ask((*messages, reply.choices[0].message, Message(Role.USER, "two")))
    assert session.metrics["context_truncated"] == 1
    assert [entry["kind"] for entry in transcript.entries] == ["model", "context", "model"]


async def test_the_time_of_the_agent_stands_still_while_it_waits_for_a_place(server: ModelServer) -> None:
    server.wait_seconds = 0.05
    waits = 0

    @contextlib.contextmanager
    def waiting() -> Iterator[None]:
        nonlocal waits
        waits += 1
        yield

    async with open_access(server) as access:
        await open_session(access, waiting=waiting).ask("hello")
    assert waits == 1


async def test_a_defect_of_ours_is_no_error_of_the_agent(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_access(server) as access:

        async def fail(request: ModelRequest, **_options: Any) -> ModelReply:
            raise KeyError("lost")

        monkeypatch.setattr(access.client, "ask", fail)
        with pytest.raises(ModelError, match="a defect of harness: KeyError: 'lost'"):
            await open_session(access).ask("hello")


async def test_parameters_that_the_server_refuses_end_the_run(server: ModelServer) -> None:
    server.script = lambda asked: error(400, "effort must be low or high")
    async with open_access(server, generation=Generation(reasoning_effort="huge")) as access:
        with pytest.raises(ModelRefusedError, match="effort must be low or high"):
            await open_session(access).ask("hello")


async def test_parameters_of_one_agent_that_the_server_refuses_end_only_its_attempt(
    server: ModelServer,
) -> None:
    server.script = lambda asked: (
        error(400, "effort must be low") if "reasoning_effort" in asked.body else completion("hi")
    )
    async with open_access(server) as access:
        with pytest.raises(InvalidRequestError, match="effort must be low"):
            await open_session(access).ask("hello", generation=Generation(reasoning_effort="huge"))


OWN_VALUES = {"temperature": 5.0, "max_tokens": 10**9, "seed": -1, "reasoning_effort": "huge"}


@each_case("name", OWN_VALUES)
async def test_a_value_of_one_agent_that_the_server_refuses_is_left_out_of_no_other_request(
    server: ModelServer, name: str
) -> None:
    value, of_run = OWN_VALUES[name], {"temperature": 0.5, "max_tokens": 9, "reasoning_effort": "low"}

    def script(asked: Asked) -> Any:
        refused = [field for field, sent in asked.body.items() if sent == value]
        return error(400, f"Unsupported parameter: '{refused[0]}'") if refused else completion("hi")

    server.script = script
    odd = Generation(**{name: value})  # type: ignore[arg-type]
    async with open_access(server, generation=Generation(**of_run)) as access:  # type: ignore[arg-type]
        await open_session(access).ask("hello", generation=odd)
        assert [asked.body for asked in server.asked if value in asked.body.values()] != []
        server.asked.clear()
        await open_session(access).ask("hello", generation=odd)
        await open_session(access, 1).ask("hello")
    # The value is known to be refused, so the agent's next request leaves it out at once.
    assert [value in asked.body.values() for asked in server.asked] == [False, False]
    sent = {**of_run, "seed": 101}
    assert {field: server.asked[1].body[field] for field in sent} == sent


async def test_a_parameter_whose_values_the_server_refuses_again_and_again_is_no_longer_sent(
    server: ModelServer,
) -> None:
    server.script = lambda asked: (
        error(400, "Unsupported parameter: 'seed'") if asked.body.get("seed", 0) < 0 else completion("hi")
    )
    async with open_access(server) as access:
        for number in range(20):
            await open_session(access, number).ask("hello", generation=Generation(seed=-1 - number))
        await open_session(access).ask("hello")
    assert sum(asked.body.get("seed", 0) < 0 for asked in server.asked) == MOST_REFUSED_VALUES
    assert server.asked[-1].body["seed"] == 100


async def test_a_parameter_of_the_run_that_the_server_refuses_is_left_out_of_all_requests(
    server: ModelServer,
) -> None:
    server.script = lambda asked: (
        error(400, "Unsupported parameter: 'seed'") if "seed" in asked.body else completion("hi")
    )
    async with open_access(server, attempt_budget=Budget(output_tokens=100)) as access:
        for number in range(3):
            await open_session(access, number).ask("hello")
    assert len(server.asked) == 4


async def test_a_refused_request_among_others_concerns_only_its_attempt(server: ModelServer) -> None:
    server.script = lambda asked: (
        error(400, "flagged") if asked.messages[0]["content"] == "bad" else completion("hi")
    )
    async with open_access(server) as access:
        for _ in range(2):
            with pytest.raises(InvalidRequestError, match="flagged"):
                await open_session(access).ask("bad")
        assert len(server.asked) == 3
