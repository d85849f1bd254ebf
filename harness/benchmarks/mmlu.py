"""MMLU-Pro (Wang et al. 2024, arXiv 2406.01574): questions with up to ten options, in fourteen subjects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from harness.benchmarks import multiple_choice
from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset, Split
from harness.benchmarks.multiple_choice import ChoiceOptions, define, read_question, show_options
from harness.benchmarks.options import OptionEffect, validate_options
from harness.core.types import Reference, Task

# The published prompt, whose examples follow its first paragraph.
_QUESTION = "Question:\n{question}\nOptions:\n{options}\nAnswer: "
PROMPT = (
    "The following are multiple choice questions (with answers) about {category}. Think step by step and "
    f'then finish your answer with "the answer is (X)" where X is the correct letter choice.\n\n{_QUESTION}'
    "Let's think step by step."
)
# The number of examples of each subject in the published prompts.
SHOTS = 5
_PLAIN = define(
    "mmlu-pro",
    "choose one of up to ten options, in fourteen subjects",
    prompt=PROMPT,
    tasks=12_032,
    licence="MIT",
    hub=HubDataset("TIGER-Lab/MMLU-Pro", "default", "test"),
    bundled="mmlu-pro.jsonl",
    splits={"dev": Split(HubDataset("TIGER-Lab/MMLU-Pro", "default", "validation"), 70)},
)


class MMLUOptions(ChoiceOptions):
    """The order of the options, and the examples before each question."""

    # The file of the split `validation`, whose rows explain their answers. None shows no examples.
    examples: Annotated[Path | None, OptionEffect("read the examples at")] = None


def configure(definition: Definition, options: Mapping[str, Any]) -> Definition:
    """Return the definition as its options change it. Raises UsageError, and DataError for the examples."""
    definition = multiple_choice.configure(definition, options)
    chosen = validate_options(MMLUOptions, options, definition.name)
    if chosen.examples is None:
        return definition
    examples: dict[str, list[tuple[str, str]]] = {}
    for row in read_rows(chosen.examples)[0]:
        question = read_question(row)
        explained = row.text("cot_content").strip().removeprefix("A:").strip()
        shown = _QUESTION.format(question=question.text, options=show_options(question.options)) + explained
        examples.setdefault(question.category or "", []).append((question.text, shown))
    return replace(definition, read=partial(_read, read=definition.read, examples=examples))


def _read(
    row: Row,
    *,
    read: Callable[[Row], tuple[Task, Reference] | None],
    examples: Mapping[str, Sequence[tuple[str, str]]],
) -> tuple[Task, Reference] | None:
    """Return the task and reference of a row, with the examples of its subject. Raises DataError."""
    found = read(row)
    if found is None:
        return None
    task, reference = found
    question = row.text("question")
    # A question of `validation` itself must not show its own answer.
    shown = [text for asked, text in examples.get(task.category or "", ()) if asked != question][:SHOTS]
    if not shown:
        raise row.error("has no examples in the file of the option 'examples'", field="category")
    head, mark, rest = task.prompt.partition("Question:\n")
    return replace(task, prompt=head + "\n\n".join([*shown, mark + rest])), reference


BENCHMARKS = (replace(_PLAIN, configure=configure, options=MMLUOptions),)
