"""The index of a run folder, and the count of its finished attempts. Both follow `attempts.jsonl`.

The table of a long file is also kept in the user's cache folder, and used again as long as the file is
exactly as it was. It may be deleted at any time. No file of a run folder is ever read as an index, because
somebody else may have made the folder.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import secrets
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from io import BufferedReader
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_LINE_BYTES, MIB
from harness.core.lock import cache_dir
from harness.core.text import escape_text
from harness.core.types import AttemptRecord, Status
from harness.runs.attempt_index import ATTEMPTS, MAX_ATTEMPTS_BYTES, SCHEMA, STATUSES, AttemptIndex
from harness.runs.records import from_json
from harness.runs.run_files import open_run_file
from harness.runs.store import UNFINISHED
from harness.runs.stored_result import COUNTED, SUPERSEDED_STATUS

# The table of a shorter file is made as fast as it is read.
KEPT_FROM_BYTES = 16 * MIB
_KEPT_SECONDS = 30 * 24 * 3600
# A file that has just been written may change again without a change of its times.
_SETTLED_SECONDS = 2.0
# Small enough that several parts fit into the time of one request.
_PART_BYTES = 4 * MIB
# `json.dumps` writes it before every text of the agent, and escapes quotes there.
_STATUS = b'"status": "'
_SUPERSEDED = f'"metrics": {{"{SUPERSEDED_STATUS}": "'.encode()
_NAMES = {status.value.encode(): status for status in Status}
# The lines between two looks at the clock.
_LINES = 1000


class FollowedIndex(AttemptIndex):
    """The index of one run folder, which follows its file while the file grows."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / ATTEMPTS
        self._start_again()

    def _start_again(self) -> None:
        if len(self):
            self.open_table()
        self._lines = 0
        self._is_kept = False
        self.identity: tuple[int, int] | None = None
        """The device and the number of the file, None before there is one."""
        self.end = 0
        """The bytes of the file that are indexed."""
        self.size = 0
        """The bytes of the file at the last look."""
        self.is_complete = False
        """Whether all whole lines that the file had at the last look are indexed."""
        self.problem: str | None = None
        """The first line that is not a record. Such lines are left out."""

    def advance(self, seconds: float) -> None:
        """Index the lines that are new, for about `seconds`.

        A last line without its end waits for the next call. A file that was replaced or cut is indexed again.
        Raises OSError if the file cannot be read.
        """
        until = time.monotonic() + seconds
        with self.lock:
            self.is_complete = False
            try:
                stream = open_run_file(self._path.parent, self._path.name, max_bytes=MAX_ATTEMPTS_BYTES)
            except FileNotFoundError:  # no attempt has ended yet
                if not self._path.parent.is_dir():
                    raise
                self._start_again()
                self.is_complete = True
                return
            with stream:
                self._watch(stream.fileno())
                known = _describe_file(stream.fileno())
                if not self.end and self.size >= KEPT_FROM_BYTES and self._load(known):
                    self.is_complete = True
                    return
                while not self.is_complete:
                    has_part = self._add_part(stream.fileno())
                    self.is_complete = not has_part or self.end == self.size
                    if time.monotonic() > until and not self.is_complete:
                        return
                is_settled = time.time() - os.fstat(stream.fileno()).st_mtime > _SETTLED_SECONDS
                if self.end >= KEPT_FROM_BYTES and is_settled and known == _describe_file(stream.fileno()):
                    self._keep(known)

    def _load(self, known: str) -> bool:
        """Take the kept table of the file, and return whether there is one of the file as it is now."""
        try:
            with closing(sqlite3.connect(f"{_find_kept(self._path).as_uri()}?mode=ro", uri=True)) as kept:
                ((found, end, lines, problem),) = kept.execute("SELECT known, end, lines, problem FROM state")
                if found != known or kept.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
                    return False
                kept.backup(self.table)
                self.count_rows()
        except (sqlite3.Error, ValueError, UsageError):  # there is none, or it is damaged
            self.open_table()
            return False
        self.end, self._lines, self.problem = end, lines, problem
        self._is_kept = True
        return True

    def _keep(self, known: str) -> None:
        """Keep the table of the file. Several processes may do so, and the last one wins."""
        if self._is_kept:
            return
        self._is_kept = True
        with suppress(OSError, sqlite3.Error, UsageError):  # it is only a cache
            path = _find_kept(self._path)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for other in path.parent.iterdir():
                if time.time() - other.stat().st_mtime > _KEPT_SECONDS:
                    other.unlink(missing_ok=True)
            self.table.execute("DROP TABLE IF EXISTS state")
            self.table.execute("CREATE TABLE state (known TEXT, end INTEGER, lines INTEGER, problem TEXT)")
            state = known, self.end, self._lines, self.problem
            self.table.execute("INSERT INTO state VALUES (?, ?, ?, ?)", state)
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
            try:
                self.table.execute("VACUUM INTO ?", (str(temporary),))
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)

    def read(self, offset: int) -> AttemptRecord:
        """Return the whole record at an offset. Raises OSError, ValueError, TypeError or KeyError."""
        with open_run_file(self._path.parent, self._path.name, max_bytes=MAX_ATTEMPTS_BYTES) as stream:
            stream.seek(offset)
            return from_json(stream.readline(MAX_LINE_BYTES), whole=True)

    def _watch(self, descriptor: int) -> None:
        """Start again if the file is another one, or no longer has a line that ends where the index does."""
        facts = os.fstat(descriptor)
        identity = facts.st_dev, facts.st_ino
        # A run that cannot write a record cuts the file, and writes again from there.
        is_cut = os.pread(descriptor, 1, max(self.end - 1, 0)) != b"\n"
        if self.end and (is_cut or identity != self.identity):
            self._start_again()
        self.identity = identity
        self.size = facts.st_size

    def _add_part(self, descriptor: int) -> bool:
        """Index the next part of the file, and return whether there was one."""
        data, size = b"", _PART_BYTES
        while True:
            data = _read(descriptor, size, self.end)
            length = data.rfind(b"\n") + 1
            if length:
                break
            if len(data) < size:
                return False
            if size > MAX_LINE_BYTES:
                raise OSError(
                    errno.EFBIG, f"line {self._lines + 1:,} is longer than {MAX_LINE_BYTES:,} bytes"
                )
            size *= 2
        self.add(self._read_lines(data[:length]))
        self._is_kept = False
        return True

    def _read_lines(self, data: bytes) -> Iterator[tuple[AttemptRecord, int]]:
        """Yield the records in whole lines with their offsets."""
        for line in data.split(b"\n")[:-1]:
            offset = self.end
            self.end += len(line) + 1
            self._lines += 1
            try:
                record = from_json(line)
            except (ValueError, TypeError, KeyError) as error:
                place = f"{self._path}:{self._lines}"
                self.problem = self.problem or f"{place}: is not an attempt record: {escape_text(str(error))}"
            else:
                yield record, offset


