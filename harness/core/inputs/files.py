"""The only module that opens files of the user and of earlier runs for reading."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MIB = 1024 * 1024
MAX_TEXT_BYTES = 16 * MIB
"""The maximum size of a config, or a note of a download."""
MAX_RUN_FILE_BYTES = 8 * MAX_TEXT_BYTES
"""The maximum size of a manifest, which holds a config in full, or of a summary, which names categories."""
MAX_DATA_BYTES = 2 * 1024 * MIB
"""The maximum size of a file of rows, packed or unpacked, because all rows are kept in memory."""
MAX_LINE_BYTES = 64 * MIB
"""The maximum length of a line in a file that harness wrote, such as attempts.jsonl."""
# Real data compresses to a tenth or a thirtieth, and a gzip bomb to a thousandth, the best that gzip can do.
MAX_RATIO = 200
RATIO_FROM_BYTES = 64 * MIB
# Without O_NONBLOCK, opening a named pipe would wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = (
    (stat.S_ISDIR, "is a folder, not a file"),
    (stat.S_ISFIFO, "is a named pipe, not a regular file"),
    (stat.S_ISSOCK, "is a socket, not a regular file"),
    (stat.S_ISCHR, "is a device, not a regular file"),
    (stat.S_ISBLK, "is a device, not a regular file"),
)


def open_input(path: str | os.PathLike[str], *, max_bytes: int) -> io.BufferedReader:
    """Return a regular file, opened for reading without waiting for a writer.

    Raises OSError, whose `strerror` names the reason, for everything that is not a regular file with an
    end: named pipes, devices, sockets, folders, and files that the kernel generates, such as in /proc.
    The returned stream raises it too, once it has read more than `max_bytes`.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except ValueError as error:  # a NUL, or half of a surrogate pair
        raise OSError(errno.EINVAL, "is not a file name", repr(path)) from error
    return _read_regular(descriptor, os.fspath(path), max_bytes)


def open_input_below(folder: int, path: str, *, max_bytes: int) -> io.BufferedReader:
    """Return a regular file below a folder, opened as `open_input` does. Its path contains no link.

    Untrusted programs may have written the folder. A link there could lead to a file that only this process
    can read, such as /proc/self/environ.

    Args:
        folder: a descriptor of the folder.
        path: the path from there.
        max_bytes: the maximum size of the file.

    Raises OSError as `open_input` does, and for a link or `..` in the path.
    """
    with open_parent_below(folder, path) as (parent, name):
        try:
            descriptor = os.open(name, os.O_NOFOLLOW | _FLAGS, dir_fd=parent)
        except OSError as error:
            raise explain_link(error, name, parent) from error
    return _read_regular(descriptor, path, max_bytes)


@contextmanager
def open_parent_below(folder: int, path: str) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder that holds a file below `folder`, and the last part of the path.

    It takes the arguments of `open_input_below`. Raises OSError for a link or `..` in the path.
    """
    *folders, name = PurePath(path).parts or ("",)
    if ".." in (*folders, name) or os.path.isabs(path):
        raise OSError(errno.EINVAL, "is not below its folder", path)
    if "\0" in path or not _is_encodable(path):
        raise OSError(errno.EINVAL, "is not a file name", repr(path))
    opened = os.dup(folder)
    try:
        for each in folders:
            try:
                below = os.open(each, os.O_DIRECTORY | os.O_NOFOLLOW | _FLAGS, dir_fd=opened)
            except OSError as error:
                raise explain_link(error, each, opened) from error
            os.close(opened)
            opened = below
        yield opened, name
    finally:
        os.close(opened)


def explain_link(error: OSError, name: str, folder: int) -> OSError:
    """Return the error of an open with O_NOFOLLOW, with a clear reason if `name` is a symbolic link."""
    if error.errno not in (errno.ELOOP, errno.ENOTDIR):
        return error
    try:
        is_link = stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return error
    return OSError(errno.ELOOP, "is a symbolic link, which is not followed here", name) if is_link else error


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except ValueError:  # half of a surrogate pair
        return False
    return True


def read_input(path: str | os.PathLike[str], *, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """Return all bytes of a regular file. Raises as `open_input` does."""
    with open_input(path, max_bytes=max_bytes) as stream:
        return stream.read()


def hash_file(path: str | os.PathLike[str], *, max_bytes: int = MAX_DATA_BYTES) -> str:
    """Return the SHA-256 (hex) of a regular file. Raises as `open_input` does."""
    with open_input(path, max_bytes=max_bytes) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unpack(stream: io.BufferedReader, path: str | os.PathLike[str]) -> io.BufferedReader:
    """Return a stream of the unpacked bytes of a gzip stream.

    A read raises OSError for a gzip bomb, which unpacks to more than MAX_RATIO times its size.
    """
    return io.BufferedReader(_Unpacked(stream, os.fspath(path)), buffer_size=MIB)


def read_whole_lines(stream: io.BufferedReader, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line of a file with its number, from 1, except for a last line without its end.

    A kill in the middle of a write leaves such a line.

    Raises OSError for a line of more than MAX_LINE_BYTES.
    """
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise OSError(errno.EFBIG, f"line {number} is longer than {MAX_LINE_BYTES:,} bytes", str(path))
        if line.endswith(b"\n"):
            yield number, line


