"""The run folder: the files that a run writes, and how a resumed run reads them back."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from io import FileIO
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from harness.core.errors import UsageError
from harness.core.inputs.files import read_whole_lines
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.invalid_values import describe_first_error, quote_value
from harness.core.types import AttemptRecord, Status
from harness.runs.attempt_index import ATTEMPTS as ATTEMPTS
from harness.runs.attempt_index import MAX_ATTEMPTS_BYTES as MAX_ATTEMPTS_BYTES
from harness.runs.attempt_index import AttemptIndex
from harness.runs.progress import STAGES
from harness.runs.records import PlannedAttempt, from_json, to_json
from harness.runs.run_files import (
    SCHEMA_VERSION,
    StorageError,
    advise_resume,
    append_to_run_file,
    find_remedy,
    has_run_file,
    lock_run_folder,
    open_run_file,
    read_run_file,
    replace_file,
)
from harness.runs.transcripts import TRANSCRIPTS, TranscriptFile, transcript_name

MANIFEST, SUMMARY, REPORT = "manifest.json", "summary.json", "report.html"
SAMPLES = "samples.jsonl"
# The description of an audit and its result, in the folder that has its runs.
AUDIT, AUDIT_RESULTS = "audit.json", "results.json"
# A resumed run repeats attempts with these statuses.
_DAMAGED = "the file is damaged; copy it again, or make a new run"
UNFINISHED = tuple(status for status in Status if not status.has_score)


class _Data(TypedDict):
    kind: str
    location: str
    sha256: str
    rows: int


class _Manifest(TypedDict):
    """The fields of a manifest that are read back. A manifest has more."""

    schema_version: int
    run_id: str
    benchmark: str
    agent: str
    source: str
    data: _Data
    images: dict[str, str]
    config: dict[str, Any]


class RunStore:
    """One run folder, held by one process at a time.

    `attempts.jsonl` gets one fsynced line for each finished attempt. The results of first attempts keep the
    metrics named in `metrics`.
    """

    def __init__(self, folder: Path, *, metrics: Sequence[str] = ()) -> None:
        self.folder = folder
        self.results = AttemptIndex(metrics)
        """The last result of each attempt."""
        self._appending = threading.Lock()
        with ExitStack() as opening:
            opening.callback(os.close, lock_run_folder(folder))
            _remove_temporary_files(folder)
            self._file = opening.enter_context(_open_attempts(folder))
            if os.fstat(self._file.fileno()).st_size:
                # A line that a kill cut short is dropped.
                self._cut(self.results.add_lines(read_records(folder / ATTEMPTS)))
            self._held = opening.pop_all()

    def close(self) -> None:
        self._held.close()

    def move_to(self, folder: Path) -> None:
        """Rename the folder in one step. The store keeps its lock. Raises StorageError."""
        try:
            os.rename(self.folder, folder)
        except OSError as error:
            raise StorageError(f"{folder}: cannot be written: {error.strerror}") from error
        self.folder = folder

    @property
    def finished(self) -> set[tuple[str, int]]:
        """The (task id, attempt number) pairs of attempts that have a verdict."""
        return {key for key in self.results if self.is_finished(key)}

    def is_finished(self, key: tuple[str, int]) -> bool:
        """Return whether an attempt has a verdict."""
        result = self.results.get(key)
        return result is not None and result.status not in UNFINISHED

    def append(self, *records: AttemptRecord) -> None:
        """Append records to the file and return once all are on the disk.

        Several threads may call this at once. Raises StorageError, and then none of the records is stored.
        """
        lines = [to_json(record).encode() + b"\n" for record in records]
        with self._appending:
            first = self._write(b"".join(lines))
            offsets = accumulate(map(len, lines[:-1]), initial=first)
            self.results.add(zip(records, offsets, strict=True))

    def _write(self, lines: bytes) -> int:
        """Append lines and return the offset of the first. Raises StorageError."""
        offset = self._file.seek(0, os.SEEK_END)
        try:
            written = 0
            while written < len(lines):
                written += self._file.write(lines[written:]) or 0
            os.fsync(self._file.fileno())
        except OSError as error:
            self._cut(offset)
            raise StorageError(
                f"{self.folder / ATTEMPTS}: cannot be written: {error.strerror}",
                hint=advise_resume(self.folder, error),
            ) from error
        return offset

    def records(self, plan: Iterable[PlannedAttempt], *, whole: bool = False) -> Iterator[AttemptRecord]:
        """Yield the stored records of a plan, in its order, without attempts that have none.

        The records have their whole texts only if `whole` is true.
        """
        for planned in plan:
            offset = self.results.find_offset(planned.key)
            if offset is not None:
                yield from_json(_read_line(self._file.fileno(), offset), whole=whole)

    def attempts(self, plan: Iterable[PlannedAttempt]) -> StoredAttempts:
        """Return the stored records of a plan, in its order. They can be read after the store is closed."""
        stored = (self.results.find_offset(planned.key) for planned in plan)
        offsets = array("q", (offset for offset in stored if offset is not None))
        return StoredAttempts(self._file.fileno(), offsets)

    def begin_transcript(self, task_id: str, attempt: int) -> TranscriptFile:
        """Return the transcript of an attempt that begins, which gets its file with its first entry."""
        return TranscriptFile(self.folder / TRANSCRIPTS / transcript_name(task_id, attempt))

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        self.write_text(name, json.dumps(value, indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Replace a file of the folder in one step. Raises StorageError."""
        with replace_file(self.folder / name, resumed=self.folder) as file:
            file.write(text)

    def _cut(self, offset: int) -> None:
        self._file.truncate(offset)


