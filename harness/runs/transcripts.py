"""Read the transcript of an attempt back. Its texts are data from a sandbox, an agent or a model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.errors import DataError, quote_value
from harness.core.inputs.files import MAX_DATA_BYTES, MIB, read_whole_lines
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.logger import get_logger
from harness.core.shield import complete
from harness.runs.progress import ActiveAttempt, RunProgress, Stage, count_stages
from harness.runs.run_files import (
    StorageError,
    advise_resume,
    create_run_file,
    measure_run_file,
    open_run_file,
    read_run_file,
    remove_run_file,
    replace_run_file,
    split_nested,
)
from harness.runs.store import STAGES, TRANSCRIPTS
from harness.runs.transcript_file import MAX_TRANSCRIPT_BYTES, TRANSCRIPT_SCHEMA_VERSION, transcript_name

# The folder with the transcripts of superseded tries.
SUPERSEDED = "superseded"
# Python converts no more digits, and the arguments of a call may have them.
_MAX_DIGITS = 4300
# The entry that reports a full transcript may exceed the limit.
_MAX_COPIED_BYTES = MAX_TRANSCRIPT_BYTES + MIB


def find_transcript(folder: Path, task_id: str, attempt: int) -> Path:
    """Return the path of the transcript of an attempt, which may not exist."""
    return folder / TRANSCRIPTS / transcript_name(task_id, attempt)


def read_entries(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield each entry of a transcript. Raises DataError, with file and line."""
    for _, entry in read_numbered_entries(path):
        yield entry


def read_numbered_entries(path: Path) -> Generator[tuple[int, Mapping[str, Any]], None, None]:
    """Yield each entry of a transcript with the number of its line, from 1.

    A last line that a kill cut short is left out. Raises DataError, with file and line, for a line that is no
    entry, or an entry of another version.
    """
    try:
        with open_run_file(*split_nested(path), max_bytes=MAX_DATA_BYTES) as stream:
            for number, line in read_whole_lines(stream, path):
                try:
                    entry = parse_json(line, max_digits=_MAX_DIGITS, allow_nan=True)
                except BrokenJSONError as error:
                    raise DataError(f"is not JSON: {error}", path=path, line=number) from error
                if not isinstance(entry, dict):
                    raise DataError("is not an entry of a transcript", path=path, line=number)
                version = entry.get("schema_version", TRANSCRIPT_SCHEMA_VERSION)
                if version != TRANSCRIPT_SCHEMA_VERSION:
                    raise DataError(
                        f"has schema_version {quote_value(version)}, but this version of harness reads "
                        f"{TRANSCRIPT_SCHEMA_VERSION}",
                        path=path,
                        line=number,
                    )
                yield number, entry
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error


def find_superseded_transcript(folder: Path, task_id: str, attempt: int, number: int) -> Path:
    """Return the path of the transcript of a superseded try, which may not exist. `number` counts from 0."""
    name = transcript_name(task_id, attempt)
    return folder / SUPERSEDED / f"{name.removesuffix('.jsonl')}-{number}.jsonl"


def keep_transcript(folder: Path, task_id: str, attempt: int, number: int) -> None:
    """Copy the transcript of an attempt that is superseded, after `number` earlier tries that were.

    It is a copy, because the repeated attempt replaces the file, and a kill may come before that.

    Raises:
        DataError: if the transcript cannot be read.
        StorageError: if the copy cannot be written.
    """
    kept = find_superseded_transcript(folder, task_id, attempt, number)
    _copy(find_transcript(folder, task_id, attempt), kept)


def measure_transcripts(folder: Path, task_id: str, attempt: int, superseded: int) -> int:
    """Return the bytes that `copy_transcripts` copies of an attempt."""
    return sum(
        measure_run_file(*split_nested(path)) for path in _list_paths(folder, task_id, attempt, superseded)
    )


def copy_transcripts(source: Path, folder: Path, task_id: str, attempt: int, superseded: int) -> None:
    """Copy the transcripts of an attempt from one run folder to another.

    Args:
        source: the run folder that has them.
        folder: the run folder that gets them.
        task_id: the task of the attempt.
        attempt: the number of the attempt.
        superseded: the number of its superseded tries, which have a transcript each.

    Raises:
        DataError: if a transcript cannot be read.
        StorageError: if a copy cannot be written.
    """
    paths = (_list_paths(each, task_id, attempt, superseded) for each in (source, folder))
    for path, place in zip(*paths, strict=True):
        _copy(path, place)


def _list_paths(folder: Path, task_id: str, attempt: int, superseded: int) -> Iterator[Path]:
    yield find_transcript(folder, task_id, attempt)
    for number in range(superseded):
        yield find_superseded_transcript(folder, task_id, attempt, number)


def _copy(source: Path, place: Path) -> None:
    """Copy a transcript if there is one. Raises DataError and StorageError."""
    try:
        stream = open_run_file(*split_nested(source), max_bytes=_MAX_COPIED_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=source) from error
    with stream:
        try:
            with os.fdopen(create_run_file(*split_nested(place)), "wb") as file:
                while chunk := stream.read(MIB):
                    # JSON has no such byte. The copy of a sparse file would take more room than the file.
                    if b"\0" in chunk:
                        raise DataError("is not a transcript, because it holds a zero byte", path=source)
                    file.write(chunk)
        except OSError as error:
            raise StorageError(
                f"{place}: cannot be copied from {source}: {error.strerror}",
                hint=advise_resume(place.parents[1], error),
            ) from error


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
