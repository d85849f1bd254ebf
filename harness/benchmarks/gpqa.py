"""GPQA diamond (Rein et al. 2023, arXiv 2311.12022): questions for experts, whose options are shuffled."""

from __future__ import annotations

from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.multiple_choice import ChoiceOptions, Question, define


class ShuffledOptions(ChoiceOptions):
    """The order of the options: shuffled by `shuffle_seed`, or as published if it is null."""

    shuffle_seed: int | None = 0


def read_gpqa(row: Row) -> Question:
    """Return the question of a row, the right option first."""
    names = ("Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3)))
    category = row.optional_text("High-level domain")
    return Question(row.text("Question"), tuple(row.text(name).strip() for name in names), 0, category)


BENCHMARKS = (
    define(
        "gpqa-diamond",
        "choose one of four options in a question for experts",
        find=read_gpqa,
        options=ShuffledOptions,
        tasks=198,
        licence="CC BY 4.0, its authors ask not to publish its rows",
        hub=HubDataset("Idavidrein/gpqa", "gpqa_diamond", "train"),
        bundled="gpqa-diamond.jsonl",
    ),
)
