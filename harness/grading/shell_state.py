"""Answers to tasks of `os`, and the state that an agent left: AgentBench's rules, out of the agent's reach.

An answer is compared by trusted code. A state is judged by trusted scripts, which have to run where it
is: every process of the agent is dead by then, and the tools that the scripts use are put right.
What a script itself runs of the agent's, the command that a task asks for, is still the agent's program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from harness.environments.os import Machine
from harness.environments.scripts import Script, run_script
from harness.errors import DataError, UsageError
from harness.grading.grader import Grader, Place
from harness.model import Status, Submission, Verdict
from harness.sandbox.results import ExecResult
from harness.sandbox.tools import ToolsLost

SCRIPT_SECONDS = 60.0
# The sign of tampering where tools of the machine had to be put right.
REPLACED_TOOLS = "replaced_tools"
KEPT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class AnswerMatch:
    """The answer equals `answer`, or the pattern `regex` is found in it; `strip` it first."""

    answer: str | None = None
    regex: str | None = None
    strip: bool = True

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.regex is None):
            raise DataError("a match has either an answer or a regex")


@dataclass(frozen=True, slots=True)
class StateChecks:
    """Scripts that must all end with 0. Each gets the answer and what those before it wrote to stdout.

    None stands for `example`: the script that solves the task.
    """

    scripts: tuple[Script | None, ...]
    example: Script | None = None

    def __post_init__(self) -> None:
        if not self.scripts:
            raise DataError("a check has no script")
        if None in self.scripts and self.example is None:
            raise DataError("a check calls for the example, and there is none")

    @property
    def all_scripts(self) -> list[Script]:
        """The scripts, with the example in its places."""
        chosen = (self.example if script is None else script for script in self.scripts)
        return [script for script in chosen if script is not None]


async def grade_answer(_place: Any, criterion: AnswerMatch, submission: Submission) -> Verdict:
    """Compare an answer. `_place` is None: no sandbox has a part in it."""
    answer = submission.text.strip() if criterion.strip else submission.text
    if criterion.regex is not None:
        right = re.search(criterion.regex, answer) is not None
    else:
        right = answer == criterion.answer
    if right:
        return Verdict(Status.PASSED, 1.0)
    return Verdict(Status.FAILED, 0.0, evidence=f"the answer is {_shown(submission.text)}")


async def grade_state(machine: Machine, criterion: StateChecks, submission: Submission) -> Verdict:
    """Run the scripts in the machine that the agent has left. Raises SandboxError."""
    parameters = [submission.text]
    integrity: dict[str, Any] = {}
    for number, script in enumerate(criterion.all_scripts, 1):
        named = f"check {number} of {len(criterion.scripts)}"
        # The script before may have run a program of the agent's.
        await machine.end_acting()
        try:
            replaced = await machine.put_right()
        except ToolsLost as lost:
            return Verdict(Status.FAILED, 0.0, {"integrity": REPLACED_TOOLS}, _escaped(str(lost)))
        if replaced:
            integrity = {"integrity": REPLACED_TOOLS}
        try:
            result = await run_script(machine.sandbox, script, parameters, timeout=SCRIPT_SECONDS)
        except UsageError as error:
            return Verdict(Status.FAILED, 0.0, integrity, _escaped(f"{named} cannot run: {error.message}"))
        verdict = _unless_passed(result, named, integrity)
        if verdict is not None:
            return verdict
        parameters.append(result.stdout.data.decode("utf-8", "replace"))
    return Verdict(Status.PASSED, 1.0, integrity)


def _unless_passed(result: ExecResult, named: str, integrity: dict[str, Any]) -> Verdict | None:
    if result.limit is not None or result.stdout.truncated:
        limit = result.limit or "output_mb"
        status = {"output_mb": Status.OUTPUT_LIMIT, "memory_mb": Status.MEMORY_LIMIT}.get(
            limit, Status.PROCESS_LIMIT if limit == "processes" else Status.TIMEOUT
        )
        metrics = {**integrity, "limit": limit, "phase": "evaluator"}
        return Verdict(status, 0.0, metrics, f"{named} reached the limit {limit}")
    if result.exit_code != 0:
        said = str(result.stderr).strip() or str(result.stdout).strip()
        evidence = f"{named} ended with exit code {result.exit_code}: {said[-KEPT_CHARACTERS:]}"
        return Verdict(Status.FAILED, 0.0, integrity, _escaped(evidence))
    return None


async def gold_answer(machine: Machine, criterion: AnswerMatch | StateChecks) -> str | None:
    """What a flawless agent answers, the task solved in its machine; None where nobody has said."""
    if isinstance(criterion, AnswerMatch):
        return criterion.answer
    if criterion.example is None:
        return None
    result = await run_script(machine.sandbox, criterion.example, timeout=SCRIPT_SECONDS)
    return str(result.stdout)


def _shown(text: str) -> str:
    return _escaped(repr(text[:KEPT_CHARACTERS]))


def _escaped(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in text
    )


GRADERS = (
    Grader(AnswerMatch, Place.HOST, grade_answer),
    Grader(StateChecks, Place.ACTED, grade_state),
)
