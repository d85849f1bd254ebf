"""Answers in the usual styles of models, each with its gold answer.

`right.jsonl` must pass and `wrong.jsonl` must fail. `unjudged.jsonl` holds right answers that fail, each with
the reason. docs/answers.md lists those reasons. `maths_kinds.jsonl` holds tables by kind: the contents of
boxes that must pass and fail for a gold answer, each right form beside answers that differ from it slightly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.benchmarks import definitions
from harness.benchmarks.data.rows import Row as DataRow
from harness.core.types import Reference, Submission, Verdict

FOLDER = Path(__file__).with_name("answers")
_CONTEST = {
    "question_id": "1",
    "contest_id": "c",
    "contest_date": "2024-01-01 00:00:00",
    "difficulty": "easy",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One reply of a model, and the expected answer."""

    benchmark: str
    gold: Any
    reply: str
    metric: str | None = None
    """The metric that must be 1, if it is not the score."""
    problem: str = "The problem."
    reason: str | None = None

    def attempt(self) -> tuple[Reference, Submission]:
        """Return the reference, read from a row in the published schema, and the reply's submission."""
        definition = definitions()[self.benchmark]
        read = definition.read(DataRow(self._row(), "rows.jsonl", line=1))
        assert isinstance(read, tuple)
        task, reference = read
        return reference, definition.submit(task, "completion", self.reply)

    def passes(self, verdict: Verdict) -> bool:
        return verdict.metrics[self.metric] == 1.0 if self.metric else verdict.resolved

    def _row(self) -> Mapping[str, Any]:
        match self.benchmark:
            case "gsm8k":
                return {"question": self.problem, "answer": f"#### {self.gold}"}
            case "math":
                solution = rf"So it is $\boxed{{{self.gold}}}$."
                return {"problem": self.problem, "solution": solution, "level": "Level 1", "type": "Algebra"}
            case "nq":
                return {"question": self.problem, "answer": self.gold}
            case "hotpotqa":
                context = [["Title", ["A sentence."]]]
                return {"question": self.problem, "answer": self.gold, "context": context, "type": "bridge"}
            case "livecodebench-execution":
                code = {"code": "def f(n): ...", "input": "f(n = 3)", "output": self.gold}
                return {**_CONTEST, "id": "sample_1", "function_name": "f", **code}
            case "livecodebench-test-output":
                test = [{"input": "1", "output": self.gold, "testtype": "functional"}]
                texts = {"question_title": "f", "question_content": self.problem, "starter_code": "def f(n):"}
                return {**_CONTEST, **texts, "test_id": 1, "function_name": "f", "test": json.dumps(test)}
        raise ValueError(f"no row for {self.benchmark}")


@dataclass(frozen=True, slots=True)
class Row:
    """A gold answer in LaTeX, and answers of one kind that must pass and fail for it."""

    kind: str
    gold: str
    right: list[str]
    wrong: list[str]


def rows_of_kinds() -> dict[str, list[Row]]:
    """Return the rows of `maths_kinds.jsonl` by kind."""
    kinds: dict[str, list[Row]] = {}
    for line in (FOLDER / "maths_kinds.jsonl").read_text(encoding="ascii").splitlines():
        row = Row(**json.loads(line))
        kinds.setdefault(row.kind, []).append(row)
    return kinds


def cases(name: str) -> list[Case]:
    """Return the cases of a file: `right`, `wrong` or `unjudged`."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="ascii").splitlines()
    return [Case(**json.loads(line)) for line in lines]
