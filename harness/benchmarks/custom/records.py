"""Build a definition from the keys of a user's file and a function that reads its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.custom.metric import AnswerKey, OwnMetric
from harness.benchmarks.data.rows import Row, require_sound
from harness.benchmarks.programs import WRITE_PROGRAM, SubmitProgram
from harness.benchmarks.replies import REPLY_FIELDS, CodeRule, remark_on_answer
from harness.core.errors import UsageError
from harness.core.types import ProgramTests, Reference, Submission, Task

# The most characters of a gold answer that results show.
_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Record:
    """One task as the user's file describes it."""

    id: str
    prompt: str
    answer_key: AnswerKey
    category: str | None = None
    difficulty: str | None = None
    tags: tuple[str, ...] = ()


def read_tags(row: Row, field: str) -> tuple[str, ...]:
    """Return the tags in a field: a list of texts or one text, () without a value. Raises DataError."""
    value = row.values.get(field)
    if value is None:
        return ()
    tags = row.texts(field) if isinstance(value, list) else [row.name(field)]
    for tag in tags:
        if not tag.strip():
            raise row.error("holds an empty tag", field=field)
        require_sound(row, field, tag)
    return tuple(tags)


def build_definition(
    name: str,
    metric: OwnMetric,
    record: Callable[[Row], Record],
    *,
    answer_after: str | None = None,
    **facts: Any,
) -> Definition:
    """Return a definition that reads rows by `record`; `facts` are further fields of the definition.

    Raises UsageError for `answer_after` with a metric of programs, whose rules look for blocks of code.
    """
    programs = metric.environment == "python"
    if programs and answer_after is not None:
        raise UsageError(
            f"{name}: 'answer_after' is for answers, but the metric '{metric.name}' grades programs",
            hint="leave it out; --extract RULE changes the rule for code",
        )

    def read(row: Row) -> tuple[Task, Reference]:
        found = record(row)
        target = metric.target(found.answer_key)
        solution = found.answer_key.reference if programs else found.answer_key.golds()[0]
        task = Task(
            id=found.id,
            benchmark=name,
            environment=metric.environment,
            prompt=found.prompt,
            category=found.category,
            difficulty=found.difficulty,
            tags=found.tags,
            entry_point=next(iter(target.exports), None) if isinstance(target, ProgramTests) else None,
            instruction=WRITE_PROGRAM if programs else "",
        )
        return task, Reference(found.id, solution, target, expected_output=solution[:_SHOWN])

    def submit_answer(task: Task, field: str, text: str) -> Submission:
        if field not in REPLY_FIELDS:
            return Submission(text, agent_output=text)
        answer = metric.of_reply(text)
        if answer_after is not None and answer_after in answer:
            answer = answer.rpartition(answer_after)[2].strip()
        return Submission(answer, agent_output=text, remark=remark_on_answer(text, "answer", answer))

    settings: Mapping[str, Any] = {
        "environments": (metric.environment,),
        "tasks": None,
        "hub": None,
        "bundled": None,
        **facts,
    }
    submit = SubmitProgram(completion=CodeRule.FENCED) if programs else submit_answer
    return Definition(name=name, read=read, submit=submit, **settings)