class StoredAttempts(Sequence[AttemptRecord]):
    """The attempts of a run in task order. Each is read from the run folder whenever it is used.

    A run may have more records than fit into memory. The file stays open as long as this object lives, so
    the records can be read even after the folder is removed.
    """

    def __init__(self, descriptor: int, offsets: Sequence[int]) -> None:
        self._descriptor = os.dup(descriptor)
        self._offsets = offsets
        weakref.finalize(self, os.close, self._descriptor)

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, place: int) -> AttemptRecord: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[AttemptRecord, ...]: ...

    def __getitem__(self, place: int | slice) -> AttemptRecord | tuple[AttemptRecord, ...]:
        if isinstance(place, slice):
            return tuple(self._read(offset) for offset in self._offsets[place])
        return self._read(self._offsets[place])

    def __reduce__(self) -> tuple[type[tuple[AttemptRecord, ...]], tuple[list[AttemptRecord]]]:
        """Return the records themselves, because another process has no such file open."""
        return tuple, (list(self),)

    def __repr__(self) -> str:
        return f"<{len(self)} stored attempts>"

    def _read(self, offset: int) -> AttemptRecord:
        return from_json(_read_line(self._descriptor, offset))


def read_records(
    path: Path, *, whole: bool = False, containing: bytes = b""
) -> Iterator[tuple[AttemptRecord, int]]:
    """Yield each record of an `attempts.jsonl` with the length of its line in bytes.

    A last line that a kill cut short is left out. The records have their whole texts only if `whole` is
    true. Only lines that have the bytes `containing` are read. Raises UsageError, which names the line, for
    anything else that is not a record.
    """
    try:
        with open_run_file(path.parent, path.name, max_bytes=MAX_ATTEMPTS_BYTES) as stream:
            for number, line in read_whole_lines(stream, path):
                if containing not in line:
                    continue
                try:
                    yield from_json(line, whole=whole), len(line)
                except (ValueError, TypeError, KeyError) as error:
                    raise UsageError(
                        f"{path}:{number}: is not an attempt record: {error}",
                        hint="remove the line; `harness run --resume` repeats the attempt",
                    ) from error
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}", hint="name a run folder, such as one in runs/"
        ) from error


def read_records_at(path: Path, offsets: Iterable[int], *, whole: bool = False) -> Iterator[AttemptRecord]:
    """Yield the records at these offsets of an `attempts.jsonl`, one at a time.

    The records have their whole texts only if `whole` is true. Raises UsageError if a record is no longer
    there.
    """
    with open_run_file(path.parent, path.name, max_bytes=MAX_ATTEMPTS_BYTES) as stream:
        for offset in offsets:
            try:
                yield from_json(_read_line(stream.fileno(), offset), whole=whole)
            except (ValueError, TypeError, KeyError) as error:
                raise UsageError(f"{path}: has changed while it was read: {error}") from error


