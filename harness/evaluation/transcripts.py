"""Read the transcript of an attempt back. Its texts are data from a sandbox, an agent or a model."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import DataError, quote_value
from harness.evaluation.run_files import create_run_file, measure_run_file, open_run_file, split_nested
from harness.evaluation.storage import StorageError, advise_resume
from harness.evaluation.store import TRANSCRIPTS
from harness.evaluation.transcript_file import (
    MAX_TRANSCRIPT_BYTES,
    TRANSCRIPT_SCHEMA_VERSION,
    transcript_name,
)
from harness.inputs.files import MAX_DATA_BYTES, MIB, read_whole_lines
from harness.inputs.json_text import BrokenJSONError, parse_json

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
