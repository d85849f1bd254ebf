r"""MATH (Hendrycks et al. 2021, arXiv 2103.03874): competition problems, the answer in a `\boxed{}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset, Split
from harness.benchmarks.options import NO_EFFECT, Options, validate_options
from harness.benchmarks.replies import REPLY_FIELDS, explain_nothing
from harness.core.errors import UsageError, unknown_name
from harness.core.scoring.answers import (
    MAX_MATHS_CHARACTERS,
    drop_thoughts,
    last_boxed,
    stated_answer,
    tagged_answer,
)
from harness.core.types import Reference, Submission, Task
from harness.environments.maths.grader import METRICS, MathsAnswer
from harness.environments.maths.readings import asked_bases

_HUB = "DigitalLearningGmbH/MATH-lighteval"
Level = Annotated[int, Field(ge=1, le=5)]
# The prompt of DeepSeekMath (arXiv 2402.03300), which Qwen2.5-Math and most later models use too.
PROMPT = "{problem_statement}\nPlease reason step by step, and put your final answer within \\boxed{}.\n"
TYPES = (
    *("algebra", "counting & probability", "geometry", "intermediate algebra", "number theory"),
    *("prealgebra", "precalculus"),
)


def read(row: Row) -> tuple[Task, Reference]:
    r"""Return the task and reference of a row: problem, solution (its answer in `\boxed{}`), level, type."""
    problem, solution = row.text("problem"), row.text("solution")
    level, subject = row.text("level"), row.text("type")
    if not problem.strip():
        raise row.error("is empty", field="problem")
    gold = last_boxed(solution)
    if not gold:
        raise row.error(r"has no \boxed{} with an answer in it", field="solution")
    if len(gold) > MAX_MATHS_CHARACTERS:
        raise row.error(
            f"has an answer of {len(gold):,} characters, more than {MAX_MATHS_CHARACTERS:,}", field="solution"
        )
    task = Task(
        id=f"math/{row.place}",
        benchmark="math",
        environment="text",
        prompt=PROMPT.replace("{problem_statement}", problem),
        category=subject,
        labels={"level": level},
        statement=problem,
        difficulty=level.removeprefix("Level "),
    )
    return task, Reference(task.id, solution, MathsAnswer(gold, asked_bases(problem)), expected_output=gold)


def read_math_500(row: Row) -> tuple[Task, Reference]:
    """Return the task and reference of a row of MATH-500, which has `subject` for MATH's `type`."""
    values = dict(row.values)
    if "subject" in values:
        values |= {"type": values["subject"], "level": f"Level {str(values['level']).removeprefix('Level ')}"}
    task, reference = read(replace(row, values=values))
    place = row.name("unique_id") if "unique_id" in values else str(row.place)
    task = replace(task, id=f"math-500/{place}", benchmark="math-500")
    return task, replace(reference, task_id=task.id)


def submit(task: Task, field: str, text: str) -> Submission:
    r"""Return the submission: the content of the last `\boxed{}`, else of the last `<answer>`.

    A box in the last `<answer>` precedes any other. A reply with neither may end with the line `Answer: ...`.
    A `solution` with neither counts whole.
    """
    is_reply = field in REPLY_FIELDS
    answer = drop_thoughts(text) if is_reply else text
    tagged = tagged_answer(answer)
    boxed = (None if tagged is None else last_boxed(tagged)) or last_boxed(answer)
    found = tagged if boxed is None else boxed
    if found is None and is_reply:
        found = stated_answer(answer)
    if found is not None:
        return Submission(found, agent_output=text)
    if is_reply:
        return Submission("", agent_output=text, remark=explain_nothing(text, r"\boxed{}"))
    return Submission(text.strip(), agent_output=text)


def _listify(value: Any) -> Any:
    """Return a list of values. A single value becomes its only element."""
    return value if isinstance(value, list | tuple) else [value]


class MathOptions(Options):
    """The choice of problems by `level` (1 to 5) and `type`, each one value or several; none takes all."""

    level: Annotated[list[Level], BeforeValidator(_listify)] = Field(default_factory=list)
    type: Annotated[list[str], BeforeValidator(_listify), NO_EFFECT] = Field(default_factory=list)


def configure(definition: Definition, options: Mapping[str, Any]) -> Definition:
    """Return the definition with the problems that the options choose. Raises UsageError."""
    wanted = validate_options(MathOptions, options, definition.name)
    levels = {f"Level {level}" for level in wanted.level}
    types = {name.lower() for name in wanted.type}
    for name in sorted(types - set(TYPES)):
        unknown = unknown_name("type", name, TYPES)
        raise UsageError(f"{definition.name}: {unknown.message}", hint=unknown.hint)

    def read_chosen(row: Row) -> tuple[Task, Reference] | None:
        if levels and row.text("level") not in levels:
            return None
        if types and row.text("type").lower() not in types:
            return None
        return read(row)

    return replace(definition, read=read_chosen) if levels or types else definition


BENCHMARKS: tuple[Definition, ...] = (
    Definition(
        name="math",
        description="solve a competition problem in mathematics",
        environments=("text",),
        tasks=5000,
        licence="MIT",
        grading_version=2,
        splits={"train": Split(HubDataset(_HUB, "default", "train"), 7500)},
        missing={"dev": "it was published with train and test only"},
        formats=("its rows as JSONL or JSON", "MATH.tar or its folder, a file for each problem"),
        hub=HubDataset(_HUB, "default", "test"),
        bundled="math.jsonl",
        read=read,
        submit=submit,
        reply_rule=r"the content of the last `\boxed{}`, else of the last `<answer>`, else of the last line "
        "if it is `Answer: ...`, else nothing",
        metrics=METRICS,
        configure=configure,
        options=MathOptions,
    ),
)
BENCHMARKS += (
    replace(
        BENCHMARKS[0],
        name="math-500",
        description="solve one of the 500 problems of MATH that arXiv 2305.20050 chose",
        tasks=500,
        formats=("its rows as JSONL or JSON",),
        splits={},
        missing=dict.fromkeys(("train", "dev"), "it was published with test only"),
        hub=HubDataset("HuggingFaceH4/MATH-500", "default", "test"),
        read=read_math_500,
        configure=None,
        options=None,
    ),
)
