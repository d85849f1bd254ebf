"""Open a grading: in sandboxes of this machine, or at a service that `harness serve` offers.

Trainers that call plain functions share one between all calls of a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypedDict

from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.hidden_tests import HiddenTarget, read_hidden_tests, read_submission
from harness.client.connection import Connection, open_connection, read_address
from harness.client.grader import read_verdict
from harness.core.errors import HarnessError, UsageError, unknown_name
from harness.core.types import Submission, Verdict
from harness.hosts import Host, open_host
from harness.rl.grading import (
    HeldGrading,
    Opening,
    RewardSample,
    RewardUnavailableError,
    gather_or_cancel,
    make_sample,
)

# A service takes 1,024 samples in one request. Smaller requests wait less.
BATCH = 128
# The time of one request, and of all tries of a sample.
REQUEST_SECONDS = 600.0
DEFAULT_SECONDS = 1800.0
# The wall time of one grading, as in the environment `python` in a run.
SAMPLE_SECONDS = 180.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.5, 30.0


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


class RemoteGrading:
    """Grades samples at a service.

    A refused request, a lost connection and a sample without a verdict are tried again, which is safe because
    grading changes nothing.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float) -> None:
        """Use `connection`, and try each sample for at most `timeout_seconds`. Raises UsageError."""
        if not timeout_seconds > 0:
            raise UsageError(f"timeout_seconds must be more than 0, not {timeout_seconds}")
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        # The same in each try, because a program must not get less time when the service was busy before.
        self._sample_seconds = min(SAMPLE_SECONDS, timeout_seconds / 2)

    async def grade(self, samples: Sequence[RewardSample]) -> list[Verdict]:
        """Return one verdict for each sample, in their order.

        A sample that got no verdict in time has one without a score. Raises UsageError if the service refuses
        a sample, and RewardUnavailableError if it never answered.
        """
        ends = time.monotonic() + self._timeout_seconds
        batches = [samples[start : start + BATCH] for start in range(0, len(samples), BATCH)]
        graded = await gather_or_cancel(self._grade_batch(batch, ends) for batch in batches)
        return [verdict for batch in graded for verdict in batch]

    async def _grade_batch(self, batch: Sequence[RewardSample], ends: float) -> list[Verdict]:
        verdicts: dict[int, Verdict] = {}
        missing = list(range(len(batch)))
        wait = _FIRST_WAIT_SECONDS
        while True:
            reason = f"the service at {self._connection.address} had no verdict"
            try:
                replied = await self._request([batch[place] for place in missing], ends)
            except UsageError:
                raise
            except HarnessError as error:
                reason = error.message
            else:
                verdicts.update(zip(missing, replied, strict=True))
                missing = [place for place in missing if verdicts[place].score is None]
            if not missing:
                return [verdicts[place] for place in range(len(batch))]
            pause = wait * random.uniform(0.5, 1.0)
            if time.monotonic() + pause + self._sample_seconds >= ends:
                if not verdicts:
                    raise RewardUnavailableError(reason)
                return [verdicts[place] for place in range(len(batch))]
            await asyncio.sleep(pause)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    async def _request(self, batch: Sequence[RewardSample], ends: float) -> list[Verdict]:
        """Return the verdicts of one request, which the connection repeats while the service refuses it."""
        rest = max(0.0, ends - time.monotonic() - self._sample_seconds)
        seconds = min(REQUEST_SECONDS, self._sample_seconds + rest)
        content = {
            "samples": [sample.encode() for sample in batch],
            "timeout_seconds": seconds,
            "sample_seconds": self._sample_seconds,
        }
        reply = await self._connection.fetch(
            "POST", "/v1/grade", values=content, seconds=seconds, retry_seconds=rest
        )
        try:
            return [read_verdict(each) for each in reply["verdicts"]]
        except (LookupError, TypeError, ValueError) as error:
            raise RewardUnavailableError(
                f"the reply of the service at {self._connection.address} cannot be read: {error}"
            ) from error


