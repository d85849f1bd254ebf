"""Run the whole self-check, which tries every promise in real sandboxes, and return a list of checks."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from harness.core.errors import HarnessError
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import MOST_SECONDS, Limits, count_gate_places
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck import cases, endings, isolation
from harness.sandbox.selfcheck.check import RUN_ID, Check, Finding, Level

Canary = Callable[[Sandbox, Limits], Awaitable[Finding]]


@dataclass(frozen=True, slots=True)
class Trial:
    """One sandbox, and the canaries that run in it, one after the other."""

    canaries: Mapping[str, Canary]
    limits: Limits = field(default_factory=Limits)
    deadline_seconds: float = 120.0
    writable_root: bool = False
    relay: bool = False

    def extend(self, factor: float) -> Trial:
        """Return the trial with more time, for a machine that is too slow for its limits."""
        limits = {
            "cpu_seconds": min(math.ceil(self.limits.cpu_seconds * factor), MOST_LIMIT_SECONDS),
            "wall_seconds": min(self.limits.wall_seconds * factor, MOST_LIMIT_SECONDS),
        }
        return replace(
            self,
            limits=self.limits.model_copy(update=limits),
            deadline_seconds=min(self.deadline_seconds * factor, MOST_SECONDS),
        )


async def _try_group(group: str, sandbox: Sandbox, limits: Limits) -> Finding:
    return await cases.try_group(sandbox, group)


# Canaries that disturb others run in a separate sandbox: a job that is killed for memory, half a CPU, a
# sandbox that ends.
TRIALS = (
    Trial({group: partial(_try_group, group) for group in cases.GROUPS}, cases.LIMITS, 600.0),
    Trial(
        # Memory comes last, because exceeding it ends the whole sandbox under some runtimes.
        {"swap": endings.swap, "cpus": endings.cpus, "memory_mb": endings.memory_mb},
        Limits(memory_mb=64, cpus=0.5),
    ),
    # A long time, because a second of CPU time may take minutes on a busy machine.
    Trial({"cpu_seconds": endings.cpu_seconds}, Limits(cpu_seconds=1, wall_seconds=120), 600.0),
    Trial(
        {
            "wall_seconds": endings.wall_seconds,
            "processes": endings.processes,
            "disk_mb": endings.disk_mb,
            "inodes": endings.inodes,
            "file_mb": endings.file_mb,
            "open_files": endings.open_files,
            "output_mb": endings.output_mb,
            "read-only root": isolation.read_only_root,
            "network": isolation.network,
            "capabilities": isolation.capabilities,
            "no new privileges": isolation.no_new_privileges,
            "seccomp": isolation.seccomp,
            "namespaces": isolation.namespaces,
        },
        Limits(processes=16, disk_mb=2, inodes=64, file_mb=1, open_files=32, output_mb=1),
    ),
    Trial({"socket memory": isolation.socket_memory}, Limits(memory_mb=64, open_files=4096)),
    # The longest time that there is, because a guest that could not wait that long would end at once.
    Trial({"shared counts": isolation.shared_counts}, Limits(open_files=4096), MOST_SECONDS),
    # The last canaries of these end their sandboxes.
    Trial(
        {"relay": isolation.relay, "relay memory": isolation.relay_memory},
        Limits(memory_mb=64, open_files=4096),
        relay=True,
    ),
    Trial(
        {"attributes": isolation.attributes, "deleted files": isolation.deleted_files},
        # More than others are likely to write in the moment when the sandbox ends.
        Limits(disk_mb=32),
        writable_root=True,
    ),
)
# Canaries for the life of a container, which open sandboxes themselves.
LIVES: Mapping[str, Callable[[Backend, str], Awaitable[Finding]]] = {
    "deadline": endings.deadline,
    "block left": endings.leave_block,
    "cancelled": endings.cancel_command,
    "host gone": endings.close_stream,
}


SANDBOX = "sandbox"
# Programs of the canaries may start Python a few times within a second of CPU time.
PYTHON_STARTS = 20
# `Limits` allows no more.
MOST_LIMIT_SECONDS = 600


async def check_backend(
    backend: Backend,
    runtime: str = "runc",
    *,
    further: Sequence[Trial] = (),
    notify: Callable[[Check], None] = lambda check: None,
) -> list[Check]:
    """Return the outcome of every check of a backend under a runtime, which takes about 6 s.

    One sandbox is opened alone first, which shows how fast the machine is. As many trials run at once as the
    processors of this machine carry. If a sandbox cannot be opened, no other trial begins, and one check
    names the cause and all checks that were not made.

    `further` trials come after this module's own. `notify` gets each check as soon as it and those before
    it are finished. An error becomes a check that fails, so the function raises nothing.
    """
    checks: list[Check] = []

    def conclude(*found: Check) -> None:
        for check in found:
            checks.append(check)
            notify(check)

    try:
        first, factor = await _open_first(backend, runtime)
    except HarnessError as error:
        found = f"no limit was tried, because {error.message}"
        conclude(Check(SANDBOX, Level.FAIL, found, error.hint))
        return checks
    conclude(first)
    lost: list[Check] = []
    untried: list[str] = []
    gate = asyncio.Semaphore(count_gate_places())

    async def try_if_possible(
        names: Iterable[str], work: Callable[[], Awaitable[list[Check]]]
    ) -> list[Check]:
        async with gate:
            if not lost:
                try:
                    return await work()
                except _NotOpened as error:
                    lost.append(Check(SANDBOX, Level.FAIL, error.cause.message, error.cause.hint))
        untried.extend(names)
        return []

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(try_if_possible(trial.canaries, partial(_try, backend, trial, runtime)))
            for trial in (each.extend(factor) for each in (*TRIALS, *further))
        ]
        tasks += [
            group.create_task(try_if_possible([name], partial(_try_life, name, backend, runtime)))
            for name in LIVES
        ]
        for task in tasks:
            conclude(*await task)
    if lost:
        conclude(replace(lost[0], found=f"{lost[0].found}; not tried: {', '.join(untried)}"))
    return checks


class _NotOpened(Exception):
    """No sandbox could be opened for a trial."""

    def __init__(self, cause: HarnessError) -> None:
        super().__init__(cause.message)
        self.cause = cause


async def _open_first(backend: Backend, runtime: str) -> tuple[Check, float]:
    """Return how long a sandbox and Python in it take to start, and the factor for limits on this machine."""
    start = time.monotonic()
    async with Sandbox.open(runtime=runtime, run_id=RUN_ID, backend=backend) as sandbox:
        seconds = time.monotonic() - start
        started = await sandbox.exec(["python3", "-c", "pass"])
    found = f"opened in {seconds:.2f} s; Python starts in {started.cpu_seconds:.2f} s of CPU time"
    return Check(SANDBOX, Level.OK, found), max(1.0, PYTHON_STARTS * started.cpu_seconds)


async def _try(backend: Backend, trial: Trial, runtime: str) -> list[Check]:
    """Return the checks of a trial. Raises _NotOpened if its sandbox cannot be opened."""
    checks: list[Check] = []
    opened = False
    try:
        async with Sandbox.open(
            limits=trial.limits,
            runtime=runtime,
            writable_root=trial.writable_root,
            relay=trial.relay,
            deadline_seconds=trial.deadline_seconds,
            run_id=RUN_ID,
            backend=backend,
        ) as sandbox:
            opened = True
            for name, canary in trial.canaries.items():
                checks.append(await conclude_finding(name, canary(sandbox, trial.limits)))
    except HarnessError as error:
        if not opened:
            raise _NotOpened(error) from error
        tried = {check.name for check in checks}
        # If all canaries were tried, the removal of the sandbox has failed.
        untried = [name for name in trial.canaries if name not in tried] or ["removal"]
        checks += [Check(name, Level.FAIL, error.message, error.hint) for name in untried]
    return checks


async def _try_life(name: str, backend: Backend, runtime: str) -> list[Check]:
    return [await conclude_finding(name, LIVES[name](backend, runtime))]


async def conclude_finding(name: str, finding: Awaitable[Finding]) -> Check:
    """Return the check of this name, which fails if the finding raises an error."""
    try:
        return Check.of(name, await finding)
    except HarnessError as error:
        return Check(name, Level.FAIL, error.message, error.hint)
