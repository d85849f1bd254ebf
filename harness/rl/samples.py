"""The samples that trainers grade, and the error of those that got no verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.core.errors import HarnessError, UsageError, unknown_name
from harness.core.types import TEXT_FIELDS, Verdict


class RewardUnavailableError(HarnessError):
    """A completion got no verdict, because the infrastructure failed or was too busy. It is not a 0."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class RewardSample:
    """A completion, and the task or the hidden tests that judge it."""

    text: str
    # The kind of the text, as in samples files: `completion`, `solution`, `answer` or `reply`.
    field: str
    # Hidden tests in JSON, as `read_hidden_tests` takes them. None for a task of a benchmark.
    tests: Mapping[str, Any] | None = None
    benchmark: str | None = None
    task_id: str | None = None
    # The number of the row, for messages.
    place: int = 0

    def encode(self) -> dict[str, Any]:
        """Return the sample as `/v1/grade` takes it."""
        judge = (
            {"benchmark": self.benchmark, "task_id": self.task_id}
            if self.tests is None
            else {"tests": dict(self.tests)}
        )
        return {**judge, self.field: self.text}


class Grading(Protocol):
    """Grades samples, here or at a service."""

    async def grade(self, samples: Sequence[RewardSample]) -> list[Verdict]:
        """Return one verdict for each sample, in their order.

        Raises UsageError for a sample that cannot be graded, and RewardUnavailableError if there is no
        verdict on any sample. A single fault is a verdict without a score.
        """
        ...


def make_sample(
    text: str, field: str, *, tests: Any = None, benchmark: Any = None, task_id: Any = None, place: int = 0
) -> RewardSample:
    """Return the sample of one row of a dataset.

    `tests` may be a text in JSON, because all rows of a dataset have the same keys, and tests do not.
    For the same reason, keys with the value None are left out. Raises UsageError.
    """
    if field not in TEXT_FIELDS:
        raise unknown_name("field", field, TEXT_FIELDS)
    if tests is None:
        if benchmark is None or task_id is None:
            raise UsageError(
                f"row {place} has no judge",
                hint="the dataset needs the column 'tests', or the columns 'benchmark' and 'task_id'",
            )
        if isinstance(task_id, float) and task_id.is_integer():
            # A column of whole numbers has floats once one of its rows is empty.
            task_id = int(task_id)
        return RewardSample(text, field, benchmark=str(benchmark), task_id=str(task_id), place=place)
    try:
        values = json.loads(tests) if isinstance(tests, str) else tests
    except (ValueError, RecursionError) as error:
        raise UsageError(f"row {place}: 'tests' is not JSON: {error}") from error
    if not isinstance(values, Mapping):
        raise UsageError(f"row {place}: 'tests' must be an object, not {type(values).__name__}")
    kept = {name: value for name, value in values.items() if value is not None}
    return RewardSample(text, field, tests=kept, place=place)
