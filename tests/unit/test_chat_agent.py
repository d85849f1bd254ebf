"""The chat agent in one attempt: how it recovers from bad replies, and when it gives up."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from bundled import load_bundled
from contexts import ListTranscript, no_context
from model_server import Asked, ModelServer, RawReply, completion, error

from harness.core.tools import Arguments, Tool, TurnLimitReached
from harness.core.types import Submission
from harness.environments.base import SandboxEnvironment
from harness.models.access import ModelAccess
from harness.models.client import open_client
from harness.models.endpoint import Endpoint
from harness.runs.agents import AgentError, AttemptContext, settings_for
from harness.runs.agents.chat.agent import Chat

BENCHMARK = load_bundled("gsm8k")
TASK = BENCHMARK.tasks[0]


class Words(Arguments):
    words: str


LOOK = Tool("look", "Look for words.", Words)
DONE = completion(calls=[("submit", {"answer": "42"})])


def call(words: str) -> Mapping[str, Any]:
    return completion(calls=[("look", {"words": words})])


@dataclass
class Acted:
    """An attempt that has ended."""

    submission: Submission
    looked: list[str]
    transcript: ListTranscript
    asked: list[Asked] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [each["name"] for each in self.transcript.entries if each.get("kind") == "format_error"]


Script = Callable[[Asked], Mapping[str, Any] | RawReply]


def in_turn(*replies: Mapping[str, Any] | RawReply) -> Script:
    """Return a script that gives these replies one after the other, and then the last for ever."""
    return lambda asked: replies[min(asked.number, len(replies) - 1)]


async def act(
    server: ModelServer,
    script: Script,
    *,
    turns: int | None = None,
    show: Callable[[str], str] = lambda words: f"found {words}",
    acts: bool = True,
    **endpoint: Any,
) -> Acted:
    """Make one attempt in an environment without a sandbox, whose tool is `look`."""
    server.script = script
    looked: list[str] = []

    async def look(arguments: Words) -> str:
        looked.append(arguments.words)
        return show(arguments.words)

    async def end() -> None: ...

    transcript = ListTranscript()
    sandbox: Any = SimpleNamespace(agent_acted=False)
    environment = SandboxEnvironment(sandbox, {LOOK: look}, no_context(turns=turns), end=end)
    endpoint = {"tool_mode": "native", **endpoint}
    async with open_session(server, transcript, **endpoint) as session:
        context = AttemptContext(TASK, 0, 7, None, environment if acts else None, transcript, session)
        submission = await Chat(settings_for(BENCHMARK)).attempt(context)
    return Acted(submission, looked, transcript, server.asked)


@contextlib.asynccontextmanager
async def open_session(
    server: ModelServer, transcript: ListTranscript, **endpoint: Any
) -> AsyncIterator[Any]:
    async with open_client(Endpoint(model="scripted", base_url=server.url, **endpoint)) as client:
        yield ModelAccess(client).open_session(number=0, seed=7, transcript=transcript)


async def test_calls_are_carried_out_until_the_answer(server: ModelServer) -> None:
    acted = await act(server, in_turn(call("a"), call("b"), DONE))
    assert (acted.submission.text, acted.looked) == ("42", ["a", "b"])
    last = acted.asked[-1].messages
    assert [each["role"] for each in last] == ["user", "assistant", "tool", "assistant", "tool"]
    assert last[2]["content"] == "found a"


async def test_parallel_calls_are_carried_out_in_order(server: ModelServer) -> None:
    both = completion(calls=[("look", {"words": "a"}), ("look", {"words": "b"})])
    acted = await act(server, in_turn(both, DONE))
    assert acted.looked == ["a", "b"]
    tools = [each for each in acted.asked[-1].messages if each["role"] == "tool"]
    assert [each["content"] for each in tools] == ["found a", "found b"]
    assert len({each["tool_call_id"] for each in tools}) == 2


async def test_no_call_after_the_answer_is_carried_out(server: ModelServer) -> None:
    reply = completion(calls=[("submit", {"answer": "42"}), ("look", {"words": "late"})])
    acted = await act(server, in_turn(reply))
    assert (acted.submission.text, acted.looked) == ("42", [])


BAD: dict[str, tuple[str | None, Mapping[str, Any]]] = {
    "malformed arguments": ("malformed arguments", completion(calls=[("look", '{"words": ')])),
    "list of arguments": ("malformed arguments", completion(calls=[("look", "[1]")])),
    "deep arguments": ("malformed arguments", completion(calls=[("look", "[" * 100_000)])),
    "wrong arguments": (None, completion(calls=[("look", {"word": 1})])),
    "unknown tool": (None, completion(calls=[("fly", {})])),
    "no call": ("no tool call", completion("I look around.")),
    "empty reply": ("empty reply", completion("")),
    "refusal": ("refusal", completion(None, refusal="I cannot help with that")),
    "content filter": ("refusal", completion("", finish="content_filter")),
    "cut off": ("reply cut off", completion("I think", finish="length")),
}


@pytest.mark.parametrize(("name", "reply"), BAD.values(), ids=BAD)
async def test_a_model_can_recover_from_a_bad_reply(
    server: ModelServer, name: str | None, reply: Mapping[str, Any]
) -> None:
    acted = await act(server, in_turn(reply, reply, call("a"), reply, reply, DONE))
    assert (acted.submission.text, acted.looked) == ("42", ["a"])
    assert acted.faults == ([] if name is None else [name] * 4)
    assert acted.asked[1].messages[-1]["role"] in ("user", "tool")


@pytest.mark.parametrize(("name", "reply"), BAD.values(), ids=BAD)
async def test_three_bad_replies_in_a_row_end_the_attempt(
    server: ModelServer, name: str | None, reply: Mapping[str, Any]
) -> None:
    with pytest.raises(AgentError, match=f"3 replies in a row .*: {name or 'refused call'}"):
        await act(server, in_turn(reply))
    assert len(server.asked) == 3


async def test_the_turns_of_the_environment_bound_the_calls(server: ModelServer) -> None:
    with pytest.raises(TurnLimitReached):
        await act(server, in_turn(call("a")), turns=4)
    assert len(server.asked) == 5


async def test_a_call_in_the_text_counts_if_the_server_does_not_parse_it(server: ModelServer) -> None:
    text = '<tool_call>{"name": "look", "arguments": {"words": "a"}}</tool_call>'
    acted = await act(server, in_turn(completion(text), DONE))
    assert acted.looked == ["a"]
    assert acted.asked[1].messages[-1] == {"role": "user", "content": "found a"}


async def test_a_server_without_tools_gets_the_text_protocol(server: ModelServer) -> None:
    def script(asked: Asked) -> Any:
        if "tools" in asked.body:
            return error(400, "tools are not supported")
        looked = any(each["role"] == "assistant" for each in asked.messages)
        return completion("Act: submit\n```\n42\n```" if looked else "Act: look\n```\nwords\n```")

    acted = await act(server, script, tool_mode="auto")
    assert (acted.submission.text, acted.looked) == ("42", ["words"])
    assert "Act:" in acted.asked[1].messages[0]["content"]


async def test_a_model_that_calls_the_tool_of_the_probe_gets_native_calls(server: ModelServer) -> None:
    def script(asked: Asked) -> Any:
        if asked.number == 0:
            return completion(calls=[("get_temperature", {"city": "Oslo"})])
        return DONE

    acted = await act(server, script, tool_mode="auto")
    assert "tools" in acted.asked[1].body


async def test_an_invalid_request_ends_the_attempt(server: ModelServer) -> None:
    def script(asked: Asked) -> Any:
        return error(400, "tools are not supported") if "tools" in asked.body else completion("ready")

    with pytest.raises(AgentError, match="refuses the request: HTTP 400: tools are not supported"):
        await act(server, script)


async def test_old_outputs_are_removed_from_a_full_context(server: ModelServer) -> None:
    def script(asked: Asked) -> Any:
        if len(json.dumps(asked.messages)) > 6000:
            return error(400, "too long", code="context_length_exceeded")
        done = sum(each["role"] == "tool" for each in asked.messages) == 5
        return DONE if done else call("a")

    acted = await act(server, script, show=lambda words: "x" * 1900)
    assert acted.submission.text == "42"
    tools = [each["content"] for each in acted.asked[-1].messages if each["role"] == "tool"]
    assert (
        tools[0] == "[This output of 1,900 characters was removed, because the conversation became too long.]"
    )
    assert tools[-1] == "x" * 1900
    assert "context" in [each.get("kind") for each in acted.transcript.entries]


async def test_a_task_that_does_not_fit_ends_the_attempt(server: ModelServer) -> None:
    with pytest.raises(AgentError, match="does not fit into the model's context"):
        await act(server, lambda asked: error(400, "too long", code="context_length_exceeded"))
    assert len(server.asked) == 1


async def test_an_answer_is_taken_from_one_reply(server: ModelServer) -> None:
    acted = await act(server, in_turn(completion("<think>1</think>It is 42.")), acts=False)
    assert acted.submission.text == "It is 42."
    assert len(acted.asked) == 1


async def test_an_answer_from_a_reply_that_was_cut_off_has_a_remark(server: ModelServer) -> None:
    acted = await act(server, in_turn(completion("It is 4", finish="length")), acts=False)
    assert (acted.submission.text, acted.submission.remark) == (
        "It is 4",
        "the reply was cut off at the token limit",
    )


@pytest.mark.parametrize("name", ["empty reply", "refusal", "content filter"])
async def test_a_missing_answer_is_asked_for_again(server: ModelServer, name: str) -> None:
    acted = await act(server, in_turn(BAD[name][1], completion("It is 42.")), acts=False)
    assert acted.submission.text == "It is 42."
    assert len(acted.faults) == 1


async def test_three_missing_answers_end_the_attempt(server: ModelServer) -> None:
    with pytest.raises(AgentError, match=r"3 replies in a row .*: empty reply"):
        await act(server, in_turn(completion("")), acts=False)
    assert len(server.asked) == 3