def _read_regular(descriptor: int, path: str, max_bytes: int) -> io.BufferedReader:
    try:
        size = _require_regular(descriptor, path, max_bytes)
        # The buffer is large because each read of _Bounded goes through Python.
        return io.BufferedReader(_Bounded(descriptor, path, max_bytes), buffer_size=_fit_buffer(size))
    except BaseException:
        os.close(descriptor)
        raise


def require_kind(mode: int, path: str) -> None:
    """Raise OSError, whose `strerror` names the kind, unless a mode belongs to a regular file."""
    for is_kind, reason in _KINDS:
        if is_kind(mode):
            raise OSError(errno.EINVAL, reason, path)


def _require_regular(descriptor: int, path: str, max_bytes: int) -> int:
    """Return the size of a file in bytes. Raises OSError for one that is not regular, or is too large."""
    facts = os.fstat(descriptor)
    require_kind(facts.st_mode, path)
    if facts.st_size > max_bytes:
        raise _too_large(path, max_bytes)
    if facts.st_size == 0 and not _is_empty(descriptor):
        raise OSError(errno.EINVAL, "is generated by the kernel, not a regular file", path)
    return facts.st_size


def _fit_buffer(size: int) -> int:
    """Return the size of a buffer that reads a small file at once. A buffer of a MiB takes time to make."""
    return min(max(size + 1, io.DEFAULT_BUFFER_SIZE), MIB)


def _is_empty(descriptor: int) -> bool:
    """Return whether a file without a size is one that is empty, or has grown since.

    Many files of /proc and /sys have no size. Some have no end, and some let their reader wait.
    """
    try:
        return not os.pread(descriptor, 1, 0) or os.fstat(descriptor).st_size > 0
    except OSError:
        return False


class _Bounded(io.FileIO):
    """A file whose reads raise OSError once it is too large, or if it has no data yet."""

    def __init__(self, descriptor: int, path: str, max_bytes: int) -> None:
        super().__init__(descriptor, "rb")
        self._path = path
        self._max_bytes = max_bytes

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = super().readinto(buffer)
        if count is None:
            raise OSError(errno.EAGAIN, "has no end that can be read", self._path)
        # The position counts, and not the sum of all reads, because a file may be read twice.
        if self.tell() > self._max_bytes:
            raise _too_large(self._path, self._max_bytes)
        return count

    # The method of FileIO would bypass `readinto`.
    def readall(self) -> bytes:
        chunks = []
        size = _fit_buffer(os.fstat(self.fileno()).st_size - self.tell())
        while chunk := self.read(size):
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
                f"unpacks to more than {MAX_RATIO} times its size, as a gzip bomb does; unpack it first",
                self._path,
            )
        return count


def _too_large(path: str, max_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"holds more than {max_bytes:,} bytes, which is the limit", path)
