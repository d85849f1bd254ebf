r"""AIME, the American Invitational Mathematics Examination of three years: answers from 0 to 999."""

from __future__ import annotations

import re
from functools import partial

from harness.benchmarks import math
from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset
from harness.core.scoring.answers import last_boxed
from harness.core.types import PlainData, Reference, Task
from harness.environments.maths.grader import MathsAnswer
from harness.environments.maths.readings import asked_bases
from harness.environments.text.stated_answers import METRICS, IntegerAnswer

LARGEST_ANSWER = 999
"""The largest answer of AIME."""

# Publishers name the same field differently.
_PROBLEMS = ("problem", "question", "Problem", "Question")
_ANSWERS = ("answer", "expected_answer", "Answer")
_IDS = ("id", "ID", "problem_idx", "unique_id")
# The competition and the year in the id of a file that holds several: `aime24-3`, `hmmt_F_2025_guts_1`.
_SET = re.compile(r"(?P<name>aime|hmmt)[_-]?(?:[a-z]+[_-])?(?:20)?(?P<year>\d\d)(?!\d)", re.IGNORECASE)
# The file of a gym of environments names its own verifier.
UNUSED_FIELDS = frozenset({"verifier_type"})
_NUMBER = re.compile(r"\d{1,3}(?:\.0)?")


def _find(row: Row, names: tuple[str, ...]) -> str:
    """Return the name of the field that the row has, the first name if it has none."""
    return next((name for name in names if name in row.values), names[0])


def _text(row: Row, names: tuple[str, ...]) -> str:
    field = _find(row, names)
    value = row.values.get(field)
    text = str(int(value)) if isinstance(value, int | float) and value == int(value) else row.text(field)
    if not text.strip():
        raise row.error("is empty", field=field)
    return text


def read(row: Row, name: str, competition: str, year: str | None) -> tuple[Task, Reference] | None:
    """Return the task and reference of a row, None for a row that names another competition or year.

    `name` is the name of the benchmark, and `competition` is `aime` or `hmmt`, whose answers are expressions.
    Raises DataError, with file and line, for a broken row.
    """
    place = row.name(field) if (field := _find(row, _IDS)) in row.values else str(row.place)
    if (told := _SET.match(place)) is not None and (
        told["name"].lower() != competition or (year is not None and told["year"] != year)
    ):
        return None
    problem, answer = _text(row, _PROBLEMS), _text(row, _ANSWERS).strip()
    gold = last_boxed(answer) or answer.removesuffix(".").strip().strip("$").strip().removesuffix(".")
    target: PlainData = MathsAnswer(gold, asked_bases(problem))
    if competition == "aime":
        if _NUMBER.fullmatch(gold) is None:
            raise row.error(
                f"needs an integer from 0 to {LARGEST_ANSWER}, found {gold[:40]!r}",
                field=_find(row, _ANSWERS),
            )
        target = IntegerAnswer(int(float(gold)))
    task = Task(
        id=f"{name}/{place}",
        benchmark=name,
        environment="text",
        prompt=math.PROMPT.replace("{problem_statement}", problem),
        statement=problem,
    )
    return task, Reference(task.id, rf"\boxed{{{gold}}}", target, expected_output=gold)


def _define_aime(year: int, repository: str, split: str = "train") -> Definition:
    name = f"aime{year}"
    return Definition(
        name=name,
        description=f"solve a problem of AIME {year}, whose answer is an integer",
        environments=("text",),
        tasks=30,
        licence="competition texts, not free",
        grading_version=2,
        formats=("its rows as JSONL, JSON, CSV or Parquet",),
        missing=dict.fromkeys(("train", "dev"), "it has 30 problems"),
        hub=HubDataset(repository, "default", split),
        bundled="aime.jsonl",
        read=partial(read, name=name, competition="aime", year=f"{year % 100:02}"),
        submit=math.submit,
        reply_rule=math.BENCHMARKS[0].reply_rule,
        metrics=METRICS,
        unused_fields=UNUSED_FIELDS,
    )


BENCHMARKS = (
    _define_aime(2024, "HuggingFaceH4/aime_2024"),
    _define_aime(2025, "MathArena/aime_2025"),
    _define_aime(2026, "MathArena/aime_2026"),
)
