"""A replay does the recorded actions again, and names the first observation that differs."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st
from model_server import ModelServer
from unit.test_lateral_model_host import KEYS, judge_by_text

from harness import RunResult, run
from harness.benchmarks import load_benchmark
from harness.core.errors import UsageError
from harness.core.tools import Observation
from harness.core.types import Phase, Status, Submission
from harness.reports.progress import NotesOnly
from harness.reports.remarks import list_remarks
from harness.reports.run_folder import read_run
from harness.runs.agents import AttemptContext
from harness.runs.agents.agent import AgentError, RepeatedEnd, settings_for
from harness.runs.agents.recording import (
    RecordedAttempt,
    RecordedCall,
    RecordedJudgement,
    RecordedStep,
)
from harness.runs.agents.replay import Replay, describe_difference, find_parting
from harness.runs.config import load_config
from harness.runs.recorded_run import add_recorded_settings
from harness.runs.resume import read_resumed_config
from harness.runs.run import open_run
from harness.runs.run_starts import ResumedRun
from harness.runs.selection import select
from harness.runs.stored_result import SHOWN_DIFFERENCE
from harness.runs.transcripts import transcript_name
from harness.sandbox.failures import SandboxOutOfMemory

CARD = "card/dev/baseline1/first/0"
HOUSE = "house/dev/0"
Edit = Callable[[list[dict[str, Any]]], None]


async def act_wrongly(context: AttemptContext) -> str:
    """Call tools rightly and wrongly, and end in a different way at each task."""
    environment = context.environment
    assert environment is not None
    context.transcript.write(
        {"round": 1, "tool": "look", "arguments": {}, "observation": "", "refused": False}
    )
    tool = next(name for name in environment.tools if name != "submit")
    await environment.call(tool, {"nothing": "of use"})
    await environment.call("no" * 100, {})
    await environment.call(tool, {"long": "x" * 100_000})
    if context.task.id == CARD:
        while True:
            await environment.call("look", {})
    if context.task.id == HOUSE:
        raise ValueError("lost")
    await environment.submit("42")
    return "42"


async def record(folder: Path, *task_ids: str, agent: Any = "oracle", **options: Any) -> RunResult:
    # The data of the other worlds take most of the time to load.
    categories = sorted({task_id.partition("/")[0] for task_id in task_ids})
    return await run(
        "agentbench",
        agent=agent,
        filter_category=options.pop("filter_category", categories),
        data="bundled",
        task_ids=list(task_ids),
        output_dir=str(folder / "runs"),
        **options,
    )


@pytest.fixture(scope="module")
def oracle_run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """Return a run of the oracle at two tasks, which `recorded` copies for each test."""
    return asyncio.run(record(tmp_path_factory.mktemp("oracle"), CARD, HOUSE))


@pytest.fixture
def recorded(oracle_run: RunResult, tmp_path: Path) -> RunResult:
    return copy_run(oracle_run, tmp_path)


@pytest.fixture(scope="module")
def late_run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """Return a run with three calls of tools in each attempt."""
    return asyncio.run(record(tmp_path_factory.mktemp("late"), CARD, "lateral/sample/0", agent=submit_late))


def copy_run(result: RunResult, folder: Path) -> RunResult:
    copied = shutil.copytree(result.folder, folder / "runs" / result.folder.name)
    return replace(result, folder=copied)


async def replay(recorded: RunResult, **options: Any) -> RunResult:
    output_dir = str(recorded.folder.parent)
    return await run("agentbench", replay_from=str(recorded.folder), output_dir=output_dir, **options)


def edit_transcript(recorded: RunResult, task_id: str, edit: Edit) -> Path:
    """Change the entries of a recorded transcript, and return its path."""
    path = recorded.folder / "transcripts" / transcript_name(task_id, 0)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    edit(entries)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def read_differences(result: RunResult, task_id: str) -> list[dict[str, Any]]:
    path = result.folder / "transcripts" / transcript_name(task_id, 0)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return [entry for entry in entries if entry.get("kind") == "difference"]


async def test_no_observation_of_the_oracle_differs_in_any_world_on_the_host(tmp_path: Path) -> None:
    worlds = ["card", "house", "kg", "lateral", "web"]
    recorded = await record(
        tmp_path,
        filter_category=worlds,
        sample_size=20,
        seed=5,
        options={"card": {"shuffle": True}},
    )
    again = await replay(recorded)
    compared = again.summary.replay
    assert compared["attempts"] == compared["equal"] == compared["same_verdicts"] == len(recorded.attempts)
    assert compared["observations"] > 100
    assert (compared["observations_differing"], compared["first_difference"]) == (0, None)
    assert [each.task_id for each in again.attempts] == [each.task_id for each in recorded.attempts]


async def test_an_edited_observation_is_named_and_all_actions_are_still_done(recorded: RunResult) -> None:
    def change(entries: list[dict[str, Any]]) -> None:
        entries[3]["observation"] = entries[3]["observation"][:7] + "\x1b[31m" + entries[3]["observation"][7:]
        entries[4]["refused"] = True

    edit_transcript(recorded, HOUSE, change)
    again = await replay(recorded)
    compared = again.summary.replay
    assert (compared["equal"], compared["different"], compared["observations_differing"]) == (1, 1, 2)
    first = compared["first_difference"]
    assert (first["task_id"], first["attempt"]) == (HOUSE, 0)
    assert first["text"].startswith(r"round 3, take_action: from character 8: recorded \x1b[31m")
    assert compared["same_verdicts"] == 2
    (difference,) = read_differences(again, HOUSE)
    assert (difference["round"], difference["tool"], difference["character"]) == (3, "take_action", 7)
    remarks = list(list_remarks(read_run(again.folder).summary))
    assert any("replayed 2 attempts: 1 equal, 1 different" in text for _, text in remarks)
    assert any(f"first difference: {HOUSE}, round 3" in text for _, text in remarks)


async def test_a_world_that_draws_something_else_differs(tmp_path: Path) -> None:
    recorded = await record(tmp_path, CARD, options={"card": {"shuffle": True}}, seed=1)
    assert (await replay(recorded)).summary.replay["equal"] == 1
    other = await replay(recorded, seed=2)
    assert other.summary.replay["different"] == 1
    assert other.summary.replay["first_difference"]["task_id"] == CARD


async def test_each_end_without_a_submission_is_repeated(tmp_path: Path) -> None:
    recorded = await record(tmp_path, CARD, HOUSE, "kg/dev/0", agent=act_wrongly)
    statuses = {each.task_id: each.status for each in recorded.attempts}
    assert set(statuses.values()) == {Status.LIMIT_REACHED, Status.AGENT_ERROR, Status.FAILED}
    again = await replay(recorded)
    assert {each.task_id: each.status for each in again.attempts} == statuses
    compared = again.summary.replay
    assert compared["equal"] == compared["same_verdicts"] == 3
    assert [each.metrics["rounds"] for each in again.attempts] == [
        each.metrics["rounds"] for each in recorded.attempts
    ]


async def test_an_agent_cannot_write_an_entry_that_is_replayed(tmp_path: Path) -> None:
    recorded = await record(tmp_path, "kg/dev/0", agent=act_wrongly)
    path = recorded.folder / "transcripts" / transcript_name("kg/dev/0", 0)
    written = json.loads(path.read_text().splitlines()[1])
    assert (written["tool"], written["by"]) == ("look", "agent")
    assert (await replay(recorded)).summary.replay["equal"] == 1


@each_case(
    ("damage", "fault"),
    [
        (lambda text: text[: text.rindex('{"round"')], ":3: the transcript ends after call 2"),
        (lambda text: text[:-5], ":3: the transcript ends after call 2"),
        (lambda text: text.replace('"round": 2', '"round": 7'), ":3: is call 7, but call 2"),
        (lambda text: text.replace('{"round": 2', "{broken", 1), ":3: is not JSON"),
        (lambda text: text.replace('"refused": false', '"refused": "no"'), ":2: is not a call of a tool"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 0'), ":1: has schema_version 0"),
        (lambda text: text.replace('"arguments": {', '"arguments": [{', 1).replace("}, ", "}], ", 1), ":2: "),
        (lambda text: '{"kind": "terminal"}\n' + text, ":1: is a terminal"),
    ],
    ids=["cut", "cut in a line", "gap", "no JSON", "types", "version", "arguments", "terminal"],
)
async def test_a_damaged_transcript_ends_its_attempt_alone(
    late_run: RunResult, damage: Callable[[str], str], fault: str, tmp_path: Path
) -> None:
    recorded = copy_run(late_run, tmp_path)
    path = recorded.folder / "transcripts" / transcript_name(CARD, 0)
    path.write_text(damage(path.read_text()))
    again = await replay(recorded)
    by_task = {each.task_id: each for each in again.attempts}
    assert by_task[CARD].status is Status.AGENT_ERROR
    assert f"{path.name}{fault}" in str(by_task[CARD].error)
    assert by_task[CARD].metrics["replay"] == "incomplete"
    assert by_task["lateral/sample/0"].metrics["replay"] == "equal"


async def submit_late(context: AttemptContext) -> str:
    """Call tools three times: twice in vain, and once to submit."""
    assert context.environment is not None
    for name in [name for name in context.environment.tools if name != "submit"][:1] * 2:
        await context.environment.call(name, {"question": "Is it so?"} if name == "ask" else {})
    await context.environment.submit("42")
    return "42"


async def test_a_transcript_that_is_gone_is_named(recorded: RunResult) -> None:
    (recorded.folder / "transcripts" / transcript_name(CARD, 0)).unlink()
    (attempt,) = (await replay(recorded, task_ids=[CARD])).attempts
    assert "cannot be read: No such file or directory" in str(attempt.error)


async def test_the_sql_of_a_reference_is_replayed_for_the_oracle_alone(recorded: RunResult) -> None:
    edit_transcript(
        recorded,
        CARD,
        lambda entries: entries.insert(1, {"kind": "reference", "text": "", "observation": ""}),
    )
    (attempt,) = (await replay(recorded, task_ids=[CARD])).attempts
    assert "has no database" in str(attempt.error)
    manifest = json.loads((recorded.folder / "manifest.json").read_text())
    (recorded.folder / "manifest.json").write_text(json.dumps({**manifest, "agent": "chat"}))
    (attempt,) = (await replay(recorded, task_ids=[CARD])).attempts
    assert ":2: is a reference, which only the oracle runs" in str(attempt.error)


async def test_answers_are_graded_again(tmp_path: Path) -> None:
    async def answer(context: AttemptContext) -> str:
        if context.number:
            raise ValueError("no idea")
        return "The answer is 42."

    recorded = await run(
        "gsm8k", agent=answer, data="bundled", n_samples=2, sample_size=3, output_dir=str(tmp_path)
    )
    again = await run("gsm8k", replay_from=str(recorded.folder), output_dir=str(tmp_path))
    compared = again.summary.replay
    assert (compared["equal"], compared["same_verdicts"], compared["observations"]) == (6, 6, 0)
    assert [each.agent_output for each in again.attempts] == [each.agent_output for each in recorded.attempts]


async def test_recorded_judgements_stand_for_the_judge(server: ModelServer, tmp_path: Path) -> None:
    async def ask(context: AttemptContext) -> str:
        assert context.environment is not None
        for question in ("Is the baker tall?", *KEYS[:2]):
            await context.environment.call("ask", {"question": question})
        await context.environment.submit("done")
        return "done"

    server.script = judge_by_text
    host = {"model": "scripted", "base_url": server.url}
    task_id = "lateral/sample/0"
    recorded = await record(tmp_path, task_id, agent=ask, options={"lateral": {"host": host}})
    server.asked.clear()
    (attempt,) = (await replay(recorded)).attempts
    assert (attempt.metrics["replay"], attempt.metrics["observations"]) == ("equal", 4)
    assert attempt.score == recorded.attempts[0].score
    assert server.asked == []

    def ask_otherwise(entries: list[dict[str, Any]]) -> None:
        call = next(entry for entry in entries if entry.get("tool") == "ask")
        call["arguments"]["question"] = "Is the baker small?"

    edit_transcript(recorded, task_id, ask_otherwise)
    (attempt,) = (await replay(recorded)).attempts
    assert attempt.status is Status.AGENT_ERROR
    assert "request 1 to the judge is not in the recorded attempt" in str(attempt.error)
    assert server.asked == []


async def test_a_replay_that_was_interrupted_is_resumed(recorded: RunResult) -> None:
    again = await replay(recorded)
    attempts = again.folder / "attempts.jsonl"
    attempts.write_text(attempts.read_text().splitlines(keepends=True)[0])
    (again.folder / "summary.json").unlink()

    async def resume() -> dict[str, Any]:
        selection = select(read_resumed_config(again.folder), notify=print, resumed=True)
        async with open_run(selection, ResumedRun(again.folder), notify=print) as resumed:
            await resumed.execute(NotesOnly(sys.stderr))
            return dict(resumed.summary.replay)

    assert (await resume())["equal"] == 2
    with (recorded.folder / "attempts.jsonl").open("a") as file:
        file.write((recorded.folder / "attempts.jsonl").read_text())
    with pytest.raises(UsageError, match="the recorded run has changed since this replay started"):
        await resume()


def load(**values: Any) -> Any:
    return select(load_config(None, values, add_settings=add_recorded_settings), notify=print)


async def test_a_replay_takes_its_settings_from_the_recorded_run(tmp_path: Path) -> None:
    recorded = await record(tmp_path, CARD, HOUSE, seed=7, rounds=9, n_samples=2)
    selection = load(replay_from=str(recorded.folder))
    assert selection.config.agent == "replay"
    assert (selection.config.seed, selection.config.rounds) == (7, 9)
    assert sorted(planned.key for planned in selection.plan) == [(CARD, 0), (CARD, 1), (HOUSE, 0), (HOUSE, 1)]
    assert len(load(replay_from=str(recorded.folder), task_ids=[HOUSE]).plan) == 2
    with pytest.raises(UsageError, match="unknown task 'kg/dev/0'"):
        load(replay_from=str(recorded.folder), task_ids=["kg/dev/0"])


async def test_a_replay_of_a_replay_reads_the_same_data_and_repeats_the_same_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = await record(tmp_path, CARD, HOUSE, agent=act_wrongly, rounds=6)
    first = await replay(recorded)
    second = await replay(first)
    assert "the data differ" not in capsys.readouterr().out
    ends = [{each.task_id: each.error for each in run.attempts} for run in (first, second)]
    assert ends[0] == ends[1]
    assert (ends[0][HOUSE] or "").startswith("as recorded: ")


async def test_attempts_without_a_verdict_are_not_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = await record(tmp_path, CARD, HOUSE, n_samples=2)
    path = recorded.folder / "attempts.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    lost = next(each for each in records if (each["task_id"], each["attempt"]) == (CARD, 0))
    lost.update(status="infra_error", resolved=False, score=None)
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    plan = load(replay_from=str(recorded.folder)).plan
    assert sorted(planned.key for planned in plan) == [(CARD, 1), (HOUSE, 0), (HOUSE, 1)]
    assert "1 recorded attempts have no verdict" in capsys.readouterr().out


async def test_unsuitable_runs_are_refused(recorded: RunResult) -> None:
    folder = str(recorded.folder)
    with pytest.raises(UsageError, match='is a run of "agentbench", not of "mbpp"'):
        load(replay_from=folder, benchmark="mbpp")
    with pytest.raises(UsageError, match="agent 'oracle' does not read --from"):
        load(replay_from=folder, agent="oracle")
    with pytest.raises(UsageError, match="agent 'replay' needs a recorded run"):
        load(agent="replay", benchmark="mbpp")
    with pytest.raises(UsageError, match="agent 'replay' does not read --model"):
        load(replay_from=folder, model="m")
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="this run is under way"):
            load(replay_from=folder)
    finally:
        os.close(lock)
    path = recorded.folder / "attempts.jsonl"
    text = path.read_text()
    path.write_text(text + "{}\n")
    with pytest.raises(UsageError, match=r"attempts\.jsonl:3: is not an attempt record"):
        load(replay_from=folder)
    path.write_text(text.replace(CARD, "card/dev/none"))
    with pytest.raises(UsageError, match="1 of its tasks are not in this data: card/dev/none"):
        load(replay_from=folder)
    path.write_text(text.replace('"attempt": 0', '"attempt": 1000000000000'))
    with pytest.raises(UsageError, match="holds an attempt with the number 1000000000000"):
        load(replay_from=folder)
    path.write_text("")
    with pytest.raises(UsageError, match="no attempt of this run has a verdict"):
        load(replay_from=folder)


@each_case("name", ["own.py", "OWN.PY", "own.Yml"])
@each_case("is_relative", [False, True])
def test_no_code_that_a_run_folder_names_is_run(
    tmp_path: Path, name: str, is_relative: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path(name) if is_relative else tmp_path / name
    own.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    manifest = {
        "schema_version": 1,
        "run_id": "0",
        "benchmark": "own",
        "agent": "chat",
        "source": "path",
        "data": {"kind": "path", "location": str(own), "sha256": "", "rows": 1},
        "images": {},
        "config": {"benchmark": str(own)},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="is a run of a benchmark in a file"):
        load(replay_from=str(tmp_path))
    assert not (tmp_path / "ran").exists()


@dataclass
class OneAttempt:
    """A recording of one attempt, made by a test."""

    end: RecordedAttempt
    steps: list[RecordedStep] = field(default_factory=list)
    name: str = "recorded"

    def read_attempt(self, task_id: str, number: int) -> RecordedAttempt:
        return self.end

    @contextmanager
    def open_steps(self, task_id: str, number: int) -> Iterator[Callable[[], RecordedStep | None]]:
        steps = iter(self.steps)
        yield lambda: next(steps, None)

    def read_judgements(self, task_id: str, number: int) -> Any:
        none: list[RecordedJudgement] = []
        yield from none


class Endless:
    """An environment whose calls end their sandbox, or return one observation."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def call(self, name: str, arguments: Any) -> Observation:
        if self._error is not None:
            raise self._error
        return Observation("seen")


