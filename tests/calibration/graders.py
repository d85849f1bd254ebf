"""The graders under calibration: ours, and those of other projects, each in a sandbox."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from peers import Peer
from tasks import CalibrationTask, Case

from harness import Sandbox
from harness.core.errors import SandboxError
from harness.core.types import ProgramTests, Status, Submission, Verdict
from harness.environments.python.call_programs import CallTest, CallTests, grade_calls
from harness.environments.python.programs import grade_program
from harness.environments.python.stdin_programs import StdinTest, StdinTests, grade_stdin
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

# The limit in seconds for one run of a program, if the grader lets its user set it.
SECONDS = 2
# A run of a grader that takes longer has no verdict, because a grader that hangs must not stop the
# calibration.
MOST_SECONDS = 30.0
START_SECONDS = 8.0
# The names of the grader of asserts and of the grader of LiveCodeBench's problems.
OUR_NAMES = ("harness", "harness-lcb")
PEER_LIMITS = Limits(memory_mb=768, processes=96, disk_mb=64, cpu_seconds=40)
OUR_LIMITS = Limits(memory_mb=256, processes=64, cpu_seconds=SECONDS, wall_seconds=3.0 * SECONDS)
START = "rm -rf site && python3 -m zipfile -e peer.zip site && exec python3 site/driver.py"
CLEAR = (
    "shopt -s dotglob nullglob; for folder in /work/agent /tmp /dev/shm; do "
    "chmod -R u+rwx $folder/* 2>/dev/null; rm -rf $folder/* 2>/dev/null; done; true"
)

Verdicts = list[bool] | None
"""Whether each program passed, or None if the grader's run ended without verdicts."""
Grade = Callable[[CalibrationTask, Sequence[str]], Awaitable[Verdicts]]


@dataclass(frozen=True, slots=True)
class Grader:
    """A grader. `open` yields a function that grades samples of a task one after the other.

    Samples that are graded within one `open` share the state that samples share in a run of that grader.
    `identity` is the part of a stored result's key that stands for everything on which verdicts depend.
    """

    name: str
    version: str
    identity: str
    calls: bool
    stdin: bool
    open: Callable[[DockerBackend], contextlib.AbstractAsyncContextManager[Grade]]

    def fits(self, task: CalibrationTask) -> bool:
        return self.calls if task.function is not None else self.stdin


def peer_grader(peer: Peer, package: bytes, identity: str) -> Grader:
    """Return the grader of a peer, from its package as `peers.packed` makes it."""
    opened = _commands if peer.runs_commands else _processes
    return Grader(
        peer.name,
        peer.requirement.partition("==")[2],
        identity,
        peer.calls,
        peer.stdin,
        lambda backend: opened(backend, package),
    )


def our_graders(identity: str) -> tuple[Grader, ...]:
    """Return our graders, in the order of their names."""
    asserts, live_code_bench = OUR_NAMES
    return (
        Grader(asserts, "", identity, True, False, lambda backend: _ours(backend, _on_asserts)),
        Grader(
            live_code_bench, "", identity, True, True, lambda backend: _ours(backend, _on_live_code_bench)
        ),
    )


class _Ground:
    """A sandbox that is replaced by a new one once it has failed."""

    def __init__(self, backend: DockerBackend, stack: contextlib.AsyncExitStack, **options: Any) -> None:
        self._backend = backend
        self._stack = stack
        self._options = options
        self._sandbox: Sandbox | None = None

    async def sandbox(self) -> Sandbox:
        if self._sandbox is None or not self._sandbox.clean:
            await self.close()
            self._sandbox = await self._stack.enter_async_context(
                Sandbox.open("python", backend=self._backend, **self._options)
            )
        return self._sandbox

    async def close(self) -> None:
        self._sandbox = None
        await self._stack.aclose()


@contextlib.asynccontextmanager
async def _ground(backend: DockerBackend, **options: Any) -> AsyncIterator[_Ground]:
    async with contextlib.AsyncExitStack() as stack:
        yield _Ground(backend, stack, **options)


@contextlib.asynccontextmanager
async def _processes(backend: DockerBackend, package: bytes) -> AsyncIterator[Grade]:
    """Grade with a peer that runs programs in child processes, all in one sandbox."""
    async with _ground(backend, limits=PEER_LIMITS) as ground:

        async def grade(task: CalibrationTask, programs: Sequence[str]) -> Verdicts:
            try:
                verdicts: Verdicts = await _driven(await ground.sandbox(), package, task, programs)
            except SandboxError:
                await ground.close()
                return None
            return verdicts

        yield grade


