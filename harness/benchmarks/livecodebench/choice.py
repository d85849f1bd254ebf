"""The options that the scenarios of LiveCodeBench share: the choice of problems."""

from __future__ import annotations

import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import field_validator

from harness.benchmarks.livecodebench.problem import Filters
from harness.benchmarks.option_effects import NO_EFFECT
from harness.benchmarks.options import Options
from harness.benchmarks.replies import CodeRule, extract_code


class ChoiceOptions(Options):
    """The choice of problems by the date of their contest and by their difficulty."""

    start_date: datetime.date | None = None
    """The first day of contests to take."""
    end_date: datetime.date | None = None
    """The last day of contests to take."""
    difficulty: Annotated[tuple[str, ...], NO_EFFECT] = ()
    """One difficulty or several."""

    @field_validator("difficulty", "platform", mode="before", check_fields=False)
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    def filters(self) -> Filters:
        """Return the filters among the options. Raises UsageError."""
        return Filters(self.start_date, self.end_date, self.difficulty)


class Extraction(StrEnum):
    """The place of the answer in a reply: LiveCodeBench's, or the first block of code, as in EvoAgentX."""

    OFFICIAL = "official"
    EVOAGENTX = "evoagentx"


class AnswerOptions(ChoiceOptions):
    """The choice of tasks, and the rules by which the answers of a scenario of literals are graded."""

    extraction: Extraction = Extraction.OFFICIAL
    """The place of the answer in a reply."""
    exact_types: bool | None = None
    """Whether True differs from 1 and 1 from 1.0. None stands for the scenario's default."""


def first_block(reply: str) -> str:
    """Return the first block of code in a reply, or the whole reply if it has none."""
    return extract_code(reply, CodeRule.FIRST_BLOCK, unfenced=True).strip()
