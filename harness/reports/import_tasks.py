"""The tasks of imported samples, for files of other projects that do not name them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harness.core.errors import DataError


@dataclass(slots=True)
class KnownTasks:
    """The benchmark whose tasks a file has samples of, None if the user has not named it."""

    benchmark: str | None = None
    data: str | None = None
    split: str | None = None
    _ids: dict[str, str] | None = field(default=None, init=False)

    def find(self, text: str, path: Path, *, line: int | None = None) -> str:
        """Return the id of the task whose problem is `text`, or whose problem `text` contains.

        Raises DataError if the benchmark is not named or has no such task.
        """
        if self.benchmark is None:
            raise DataError(
                "does not name the tasks, so that they are found by their problems",
                path=path,
                line=line,
                hint="name the benchmark, and its data as in a run: -b NAME --data PATH",
            )
        if self._ids is None:
            self._ids = self._read()
        wanted = _reduce(text)
        exact = self._ids.get(wanted)
        if exact is not None:
            return exact
        # The longest problem, because one may be a part of another.
        within = max((each for each in self._ids if each in wanted), key=len, default=None)
        if within is None:
            raise DataError(
                f"{self.benchmark} has no task with this problem: {text[:60]!r}",
                path=path,
                line=line,
                hint="name the data that the other project used: --data PATH --split NAME",
            )
        return self._ids[within]

    def _read(self) -> dict[str, str]:
        from harness.benchmarks.loading import load_benchmark

        assert self.benchmark is not None  # noqa: S101  because `find` has checked it
        found = load_benchmark(self.benchmark, data=self.data, split=self.split)
        return {_reduce(task.statement or task.prompt): task.id for task in found.tasks}


def _reduce(text: str) -> str:
    """Return a text with all its space alike, because projects strip it differently."""
    return " ".join(text.split())
