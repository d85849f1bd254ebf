"""The outcomes of the attacks, kept in a file from run to run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Outcome(StrEnum):
    """The outcome of an attack on a grader.

    FORGED: the grader passed a program that does not solve the task. LOST: the grader's own run ended
    without verdicts, so nothing passed, and nothing else of that run was graded either.
    """

    FORGED = "forged"
    HELD = "held"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one attack on one grader. `on_stdin` tells the two sets of attacks apart.

    `tasks` has what came of each task that was tried: they end with the first that is forged.
    """

    grader: str
    attack: str
    kind: str
    on_stdin: bool
    tasks: dict[str, Outcome]

    @property
    def outcome(self) -> Outcome:
        """Return FORGED or LOST where that came of any task."""
        found = self.tasks.values()
        return next((each for each in (Outcome.FORGED, Outcome.LOST) if each in found), Outcome.HELD)


class Store:
    """Outcomes in a file of lines, each under a key of all that it depends on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, Outcome] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._read(line)

    def get(self, key: str) -> Outcome | None:
        """Return the outcome under this key, or None."""
        return self._outcomes.get(key)

    def add(self, key: str, outcome: Outcome, **facts: str | float) -> None:
        """Keep an outcome. The facts are for people who read the file."""
        self._outcomes[key] = outcome
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "outcome": outcome, **facts}) + "\n")

    def _read(self, line: str) -> None:
        try:
            fields = json.loads(line)
            self._outcomes[fields["key"]] = Outcome(fields["outcome"])
        except (ValueError, KeyError):
            return  # the end of a run that was killed while it wrote