@dataclass
class Entries:
    entries: list[Any] = field(default_factory=list)

    def write(self, entry: Any, *, is_end: bool = False) -> None:
        self.entries.append(entry)


def ended(status: Status, submission: Submission | None = None, limit: str | None = None) -> RecordedAttempt:
    return RecordedAttempt(status, 0.0, Phase.AGENT, limit, "it ended", submission)


async def make(recording: OneAttempt, environment: Any = None) -> tuple[BaseException | None, dict[str, Any]]:
    """Return the exception that ends a replayed attempt, and its metrics."""
    benchmark = load_benchmark("gsm8k", data="bundled", notify=print)
    agent = Replay(settings_for(benchmark, recording=recording))
    task = benchmark.tasks[0]
    context = AttemptContext(task, 0, 0, None, environment, Entries())
    try:
        await agent.attempt(context)
        error: BaseException | None = None
    except Exception as raised:
        error = raised
    return error, dict(agent.take_metrics(task.id, 0))


def call(ended: str | None = None) -> RecordedCall:
    return RecordedCall(1, "bash", {"command": "sleep"}, "" if ended else "seen", False, ended)


async def test_a_recorded_timeout_ends_the_replay_as_a_timeout_without_waiting() -> None:
    recording = OneAttempt(ended(Status.TIMEOUT, limit="timeout_seconds"), [call("CancelledError")])
    error, metrics = await make(recording, Endless())
    assert isinstance(error, RepeatedEnd)
    assert (error.status, error.limit) == (Status.TIMEOUT, "timeout_seconds")
    assert (metrics["replay"], metrics["observations"]) == ("equal", 0)


