"""The only module that opens the files of a run folder, for reading and for writing.

A run folder is data, and so are the names in it. Somebody else may have made it, and a link in it could lead
to any file of the user. So every file is opened relative to a descriptor of its folder, by these rules:

- No part of its name below the folder is a symbolic link.
- It is a regular file that has one name. A hard link would be a second name of a file elsewhere.
- Every read has a limit.

The user names the folder itself, so its own path may have links.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import TextIO

from harness.core.errors import HarnessError, UsageError
from harness.core.inputs.files import (
    MAX_RUN_FILE_BYTES,
    explain_link,
    open_input_below,
    open_parent_below,
    require_kind,
)
from harness.core.text import quote_argument

# The version of the fields of a run folder.
SCHEMA_VERSION = 1
# Without O_NONBLOCK, opening a named pipe would wait for a reader.
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MODE = 0o666  # less the umask


def open_run_file(folder: Path, name: str, *, max_bytes: int) -> io.BufferedReader:
    """Return a file of a run folder, opened for reading.

    Args:
        folder: the run folder.
        name: the name of the file there, such as `attempts.jsonl` or `transcripts/1-0.jsonl`.
        max_bytes: the maximum size of the file.

    Raises OSError, whose `strerror` names the reason, for a file that breaks a rule of this module. The
    stream raises it too, once it has read more than `max_bytes`.
    """
    with _open_folder(folder) as descriptor:
        stream = open_input_below(descriptor, name, max_bytes=max_bytes)
    try:
        _require_one_name(os.fstat(stream.fileno()), name)
    except BaseException:
        stream.close()
        raise
    return stream


def read_run_file(folder: Path, name: str, *, max_bytes: int = MAX_RUN_FILE_BYTES) -> bytes:
    """Return all bytes of a file of a run folder. Raises as `open_run_file` does."""
    with open_run_file(folder, name, max_bytes=max_bytes) as stream:
        return stream.read()


def hash_run_file(folder: Path, name: str, *, max_bytes: int) -> str:
    """Return the SHA-256 (hex) of a file of a run folder. Raises as `open_run_file` does."""
    with open_run_file(folder, name, max_bytes=max_bytes) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def has_run_file(folder: Path, name: str) -> bool:
    """Return whether a run folder has this name. It may be a link's, which no function here opens."""
    return os.path.lexists(folder / name)


def measure_run_file(folder: Path, name: str) -> int:
    """Return the size of a file of a run folder in bytes, 0 if there is none or it cannot be read."""
    try:
        with _open_folder(folder) as descriptor, open_parent_below(descriptor, name) as (parent, last):
            return os.stat(last, dir_fd=parent, follow_symlinks=False).st_size
    except OSError:
        return 0


def list_run_files(folder: Path, name: str) -> list[str]:
    """Return the sorted names in a folder of a run folder. Raises OSError, also for a link."""
    with _open_folder(folder) as descriptor, open_parent_below(descriptor, f"{name}/.any") as (below, _):
        return sorted(os.listdir(below))


