"""The grading of a machine's checks, with copies of the machine that only record their use."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from case_checks import each_case

from harness.core.types import Status, Submission, Verdict
from harness.environments.os import grader as shell_state
from harness.environments.os.file_entries import UnreadableFiles
from harness.environments.os.grader import (
    CHANGED_WORLD,
    NO_ANSWER,
    PASS_UNTOUCHED,
    REPLACED_TOOLS,
    UNREADABLE_FILES,
    StateChecks,
    grade_state,
)
from harness.environments.os.scripts import Script
from harness.sandbox.results import ExecResult, Stream

LOOKS, COMPARES = Script("bash", "[ -e /root/done ]"), Script("python", "exit(0)")


def ended(code: int = 0, *, limit: str | None = None, stdout: bytes = b"", stderr: bytes = b"") -> ExecResult:
    output = Stream(stdout, b"", len(stdout))
    return ExecResult(code, limit, output, Stream(stderr, b"", len(stderr)), 0.0, 0.0, clean=True)


@dataclass
class Machine:
    """A machine whose copies are numbers. Number 0 is the copy of before the agent acted."""

    changed: bool = False
    changed_tools: tuple[str, ...] = ()
    makes_files: bool = False
    unreadable: bool = False
    before: Any = field(default_factory=lambda: SimpleNamespace(entries=()))
    opened: int = 0

    @contextlib.asynccontextmanager
    async def copy_before(self) -> AsyncIterator[Any]:
        async def begin() -> int:
            return 1

        async def list_changed(_since_ns: int) -> list[Any]:
            return [SimpleNamespace(kind="file")] if self.makes_files else []

        async def describe(_paths: list[str]) -> dict[str, Any]:
            return {}

        yield SimpleNamespace(number=0, begin=begin, list_changed=list_changed, describe=describe)

    @contextlib.asynccontextmanager
    async def copy_left(self, _texts: list[str]) -> AsyncIterator[Any]:
        if self.unreadable:
            raise UnreadableFiles("too many files")
        self.opened += 1
        sandbox = SimpleNamespace(number=self.opened)
        yield SimpleNamespace(sandbox=sandbox, changed_tools=self.changed_tools)

    async def is_changed(self) -> bool:
        return self.changed

    @contextlib.asynccontextmanager
    async def list_ahead(self) -> AsyncIterator[None]:
        yield


@dataclass
class Ran:
    """The scripts that were run: the machine, the script, its parameters, and its confinement."""

    calls: list[tuple[int, str, list[str], bool]] = field(default_factory=list)
    results: dict[str, list[ExecResult]] = field(default_factory=dict)
    untouched: ExecResult = field(default_factory=lambda: ended(1))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Record scripts instead of running them. Each ends as in `results`, or with success."""
    record = Ran()

    async def run_script(
        sandbox: Any,
        script: Script,
        parameters: list[str],
        *,
        timeout: float,
        confined: bool = False,
        program: bytes | None = None,
    ) -> ExecResult:
        if sandbox.number == 0 and script.code == LOOKS.code:
            return record.untouched
        record.calls.append((sandbox.number, script.code, list(parameters), confined))
        waiting = record.results.get(script.code, [])
        return waiting.pop(0) if waiting else ended()

    monkeypatch.setattr(shell_state, "run_script", run_script)
    return record


async def graded(machine: Machine, *scripts: Script | None, answer: str = "a") -> Verdict:
    pretended: Any = machine
    target = StateChecks(scripts, Script("bash", "ls") if None in scripts else None)
    return await grade_state(pretended, target, Submission(answer, answer))


async def test_every_check_that_reads_the_machine_has_a_new_confined_one(ran: Ran) -> None:
    await graded(Machine(), LOOKS, LOOKS)
    assert [(number, confined) for number, _, _, confined in ran.calls] == [(1, True), (2, True)]


async def test_a_comparison_runs_in_a_machine_without_files_of_the_agent(ran: Ran) -> None:
    await graded(Machine(), COMPARES)
    assert [number for number, *_ in ran.calls] == [0]


async def test_gold_is_computed_in_the_machine_of_before(ran: Ran) -> None:
    ran.results = {"ls": [ended(stdout=b"3\n")]}
    assert (await graded(Machine(), None, COMPARES)) == Verdict(Status.PASSED, 1.0)
    assert ran.calls == [(0, "ls", ["a"], False), (0, COMPARES.code, ["a", "3\n"], False)]