@contextlib.asynccontextmanager
async def open_remote(
    url: str, *, token: str | None = None, timeout_seconds: float = DEFAULT_SECONDS
) -> AsyncIterator[RemoteGrading]:
    """Yield a grading at a service.

    Args:
        url: the URL that `harness serve` prints, with or without the token as its path.
        token: the token, if the URL does not have it. HARNESS_SERVE_TOKEN is the default for a URL without a
            path.
        timeout_seconds: the time for all tries of a sample, waits included.

    Raises UsageError for a URL or a token that cannot be used, and without the packages of the extra
    `client`. Raises ServiceUnreachableError if no service answers.
    """
    async with open_connection(read_address(url, token), wait_seconds=timeout_seconds) as connection:
        yield RemoteGrading(connection, timeout_seconds=timeout_seconds)


def choose_opening(
    *,
    url: str | None = None,
    token: str | None = None,
    benchmarks: Sequence[Benchmark] = (),
    environments: Sequence[str] = ("python",),
    timeout_seconds: float | None = None,
    max_concurrent: int | None = None,
) -> Opening:
    """Return what opens a grading: at the service `url`, or without it in sandboxes of this machine.

    Raises UsageError for a combination that cannot be used.
    """
    if url is None:
        if token is not None:
            raise UsageError("a token needs the URL of a service", hint="pass url, or leave token out")
        return partial(
            open_local,
            environments=environments,
            benchmarks=benchmarks,
            timeout_seconds=timeout_seconds,
            max_concurrent=max_concurrent,
        )
    if benchmarks or max_concurrent is not None or tuple(environments) != ("python",):
        raise UsageError(
            "the service chooses its benchmarks, environments and max_concurrent",
            hint="leave them out, and pass them to `harness serve`",
        )
    seconds = DEFAULT_SECONDS if timeout_seconds is None else timeout_seconds
    return partial(open_remote, url, token=token, timeout_seconds=seconds)


class GradingSettings(TypedDict, total=False):
    """The settings of a reward function.

    `field` tells how a completion is read, as in a samples file; by default it is a `reply`. `url` is the URL
    that `harness serve` prints; without it, sandboxes of this machine grade. `token` is the token of the
    service, if neither the URL nor HARNESS_SERVE_TOKEN has it. `timeout_seconds` is the time for all tries of
    a completion at a service, or of one grading here. `environments` are the ones whose images this machine
    needs.
    """

    field: str
    url: str | None
    token: str | None
    timeout_seconds: float | None
    environments: Sequence[str]


def hold_grading(settings: GradingSettings) -> HeldGrading:
    """Return the grading of these settings, which the process keeps open. Raises UsageError.

    Trainers pickle reward functions and call them from many threads, so no caller could hand it around. The
    sandboxes of a process that has ended stop, and the next run or `harness gc` removes them.
    """
    if unknown := settings.keys() - GradingSettings.__annotations__:
        raise unknown_name("setting", min(unknown), sorted(GradingSettings.__annotations__))
    return _hold(
        settings.get("url"),
        settings.get("token"),
        settings.get("timeout_seconds"),
        tuple(settings.get("environments", ("python",))),
    )


@cache
def _hold(
    url: str | None, token: str | None, timeout_seconds: float | None, environments: tuple[str, ...]
) -> HeldGrading:
    opening = choose_opening(url=url, token=token, timeout_seconds=timeout_seconds, environments=environments)
    return HeldGrading(opening)


def read_ground_truth(
    text: str, field: str, ground_truth: Any, data_source: str | None, *, place: int = 0
) -> RewardSample:
    """Return the sample of a row whose ground truth is one value, as trainers store it.

    The value is hidden tests, or an object with `benchmark` and `task_id`, each also as a text in JSON. Any
    other text or number is the id of a task of the benchmark that the data source names. Raises UsageError.
    """
    values = ground_truth
    if isinstance(values, str) and values.lstrip().startswith("{"):
        try:
            values = json.loads(values)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"row {place}: the ground truth is not JSON: {error}") from error
    if not isinstance(values, Mapping):
        return make_sample(text, field, benchmark=data_source, task_id=values, place=place)
    if "kind" in values:
        return make_sample(text, field, tests=values, place=place)
    judge = {"benchmark": values.get("benchmark", data_source), "task_id": values.get("task_id")}
    return make_sample(text, field, **judge, place=place)


def require_score(verdict: Verdict) -> float:
    """Return the score of a verdict, from 0 to 1. Raises RewardUnavailableError for one without a score."""
    if verdict.score is None:
        raise RewardUnavailableError(f"the completion got no verdict: {verdict.evidence}")
    return verdict.score