def read_index(folder: Path) -> FollowedIndex:
    """Return the index of all attempts in a run folder.

    Raises UsageError if the file is missing or cannot be read, or has a line that is not a record.
    """
    index = FollowedIndex(folder)
    path = folder / ATTEMPTS
    try:
        index.advance(math.inf)
        if index.identity is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}", hint="name a run folder, such as one in runs/"
        ) from error
    if index.problem is not None:
        hint = "remove the line; `harness run --resume` repeats the attempt"
        raise UsageError(index.problem, hint=hint)
    return index


def _find_kept(path: Path) -> Path:
    """Return the place of the kept table of a file. Raises UsageError without a home folder."""
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]
    return (cache_dir() / "indexes" / f"{name}.sqlite3").absolute()


def _describe_file(descriptor: int) -> str:
    """Return a text that changes with a file, and with the form of the table."""
    facts = os.fstat(descriptor)
    form = hashlib.sha256(f"{SCHEMA}{COUNTED}{STATUSES}".encode()).hexdigest()[:16]
    times = f"{facts.st_mtime_ns} {facts.st_ctime_ns}"
    return f"{form} {facts.st_dev} {facts.st_ino} {facts.st_size} {times}"


def _read(descriptor: int, size: int, offset: int) -> bytes:
    parts = []
    while size and (part := os.pread(descriptor, size, offset)):
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)


class FinishedCount:
    """The count of one `attempts.jsonl`, which follows the file while it grows. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._start_again()

    def _start_again(self) -> None:
        self._identity: tuple[int, int] | None = None
        self._end = 0
        self._statuses: Counter[Status] = Counter()
        self._superseded = 0

    def read(self, seconds: float | None = None) -> int | None:
        """Return the number of attempts that have a verdict, after a look at the new part of the file.

        Args:
            seconds: about the longest time to read, None for no limit. The next call reads on.

        Returns:
            None if the file has more lines than there was time for.

        Raises OSError if the file cannot be read.
        """
        until = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            try:
                stream = open_run_file(self._folder, ATTEMPTS, max_bytes=MAX_ATTEMPTS_BYTES)
            except FileNotFoundError:  # the run was killed before its first attempt
                self._start_again()
                return 0
            with stream:
                self._watch(stream)
                if not self._read_on(stream, until):
                    return None
            without = sum(self._statuses[status] for status in UNFINISHED)
            # An attempt is repeated only without a verdict, or after a record that supersedes its verdict.
            return self._statuses.total() - without - self._superseded

    def _watch(self, stream: BufferedReader) -> None:
        """Start again if the file is another one, or no longer has a line that ends where the count does."""
        facts = os.fstat(stream.fileno())
        identity = facts.st_dev, facts.st_ino
        # A run that cannot write a record cuts the file, and writes again from there.
        is_cut = self._end and os.pread(stream.fileno(), 1, self._end - 1) != b"\n"
        if is_cut or identity != self._identity:
            self._start_again()
        self._identity = identity

    def _read_on(self, stream: BufferedReader, until: float | None) -> bool:
        """Count the new lines, and return whether all are counted. A last line without its end is not one."""
        stream.seek(self._end)
        lines = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                text = f"has a line that is longer than {MAX_LINE_BYTES:,} bytes"
                raise OSError(errno.EFBIG, text, str(self._folder / ATTEMPTS))
            if not line.endswith(b"\n"):
                break
            self._end += len(line)
            self._add(line)
            lines += 1
            if (
                until is not None
                and (lines % _LINES == 0 or len(line) > 1 << 16)
                and time.monotonic() > until
            ):
                return False
        return True

    def _add(self, line: bytes) -> None:
        status = _NAMES.get(line.partition(_STATUS)[2][:32].partition(b'"')[0])
        if status is None:  # the line is not a record
            return
        self._statuses[status] += 1
        self._superseded += status is Status.CANCELLED and _SUPERSEDED in line