@each_case(
    ("answer", "gold", "status"),
    [
        ("", b"3\n", Status.FAILED),
        (" \n", b"3\n", Status.FAILED),
        ("3", b"3\n", Status.PASSED),
        ("", b"\n", Status.PASSED),
    ],
)
async def test_no_answer_is_not_contained_in_the_right_one(
    ran: Ran, answer: str, gold: bytes, status: Status
) -> None:
    ran.results = {"ls": [ended(stdout=gold)]}
    verdict = await graded(Machine(), None, COMPARES, answer=answer)
    assert (verdict.status, verdict.evidence) == (status, None if status is Status.PASSED else NO_ANSWER)


@each_case("code", [1, -9, -15, 137, 255])
async def test_a_check_fails_unless_it_ends_with_0(ran: Ran, code: int) -> None:
    ran.results = {LOOKS.code: [ended(code)]}
    verdict = await graded(Machine(), LOOKS)
    assert (verdict.status, verdict.score) == (Status.FAILED, 0.0)


@each_case(
    ("result", "status"),
    [
        (ended(limit="wall_seconds"), Status.TIMEOUT),
        (ended(limit="memory_mb"), Status.MEMORY_LIMIT),
        (ended(limit="processes"), Status.PROCESS_LIMIT),
        (ended(limit="output_mb"), Status.OUTPUT_LIMIT),
    ],
)
async def test_a_check_that_reached_a_limit_fails_though_its_exit_code_is_0(
    ran: Ran, result: ExecResult, status: Status
) -> None:
    ran.results = {LOOKS.code: [result]}
    assert (await graded(Machine(), LOOKS)).status is status


async def test_a_check_whose_output_was_cut_fails(ran: Ran) -> None:
    cut = ExecResult(0, None, Stream(b"a", b"z", 9), Stream(b"", b"", 0), 0.0, 0.0, clean=True)
    ran.results = {LOOKS.code: [cut]}
    assert (await graded(Machine(), LOOKS)).status is Status.OUTPUT_LIMIT


async def test_the_output_of_a_check_is_escaped(ran: Ran) -> None:
    ran.results = {LOOKS.code: [ended(1, stderr=b"\x1b[2J\xe2\x80\xae")]}
    verdict = await graded(Machine(), LOOKS)
    assert verdict.evidence == r"check 1 of 1 exited with code 1: \x1b[2J\u202e"


async def changed_question(ran: Ran, *outputs: bytes, machine: Machine) -> Verdict:
    ran.results = {"ls": [ended(stdout=output) for output in outputs]}
    return await graded(machine, None, COMPARES)


async def test_an_agent_that_changes_the_question_fails(ran: Ran) -> None:
    verdict = await changed_question(ran, b"3", b"0", b"3", machine=Machine(changed=True))
    assert (verdict.status, verdict.tampering) == (Status.FAILED, CHANGED_WORLD)


@each_case(
    ("machine", "outputs"),
    [
        pytest.param(Machine(), [b"3", b"0", b"3"], id="nothing changed"),
        pytest.param(Machine(changed=True), [b"3", b"3"], id="the same output"),
        pytest.param(Machine(changed=True), [b"3", b"0", b"1"], id="another output each time"),
        pytest.param(Machine(changed=True, makes_files=True), [b"3", b"0", b"3"], id="asked for"),
    ],
)
async def test_other_changes_do_not_fail_the_attempt(
    ran: Ran, machine: Machine, outputs: list[bytes]
) -> None:
    verdict = await changed_question(ran, *outputs, machine=machine)
    assert verdict.status is Status.PASSED


async def test_changed_tools_are_a_sign_of_tampering(ran: Ran) -> None:
    verdict = await graded(Machine(changed_tools=("/usr/bin/wc",)), LOOKS)
    assert verdict == Verdict(Status.PASSED, 1.0, tampering=REPLACED_TOOLS)


async def test_checks_that_pass_without_an_agent_pass_nobody(ran: Ran) -> None:
    ran.untouched = ended()
    verdict = await graded(Machine(), LOOKS)
    assert (verdict.status, verdict.evidence) == (Status.FAILED, PASS_UNTOUCHED)


async def test_files_that_cannot_be_copied_fail(ran: Ran) -> None:
    verdict = await graded(Machine(unreadable=True), LOOKS)
    assert (verdict.status, verdict.tampering) == (Status.FAILED, UNREADABLE_FILES)
