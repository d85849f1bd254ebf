"""`/v1/benchmarks` and `/v1/grade`: the loaded benchmarks, and verdicts on a batch of samples.

A client checks by the list that it has the same data. It grades by the tasks of a benchmark, or by tests of
its own. Hidden tests and expected outputs never reach the untrusted program. A verdict therefore cannot be
forged, as in a run, and no exit code and no output of the program is one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, PlainValidator, WithJsonSchema, model_validator

from harness.benchmarks.hidden_tests import HiddenTests
from harness.core.errors import UsageError
from harness.core.inputs.json_text import MAX_TEST_DIGITS
from harness.core.invalid_values import quote_value
from harness.core.types import Status, Verdict
from harness.core.version import __version__
from harness.service.errors import InvalidRequestError, ServiceError
from harness.service.operations import Call, Called, StreamedReply, encode_reply, make_router
from harness.service.verdicts.samples import (
    SAMPLE_FIELDS,
    Deadline,
    ServedBenchmark,
    TaskName,
    Work,
    grade_each,
    name_sample,
    read_in_turn,
    read_work,
    require_room,
)
from harness.service.verdicts.source_parser import SourceParser

if TYPE_CHECKING:
    from harness.service.service import Service

DEFAULT_SECONDS = 600.0
# As in the environment `python` of a run.
SAMPLE_SECONDS = 180.0
_STREAM_TYPE = "application/x-ndjson"
router = make_router()


class LoadedBenchmark(BaseModel):
    """A benchmark that the service has loaded."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str
    """The name, as `benchmark` in the requests of other operations."""
    split: str
    """The split whose tasks are loaded."""
    tasks: int
    """The number of tasks."""
    data_sha256: str
    """The SHA-256 of the data, as in the manifest of a run."""
    definition_sha256: str | None
    """The SHA-256 of the file that defines a benchmark of the operator's own, else null."""
    options: dict[str, Any]
    """The options it was loaded with."""
    fields: list[str]
    """The fields that a sample in `/v1/grade` may have. Empty if every task needs an agent that acts."""
    revision: str
    """A SHA-256 over everything that verdicts depend on: the values above, the sources of the images, and the
    runtime. `/v1/grade` takes it in `revisions`."""