@contextlib.asynccontextmanager
async def _commands(backend: DockerBackend, package: bytes) -> AsyncIterator[Grade]:
    """Grade with a peer that runs a command in a container for each sample.

    The peer's code runs in a sandbox where no untrusted program ever runs.
    """
    async with _ground(backend, limits=PEER_LIMITS) as ground:

        async def grade(task: CalibrationTask, programs: Sequence[str]) -> Verdicts:
            commands = await _driven(await ground.sandbox(), package, task, programs, results=None)
            if commands is None:
                return None
            results = [await _ran(backend, command) for command in commands]
            verdicts: Verdicts = await _driven(
                await ground.sandbox(), package, task, programs, results=results
            )
            return verdicts

        yield grade


async def _ran(backend: DockerBackend, command: list[str]) -> dict[str, Any]:
    """Run a peer's command in a new sandbox, and return the result as an engine would report it."""
    # The image has Python under the name that Debian gives it.
    argv = ["python3" if command[0] == "python" else command[0], *command[1:]]
    try:
        async with Sandbox.open("python", backend=backend, limits=PEER_LIMITS) as sandbox:
            result = await sandbox.exec(argv, timeout=SECONDS + 1)
    except SandboxError:
        return {"exit_code": 1, "timed_out": False}
    return {"exit_code": result.exit_code, "timed_out": result.limit == "wall_seconds"}


async def _driven(
    sandbox: Sandbox, package: bytes, task: CalibrationTask, programs: Sequence[str], **more: Any
) -> Any:
    """Let a peer's driver grade programs, and return its reply, or None if it gives none."""
    # An untrusted program does not see the mark before it runs, so its output is not taken for a verdict by
    # chance.
    mark = secrets.token_hex(16)
    asked = {
        "mark": mark,
        "prompt": task.prompt,
        "function": task.function,
        "cases": [[case.given, case.wanted] for case in task.cases],
        "programs": list(programs),
        "seconds": SECONDS,
        **more,
    }
    await sandbox.exec(["bash", "-c", CLEAR], timeout=10)
    await sandbox.write_file("peer.zip", package)
    most = START_SECONDS + len(programs) * (SECONDS + 2) * (len(task.cases) + 1)
    result = await sandbox.exec(
        ["bash", "-c", START],
        stdin=json.dumps(asked).encode(),
        timeout=min(most, MOST_SECONDS),
        keep_bytes=1 << 20,
    )
    printed = str(result.stdout)
    if mark not in printed:
        return None
    try:
        answers = json.loads(printed.rpartition(mark)[2].splitlines()[0])
    except (ValueError, IndexError):
        return None
    return answers if isinstance(answers, list) and len(answers) == len(programs) else None


@contextlib.asynccontextmanager
async def _ours(
    backend: DockerBackend,
    judge: Callable[[Sandbox, CalibrationTask, Sequence[Case], str], Awaitable[Verdict]],
) -> AsyncIterator[Grade]:
    """Grade with our grader. A run of the harness also grades all samples of a task in one sandbox."""
    async with _ground(backend, limits=OUR_LIMITS, seccomp="strict") as ground:

        async def grade(task: CalibrationTask, programs: Sequence[str]) -> Verdicts:
            verdicts = []
            for program in programs:
                try:
                    verdict = await judge(await ground.sandbox(), task, task.cases, program)
                    verdicts.append(verdict.status is Status.PASSED)
                except SandboxError:
                    await ground.close()
                    verdicts.append(False)
            return verdicts

        yield grade


async def _on_asserts(
    sandbox: Sandbox, task: CalibrationTask, cases: Sequence[Case], program: str
) -> Verdict:
    if task.function is None:
        raise ValueError(f"{task.name} has no function to call")
    lines = tuple(f"assert {task.function}(*{case.given!r}) == {case.wanted!r}" for case in cases)
    tests = ProgramTests(lines, {task.function: task.function})
    return await grade_program(sandbox, tests, Submission(program, agent_output=""))


async def _on_live_code_bench(
    sandbox: Sandbox, task: CalibrationTask, cases: Sequence[Case], program: str
) -> Verdict:
    submission = Submission(program, agent_output="")
    if task.function is None:
        inputs = [StdinTest(case.given, case.wanted) for case in cases]
        return await grade_stdin(sandbox, StdinTests(tuple(inputs), shown=0, seconds=SECONDS), submission)
    calls = [CallTest("\n".join(map(json.dumps, case.given)), json.dumps(case.wanted)) for case in cases]
    return await grade_calls(
        sandbox, CallTests(tuple(calls), task.function, shown=0, seconds=SECONDS), submission
    )


async def solves(backend: DockerBackend, task: CalibrationTask, program: str) -> bool:
    """Return whether a program passes the tests of a task that no grader got."""
    async with Sandbox.open("python", backend=backend, limits=OUR_LIMITS, seccomp="strict") as sandbox:
        try:
            verdict = await _on_live_code_bench(sandbox, task, task.held_out, program)
        except SandboxError:
            return False
        return verdict.status is Status.PASSED