def append_to_run_file(folder: Path, name: str) -> int:
    """Return a descriptor of a file of a run folder that appends to it. The file is made if it is missing.

    The descriptor can also read. Raises OSError as `open_run_file` does.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS
    with _open_folder(folder) as descriptor, open_parent_below(descriptor, name) as (parent, last):
        try:
            opened = os.open(last, flags, _MODE, dir_fd=parent)
        except OSError as error:
            raise explain_link(error, last, parent) from error
    try:
        facts = os.fstat(opened)
        require_kind(facts.st_mode, name)
        _require_one_name(facts, name)
    except BaseException:
        os.close(opened)
        raise
    return opened


def create_run_file(folder: Path, name: str) -> int:
    """Return a descriptor that writes a new file of a run folder, in place of anything that has its name.

    A link of this name is removed, and the file that it leads to is left as it is. The folders of the file
    are made if they are missing. Raises OSError, also for a link to a folder.
    """
    with _open_new(folder, name) as (below, last):
        return os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE, dir_fd=below)


def link_in_run_folder(folder: Path, name: str, target: str) -> None:
    """Make a symbolic link in a run folder as `create_run_file` makes a file. Nothing of harness follows it.

    Raises OSError.
    """
    with _open_new(folder, name) as (below, last):
        os.symlink(target, last, dir_fd=below)


def remove_run_folder(folder: Path, name: str) -> None:
    """Remove a folder in a run folder with everything in it, if there is one. Raises OSError."""
    with suppress(FileNotFoundError), _open_folder(folder) as top, open_parent_below(top, name) as found:
        shutil.rmtree(found[1], dir_fd=found[0])


@contextmanager
def _open_new(folder: Path, name: str) -> Iterator[tuple[int, str]]:
    """Yield the folder of a name that is free, and the last part of the name. Raises OSError."""
    with _open_folder(folder) as descriptor:
        for parent in reversed(PurePath(name).parents[:-1]):
            with open_parent_below(descriptor, str(parent)) as (above, last), suppress(FileExistsError):
                os.mkdir(last, dir_fd=above)
        with open_parent_below(descriptor, name) as (below, last):
            with suppress(FileNotFoundError):
                os.unlink(last, dir_fd=below)
            yield below, last


def replace_run_file(folder: Path, name: str, data: bytes) -> None:
    """Replace a file at the top of a run folder in one step, without waiting for the disk.

    A reader sees the old file or the new one. A link of this name is replaced, and the file that it leads to
    is left as it is. Only one writer may replace a file at a time. Raises OSError.
    """
    with _open_folder(folder) as descriptor:
        # Always the same name, so that a run that is killed again and again leaves one file at most.
        temporary = f".{name}.new"
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=descriptor)
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE, dir_fd=descriptor)
        try:
            with os.fdopen(opened, "wb") as file:
                file.write(data)
            os.rename(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=descriptor)
            raise


def remove_run_file(folder: Path, name: str) -> None:
    """Remove a file at the top of a run folder, if there is one. Raises OSError."""
    with _open_folder(folder) as descriptor, suppress(FileNotFoundError):
        os.unlink(name, dir_fd=descriptor)


def split_nested(path: Path) -> tuple[Path, str]:
    """Return the run folder and the name of a file that lies one folder below it, such as a transcript."""
    return path.parents[1], f"{path.parent.name}/{path.name}"


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _require_one_name(facts: os.stat_result, name: str) -> None:
    # A file that has just been replaced has no name left.
    if facts.st_nlink > 1:
        raise OSError(errno.EMLINK, "has another name (a hard link), and is not opened; copy the file", name)


class StorageError(HarnessError):
    """The run folder can no longer be written, so the run stops. Finished attempts stay stored."""

    exit_code = 3


@contextmanager
def replace_file(path: Path, *, resumed: Path | None = None) -> Iterator[TextIO]:
    """Yield a temporary file, and move it to `path` once it is complete.

    Raises StorageError. Its hint is to resume the run in the folder `resumed`, which writes the file again.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        # It must be new, because a link of its name could lead elsewhere.
        with open(temporary, "x", encoding="utf-8", errors="backslashreplace") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        hint = None if resumed is None else advise_resume(resumed, error)
        raise StorageError(f"{path}: cannot be written: {error.strerror}", hint=hint) from error
    finally:
        temporary.unlink(missing_ok=True)


def advise_resume(folder: Path, error: OSError) -> str:
    """Return the hint for a run folder that could not be written."""
    return f"{find_remedy(error)}, then run: harness run --resume {quote_argument(folder)}"


def find_remedy(error: OSError) -> str:
    """Return what the user can do about a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "make room"
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return "replace the link with a file"
    return "make the run folder writable"


# `is_running` of run_names.py holds the lock for a moment, which must not keep a run from its folder.
LOCK_TRIES, LOCK_PAUSE_SECONDS = 5, 0.02


def lock_run_folder(folder: Path) -> int:
    """Return a descriptor of the folder that holds its lock until it is closed.

    Raises UsageError if another process holds the lock, or the folder cannot be opened.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"{folder}: {error.strerror}", hint="--resume takes a run folder, such as one in runs/"
        ) from error
    for tried in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if tried + 1 < LOCK_TRIES:
                time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return descriptor
    os.close(descriptor)
    raise UsageError(f"{folder}: another process uses this run folder")