async def test_a_call_that_ends_its_sandbox_again_is_equal() -> None:
    recording = OneAttempt(ended(Status.MEMORY_LIMIT), [call("SandboxOutOfMemory")])
    error, metrics = await make(recording, Endless(SandboxOutOfMemory("full")))
    assert isinstance(error, SandboxOutOfMemory)
    assert metrics["replay"] == "equal"


async def test_a_call_that_no_longer_ends_its_sandbox_differs() -> None:
    recording = OneAttempt(ended(Status.MEMORY_LIMIT), [call("SandboxOutOfMemory")])
    error, metrics = await make(recording, Endless())
    assert isinstance(error, AgentError)
    assert "ended as memory_limit, which the same actions did not bring about" in str(error)
    assert metrics["replay"] == "different"
    assert "the recorded call ended with SandboxOutOfMemory" in metrics["first_difference"]


@each_case("observation", ["seen ", "Seen", "seen\n", ""])
async def test_an_observation_is_compared_exactly(observation: str) -> None:
    step = RecordedCall(1, "bash", {}, observation, False)
    error, metrics = await make(OneAttempt(ended(Status.PASSED, Submission("42", "42")), [step]), Endless())
    assert error is None
    assert (metrics["replay"], metrics["observations_differing"]) == ("different", 1)


