"""The file of a run folder that holds the stages of the attempts under way.

The run replaces it while it goes on, so that other processes can show the stages. It is no part of the
record, and the run removes it at its end. A reader must not trust it, because the folder may be that of
somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.evaluation.progress import ActiveAttempt, RunProgress, Stage, count_stages
from harness.evaluation.run_files import read_run_file, remove_run_file, replace_run_file
from harness.evaluation.store import STAGES
from harness.inputs.files import MIB
from harness.inputs.json_text import BrokenJSONError, parse_json
from harness.logger import get_logger
from harness.shield import complete

# The pause between two versions of the file.
_PAUSE_SECONDS = 1.0
# The oldest attempts are listed, and the counts cover all of them.
_MOST_ATTEMPTS = 2000
_MAX_BYTES = MIB
_MAX_PLACE_CHARACTERS = 200

_LOGGER = get_logger(__name__)


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
    """Return the bytes of the file, for attempts of which the oldest comes first."""
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