def read_results(folder: Path) -> AttemptIndex:
    """Return the results in a run folder by task id and attempt number.

    It changes nothing and needs no lock, so the run may be under way. Raises UsageError as `read_records`
    does.
    """
    results = AttemptIndex()
    if has_run_file(folder, ATTEMPTS):  # otherwise the run was killed before its first attempt
        results.add_lines(read_records(folder / ATTEMPTS))
    return results


def _remove_temporary_files(folder: Path) -> None:
    """Remove what a killed process left: files that it could not move, and the stages of its attempts."""
    halves = [half for name in (MANIFEST, SUMMARY, REPORT, STAGES) for half in folder.glob(f".{name}.*")]
    for path in (folder / STAGES, *halves):
        with suppress(OSError):
            path.unlink()


def make_run_folder(output_dir: Path, benchmark: str, *, prefix: str = "") -> Path:
    """Make a new run folder, whose name begins with `prefix`, and return its path.

    Raises UsageError if that fails.
    """
    name = f"{prefix}{time.strftime('%Y%m%d-%H%M%S')}-{benchmark}-{secrets.token_hex(2)}"
    folder = output_dir / name
    try:
        folder.mkdir(parents=True)
        (folder / TRANSCRIPTS).mkdir()
    except OSError as error:
        raise UsageError(
            f"{output_dir}: cannot make a run folder: {error.strerror}",
            hint="choose another folder with --output-dir DIR",
        ) from error
    return folder


@cache
def _manifest_schema() -> TypeAdapter[_Manifest]:
    """Return the schema of manifests. Built at the first use, because a command may read no manifest."""
    return TypeAdapter(_Manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run folder. Raises UsageError if it is missing or not valid."""
    path = folder / MANIFEST
    try:
        manifest = parse_json(read_run_file(folder, MANIFEST))
        _manifest_schema().validate_python(manifest, strict=True)
    except OSError as error:
        is_audit = (folder / "audit.json").is_file()
        raise UsageError(
            f"{folder}: is not a run folder: {MANIFEST}: {error.strerror}",
            hint="it is an audit, whose two run folders are inside"
            if is_audit
            else "name a run folder, such as one in runs/",
        ) from error
    except BrokenJSONError as error:
        raise UsageError(f"{path}:{error.line}: is not JSON: {error}", hint=_DAMAGED) from error
    except ValidationError as error:
        raise UsageError(
            f"{path}: is not a manifest: {describe_first_error(error)}", hint=_DAMAGED
        ) from error
    if manifest["schema_version"] != SCHEMA_VERSION:
        raise UsageError(
            f"{path}: has schema_version {manifest['schema_version']}, but this version of harness reads "
            f"{SCHEMA_VERSION}",
            hint=f"use the version of harness that wrote it: {quote_value(manifest.get('harness_version'))}",
        )
    return dict(manifest)


def read_duration(folder: Path) -> float:
    """Return the duration in seconds from the summary of a run folder, 0 without a summary.

    A run that was killed has no summary. Raises UsageError for a summary that cannot be read.
    """
    path = folder / SUMMARY
    try:
        summary = parse_json(read_run_file(folder, SUMMARY))
    except FileNotFoundError:
        return 0.0
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except BrokenJSONError as error:
        raise UsageError(f"{path}:{error.line}: is not JSON: {error}", hint="remove the file") from error
    seconds = summary.get("duration_seconds") if isinstance(summary, dict) else None
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or seconds < 0:
        raise UsageError(f"{path}: 'duration_seconds' is not a number of seconds", hint="remove the file")
    return float(seconds)


def _open_attempts(folder: Path) -> FileIO:
    try:
        return FileIO(append_to_run_file(folder, ATTEMPTS), "a+")
    except OSError as error:
        path = folder / ATTEMPTS
        raise UsageError(
            f"{path}: cannot be written: {error.strerror}",
            hint=f"{find_remedy(error)}; harness show and harness rerun only read it",
        ) from error


def _read_line(descriptor: int, offset: int) -> bytes:
    parts = []
    while True:
        part = os.pread(descriptor, 1 << 16, offset)
        head, newline, _ = part.partition(b"\n")
        parts.append(head)
        if newline or not part:
            return b"".join(parts)
        offset += len(part)
