"""Grade answers to tasks of `os` and the state that an agent left, by AgentBench's rules.

Nothing trusted runs in the machine that the agent acted in. A gold answer is computed in a copy of the
machine from before the agent acted. A check of the state runs in a fresh machine with its own tools and PID
1. This machine gets only the files of the agent that a task can be about
(`harness.environments.os.machine_files`). A check that only compares its parameters runs in a machine without
the agent's files.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.core.errors import DataError, UsageError
from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Reference, Status, Submission, Verdict
from harness.environments.base import Environment
from harness.environments.os.checks.judgement import Judgement, judge_check
from harness.environments.os.environment import MOST_COMMAND_SECONDS, SCRIPT, SCRIPT_OUTPUT, Copy, Machine
from harness.environments.os.file_entries import UnreadableFiles
from harness.environments.os.programs import (
    SCRIPT_SECONDS,
    ProgramCall,
    ProgramCheck,
    is_same_output,
    put_reference,
    run_calls,
)
from harness.environments.os.root_sandbox import RootSandbox
from harness.environments.os.scripts import (
    CompilationFailed,
    Script,
    compile_script,
    is_comparison,
    run_script,
)
from harness.environments.spec import StateGrader, TextGrader
from harness.sandbox.failures import build_fault
from harness.sandbox.results import ExecResult

# The signs of tampering.
REPLACED_TOOLS = "replaced_tools"
UNREADABLE_FILES = "unreadable_files"
CHANGED_WORLD = "changed_world"
KEPT_CHARACTERS = 500
PASS_UNTOUCHED = (
    "the checks also pass without an answer in a machine where no agent acted, so they prove nothing,  "
    "perhaps because they look for processes, which are not copied"
)
NO_ANSWER = "there is no answer; the checks accept that only because they also accept parts of the right one"


@dataclass(frozen=True, slots=True)
class AnswerMatch:
    """The answer must equal `answer` or contain a match of `regex`. With `strip`, it is stripped first.

    Raises DataError unless exactly one of the two is set. Source: `evaluation.match` in the task
    `os_interaction` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
    """

    answer: str | None = None
    regex: str | None = None
    strip: bool = True

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.regex is None):
            raise DataError("a match needs either an answer or a regex")


@dataclass(frozen=True, slots=True)
class Gold:
    """A step whose script computes the right answer, in the machine from before the agent acted.

    The task asks for the script's output, so the agent must not change that output.
    """

    script: Script


Step = Script | Gold | ProgramCheck
_STRENGTHS = ("trusting", "data", "sound")


@dataclass(frozen=True, slots=True)
class StateChecks:
    """The scripts of a check. Each must exit with code 0.

    Each script receives the answer and the stdout of the scripts before it. None means `example`, the
    script that solves the task. Raises DataError if there is no script, or if a None has no `example`.

    Source: `evaluation.check` in the task `os_interaction` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
    """

    scripts: tuple[Script | None, ...]
    example: Script | None = None

    def __post_init__(self) -> None:
        if not any(self.scripts):
            raise DataError("the checks contain no script")
        if None in self.scripts and self.example is None:
            raise DataError("a check refers to the example, and there is none")

    @property
    def steps(self) -> list[Step]:
        """Return the steps of the check, by its structure. A trusting check is a plain script."""
        steps: list[Step] = []
        for script in self.scripts:
            if script is not None:
                steps.append(self._choose_step(script))
            elif self.example is not None:
                steps.append(Gold(self.example))
        return steps

    def _choose_step(self, script: Script) -> Step:
        judgement = judge_check(script)
        if judgement.kind != "data" or self.example is None:
            return script
        return ProgramCheck(script, judgement.starts, self.example)

    @property
    def all_scripts(self) -> list[Script]:
        """Return the scripts of all steps."""
        return [step if isinstance(step, Script) else step.script for step in self.steps]

    @property
    def judgement(self) -> Judgement:
        """Return the judgement of the check as a whole, which is its weakest script's."""
        judgements = [judge_check(script) for script in self.scripts if script is not None]
        weakest = min(judgements, key=lambda judgement: _STRENGTHS.index(judgement.kind))
        if weakest.kind == "data" and self.example is None:
            return replace(weakest, kind="trusting")
        return weakest


