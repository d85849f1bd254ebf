"""A lock between the processes of one user, for work that only one of them may do at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.core.errors import UsageError


def home_folder(variable: str) -> Path:
    """Return the user's home folder. Raises UsageError, whose hint names `variable`, if the user has none.

    A user has none whose id is in no list of users, as in many containers, and for whom HOME is not set.
    """
    home = os.path.expanduser("~")
    if home == "~":
        raise UsageError(f"user {os.getuid()} has no home folder", hint=f"set HOME or {variable} to a folder")
    return Path(home)


def cache_dir() -> Path:
    """Return the folder for files that harness can recreate: $XDG_CACHE_HOME/harness or ~/.cache/harness.

    Raises UsageError if the user has no home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else home_folder("XDG_CACHE_HOME") / ".cache") / "harness"


@contextmanager
def exclusive(name: str, *, notify: Callable[[str], None], folder: Path | None = None) -> Iterator[None]:
    """Hold the lock `name` for the duration of the block.

    The file of the lock is in the cache folder. Processes with different cache folders that share `folder`
    need it there.

    While another process or thread holds it, `notify` gets one line, and this call waits. The kernel frees
    the lock when its holder ends, however it ends. Raises UsageError if the file cannot be written.
    """
    from filelock import FileLock, Timeout

    path = (folder or cache_dir() / "locks") / name
    # A soft lock is a mere file, which would outlive a holder that was killed.
    lock = FileLock(path, mode=0o600, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            notify(f"waiting for another harness process that holds {path}")
            lock.acquire()
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}",
            hint="set XDG_CACHE_HOME to a folder that can be written" if folder is None else None,
        ) from error
    try:
        yield
    finally:
        lock.release()
