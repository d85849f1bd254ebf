"""The transcripts of attempts: how entries are added to their files, and how they are read back.

Their texts are data from a sandbox, an agent or a model.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, MIB, read_whole_lines
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.invalid_values import quote_value
from harness.core.types import Transcript
from harness.runs.run_files import (
    StorageError,
    advise_resume,
    append_to_run_file,
    create_run_file,
    measure_run_file,
    open_run_file,
    split_nested,
)

TRANSCRIPTS = "transcripts"
# The version of the entries in a transcript, which its first entry states.
TRANSCRIPT_SCHEMA_VERSION = 1
# The most bytes of the transcript of one attempt.
MAX_TRANSCRIPT_BYTES = 128 * 1024 * 1024
# The part of it for the entries that describe the end of the attempt. Both outputs of a program fit.
END_BYTES = 2 * 1024 * 1024
# The most bytes of a task id in the name of a transcript. A file name may have 255.
MAX_QUOTED_ID = 200
# The folder with the transcripts of superseded tries.
SUPERSEDED = "superseded"
# Python converts no more digits, and the arguments of a call may have them.
_MAX_DIGITS = 4300
# The entry that reports a full transcript may exceed the limit.
_MAX_COPIED_BYTES = MAX_TRANSCRIPT_BYTES + MIB


class KeepsTranscripts(Protocol):
    """Keeps the transcripts of attempts, as a run folder does."""

    def begin_transcript(self, task_id: str, attempt: int) -> Transcript:
        """Return the transcript of an attempt that begins. It replaces an earlier try's."""


class TranscriptFile:
    """The transcript of one attempt. Each entry is a line of JSON.

    The first entry replaces the file of an earlier try. The file is open only during a write, because
    concurrent attempts would otherwise hold more files open than a process may.

    A program of an agent can cause entries without end, and a full disk would end the run. So an entry that
    does not fit into MAX_TRANSCRIPT_BYTES is left out, and so are all later ones, which an entry shows. The
    last END_BYTES of it are for the entries that describe the end of the attempt.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_begun = False
        self._bytes = 0
        self._is_full = False

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        """Add an entry with its time. A value that JSON cannot hold is written as its `str`.

        Raises StorageError.
        """
        if self._is_full and not is_end:
            return
        # The line is ASCII.
        line = json.dumps({**entry, "time": round(time.time(), 4)}, default=str) + "\n"
        limit = MAX_TRANSCRIPT_BYTES if is_end else MAX_TRANSCRIPT_BYTES - END_BYTES
        if self._bytes + len(line) > limit:
            if self._is_full:
                return
            self._is_full = True
            text = f"the transcript is full: its limit is {MAX_TRANSCRIPT_BYTES:,} bytes"
            line = json.dumps({"kind": "full", "text": text}) + "\n"
        self._bytes += len(line)
        self._append(line)

    def _append(self, line: str) -> None:
        """Write a line to the file. Raises StorageError."""
        try:
            with os.fdopen(self._open(), "w", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise StorageError(
                f"{self._path}: cannot be written: {error.strerror}",
                hint=advise_resume(self._path.parents[1], error),
            ) from error
        self._is_begun = True

    def _open(self) -> int:
        place = split_nested(self._path)
        if self._is_begun:
            with suppress(FileNotFoundError):  # the user has removed the folder of the transcripts
                return append_to_run_file(*place)
        return create_run_file(*place)


def transcript_name(task_id: str, attempt: int) -> str:
    """Return the file name of an attempt's transcript. Any text may be a task id, so it is quoted.

    A quoted id that is too long for a file name is cut. It then ends in digits of the id's SHA-256, because
    two long ids may begin alike.
    """
    quoted = quote(task_id, safe="", errors="surrogatepass")
    if len(quoted) > MAX_QUOTED_ID:
        digest = hashlib.sha256(task_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        quoted = f"{quoted[: MAX_QUOTED_ID - len(digest) - 1]}-{digest}"
    return f"{quoted}-{attempt}.jsonl"


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