async def grade_answer(target: AnswerMatch, submission: Submission) -> Verdict:
    """Return the verdict on an answer in text form, with a score of 0 or 1."""
    answer = submission.text.strip() if target.strip else submission.text
    if target.regex is not None:
        right = re.search(target.regex, answer) is not None
    else:
        right = answer == target.answer
    if right:
        return Verdict(Status.PASSED, 1.0)
    evidence = f"the answer {_show(submission.text)} is not the reference"
    return Verdict(Status.FAILED, 0.0, evidence=evidence)


async def grade_state(machine: Machine, target: StateChecks, submission: Submission) -> Verdict:
    """Return the verdict on the machine that the agent left, with a score of 0 or 1.

    The agent's processes must be dead. Each script may take SCRIPT_SECONDS (60 s). Raises SandboxError.
    """
    async with contextlib.AsyncExitStack() as copies:
        runner = _StepRunner(machine, target, copies, submission.text)
        if runner.needs_left_files:
            await copies.enter_async_context(machine.list_ahead())
        try:
            return await runner.run()
        except _Failed as failed:
            return failed.verdict
        except UnreadableFiles as error:
            return Verdict(Status.FAILED, 0.0, evidence=escape_text(str(error)), tampering=UNREADABLE_FILES)


class _Failed(Exception):
    """A step decided that the attempt failed."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.evidence)
        self.verdict = verdict


class _StepRunner:
    """Runs the steps of one attempt, one after the other."""

    def __init__(
        self, machine: Machine, target: StateChecks, copies: contextlib.AsyncExitStack, answer: str
    ) -> None:
        self._machine = machine
        self._copies = copies
        self._steps = target.steps
        self._texts = [script.code for script in target.all_scripts]
        self._before: RootSandbox | None = None
        self._parameters = [answer]
        self._tampering: str | None = None
        # Whether a step used the files that the agent left.
        self._looked = False

    @property
    def needs_left_files(self) -> bool:
        """Whether a step looks at the files that the agent left."""
        return any(self._looks_at_left_files(step) for step in self._steps)

    @staticmethod
    def _looks_at_left_files(step: Step) -> bool:
        return not isinstance(step, Script) or not is_comparison(step)

    async def run(self) -> Verdict:
        for number, step in enumerate(self._steps, 1):
            named = f"check {number} of {len(self._steps)}"
            try:
                result = await self._take(step)
            except UsageError as error:
                return _fail(f"{named} cannot run: {error.message}", self._tampering)
            if isinstance(step, Gold) and _reached_limit(result):
                raise build_fault(f"{named}, which computes the right answer, reached a limit")
            verdict = _fail_unless_passed(result, named, self._tampering)
            if verdict is not None:
                return verdict
            self._parameters.append(result.stdout.data.decode("utf-8", "replace"))
        if self._looked and await self._pass_untouched():
            return _fail(PASS_UNTOUCHED, self._tampering)
        if not self._looked and self._is_silent():
            return _fail(NO_ANSWER, self._tampering)
        return Verdict(Status.PASSED, 1.0, tampering=self._tampering)

    def _is_silent(self) -> bool:
        """Return whether the answer is blank although an output of the reference is not.

        Every text contains the empty one, so a check may accept it.
        """
        answer, *outputs = self._parameters
        return not answer.strip() and any(output.strip() for output in outputs)

    async def _pass_untouched(self) -> bool:
        """Return whether the steps pass without an answer in a machine where no agent acted.

        Such steps check nothing, or check something that no copy has, such as processes.
        """
        parameters = [""]
        async with self._machine.copy_before() as untouched:
            for step in self._steps:
                script = step if isinstance(step, Script) else step.script
                result = await run_script(untouched, script, parameters, timeout=SCRIPT_SECONDS)
                if not isinstance(step, Gold) and result.exit_code != 0:
                    return False
                parameters.append(result.stdout.data.decode("utf-8", "replace"))
        return True

    async def _take(self, step: Step) -> ExecResult:
        match step:
            case Gold(script):
                return await self._answer_question(script)
            case ProgramCheck():
                return await self._compare_programs(step)
            case _ if is_comparison(step):
                return await self._run_before(step)
            case _:
                return await self._run_in_copy(step)

    async def _open_before(self) -> RootSandbox:
        """Return the machine from before the agent acted. It starts at the first step that needs it."""
        if self._before is None:
            self._before = await self._copies.enter_async_context(self._machine.copy_before())
        return self._before

    async def _run_before(self, script: Script) -> ExecResult:
        """Run a script in a machine that contains no file of the agent."""
        return await run_script(await self._open_before(), script, self._parameters, timeout=SCRIPT_SECONDS)

    async def _run_in_copy(self, script: Script) -> ExecResult:
        """Run a script in a fresh machine with the files that the agent left.

        No other script runs in this machine.
        """
        try:
            program = await self._compile(script)
        except CompilationFailed as failed:
            return failed.result
        self._looked = True
        async with self._machine.copy_left(self._texts) as copy:
            self._note(copy)
            return await run_script(
                copy.sandbox, script, self._parameters, timeout=SCRIPT_SECONDS, confined=True, program=program
            )

    async def _compare_programs(self, step: ProgramCheck) -> ExecResult:
        """Return the result of a check with the reference's programs, if the agent's print the same.

        Raises _Failed if they do not.
        """
        self._looked = True
        async with self._machine.copy_before() as sandbox:
            reference = await step.make_reference(sandbox)
            known = await step.record(sandbox, self._parameters)
        if _reached_limit(known.result):
            raise build_fault("the check reached a limit with the reference's own program")
        if _fail_unless_passed(known.result, "", None) is not None or not known.calls:
            raise _Failed(_fail("the check does not pass with the reference's own program"))
        if known.changed is not None:
            raise _Failed(
                _fail(f"the reference's program changes {known.changed}, and its output says too little")
            )
        async with self._machine.copy_left(self._texts) as copy:
            reason = await put_reference(copy.sandbox, reference, known.calls)
            if reason is not None:
                raise _Failed(_fail(reason))
            recording = await step.record(copy.sandbox, self._parameters)
        if not recording.calls:
            raise _Failed(_fail("the check starts no program among the files that the agent left"))
        if (strange := recording.find_strange(known)) is not None:
            raise _Failed(_fail(f"the files that the agent left decide what {strange} prints"))
        async with self._machine.copy_left(self._texts) as copy:
            self._note(copy)
            await self._require_outputs(copy.sandbox, recording.outputs)
        return recording.result

    async def _require_outputs(self, sandbox: RootSandbox, expected: Mapping[ProgramCall, str]) -> None:
        """Raise _Failed unless the agent's programs print the expected outputs."""
        async for call, result in run_calls(sandbox, list(expected)):
            output = str(result.stdout)
            if _reached_limit(result):
                raise _Failed(_fail_at_limit(result, f"the call {call}", self._tampering))
            if not is_same_output(output, expected[call]):
                wanted = f"the reference's program prints {_show(expected[call])}"
                raise _Failed(_fail(f"{call} printed {_show(output)}; {wanted}", self._tampering))

    async def _compile(self, script: Script) -> bytes | None:
        if not script.is_compiled:
            return None
        return await compile_script(await self._open_before(), script, timeout=SCRIPT_SECONDS)

    def _note(self, copy: Copy) -> None:
        if copy.changed_tools:
            self._tampering = REPLACED_TOOLS

    async def _answer_question(self, script: Script) -> ExecResult:
        """Return the script's output in the machine from before the agent acted.

        Raises _Failed if the agent changed that output. If the script itself changes the machine, its task
        asks for a change, and a different output afterwards shows nothing. The same holds for a script whose
        output differs between two runs.
        """
        before = await self._open_before()
        since_ns = await before.begin()
        gold = await self._run_before(script)
        if gold.exit_code != 0 or not await self._machine.is_changed():
            return gold
        if await self._has_changed(before, since_ns):
            return gold
        async with self._machine.copy_left(self._texts) as copy:
            self._note(copy)
            run = functools.partial(run_script, script=script, parameters=self._parameters)
            after = await run(copy.sandbox, timeout=SCRIPT_SECONDS)
        if _output(after) != _output(gold) and _output(await self._run_before(script)) == _output(gold):
            raise _Failed(_fail_changed_question(gold, after))
        return gold

    async def _has_changed(self, before: RootSandbox, since_ns: int) -> bool:
        """Return whether the machine from before the agent acted has gained or lost a file since then."""
        changed = await before.list_changed(since_ns)
        if any(entry.kind != "folder" for entry in changed):
            return True
        made = [entry.path for entry in self._machine.before.entries]
        return len(await before.describe(made)) < len(made)