async def test_a_call_that_ends_its_sandbox_now_differs() -> None:
    recording = OneAttempt(ended(Status.PASSED, Submission("42", "42")), [call()])
    error, metrics = await make(recording, Endless(SandboxOutOfMemory("full")))
    assert isinstance(error, SandboxOutOfMemory)
    assert metrics["replay"] == "different"


def test_no_agent_can_repeat_a_pass() -> None:
    with pytest.raises(ValueError, match="no agent can repeat the end 'passed'"):
        RepeatedEnd(Status.PASSED, "", None)


@given(st.text(), st.text(), st.text())
def test_texts_part_where_their_characters_first_differ(shared: str, one: str, other: str) -> None:
    one, other = shared + one, shared + other
    parting = find_parting(one, other)
    assert one[:parting] == other[:parting]
    assert one[parting : parting + 1] != other[parting : parting + 1] or one == other


def test_a_difference_of_long_texts_is_bounded() -> None:
    step = RecordedCall(1, "t" * 10_000, {}, "a" * 1_000_000 + "b" * 1_000_000, False)
    entry = describe_difference(step, Observation("a" * 1_000_000 + "\x1b" * 1_000_000))
    assert entry["character"] == 1_000_000
    assert len(json.dumps(entry)) < 4000
    assert SHOWN_DIFFERENCE < 1000
