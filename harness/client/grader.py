"""Grading at a service: one sample, or the submissions of a run in batches, also by several services."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.benchmarks.hidden_tests import read_hidden_tests
from harness.client.connection import Connection, ServiceBusyError, ServiceUnreachableError
from harness.core.errors import HarnessError, SandboxError, UsageError
from harness.core.inputs.json_text import MAX_TEST_DIGITS, parse_json, write_json
from harness.core.shield import complete
from harness.core.types import Phase, PlainData, ProgramTests, Status, Verdict
from harness.environments.python.call_programs import CallTests
from harness.environments.python.languages import PYTHON
from harness.environments.python.stdin_programs import StdinTests
from harness.host.retries import RunStoppedError
from harness.runs.grading_service import GradingService, ServiceFacts

# The most that a service gives to one request.
MAX_REQUEST_SECONDS = 600.0
# As in a run.
SAMPLE_SECONDS = 180.0
MAX_BATCH = 64
# A request whose slow programs are still at work holds its place, so there are more than a service needs.
MAX_REQUESTS = 32
# Far below the limit of a service, which also counts the requests of other clients.
_MAX_BATCH_BYTES = 4 << 20
# How long submissions gather while other requests are under way.
_GATHER_SECONDS = 0.02
_PAUSE_SECONDS = 1.0
# A submission that came back this often counts as a fault, so that no program can keep a run from its end.
_MAX_RETURNS = 10
_LOST = "the connection to the service was lost"
_RESUME_HINT = "when the service has room, finish the run with run(resume=FOLDER)"
# A service that was away is tried again after this time, while others work.
RETRY_SECONDS = 30.0


async def grade_sample(connection: Connection, sample: Mapping[str, Any], *, seconds: float) -> Verdict:
    """Return the verdict on a sample in the form of `/v1/grade`, after `seconds` of grading at most.

    Raises as `RemoteHost.grade` does.
    """
    # A request waits at the service, and between its tries.
    half = connection.wait_seconds / 2
    whole = min(MAX_REQUEST_SECONDS, half + seconds)
    request = {
        "samples": [sample],
        "timeout_seconds": whole,
        # The rest of the time is for the queue.
        "sample_seconds": min(seconds, whole),
    }
    content = write_json(request).encode()
    reply = await connection.fetch("POST", "/v1/grade", content=content, seconds=whole, retry_seconds=half)
    try:
        (verdict,) = reply["verdicts"]
        return read_verdict(verdict)
    except (LookupError, TypeError, ValueError) as error:
        raise ServiceUnreachableError(
            f"the reply of the service at {connection.address} cannot be read: {type(error).__name__}"
        ) from error


def describe_target(target: PlainData) -> dict[str, Any]:
    """Return a target as the hidden tests of a request. Raises UsageError for one that has no such form."""
    described: dict[str, Any] | None = None
    match target:
        case StdinTests():
            tests = [{"input": each.input, "output": each.output} for each in target.load()]
            described = {"kind": "stdin", "tests": tests}
            described |= {"preamble": target.preamble, "seconds": target.seconds}
            # A service of an earlier version refuses fields that it does not know.
            described |= {"tolerance": target.tolerance} if target.tolerance else {}
            described |= {"checker": target.checker} if target.checker else {}
            described |= {"language": target.language} if target.language != PYTHON else {}
        case CallTests():
            calls = [_describe_call(each.arguments, each.result) for each in target.load()]
            described = {"kind": "calls", "function": target.function, "tests": calls}
            described |= {"preamble": target.preamble, "seconds": target.seconds}
        case ProgramTests():
            described = {"kind": "asserts", "tests": list(target.statements), "setup": target.setup}
            described["names"] = list(target.exports)
    if described is None or read_hidden_tests(described) != target:
        raise UsageError(
            f"a {type(target).__name__} of this form cannot be sent to a service",
            hint="build it with build_stdin_tests or its like, or name a task of a benchmark with grade_task",
        )
    return described


def _describe_call(arguments: str, result: str) -> dict[str, Any]:
    lines = arguments.split("\n") if arguments else []
    return {
        "arguments": [parse_json(line, max_digits=MAX_TEST_DIGITS) for line in lines],
        "result": parse_json(result, max_digits=MAX_TEST_DIGITS),
    }


def read_verdict(values: Mapping[str, Any]) -> Verdict:
    """Return a verdict. The service keeps the fields that a local verdict has, in its metrics."""
    status, score = Status(values["status"]), values["score"]
    if (score is None) is status.has_score:
        raise ValueError(f"the status {status.value} with the score {score}")
    metrics = dict(values["metrics"])
    phase = metrics.pop("phase", None)
    return Verdict(
        status,
        None if score is None else float(score),
        limit=metrics.pop("limit", None),
        limit_value=metrics.pop("limit_value", None),
        tampering=metrics.pop("integrity", None),
        phase=None if phase is None else Phase(phase),
        metrics=metrics,
        evidence=values["evidence"],
    )


@dataclass(eq=False, slots=True)
class _Sample:
    """A submission that waits for its verdict."""

    id: int
    # Its JSON in a request.
    body: bytes
    # The wall time of its grading.
    seconds: float
    on_begin: Callable[[], None]
    verdict: asyncio.Future[Verdict]
    # Whether it is sent without others, because the service has refused a batch with it.
    is_alone: bool = False
    # How often it came back because it found no place in time.
    returns: int = 0
    request: _Request | None = None


@dataclass(eq=False, slots=True)
class _Request:
    """A batch in one request."""

    samples: Sequence[_Sample]
    # The number of verdicts of the run when it was sent.
    verdicts_before: int
    task: asyncio.Task[None] | None = field(default_factory=asyncio.current_task)

    @property
    def waiting(self) -> list[_Sample]:
        """The submissions without a verdict, except for those that are sent again."""
        return [sample for sample in self.samples if sample.request is self and not sample.verdict.done()]


class BatchGrader:
    """Grades the submissions of one run at a service. Implements `GradingService`.

    A submission that found no place at the service is sent again. Make it with `open_batch_grader`.
    """

    def __init__(
        self,
        connection: Connection,
        benchmark: str,
        facts: ServiceFacts,
        check: Callable[[], Awaitable[ServiceFacts]],
    ) -> None:
        """Grade on the benchmark in the revision of `facts`.

        `check` returns the facts of now. It raises UsageError if the service cannot grade the run any more.
        """
        self.facts = facts
        self.wait_seconds = connection.wait_seconds
        self._connection = connection
        self._benchmark = benchmark
        self._check = check
        self._ids = itertools.count()
        self._pending: deque[_Sample] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        # The senders that have not taken a batch yet.
        self._gathering = 0
        # The requests that the service has accepted.
        self._under_way = 0
        self._verdicts = 0
        self._batch_size = MAX_BATCH
        # Since when the service has refused every request, None after one that it accepted.
        self._refused_since: float | None = None
        self._is_closed = False

    async def grade(
        self, task_id: str, text: str, *, seconds: float, on_begin: Callable[[], None]
    ) -> Verdict:
        """Return the verdict on a submission. Arguments and errors are as in `GradingService`."""
        number = next(self._ids)
        values = {"id": number, "benchmark": self._benchmark, "task_id": task_id, "submission": text}
        verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        sample = _Sample(number, write_json(values).encode(), seconds, on_begin, verdict)
        self._pending.append(sample)
        self._send_pending()
        try:
            return await verdict
        except asyncio.CancelledError:
            request = sample.request
            if request is not None and request.task is not None and not request.waiting:
                request.task.cancel()
            raise

    async def responds(self) -> bool:
        """Return whether the service takes requests now."""
        try:
            health = await self._connection.fetch("GET", "/health", retry_seconds=0)
        except HarnessError:
            return False
        return health.get("status") == "ok"

    async def close(self) -> None:
        """End all requests, which ends their programs at the service."""
        self._is_closed = True
        senders = list(self._senders)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)

    def _send_pending(self) -> None:
        """Start senders until there is one for each batch that waits, or as many as there may be."""
        while (
            not self._is_closed
            and len(self._senders) < MAX_REQUESTS
            and self._gathering * self._batch_size < len(self._pending)
        ):
            self._gathering += 1
            sender = asyncio.create_task(self._send_batch())
            self._senders.add(sender)
            sender.add_done_callback(self._end_sender)

    def _end_sender(self, sender: asyncio.Task[None]) -> None:
        self._senders.discard(sender)
        self._send_pending()

    async def _send_batch(self) -> None:
        """Take a batch and send it. Every submission in it gets a verdict or an error, or waits again."""
        try:
            if self._under_way:
                await asyncio.sleep(_GATHER_SECONDS)
        finally:
            self._gathering -= 1
        request = _Request(self._take(), self._verdicts)
        for sample in request.samples:
            sample.request = request
        # A batch may be smaller than was foreseen.
        self._send_pending()
        if not request.samples:
            return
        try:
            await self._send(request)
        except ServiceBusyError as error:
            await self._wait_for_room(request, error)
        except UsageError as error:
            await self._explain_refusal(request, error)
        except HarnessError as error:
            _fail(request.waiting, _describe_fault(error))
        except Exception as error:
            # A fault of this code must not leave attempts that wait for ever.
            _fail(request.waiting, error)

    def _take(self) -> list[_Sample]:
        taken: list[_Sample] = []
        size = 0
        while self._pending and len(taken) < self._batch_size:
            sample = self._pending[0]
            if sample.verdict.done():  # its attempt was cancelled
                self._pending.popleft()
                continue
            size += len(sample.body)
            is_apart = sample.is_alone or sample.seconds != (taken or [sample])[0].seconds
            if taken and (is_apart or taken[0].is_alone or size > _MAX_BATCH_BYTES):
                break
            taken.append(self._pending.popleft())
        return taken

    def _put_back(self, samples: Sequence[_Sample]) -> None:
        for sample in reversed(samples):
            sample.request = None
            self._pending.appendleft(sample)
        self._send_pending()

    async def _send(self, request: _Request) -> None:
        settings = {
            "timeout_seconds": MAX_REQUEST_SECONDS,
            # The rest of the time is for the queue of the service.
            "sample_seconds": request.samples[0].seconds,
            "stream": True,
            "revisions": {self._benchmark: self.facts.revision},
        }
        samples = b",".join(sample.body for sample in request.samples)
        content = b'{"samples":[' + samples + b"]," + json.dumps(settings).encode()[1:]
        known = {sample.id: sample for sample in request.samples}
        for sample in request.samples:
            sample.on_begin()
        replying = self._connection.stream(
            "POST", "/v1/grade", seconds=MAX_REQUEST_SECONDS, retry_seconds=0, content=content
        )
        async with replying as response:
            self._under_way += 1
            self._refused_since = None
            self._batch_size = min(2 * self._batch_size, MAX_BATCH)
            try:
                with self._connection.catch_lost():
                    async for line in response.aiter_lines():
                        self._read_line(line, known, request)
            finally:
                self._under_way -= 1
        if request.waiting:
            raise SandboxError("the service ended a request before it had all verdicts", outside=True)

    def _read_line(self, line: str, known: dict[int, _Sample], request: _Request) -> None:
        try:
            values = json.loads(line)
            sample = known.pop(values["id"])
            verdict = read_verdict(values)
        except (LookupError, TypeError, ValueError) as error:
            raise ServiceUnreachableError(f"a verdict cannot be read: {type(error).__name__}") from error
        if sample.verdict.done():
            return
        match verdict.status:
            case Status.CANCELLED if (
                self._verdicts > request.verdicts_before and sample.returns < _MAX_RETURNS
            ):
                # The service works on this run, and its queue was too long for this submission.
                sample.returns += 1
                self._put_back([sample])
            case Status.CANCELLED | Status.INFRA_ERROR:
                _fail([sample], SandboxError(verdict.evidence or "the service failed", outside=True))
            case _:
                self._verdicts += 1
                sample.verdict.set_result(verdict)

    async def _wait_for_room(self, request: _Request, error: ServiceBusyError) -> None:
        """Put a refused batch back after a pause. Stop the run if the service has no room for too long."""
        now = time.monotonic()
        since = self._refused_since = self._refused_since or now
        # Requests of the run itself may be those that fill the service.
        if not self._under_way and now - since >= self.wait_seconds:
            message = f"the service had no room for {self.wait_seconds:.0f} s: {error.message}"
            _fail(request.waiting, RunStoppedError(message, hint=_RESUME_HINT))
            return
        self._batch_size = max(1, len(request.samples) // 2)
        await asyncio.sleep(_PAUSE_SECONDS * random.uniform(0.5, 1.5))
        self._put_back(request.waiting)

    async def _explain_refusal(self, request: _Request, error: UsageError) -> None:
        """Find out why the service has refused a batch: the service has changed, or one submission."""
        try:
            facts = await self._check()
            if facts.revision != self.facts.revision:
                raise UsageError(
                    "the images or the runtime of the service have changed during the run",
                    hint="start a new run, because one run must not mix verdicts of two images",
                )
        except UsageError as changed:
            _fail(request.waiting, RunStoppedError(changed.message, hint=changed.hint))
        except HarnessError as fault:
            _fail(request.waiting, _describe_fault(fault))
        else:
            if len(request.samples) > 1:
                for sample in request.samples:
                    sample.is_alone = True
                self._put_back(request.waiting)
                return
            evidence = f"the service has refused the submission: {error.message}"
            refused = Verdict(Status.INFRA_ERROR, None, evidence=evidence, phase=Phase.EVALUATOR)
            for sample in request.waiting:
                sample.verdict.set_result(refused)


def _describe_fault(error: HarnessError) -> SandboxError:
    """Return a fault of the service that lets a submission be sent again."""
    if isinstance(error, SandboxError):
        return error
    # The message of this error has the address, which records and logs must not keep.
    is_lost = isinstance(error, ServiceUnreachableError)
    return SandboxError(_LOST if is_lost else error.message, outside=True)


def _fail(samples: Sequence[_Sample], error: Exception) -> None:
    for sample in samples:
        if not sample.verdict.done():
            sample.verdict.set_exception(error)


@contextlib.asynccontextmanager
async def open_batch_grader(
    connection: Connection, benchmark: str, facts: ServiceFacts, check: Callable[[], Awaitable[ServiceFacts]]
) -> AsyncIterator[BatchGrader]:
    """Yield the grader of a run. The end of the block ends all requests."""
    grader = BatchGrader(connection, benchmark, facts, check)
    try:
        yield grader
    finally:
        await complete(grader.close())


class SpreadGrading:
    """Gives each submission to the service with the fewest under way. Implements `GradingService`.

    A submission whose service fails is graded by another one, because the run retries it.
    """

    def __init__(self, services: Sequence[GradingService]) -> None:
        """Grade at `services`. Raises UsageError unless all of them give the same verdicts."""
        self.facts = services[0].facts
        self.wait_seconds = max(each.wait_seconds for each in services)
        if any(each.facts.revision != self.facts.revision for each in services):
            raise UsageError(
                "the services have different images, runtimes or data, and one run must not mix two",
                hint="start all of them with the same version of harness, the same options and the same data",
            )
        self._services = list(services)
        self._under_way: Counter[GradingService] = Counter()
        self._away_until: dict[GradingService, float] = {}

    async def grade(
        self, task_id: str, text: str, *, seconds: float, on_begin: Callable[[], None]
    ) -> Verdict:
        """Return the verdict on a submission. Arguments and errors are as in `GradingService`."""
        service = self._choose()
        self._under_way[service] += 1
        try:
            return await service.grade(task_id, text, seconds=seconds, on_begin=on_begin)
        except RunStoppedError as error:
            # This service can grade no further submission of the run.
            if service in self._services:
                self._services.remove(service)
            if not self._services:
                raise
            raise SandboxError(error.message, outside=True) from error
        finally:
            self._under_way[service] -= 1

    async def responds(self) -> bool:
        """Return whether some service takes requests now. The run asks this after each fault."""
        services = list(self._services)
        answers = await asyncio.gather(*(each.responds() for each in services))
        until = time.monotonic() + RETRY_SECONDS
        self._away_until = {each: until for each, here in zip(services, answers, strict=True) if not here}
        return any(answers)

    def _choose(self) -> GradingService:
        now = time.monotonic()
        here = [each for each in self._services if self._away_until.get(each, 0.0) <= now]
        return min(here or self._services, key=self._under_way.__getitem__)