class BenchmarkList(BaseModel):
    """The loaded benchmarks, and where their programs run."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    harness_version: str
    """The version of harness at the service."""
    engine: dict[str, Any]
    """The engine of the service, as in the manifest of a run."""
    runtime: dict[str, Any] | None
    """The container runtime of the service, as in the manifest of a run."""
    images: dict[str, str]
    """The id of each image."""
    image_tags: dict[str, str]
    """The tag of each image, which ends in a hash of its sources."""
    benchmarks: list[LoadedBenchmark]
    """The benchmarks in the order that the operator named them."""


def find_revision(service: Service, served: ServedBenchmark) -> str:
    """Return the SHA-256 (hex) over everything that the verdicts of a benchmark depend on."""
    benchmark, facts = served.benchmark, service.facts
    values = {
        "name": benchmark.name,
        "split": benchmark.split,
        "data": benchmark.source.sha256,
        "definition": served.definition_sha256,
        "options": served.options,
        "images": {name: facts.image_tags.get(name) for name in served.images},
        "runtime": service.settings.runtime,
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def require_revisions(service: Service, revisions: Mapping[str, str]) -> None:
    """Raise ServiceError if a benchmark is not loaded in the revision that the client expects."""
    for name, expected in revisions.items():
        served = service.benchmarks.get(name)
        found = None if served is None else find_revision(service, served)
        if found != expected:
            raise ServiceError(
                409,
                "other_revision",
                f"'revisions': the benchmark {quote_value(name)} has the revision {found}, not "
                f"{quote_value(expected)}; /v1/benchmarks lists its data and options",
            )


@router.get(
    "/v1/benchmarks",
    summary="List the loaded benchmarks, with the SHA-256 of their data.",
    name="v1/benchmarks",
)
async def list_benchmarks(call: Called) -> BenchmarkList:
    """Return the loaded benchmarks."""
    service = call.service
    facts = service.facts
    return BenchmarkList(
        harness_version=__version__,
        engine=dict(facts.engine),
        runtime=None if facts.runtime is None else dict(facts.runtime),
        images=dict(facts.images),
        image_tags=dict(facts.image_tags),
        benchmarks=[_describe(service, each) for each in service.benchmarks.values()],
    )


def _describe(service: Service, served: ServedBenchmark) -> LoadedBenchmark:
    benchmark = served.benchmark
    return LoadedBenchmark(
        name=benchmark.name,
        split=benchmark.split,
        tasks=len(benchmark.tasks),
        data_sha256=benchmark.source.sha256,
        definition_sha256=served.definition_sha256,
        options=dict(served.options),
        fields=list(SAMPLE_FIELDS) if served.takes_text else [],
        revision=find_revision(service, served),
    )


def _require_text(value: object) -> str:
    if type(value) is not str:
        raise ValueError("must be a text")
    return value


# JSON can hold half of a surrogate pair, which a model may write and a grader must see. Pydantic refuses it.
AnyText = Annotated[str, PlainValidator(_require_text), WithJsonSchema({"type": "string"})]


def _require_id(value: object) -> int | str:
    # Pydantic would take true for the number 1, and the reply would have another id than the request.
    if type(value) is int or type(value) is str:
        return value
    raise ValueError("must be a whole number or a text")


SampleId = Annotated[
    int | str,
    PlainValidator(_require_id),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
]


class GradeSample(BaseModel):
    """A submission, and the task or the hidden tests that judge it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    id: SampleId | None = None
    """The id of the sample in the reply. The default is its place in the batch, from 0."""
    benchmark: str | None = None
    """The name of a benchmark that the service has loaded."""
    task_id: SampleId | None = None
    """The id of the task in that benchmark."""
    tests: HiddenTests | None = None
    """Hidden tests, instead of a benchmark and a task."""
    completion: str | None = None
    """The text that a base model adds to the prompt."""
    solution: str | None = None
    """A whole program."""
    answer: str | None = None
    """An answer."""
    reply: str | None = None
    """The whole reply of a chat model."""
    submission: AnyText | None = None
    """The program or the answer itself, which no rule of the benchmark changes."""

    @model_validator(mode="after")
    def _require_one_of_each(self) -> GradeSample:
        named = [field for field in SAMPLE_FIELDS if getattr(self, field) is not None]
        if len(named) != 1:
            raise ValueError(f"needs exactly one of {', '.join(SAMPLE_FIELDS)}")
        by_task = self.benchmark is not None and self.task_id is not None
        by_half = (self.benchmark is None) != (self.task_id is None)
        if by_half or by_task == (self.tests is not None):
            raise ValueError("needs either 'benchmark' and 'task_id', or 'tests'")
        return self

    async def read(self, served: Mapping[str, ServedBenchmark], parser: SourceParser) -> Work:
        """Return the work. Raises UsageError."""
        field = next(field for field in SAMPLE_FIELDS if getattr(self, field) is not None)
        text: str = getattr(self, field)
        if self.tests is not None:
            return await read_work(self.tests, field, text, served, parser)
        name = TaskName(str(self.benchmark), str(self.task_id))
        return await read_work(name, field, text, served, parser)


class GradeRequest(BaseModel):
    """A batch of samples."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    # Arguments and results of tests may be long integers.
    max_digits: ClassVar[int] = MAX_TEST_DIGITS

    # Without FailFast, a check of thousands of broken samples would take seconds.
    samples: Annotated[list[GradeSample], FailFast()] = Field(min_length=1)
    """The samples. A batch has at most 1,024."""
    timeout_seconds: float = Field(default=DEFAULT_SECONDS, gt=0, allow_inf_nan=False)
    """The time for the whole batch, at most 600 seconds. The reply ends at most two seconds later. A batch
    that the queue cannot take in time is refused at once with status 504."""
    sample_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The wall time of one grading. The default is 180 seconds, or half of `timeout_seconds` if that is
    less."""
    stream: bool = False
    """Whether each verdict is sent as soon as it is there, as one line of JSON. The header `Accept:
    application/x-ndjson` asks for the same. Otherwise all verdicts come in the order of the samples."""
    revisions: dict[str, str] = {}
    """The revision that a benchmark must have, by its name, as `/v1/benchmarks` reports it. If one has
    another revision, the batch is refused with status 409."""


