"""The one place that opens a file of the user's, or of an earlier run, to read it."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MIB = 1024 * 1024
MAX_TEXT_BYTES = 16 * MIB
"""The most that a file may hold which a person writes, or a note of ours: configs, manifests, summaries."""
MAX_DATA_BYTES = 2 * 1024 * MIB
"""The most that a file of rows may hold, packed or unpacked: the rows are kept in memory."""
MAX_LINE_BYTES = 64 * MIB
"""The longest line of a file that we wrote ourselves, such as attempts.jsonl."""
# Real data is packed to a tenth or a thirtieth. A bomb is packed to a thousandth, the most that gzip can do.
MAX_RATIO = 200
RATIO_FROM_BYTES = 64 * MIB

_KINDS = (
    (stat.S_ISDIR, "is a folder, not a file"),
    (stat.S_ISFIFO, "is a named pipe, not a regular file"),
    (stat.S_ISSOCK, "is a socket, not a regular file"),
    (stat.S_ISCHR, "is a device, not a regular file"),
    (stat.S_ISBLK, "is a device, not a regular file"),
)


def open_input(path: str | os.PathLike[str], *, max_bytes: int) -> io.BufferedReader:
    """Open a regular file for reading, without ever waiting for anybody to write to it.

    Raises OSError, whose `strerror` names the reason, for everything that is not a regular file with an
    end (named pipes, devices, sockets, folders, files that the kernel makes up as they are read), and
    while reading once more than `max_bytes` have come.
    """
    try:
        # Without O_NONBLOCK the open of a named pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except ValueError as error:  # a NUL, or half of a surrogate pair
        raise OSError(errno.EINVAL, "is not a file name", repr(path)) from error
    try:
        _require_regular(descriptor, os.fspath(path), max_bytes)
        # Buffered generously, because each read below goes through Python.
        return io.BufferedReader(_Bounded(descriptor, os.fspath(path), max_bytes), buffer_size=MIB)
    except BaseException:
        os.close(descriptor)
        raise


def read_input(path: str | os.PathLike[str], *, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """Return all bytes of a regular file. Raises as `open_input` does."""
    with open_input(path, max_bytes=max_bytes) as stream:
        return stream.read()


def sha256_of(path: str | os.PathLike[str], *, max_bytes: int = MAX_DATA_BYTES) -> str:
    """Return the SHA-256 (hex) of a regular file. Raises as `open_input` does."""
    with open_input(path, max_bytes=max_bytes) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unpack(stream: io.BufferedReader, path: str | os.PathLike[str]) -> io.BufferedReader:
    """Return a stream of the bytes that are packed in a gzip stream.

    Reading it raises OSError once a gzip bomb shows: much more data than the packed bytes account for.
    """
    return io.BufferedReader(_Unpacked(stream, os.fspath(path)), buffer_size=MIB)


def whole_lines(stream: io.BufferedReader, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line of a file with its number, from 1; not a last one that a kill has cut short.

    Raises OSError for a line of more than MAX_LINE_BYTES.
    """
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise OSError(errno.EFBIG, f"line {number} is longer than {MAX_LINE_BYTES:,} bytes", str(path))
        if line.endswith(b"\n"):
            yield number, line


def _require_regular(descriptor: int, path: str, max_bytes: int) -> None:
    facts = os.fstat(descriptor)
    for is_kind, reason in _KINDS:
        if is_kind(facts.st_mode):
            raise OSError(errno.EINVAL, reason, path)
    if facts.st_size > max_bytes:
        raise _too_large(path, max_bytes)
    if facts.st_size == 0 and not _is_empty(descriptor):
        raise OSError(errno.EINVAL, "is made up by the kernel, not a regular file", path)


def _is_empty(descriptor: int) -> bool:
    """Return whether a file without a size is one that is empty, or has grown since.

    Many files of /proc and /sys have no size. Some have no end, and some let their reader wait.
    """
    try:
        return not os.pread(descriptor, 1, 0) or os.fstat(descriptor).st_size > 0
    except OSError:
        return False


class _Bounded(io.FileIO):
    """A file that ends with an error where it goes on for too long, or has nothing to give for now."""

    def __init__(self, descriptor: int, path: str, max_bytes: int) -> None:
        super().__init__(descriptor, "rb")
        self._path = path
        self._max_bytes = max_bytes

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = super().readinto(buffer)
        if count is None:
            raise OSError(errno.EAGAIN, "has no end that can be read", self._path)
        # The position counts, not what was read in all: a file may be read twice.
        if self.tell() > self._max_bytes:
            raise _too_large(self._path, self._max_bytes)
        return count

    # FileIO's own would not go through `readinto`.
    def readall(self) -> bytes:
        chunks = []
        while chunk := self.read(MIB):
            chunks.append(chunk)
        return b"".join(chunks)

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return self.readall()
        buffer = bytearray(size)
        return bytes(buffer[: self.readinto(buffer)])


class _Unpacked(io.RawIOBase):
    def __init__(self, packed: io.BufferedReader, path: str) -> None:
        self._packed = packed
        self._path = path
        self._plain = gzip.GzipFile(fileobj=packed)
        self._bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = cast(io.BufferedIOBase, self._plain).readinto(buffer)
        self._bytes += count
        if self._bytes > RATIO_FROM_BYTES and self._bytes > MAX_RATIO * self._packed.tell():
            raise OSError(
                errno.EFBIG,
                f"unpacks to more than {MAX_RATIO} times its size, as a gzip bomb does; unpack it yourself",
                self._path,
            )
        return count


def _too_large(path: str, max_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"holds more than {max_bytes:,} bytes, the most that is read", path)
