"""Samples that clients send to be graded: read without doubt, and graded each in its own fair place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.hidden_tests import read_submission
from harness.core.errors import DataError, UsageError, unknown_name, unknown_task
from harness.core.shield import complete_all
from harness.core.types import (
    TEXT_FIELDS,
    Phase,
    PlainData,
    Status,
    Submission,
    Task,
    Verdict,
    explain_verdict,
)
from harness.environments import environment_spec
from harness.host.episode import TaskSource
from harness.host.local import LocalHost, is_graded_by_text, require_text_grading
from harness.runs.manifest import hash_definition
from harness.runs.workspaces import list_images
from harness.service.errors import BusyError, ServiceError, ShareUsedError, explain
from harness.service.operations import Call
from harness.service.verdicts.source_parser import HiddenSuite, SourceParser, list_sources

# `submission` is the text that a grader gets, after every rule that takes it out of a reply.
SUBMISSION = "submission"
SAMPLE_FIELDS = (*TEXT_FIELDS, SUBMISSION)
# The source in the hidden tests of one sample. Python's parser needs a third of a second for the worst source
# of this size, and meanwhile parses for no other client.
MOST_SOURCE_BYTES = 64 * 1024
# A program that began in time is graded to its end, because it must not gain from being slow.
FINISH_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class ServedBenchmark:
    """A benchmark that the operator has loaded."""

    benchmark: Benchmark
    # Its tasks by their ids.
    tasks: Mapping[str, Task]
    # The images that its tasks need.
    images: tuple[str, ...]
    # Whether a text can be graded for some task.
    takes_text: bool
    # The SHA-256 of the file of a benchmark of the operator's own.
    definition_sha256: str | None = None

    @property
    def options(self) -> Mapping[str, Any]:
        """The options it was loaded with."""
        recipe = self.benchmark.recipe
        return {} if recipe is None else recipe.options


def index_benchmarks(benchmarks: Iterable[Benchmark]) -> dict[str, ServedBenchmark]:
    """Return benchmarks by their names.

    Raises UsageError for two of one name, and for one with no task that a client can attempt.
    """
    served: dict[str, ServedBenchmark] = {}
    for each in benchmarks:
        if each.name in served:
            raise UsageError(f"the benchmark '{each.name}' is named twice", hint="name each benchmark once")
        usable = [task for task in each.tasks if _is_usable(each, task)]
        if not usable:
            raise UsageError(
                f"the benchmark '{each.name}' has no task that a client can attempt",
                hint=f"run it: harness run -b {each.name}",
            )
        tasks = {task.id: task for task in each.tasks}
        served[each.name] = ServedBenchmark(
            each,
            tasks,
            tuple(list_images(each, usable)),
            takes_text=any(is_graded_by_text(each.references[task.id].target) for task in usable),
            definition_sha256=hash_definition(each),
        )
    return served


def _is_usable(benchmark: Benchmark, task: Task) -> bool:
    """Return whether a text can be graded for a task, or an agent can act in its environment."""
    has_environment = environment_spec(task.environment).open_environment is not None
    return has_environment or is_graded_by_text(benchmark.references[task.id].target)


@dataclass(frozen=True, slots=True)
class TaskName:
    """A task of a benchmark that the service has loaded."""

    benchmark: str
    task_id: str


@dataclass(frozen=True, slots=True)
class Work:
    """A submission that can be graded."""

    target: PlainData
    submission: Submission
    # The benchmark that adds its metrics to the verdict, None for tests of the client.
    benchmark: TaskSource | None = None


async def read_work(
    judge: TaskName | HiddenSuite,
    field: str,
    text: str,
    served: Mapping[str, ServedBenchmark],
    parser: SourceParser,
) -> Work:
    """Return the work that a sample stands for.

    Args:
        judge: the task of a loaded benchmark, or the hidden tests.
        field: the kind of the text, one of SAMPLE_FIELDS.
        text: the submission.
        served: the loaded benchmarks.
        parser: parses the source in hidden tests.

    Raises:
        UsageError: if the benchmark was not loaded, it has no such task, the task needs an agent, or the
            tests cannot judge.
    """
    if field not in SAMPLE_FIELDS:
        raise unknown_name("field", field, SAMPLE_FIELDS)
    submission = Submission(text, agent_output=text) if field == SUBMISSION else None
    if not isinstance(judge, TaskName):
        _require_small_source(judge)
        built = await parser.build(judge)
        if submission is None:
            submission = await asyncio.to_thread(read_submission, built, field, text)
        return Work(built, submission)
    if judge.benchmark not in served:
        loaded = ", ".join(served) or "none"
        raise UsageError(
            f"the service has not loaded the benchmark {judge.benchmark[:100]!r}; loaded: {loaded}",
            hint="its operator chooses them with -b",
        )
    benchmark, tasks = served[judge.benchmark].benchmark, served[judge.benchmark].tasks
    if judge.task_id not in tasks:
        raise unknown_task(judge.task_id[:100], tasks, place=benchmark.name)
    target = benchmark.references[judge.task_id].target
    require_text_grading(target)
    if submission is None:
        submission = await asyncio.to_thread(benchmark.submission, tasks[judge.task_id], field, text)
    return Work(target, submission, benchmark)


def _require_small_source(suite: HiddenSuite) -> None:
    """Raise UsageError for hidden tests with more source than the service parses."""
    size = sum(len(source.encode("utf-8", "surrogatepass")) for source in list_sources(suite))
    if size > MOST_SOURCE_BYTES:
        raise UsageError(
            f"the source of the tests has {size:,} bytes, and the service takes {MOST_SOURCE_BYTES:,}",
            hint="test by calls, whose arguments and results are data, or grade on your own machine",
        )


async def read_in_turn(
    call: Call, reads: Iterable[Callable[[], Awaitable[Work]]], deadline: Deadline
) -> list[Work]:
    """Return the work of each sample.

    Clients take turns after each sample, so that a large batch delays no other client. Raises what `reads`
    raise, and BusyError.
    """
    work = []
    for read in reads:
        if deadline.wait_seconds <= 0:
            raise BusyError(
                "the time of the request was over before all samples were read", retry_seconds=1.0
            )
        async with call.service.parsing.enter(call.client, wait_seconds=deadline.wait_seconds):
            work.append(await read())
    return work


@dataclass(frozen=True, slots=True)
class Deadline:
    """The times of a request, on the monotonic clock and in seconds."""

    # When the last grading must have begun.
    begin_by: float
    # The wall time of one grading.
    sample_seconds: float

    @classmethod
    def start(cls, timeout_seconds: float, sample_seconds: float) -> Deadline:
        """Return the deadline of a request that begins now."""
        return cls(time.monotonic() + timeout_seconds - sample_seconds, sample_seconds)

    @property
    def wait_seconds(self) -> float:
        """The time that a sample can wait from now on."""
        return self.begin_by - time.monotonic()

    @property
    def end_seconds(self) -> float:
        """The time from now until every grading must have ended."""
        return self.wait_seconds + self.sample_seconds + FINISH_SECONDS


@dataclass(frozen=True, slots=True)
class Grading:
    """A submission that is graded on some machine. Implements `WorkItem`."""

    target: PlainData
    submission: Submission
    timeout_seconds: float
    # Programs of different owners never share a container.
    owner: str

    async def perform(self, host: LocalHost) -> Verdict:
        return await host.grade(
            self.target, self.submission, timeout_seconds=self.timeout_seconds, owner=self.owner
        )


def require_room(call: Call, work: Sequence[Work], deadline: Deadline) -> None:
    """Raise BusyError or ShareUsedError at once if the queue cannot take the work in time."""
    call.service.queue.require_room(call.client, requests=len(work), wait_seconds=deadline.wait_seconds)


async def grade_work(work: Work, call: Call, deadline: Deadline) -> Verdict:
    """Return the verdict on one submission, which takes a place of its own in the queue.

    A submission that could not begin in time has the status `cancelled` and no score.
    """
    verdict = await _grade_in_time(work, call, deadline)
    call.service.metrics.verdicts.labels(verdict.status.value).inc()
    return verdict


async def grade_each(
    work: Sequence[Work], call: Call, deadline: Deadline
) -> AsyncGenerator[tuple[int, Verdict], None]:
    """Yield each verdict with the place of its work, in the order that the verdicts come.

    Each submission takes its own place in the queue, so that a large batch delays no other client. The end of
    the iterator ends all programs.
    """

    async def grade_one(place: int, each: Work) -> tuple[int, Verdict]:
        return place, await grade_work(each, call, deadline)

    tasks = [asyncio.create_task(grade_one(place, each)) for place, each in enumerate(work)]
    try:
        for graded in asyncio.as_completed(tasks):
            yield await graded
    finally:
        for task in tasks:
            task.cancel()
        await complete_all(tasks)


async def _grade_in_time(work: Work, call: Call, deadline: Deadline) -> Verdict:
    try:
        async with call.service.work(call.client, wait_seconds=max(0.0, deadline.wait_seconds)):
            seconds = deadline.end_seconds
            item = Grading(work.target, work.submission, deadline.sample_seconds, call.client)
            async with asyncio.timeout(seconds):
                verdict = await call.service.workers.perform(item, seconds=seconds)
    except (BusyError, ShareUsedError) as error:
        return _refuse(str(error))
    except TimeoutError:
        return _refuse("the time of the request was over before the sandbox had an answer")
    except (UsageError, DataError) as error:
        # The sample was read before, so only data that changed since then can be at fault.
        call.service.metrics.faults.inc()
        return Verdict(Status.INFRA_ERROR, None, evidence=error.message, phase=Phase.EVALUATOR)
    verdict = explain_verdict(verdict, work.submission)
    return verdict if work.benchmark is None else work.benchmark.add_metrics(verdict)


def _refuse(reason: str) -> Verdict:
    return Verdict(Status.CANCELLED, None, evidence=reason, phase=Phase.EVALUATOR)


def name_sample(error: UsageError, place: str) -> ServiceError:
    """Return the refusal of a request, because of the sample at `place`."""
    return ServiceError(422, "invalid_request", f"'{place}': {explain(error)}")
