"""The metrics that a user's benchmark may name, and the fields of a row that they grade by."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.benchmarks.data.rows import Row, describe, require_sound
from harness.benchmarks.programs import build_from_solution, parse
from harness.core.errors import UsageError, unknown_name
from harness.core.scoring.answers import drop_thoughts
from harness.core.scoring.numbers import last_number
from harness.core.types import ProgramTests
from harness.environments.text.short_answers import AnswerRule, PlainAnswer


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """The fields of a row that answers are graded by."""

    row: Row
    reference: Any
    """The gold answer, a list of several, or the program that passes `tests`."""
    tests: Any = None
    setup: str = ""
    reference_field: str = "reference"
    """The row's name for `reference`, for errors."""
    tests_field: str = "tests"
    """The row's name for `tests`, for errors."""

    def golds(self) -> tuple[str, ...]:
        """Return the gold answers, at least one and none of them empty. Raises DataError."""
        values = self.reference if isinstance(self.reference, list) else [self.reference]
        golds = tuple(str(value) if type(value) in (int, float) else value for value in values)
        for gold in golds:
            if not isinstance(gold, str) or not gold.strip():
                raise self.row.error(
                    f"needs a text, a number or a list of these, found {describe(self.reference)}",
                    field=self.reference_field,
                )
        if not golds:
            raise self.row.error("is an empty list, so no answer can be right", field=self.reference_field)
        return golds


@dataclass(frozen=True, slots=True)
class OwnMetric:
    """A metric: it builds the target, names the environment, and extracts the answer from a reply."""

    name: str
    description: str
    target: Callable[[AnswerKey], PlainAnswer | ProgramTests]
    environment: str = "text"
    of_reply: Callable[[str], str] = lambda reply: drop_thoughts(reply).strip()
    """Extracts the answer from a reply. A metric of programs has the rule `fenced` instead."""


def find_metric(name: str, path: Path, key: str) -> OwnMetric:
    """Return a metric. Raises UsageError, with the file and key that name it, for an unknown one."""
    if name not in METRICS:
        unknown = unknown_name("metric", name, METRICS)
        raise UsageError(f"{path}: '{key}': {unknown.message}", hint=unknown.hint)
    return METRICS[name]


def _by(rule: AnswerRule) -> Callable[[AnswerKey], PlainAnswer]:
    def target(answer_key: AnswerKey) -> PlainAnswer:
        golds = answer_key.golds()
        if rule is AnswerRule.NUMBER and not all(last_number(gold) is not None for gold in golds):
            raise answer_key.row.error(f"has no number: {golds[0]!r}", field=answer_key.reference_field)
        return PlainAnswer(rule, golds)

    return target


def _program_tests(answer_key: AnswerKey) -> ProgramTests:
    """Return the tests of a program: statements that call what the reference program defines."""
    row, solution_field, tests_field = answer_key.row, answer_key.reference_field, answer_key.tests_field
    if not isinstance(answer_key.reference, str):
        raise row.error(
            f"needs the reference program, found {describe(answer_key.reference)}", field=solution_field
        )
    tests = [answer_key.tests] if isinstance(answer_key.tests, str) else answer_key.tests
    if not isinstance(tests, list) or not tests or not all(isinstance(test, str) for test in tests):
        raise row.error(
            f"needs a test or a list of tests, found {describe(answer_key.tests)}", field=tests_field
        )
    solution = _parse_field(row, answer_key.reference, solution_field)
    for test_source, field in ((answer_key.setup, "setup"), ("\n".join(tests), tests_field)):
        _parse_field(row, test_source, field)
    program_tests = build_from_solution(solution, tests, answer_key.setup)
    if program_tests is None:
        raise row.error("has no test that uses a name of the reference program", field=tests_field)
    return program_tests


def _parse_field(row: Row, source: str, field: str) -> ast.Module:
    try:
        return parse(source)
    except (SyntaxError, ValueError) as error:
        raise row.error(f"is not Python: {error}", field=field) from error


METRICS: Mapping[str, OwnMetric] = {
    metric.name: metric
    for metric in (
        OwnMetric(
            "exact_match",
            "the answer equals a gold answer in SQuAD's normal form",
            _by(AnswerRule.EXACT_MATCH),
        ),
        OwnMetric("f1", "F1 of shared tokens with the best gold answer", _by(AnswerRule.F1)),
        OwnMetric("has_answer", "the answer contains a gold answer", _by(AnswerRule.HAS_ANSWER)),
        OwnMetric(
            "number",
            "the marked number of the answer, else its last one, is the gold one",
            _by(AnswerRule.NUMBER),
        ),
        OwnMetric("tests", "a Python program passes its tests", _program_tests, "python"),
    )
}


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
