"""The files of code_generation_lite that make up each release, and their numbers of problems."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.benchmarks.data.rows import Row
from harness.benchmarks.livecodebench.problem import contest_date
from harness.core.errors import UsageError, unknown_name
from harness.core.types import DataSource

ONLY_TEST = dict.fromkeys(("train", "dev"), "it was published with test only")
"""The reasons why no scenario has other splits."""
EXECUTION_PROBLEMS = 479
"""The number of rows of execution-v2."""
TEST_OUTPUT_PROBLEMS = 442
"""The number of rows of test_generation."""


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of the dataset, by its name there, and the number of its problems."""

    name: str
    problems: int


FILES = (
    ReleaseFile("test.jsonl", 400),
    ReleaseFile("test2.jsonl", 111),
    ReleaseFile("test3.jsonl", 101),
    ReleaseFile("test4.jsonl", 101),
    ReleaseFile("test5.jsonl", 167),
    ReleaseFile("test6.jsonl", 175),
)
LATEST = "release_latest"

_RANGE = re.compile(r"v(\d{1,3})(?:[-_]v(\d{1,3}))?")


def release_names() -> tuple[str, ...]:
    """Return the names of all releases and files. Ranges such as `v2_v4` are possible too."""
    numbers = range(1, len(FILES) + 1)
    return (*(f"release_v{number}" for number in numbers), LATEST, *(f"v{number}" for number in numbers))


def files_of(release: str) -> tuple[ReleaseFile, ...]:
    """Return the files of a release, in order.

    `release_v3` is the first three files, `release_latest` all, `v3` only the third, and `v2-v4` (or
    `v2_v4`, as upstream writes it) the second to the fourth. Raises UsageError for other names.
    """
    name = release.strip().lower()
    if name == LATEST:
        return FILES
    single = name.removeprefix("release_")
    found = _RANGE.fullmatch(single)
    if found is None or (single != name and found[2]):
        raise unknown_name("release", release, release_names())
    last = int(found[2] or found[1])
    first = 1 if single != name else int(found[1])
    if not 1 <= first <= last <= len(FILES):
        if found[2] is None:
            raise unknown_name("release", release, release_names())
        raise UsageError(
            f"release '{release}' is not a range of files",
            hint=f"the files are v1 to v{len(FILES)}, and the lower one comes first",
        )
    return FILES[first - 1 : last]


def problems_of(files: Sequence[ReleaseFile]) -> int:
    """Return the number of problems that these files must hold together."""
    return sum(file.problems for file in files)


def name_release(release: str, source: DataSource) -> str:
    """Return the release of rows. A file of other problems has none, whatever the user asked for."""
    if source.kind == "bundled":
        return "no release"
    if source.kind == "path" and os.path.isfile(source.location):
        given = ReleaseFile(os.path.basename(source.location), source.rows)
        return f"v{FILES.index(given) + 1}" if given in FILES else "no release"
    return f"{LATEST} (v1 to v{len(FILES)})" if release.lower() == LATEST else release.lower()


def describe_window(release: str, source: DataSource, rows: Sequence[Row]) -> str:
    """Return the release, the first and last day of the contests, and the number of problems as text."""
    dates = sorted(map(contest_date, rows))
    of_all = "" if len(rows) == source.rows else f" of {source.rows:,}"
    return f"{release}, contests of {dates[0]} to {dates[-1]}, {len(rows):,}{of_all} problems"
