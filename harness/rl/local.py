"""Grade samples in sandboxes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.hidden_tests import HiddenTarget, read_hidden_tests, read_submission
from harness.core.errors import UsageError
from harness.core.types import Submission, Verdict
from harness.hosts import Host, open_host
from harness.rl.held import gather_or_cancel
from harness.rl.samples import RewardSample


class LocalGrading:
    """Grades samples in the sandboxes of a host."""

    def __init__(self, host: Host, benchmarks: Sequence[Benchmark] = ()) -> None:
        self._host = host
        self._benchmarks = {benchmark.name: benchmark for benchmark in benchmarks}

    async def grade(self, samples: Sequence[RewardSample]) -> list[Verdict]:
        """Return one verdict for each sample. Raises UsageError, and DataError for an unusable benchmark."""
        built = await asyncio.to_thread(_build_all, samples)
        return await gather_or_cancel(
            self._grade_one(sample, work) for sample, work in zip(samples, built, strict=True)
        )

    async def _grade_one(self, sample: RewardSample, work: tuple[HiddenTarget, Submission] | None) -> Verdict:
        if work is not None:
            return await self._host.grade(*work)
        name = str(sample.benchmark)
        return await self._host.grade_task(
            self._benchmarks.get(name, name), str(sample.task_id), sample.text, field=sample.field
        )


def _build_all(samples: Sequence[RewardSample]) -> list[tuple[HiddenTarget, Submission] | None]:
    built: list[tuple[HiddenTarget, Submission] | None] = []
    for sample in samples:
        if sample.tests is None:
            built.append(None)
            continue
        try:
            target = read_hidden_tests(sample.tests)
        except UsageError as error:
            raise UsageError(f"row {sample.place}: {error.message}", hint=error.hint) from error
        built.append((target, read_submission(target, sample.field, sample.text)))
    return built


@contextlib.asynccontextmanager
async def open_local(
    *,
    environments: Sequence[str] = ("python",),
    benchmarks: Sequence[Benchmark] = (),
    timeout_seconds: float | None = None,
    max_concurrent: int | None = None,
    runtime: str = "runc",
) -> AsyncIterator[LocalGrading]:
    """Yield a grading in sandboxes of this machine. The end of the block removes them.

    The arguments are as in `open_host`. `benchmarks` are loaded benchmarks that samples may name; others
    are loaded by their names. Raises what `open_host` raises.
    """
    async with open_host(
        environments=environments,
        timeout_seconds=timeout_seconds,
        max_concurrent=max_concurrent,
        runtime=runtime,
    ) as host:
        yield LocalGrading(host, benchmarks)
