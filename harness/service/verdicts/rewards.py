"""`/get_reward`: rewards in the protocol of OpenRLHF's remote reward model.

A request has either a reward for each query, or none. After a fault of the service it fails as a whole, so
that the client tries it again and trains on no reward that says nothing about the completion.

Source: `openrlhf/utils/agent.py` and `openrlhf/cli/serve_rm.py` of https://github.com/OpenRLHF/OpenRLHF.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from harness.core.errors import UsageError
from harness.core.inputs.json_text import MAX_TEST_DIGITS, BrokenJSONError, ValueCounter, parse_json
from harness.core.invalid_values import describe_first_error
from harness.core.types import Status, Verdict
from harness.service.errors import BusyError, InvalidRequestError, ServiceError
from harness.service.operations import Called, make_router
from harness.service.settings import MIB
from harness.service.verdicts.grade import GradeSample
from harness.service.verdicts.samples import (
    Deadline,
    Work,
    grade_each,
    name_sample,
    read_in_turn,
    require_room,
)

if TYPE_CHECKING:
    from harness.service.service import Service

# The client gives up after 180 seconds, and tries four times more.
REQUEST_SECONDS = 170.0
SAMPLE_SECONDS = 120.0
_RETRY_SECONDS = 1.0
# A tokenizer that decodes a whole sequence leaves the tokens that end it, such as `<|im_end|>` and `</s>`.
_LAST_TOKEN = re.compile(r"(?:<[|｜][^|｜<>\s]{1,40}[|｜]>|</s>|<eos>|<pad>|<end_of_turn>)\Z")
_LONGEST_TOKEN = 50
# The memory of the values of all labels that are text. The body counts such a label as one value.
_MOST_LABEL_BYTES = 64 * MIB


class RewardRequest(BaseModel):
    """Completions with their prompts, and the tests that judge them."""

    # Clients of other versions send further fields.
    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    query: list[str] = Field(min_length=1)
    """Each prompt with its completion, as the tokenizer decodes them."""
    prompts: list[str]
    """The prompt of each query. The text behind it is the completion."""
    labels: list[str | dict[str, JsonValue]]
    """The judge of each query, as an object or as text in JSON: hidden tests with their `kind`, or the
    `benchmark` and the `task_id` of a task. The key `field` may name the kind of the completion: `reply` (the
    default), `completion`, `solution` or `answer`."""


class RewardReply(BaseModel):
    """The rewards, in the order of the queries."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    rewards: list[float]
    """The scores of the verdicts, from 0 to 1."""
    scores: list[float]
    """The same. The client filters groups by them."""
    extra_logs: dict[str, list[float]]
    """For the client's log: whether each completion has passed, and whether it was too slow, as 1 and 0."""


router = make_router()


@router.post("/get_reward", summary="Return rewards for completions, in the protocol of OpenRLHF.")
async def get_reward(request: RewardRequest, call: Called) -> RewardReply:
    """Return a reward for each query.

    Raises InvalidRequestError for a label that is not a judge, BusyError or ShareUsedError if the queue is
    too long, and ServiceError with status 503 after a fault of the service.
    """
    for name in ("prompts", "labels"):
        if len(getattr(request, name)) != len(request.query):
            raise InvalidRequestError(
                f"'{name}' must have one entry for each query, {len(request.query):,}, "
                f"not {len(getattr(request, name)):,}",
                status=422,
            )
    most = call.service.settings.limits.batch
    if len(request.query) > most:
        raise InvalidRequestError(
            f"'query': a batch may have {most:,} queries, not {len(request.query):,}", status=422
        )
    deadline = Deadline.start(REQUEST_SECONDS, SAMPLE_SECONDS)
    await asyncio.to_thread(_require_small_labels, request.labels)
    places = range(len(request.query))
    reads = (functools.partial(_read, request, place, call.service) for place in places)
    work = await read_in_turn(call, reads, deadline)
    require_room(call, work, deadline)
    rewards: dict[int, float] = {}
    statuses: dict[int, Status] = {}
    async with contextlib.aclosing(grade_each(work, call, deadline)) as graded:
        async for place, verdict in graded:
            rewards[place] = _read_reward(place, verdict)
            statuses[place] = verdict.status
    return _describe([rewards[place] for place in places], [statuses[place] for place in places])


def _read_reward(place: int, verdict: Verdict) -> float:
    if verdict.status is Status.CANCELLED:
        raise BusyError(f"'query.{place}': {verdict.evidence}", retry_seconds=_RETRY_SECONDS)
    if verdict.score is None:
        raise ServiceError(
            503,
            "grading_failed",
            f"'query.{place}' has no verdict, because the service failed: {verdict.evidence}",
            retry_seconds=_RETRY_SECONDS,
        )
    return verdict.score


def _describe(rewards: list[float], statuses: Sequence[Status]) -> RewardReply:
    logs = {
        logged.value: [float(status is logged) for status in statuses]
        for logged in (Status.PASSED, Status.TIMEOUT)
    }
    return RewardReply(rewards=rewards, scores=rewards, extra_logs=logs)


async def _read(request: RewardRequest, place: int, service: Service) -> Work:
    try:
        sample = await asyncio.to_thread(_find_sample, request, place)
        return await sample.read(service.benchmarks, service.parser)
    except UsageError as error:
        raise name_sample(error, f"labels.{place}") from error


def _find_sample(request: RewardRequest, place: int) -> GradeSample:
    completion = find_completion(request.query[place], request.prompts[place])
    if completion is None:
        raise InvalidRequestError(
            f"'query.{place}' does not contain its prompt 'prompts.{place}'", status=422
        )
    return _read_sample(request.labels[place], completion)


def _require_small_labels(labels: Sequence[str | dict[str, JsonValue]]) -> None:
    memory = 0
    for label in labels:
        if isinstance(label, str):
            values = ValueCounter()
            values.add(label.encode("utf-8", "surrogatepass"))
            memory += values.memory_bytes
            if memory > _MOST_LABEL_BYTES:
                raise InvalidRequestError(
                    "'labels' have too many values; send fewer queries in a request", status=413
                )


def find_completion(query: str, prompt: str) -> str | None:
    """Return the text behind the prompt, without the tokens that end it. None if the prompt is not there.

    A tokenizer may put a token that begins the sequence before the prompt.
    """
    start = query.find(prompt)
    if start < 0:
        return None
    completion = query[start + len(prompt) :]
    kept = end = len(completion)
    while True:
        while end and completion[end - 1].isspace():
            end -= 1
        last = _LAST_TOKEN.search(completion[max(0, end - _LONGEST_TOKEN) : end])
        if last is None:
            return completion[:kept]
        kept = end = end - len(last.group())


def _read_sample(label: str | dict[str, JsonValue], completion: str) -> GradeSample:
    """Return the sample of a label and a completion. Raises UsageError."""
    try:
        values: Any = parse_json(label, max_digits=MAX_TEST_DIGITS) if isinstance(label, str) else dict(label)
    except BrokenJSONError as error:
        raise UsageError(f"the label is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise UsageError("the label must be an object: hidden tests, or a benchmark and a task_id")
    field = values.pop("field", "reply")
    judge = {"tests": values} if "kind" in values else values
    if not isinstance(field, str) or field in judge:
        raise UsageError("the key 'field' of a label must be one of completion, solution, answer, reply")
    try:
        return GradeSample.model_validate({**judge, field: completion})
    except ValidationError as error:
        raise UsageError(describe_first_error(error)) from error
