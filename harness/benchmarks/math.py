r"""MATH (Hendrycks et al. 2021, arXiv 2103.03874): competition problems, the answer in a `\boxed{}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field

from harness.benchmarks.benchmark import Definition, Split
from harness.benchmarks.options import Options, checked
from harness.benchmarks.replies import spoken
from harness.data.hub import HubDataset
from harness.data.rows import Row
from harness.errors import unknown_name
from harness.grading.boxed import last_boxed
from harness.grading.maths_answers import MAX_CHARACTERS, METRICS, MathsAnswer
from harness.model import Reference, Submission, Task

_HUB = "DigitalLearningGmbH/MATH-lighteval"
# That of DeepSeekMath (arXiv 2402.03300), which Qwen2.5-Math and most since have taken over.
PROMPT = "{problem_statement}\nPlease reason step by step, and put your final answer within \\boxed{}.\n"


TYPES = (
    "algebra",
    "counting & probability",
    "geometry",
    "intermediate algebra",
    "number theory",
    "prealgebra",
    "precalculus",
)


def read(row: Row) -> tuple[Task, Reference]:
    r"""Read a row of the published schema: problem, solution (with the answer in `\boxed{}`), level, type."""
    problem, solution = row.text("problem"), row.text("solution")
    level, subject = row.text("level"), row.text("type")
    if not problem.strip():
        raise row.error("is empty", field="problem")
    gold = last_boxed(solution)
    if not gold:
        raise row.error(r"has no \boxed{} with an answer in it", field="solution")
    if len(gold) > MAX_CHARACTERS:
        raise row.error(f"has an answer of {len(gold):,} characters", field="solution")
    task = Task(
        id=f"math/{row.place}",
        benchmark="math",
        environment="text",
        prompt=PROMPT.replace("{problem_statement}", problem),
        category=subject,
        labels={"level": level},
        statement=problem,
    )
    return task, Reference(task.id, solution, MathsAnswer(gold), expected_output=gold)


def submit(task: Task, field: str, text: str) -> Submission:
    r"""Of a reply only its last `\boxed{}` counts; a `solution` or `answer` without one counts as a whole."""
    found = last_boxed(spoken(text) if field == "completion" else text)
    if found is None:
        found = "" if field == "completion" else text.strip()
    return Submission(found, agent_output=text)


class MathOptions(Options):
    """Which problems there are: of which `level`, 1 to 5, and of which `type`; None stands for all."""

    level: int | None = Field(default=None, ge=1, le=5)
    type: str | None = None


def configure(definition: Definition, options: Mapping[str, Any]) -> Definition:
    """Return the benchmark with the problems that the options choose. Raises UsageError."""
    chosen = checked(MathOptions, options, definition.name)
    if chosen.level is None and chosen.type is None:
        return definition
    if chosen.type is not None and chosen.type.lower() not in TYPES:
        raise unknown_name("type", chosen.type, TYPES)

    def read_chosen(row: Row) -> tuple[Task, Reference] | None:
        if chosen.level is not None and row.text("level") != f"Level {chosen.level}":
            return None
        if chosen.type is not None and row.text("type").lower() != chosen.type.lower():
            return None
        return read(row)

    return replace(definition, read=read_chosen)


BENCHMARKS = (
    Definition(
        name="math",
        description="solve a competition problem in mathematics",
        environments=("text",),
        tasks=5000,
        licence="MIT",
        splits={"train": Split(HubDataset(_HUB, "default", "train"), 7500)},
        missing={"dev": "it was published with train and test alone"},
        formats=("its rows as JSONL or JSON",),
        hub=HubDataset(_HUB, "default", "test"),
        bundled="math.jsonl",
        read=read,
        submit=submit,
        metrics=METRICS,
        configure=configure,
        options=MathOptions,
    ),
)
