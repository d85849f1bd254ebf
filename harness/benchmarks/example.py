"""An example of a split, and its label: two objects, so that an example never carries its reference."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.core.errors import UsageError
from harness.core.types import Reference, Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Example(Mapping[str, Any]):
    """An example: the task as an agent may see it, and the fields of its row, as published.

    `example["question"]` is a field of the row. The fields may include the gold answer.
    """

    task: Task
    split: str
    row: Mapping[str, Any]

    @property
    def prompt(self) -> str:
        return self.task.prompt

    def __getitem__(self, field: str) -> Any:
        return self.row[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self.row)

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True)
class Label:
    """The reference of a task, which grades its answers."""

    task: Task
    reference: Reference

    @property
    def solution(self) -> str:
        """The gold answer, or a program that passes."""
        return self.reference.solution

    @property
    def expected_output(self) -> str:
        return self.reference.expected_output


def choose_items(
    items: Sequence[T], indices: Sequence[int] | None, sample_k: int | None, seed: int | None, *, what: str
) -> list[T]:
    """Return all items, or those at `indices`, or at most `sample_k` drawn from these with `seed`.

    Indices count from 0. Raises UsageError for an index out of range and for a negative number.
    """
    found = list(items)
    if indices is not None:
        for index in indices:
            if not 0 <= index < len(found):
                raise UsageError(
                    f"{what} has no example {index}", hint=f"its examples are 0 to {len(found) - 1}"
                )
        found = [found[index] for index in indices]
    if sample_k is None:
        return found
    if sample_k < 0:
        raise UsageError(f"sample_k is {sample_k}, but must not be negative")
    return random.Random(seed).sample(found, min(sample_k, len(found)))
