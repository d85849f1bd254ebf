"""The lock of a run folder, which keeps a second process from writing into it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from harness.errors import UsageError

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