class SampleVerdict(BaseModel):
    """The verdict on one sample."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: int | str
    """The id of the sample."""
    status: Status
    """The status, as in the records of a run."""
    score: float | None
    """From 0 to 1. None for `grader_error`, `infra_error` and `cancelled`, which say nothing about the
    sample."""
    metrics: dict[str, Any]
    """The measurements of the grader, such as the number of tests and of those that passed."""
    evidence: str | None
    """Text for people, bounded and escaped."""


class GradeReply(BaseModel):
    """The verdicts on a batch."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    verdicts: list[SampleVerdict]
    """One verdict for each sample, in the order of the request."""


@router.post(
    "/v1/grade",
    summary="Grade a batch of samples by a benchmark or by hidden tests; with 'stream', a verdict a line.",
    name="v1/grade",
    response_model=GradeReply,
    responses={200: {"content": {_STREAM_TYPE: {}}}},
)
async def grade(request: GradeRequest, call: Called) -> GradeReply | StreamedReply:
    """Return the verdicts on a batch.

    Raises InvalidRequestError for a batch with a sample that cannot be graded, and BusyError or
    ShareUsedError at once, before any work, for one that the queue cannot take.
    """
    _require_bounds(request, call)
    require_revisions(call.service, request.revisions)
    seconds = request.timeout_seconds
    deadline = Deadline.start(seconds, request.sample_seconds or min(SAMPLE_SECONDS, seconds / 2))
    ids = _list_ids(request.samples)
    reads = (functools.partial(_read, *each, call.service) for each in enumerate(request.samples))
    work = await read_in_turn(call, reads, deadline)
    require_room(call, work, deadline)
    if request.stream or _STREAM_TYPE in call.headers.get("accept", ""):
        return StreamedReply(_stream(ids, work, call, deadline), _STREAM_TYPE)
    async with contextlib.aclosing(grade_each(work, call, deadline)) as graded:
        found = {place: describe_verdict(ids[place], verdict) async for place, verdict in graded}
    return GradeReply(verdicts=[found[place] for place in range(len(ids))])


def _require_bounds(request: GradeRequest, call: Call) -> None:
    limits = call.service.settings.limits
    if len(request.samples) > limits.batch:
        raise InvalidRequestError(
            f"'samples': a batch may have {limits.batch:,} samples, not {len(request.samples):,}", status=422
        )
    if request.timeout_seconds > limits.request_seconds:
        raise InvalidRequestError(
            f"'timeout_seconds' must be at most {limits.request_seconds:g}, not {request.timeout_seconds:g}",
            status=422,
        )
    if request.sample_seconds is not None and request.sample_seconds > request.timeout_seconds:
        raise InvalidRequestError(
            f"'sample_seconds' must be at most 'timeout_seconds', which is {request.timeout_seconds:g}",
            status=422,
        )


def _list_ids(samples: Sequence[GradeSample]) -> list[int | str]:
    ids: list[int | str] = []
    known: set[int | str] = set()
    for number, sample in enumerate(samples):
        each = number if sample.id is None else sample.id
        if each in known:
            raise InvalidRequestError(f"'samples.{number}.id': {each!r} is used twice", status=422)
        known.add(each)
        ids.append(each)
    return ids


async def _read(number: int, sample: GradeSample, service: Service) -> Work:
    try:
        return await sample.read(service.benchmarks, service.parser)
    except UsageError as error:
        raise name_sample(error, f"samples.{number}") from error


async def _stream(
    ids: Sequence[int | str], work: Sequence[Work], call: Call, deadline: Deadline
) -> AsyncGenerator[bytes, None]:
    async with contextlib.aclosing(grade_each(work, call, deadline)) as graded:
        async for place, verdict in graded:
            yield encode_reply(describe_verdict(ids[place], verdict)) + b"\n"


def describe_verdict(sample_id: int | str, verdict: Verdict) -> SampleVerdict:
    """Return a verdict as clients get it."""
    return SampleVerdict(
        id=sample_id,
        status=verdict.status,
        score=verdict.score,
        metrics=verdict.recorded_metrics,
        evidence=verdict.evidence,
    )