def _output(result: ExecResult) -> tuple[int, bytes]:
    return result.exit_code, result.stdout.data


def _fail_changed_question(gold: ExecResult, after: ExecResult) -> Verdict:
    first, last = _show(str(gold.stdout)), _show(str(after.stdout))
    evidence = f"the agent changed the question: the reference's answer was {first} and is now {last}"
    return Verdict(Status.FAILED, 0.0, evidence=evidence, tampering=CHANGED_WORLD)


def _reached_limit(result: ExecResult) -> bool:
    return result.limit is not None or result.stdout.truncated


def _fail_unless_passed(result: ExecResult, named: str, tampering: str | None) -> Verdict | None:
    if _reached_limit(result):
        return _fail_at_limit(result, named, tampering)
    if result.exit_code != 0:
        output = str(result.stderr).strip() or str(result.stdout).strip()
        output = shorten(output, KEPT_CHARACTERS, keep_end=True)
        evidence = f"{named} exited with code {result.exit_code}" + (f": {output}" if output else "")
        return _fail(evidence, tampering)
    return None


def _fail(evidence: str, tampering: str | None = None) -> Verdict:
    return Verdict(Status.FAILED, 0.0, evidence=escape_text(evidence), tampering=tampering)


def _fail_at_limit(result: ExecResult, named: str, tampering: str | None) -> Verdict:
    limit = result.limit or "output_mb"
    status = {"output_mb": Status.OUTPUT_LIMIT, "memory_mb": Status.MEMORY_LIMIT}.get(
        limit, Status.PROCESS_LIMIT if limit == "processes" else Status.TIMEOUT
    )
    evidence = escape_text(f"{named} reached the limit {limit}")
    return Verdict(status, 0.0, {}, evidence, Phase.EVALUATOR, limit, tampering)


def _show(text: str) -> str:
    return escape_text(repr(shorten(text, KEPT_CHARACTERS)))


async def solve(environment: Environment, reference: Reference) -> str:
    """Bring about the state that the target describes, if it does, and return the answer."""
    target: AnswerMatch | StateChecks = reference.target  # type: ignore[assignment]  # its tasks have these
    if not reference.solution or (isinstance(target, AnswerMatch) and target.answer is not None):
        return reference.solution
    # A subshell has the shell's variables, and its `exit` does not end the shell.
    command = f"(\n{reference.solution}\n) 2>/dev/null"
    if SCRIPT.name in environment.tools:
        shown = (await environment.call(SCRIPT.name, {"script": command})).text
        return shown.removeprefix(SCRIPT_OUTPUT).removesuffix("\n") if shown.startswith(SCRIPT_OUTPUT) else ""
    observation = await environment.call(
        "bash", {"command": command, "timeout_seconds": MOST_COMMAND_SECONDS}
    )
    output, _, _ = observation.text.rpartition("\n[")
    return "" if output == "[no output]" else output


GRADERS = (TextGrader(AnswerMatch, grade_answer), StateGrader(StateChecks, grade_state))
