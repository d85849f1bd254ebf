"""The progress of a run: its observers, the attempts under way, and the file with their stages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness.core.inputs.files import MIB
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.logger import get_logger
from harness.core.shield import complete
from harness.core.types import AttemptRecord
from harness.runs.records import PlannedAttempt
from harness.runs.run_files import read_run_file, remove_run_file, replace_run_file

_LOGGER = get_logger(__name__)
STAGES = "stages.json"
# The pause between two versions of the file.
_PAUSE_SECONDS = 1.0
# The oldest attempts are listed, and the counts cover all of them.
_MOST_ATTEMPTS = 2000
_MAX_BYTES = MIB
_MAX_PLACE_CHARACTERS = 200


class ShowsNotes(Protocol):
    """Shows messages to the user. `note` must return at once and raise nothing."""

    def note(self, text: str) -> None:
        """Show a message to the user: a fallback, a retry, a warning."""


class RunObserver(ShowsNotes, Protocol):
    """Gets the events of a run, always in the thread of the event loop.

    Every method must return at once and raise nothing. The last call is `on_end`, however the run ends.
    """

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        """Handle the start of a run of `attempts`. `finished` were done before it was resumed."""

    def on_attempt(self, record: AttemptRecord) -> None:
        """Handle the end of an attempt, whose record is stored."""

    def on_end(self) -> None:
        """Handle the end of the run, after its last attempt or after an interrupt."""


class Stage(StrEnum):
    """The stages of an attempt, by the words that displays show."""

    MODEL = "waiting for model"
    """At least one request to a model is under way, or waits for its place or its next try."""
    ACTING = "acting"
    """The agent works, in the sandbox if the task has one."""
    GRADING = "grading"
    """A grader works."""
    QUEUED = "queued"
    """The attempt waits for a sandbox, for a place to be graded, or before it is repeated."""


class ActiveAttempt:
    """An attempt under way. Displays read it in other threads, and only the event loop changes it."""

    __slots__ = ("_requests", "_stage", "number", "place", "started", "task_id")

    def __init__(self, task_id: str, number: int, started: float, place: str | None = None) -> None:
        """Begin an attempt at the time `started` of the monotonic clock.

        `place` is the node that makes it, None for this process.
        """
        self.task_id = task_id
        self.number = number
        self.started = started
        self.place = place
        self._stage = Stage.QUEUED
        self._requests = 0

    @property
    def stage(self) -> Stage:
        return Stage.MODEL if self._requests else self._stage

    def enter(self, stage: Stage) -> None:
        """Move the attempt to another stage."""
        self._stage = stage
        if _LOGGER.isEnabledFor(logging.DEBUG):
            _LOGGER.debug("%s, attempt %d: %s", self.task_id, self.number, stage)

    def begin_grading(self) -> None:
        """Note that a grader has its place and begins."""
        self.enter(Stage.GRADING)

    @contextlib.contextmanager
    def ask_model(self) -> Iterator[None]:
        """Note that a request to a model is under way in the block. Blocks may overlap."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1


@dataclass(frozen=True, slots=True)
class CategorySize:
    """The number of planned attempts in a category, and of those that an earlier run has finished."""

    attempts: int
    finished: int


@dataclass(slots=True)
class RunProgress:
    """The attempts of a run that are under way. The cost of each method depends on their number alone."""

    categories: Mapping[str, CategorySize] = field(default_factory=dict)
    """Empty for a benchmark without categories."""
    _active: dict[tuple[str, int], ActiveAttempt] = field(default_factory=dict)

    @contextlib.contextmanager
    def begin(self, planned: PlannedAttempt, *, place: str | None = None) -> Iterator[ActiveAttempt]:
        """Yield an attempt that is under way until the end of the block, at a node or in this process."""
        active = ActiveAttempt(planned.task.id, planned.number, time.monotonic(), place)
        self._active[planned.key] = active
        try:
            yield active
        finally:
            del self._active[planned.key]

    def list_active(self) -> list[ActiveAttempt]:
        """Return the attempts under way, the oldest first. Any thread may call this."""
        return list(self._active.values())  # one step of the interpreter, so the event loop cannot interfere


def count_stages(attempts: Sequence[ActiveAttempt]) -> dict[Stage, int]:
    """Return the number of attempts in each stage that has any, in the order of the stages."""
    found = Counter(attempt.stage for attempt in attempts)
    return {stage: found[stage] for stage in Stage if found[stage]}


def count_places(attempts: Sequence[ActiveAttempt]) -> dict[str, int]:
    """Return the number of attempts that each node makes, sorted by the names of the nodes."""
    found = Counter(attempt.place for attempt in attempts if attempt.place is not None)
    return dict(sorted(found.items()))


