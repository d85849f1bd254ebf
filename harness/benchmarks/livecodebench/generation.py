"""LiveCodeBench, code generation: write a program, graded by its output or its function's results."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.source import BUNDLED
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.livecodebench.prediction import ChoiceOptions, write_program
from harness.benchmarks.livecodebench.problem import (
    HIDDEN,
    LATEST,
    ONLY_TEST,
    Filters,
    PackedTests,
    Problem,
    ReleaseFile,
    describe_window,
    files_of,
    name_release,
    problems_of,
    read_problem,
)
from harness.benchmarks.options import NO_EFFECT, OptionEffect, validate_options
from harness.benchmarks.programs import SubmitProgram
from harness.benchmarks.replies import CodeRule
from harness.core.errors import DataError
from harness.core.types import DataSource, Reference, Task
from harness.environments.python.call_programs import CallTest, CallTests
from harness.environments.python.guest import contest_preamble
from harness.environments.python.stdin_programs import Compatibility, StdinTest, StdinTests

PREAMBLE = contest_preamble.PREAMBLE
NAME = "livecodebench"
REPOSITORY = "livecodebench/code_generation_lite"
# A problem's hidden tests take megabytes, and are not read before a program is graded.
ON_DISK = (HIDDEN,)
SOLUTIONS = "livecodebench-solutions.jsonl"


class GenerationOptions(ChoiceOptions):
    """The choice of tasks, and the rules for grading programs."""

    release: Annotated[str, NO_EFFECT] = LATEST
    """`release_v1` to `release_v6`, `release_latest`, a single file `v1` to `v6`, or a range as `v2_v4`."""
    platform: Annotated[tuple[str, ...], NO_EFFECT] = ()
    """One platform or several."""
    strict_compat: Compatibility = Compatibility.OFF
    """`off`, `report` or `verdict`; true means `report`."""
    extraction: CodeRule = CodeRule.BETWEEN_LAST_FENCES
    """The rule that chooses the code block of a reply that is the program."""
    solutions: Annotated[str | None, OptionEffect("read the file")] = Field(default=None, min_length=1)
    """A JSONL file of `task_id` and `solution` for the oracle, because the benchmark has no solutions."""

    @field_validator("strict_compat", mode="before")
    @classmethod
    def _switch(cls, value: Any) -> Any:
        # YAML reads `off` as false, so a boolean must mean a name.
        return {True: "report", False: "off"}.get(value, value) if isinstance(value, bool) else value

    def filters(self) -> Filters:
        return replace(super().filters(), platforms=self.platform)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The reader of rows under some options."""

    options: GenerationOptions
    filters: Filters
    solutions: Mapping[str, str]

    def __call__(self, row: Row) -> tuple[Task, Reference] | None:
        problem = read_problem(row)
        if not self.filters.accept(
            date=problem.date, difficulty=problem.difficulty, platform=problem.platform
        ):
            return None
        task = Task(
            id=problem.id,
            benchmark=NAME,
            environment="python",
            prompt=write_program(problem),
            category=problem.difficulty,
            entry_point=problem.function,
            labels={"platform": problem.platform},
            difficulty=problem.difficulty,
        )
        solution = self.solutions.get(problem.id, "")
        return task, Reference(problem.id, solution, target_of(problem, self.options), solution)


@dataclass(frozen=True, slots=True)
class PackedInputs:
    """Tests of a program that reads stdin, unpacked when it is graded."""

    packed: PackedTests

    def load(self) -> Sequence[StdinTest]:
        """Return the tests. Raises DataError."""
        return [StdinTest(test.input, test.output) for test in self.packed.load()]


@dataclass(frozen=True, slots=True)
class PackedCalls:
    """Tests of a function, unpacked when it is graded."""

    packed: PackedTests

    def load(self) -> Sequence[CallTest]:
        """Return the tests. Raises DataError."""
        return [CallTest(test.input, test.output) for test in self.packed.load()]


def target_of(problem: Problem, options: GenerationOptions) -> CallTests | StdinTests:
    """Return the target of a problem. A grader unpacks its hidden tests when it needs them."""
    shown = len(problem.tests.public)
    if problem.function is not None:
        return CallTests(PackedCalls(problem.tests), problem.function, shown, PREAMBLE)
    return StdinTests(PackedInputs(problem.tests), shown, PREAMBLE, strict_compat=options.strict_compat)


def configure(definition: Definition, values: Mapping[str, Any]) -> Definition:
    """Return the definition under these options. Raises UsageError, and DataError for broken solutions."""
    options = validate_options(GenerationOptions, values, NAME)
    files = files_of(options.release)
    solutions = dict(_bundled_solutions())
    if options.solutions is not None:
        solutions |= _solutions(Path(os.path.expanduser(options.solutions)))
    return replace(
        definition,
        tasks=problems_of(files),
        hub=_hub(files),
        gather=partial(_gather, files=files),
        find_window=partial(_find_window, options.release.strip()),
        read=_Reading(options, options.filters(), solutions),
        submit=SubmitProgram(completion=options.extraction, reply=options.extraction),
    )


def _find_window(release: str, source: DataSource, rows: Sequence[Row]) -> str:
    return describe_window(name_release(release, source), source, rows)


def _hub(files: Sequence[ReleaseFile]) -> HubDataset:
    return HubDataset(REPOSITORY, None, "test", tuple(file.name for file in files), ON_DISK)


def _gather(
    path: Path, _notify: Callable[[str], None], *, files: Sequence[ReleaseFile]
) -> tuple[list[Row], str]:
    """Return the rows of a file, or of all files of the release in a folder. Raises DataError."""
    if not path.is_dir():
        return read_rows(path, left_on_disk=ON_DISK)
    rows: list[Row] = []
    digests: list[str] = []
    for file in files:
        found, sha256 = read_rows(path / file.name, left_on_disk=ON_DISK)
        if len(found) != file.problems:
            raise DataError(
                f"has {len(found)} problems, but {file.problems} were published", path=path / file.name
            )
        rows += found
        digests.append(sha256)
    return rows, digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


@cache
def _bundled_solutions() -> Mapping[str, str]:
    return _solutions(BUNDLED / SOLUTIONS)


def _solutions(path: Path) -> dict[str, str]:
    rows, _ = read_rows(path)
    return {row.text("task_id"): row.text("solution") for row in rows}


BENCHMARKS = (
    Definition(
        name=NAME,
        description="write a Python program that solves a problem of a programming contest",
        environments=("python",),
        tasks=problems_of(files_of(LATEST)),
        licence="CC",
        missing=ONLY_TEST,
        hub=_hub(files_of(LATEST)),
        gather=partial(_gather, files=files_of(LATEST)),
        find_window=partial(_find_window, LATEST),
        bundled="livecodebench.jsonl",
        formats=("test.jsonl to test6.jsonl, one of them or a folder",),
        read=_Reading(GenerationOptions(), Filters(), {}),
        submit=SubmitProgram(completion=CodeRule.BETWEEN_LAST_FENCES, reply=CodeRule.BETWEEN_LAST_FENCES),
        configure=configure,
        options=GenerationOptions,
    ),
)