def measure_categories(
    plan: Sequence[PlannedAttempt], waiting: Sequence[PlannedAttempt]
) -> dict[str, CategorySize]:
    """Return the size of each category in the order of the plan, or {} if there are fewer than two.

    `waiting` are the attempts of the plan that are not finished.
    """
    planned = Counter(each.task.category or "" for each in plan)
    if len(planned) < 2:
        return {}
    left = Counter(each.task.category or "" for each in waiting)
    return {name: CategorySize(number, number - left[name]) for name, number in planned.items()}


@runtime_checkable
class ShowsProgress(Protocol):
    """An observer of a run that also shows the attempts under way."""

    def show_progress(self, progress: RunProgress) -> None:
        """Get the progress of the run, once and just before `on_start`. It changes while the run goes on."""


@dataclass(frozen=True, slots=True)
class ActiveStage:
    """The stage of one attempt under way."""

    stage: Stage
    place: str | None
    """The node that makes the attempt, None for the machine of the run."""


@dataclass(frozen=True, slots=True)
class ActiveStages:
    """The stages of the attempts under way, as the run wrote them last."""

    counts: Mapping[Stage, int] = field(default_factory=dict)
    """The number of attempts in each stage that has any."""
    attempts: Mapping[tuple[str, int], ActiveStage] = field(default_factory=dict)
    """The oldest attempts, by task id and attempt number."""


@contextlib.asynccontextmanager
async def write_stages(folder: Path, progress: RunProgress) -> AsyncIterator[None]:
    """Keep the file of a run folder up to date in the block, and remove it at the end.

    The file appears after a second, so a short run has none. If it cannot be written, the log gets one
    warning, and the run goes on without it.
    """
    writing = asyncio.create_task(_write_again(folder, progress))
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.wait([writing])
        await complete(asyncio.to_thread(_remove, folder))


def read_stages(folder: Path) -> ActiveStages:
    """Return the stages in the file of a run folder. Without a file, or with a broken one, there are none."""
    try:
        value = parse_json(read_run_file(folder, STAGES, max_bytes=_MAX_BYTES))
    except (OSError, BrokenJSONError):
        return ActiveStages()
    if not isinstance(value, dict):
        return ActiveStages()
    return ActiveStages(dict(_read_counts(value.get("counts"))), dict(_read_attempts(value.get("attempts"))))


async def _write_again(folder: Path, progress: RunProgress) -> None:
    written = None
    while True:
        await asyncio.sleep(_PAUSE_SECONDS)
        try:
            # A cancellation must not leave a thread behind that writes after the file was removed.
            written = await complete(asyncio.to_thread(_write, folder, progress, written))
        except OSError as error:
            _LOGGER.warning("%s: cannot be written: %s", folder / STAGES, error.strerror)
            return


def _write(folder: Path, progress: RunProgress, written: bytes | None) -> bytes:
    """Replace the file unless it would be equal to `written`, and return its bytes. Raises OSError."""
    data = format_stages(progress.list_active())
    if data != written:
        replace_run_file(folder, STAGES, data)
    return data


def format_stages(active: Sequence[ActiveAttempt]) -> bytes:
    """Return the bytes of the file, for attempts with the oldest first."""
    attempts: list[dict[str, Any]] = []
    size = 0
    for attempt in active[:_MOST_ATTEMPTS]:
        entry = {"task_id": attempt.task_id, "attempt": attempt.number, "stage": attempt.stage}
        if attempt.place is not None:
            entry["place"] = attempt.place[:_MAX_PLACE_CHARACTERS]
        size += len(json.dumps(entry)) + 2
        if size > _MAX_BYTES // 2:
            break
        attempts.append(entry)
    return json.dumps({"counts": count_stages(active), "attempts": attempts}).encode() + b"\n"


def _remove(folder: Path) -> None:
    # The user may have removed the folder.
    with contextlib.suppress(OSError):
        remove_run_file(folder, STAGES)


def _read_counts(counts: object) -> Iterator[tuple[Stage, int]]:
    if isinstance(counts, dict):
        for stage in Stage:
            if (number := _read_number(counts.get(stage))) is not None:
                yield stage, number


def _read_attempts(entries: object) -> Iterator[tuple[tuple[str, int], ActiveStage]]:
    stages = {str(stage): stage for stage in Stage}
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        task_id, number = entry.get("task_id"), _read_number(entry.get("attempt"))
        stage, place = entry.get("stage"), entry.get("place")
        if isinstance(task_id, str) and number is not None and isinstance(stage, str) and stage in stages:
            known = place[:_MAX_PLACE_CHARACTERS] if isinstance(place, str) else None
            yield (task_id, number), ActiveStage(stages[stage], known)


def _read_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
