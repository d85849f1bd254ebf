"""The temporary folders of programs on this machine, and the removal of those whose owner is gone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.sandbox.host_programs.supervisor import remove_folder

# Folders of earlier versions have another prefix, because nothing shows whether their owner is gone.
PREFIX = "harness-program-"
# A folder is made a moment before it is locked.
SHORTEST_AGE_SECONDS = 60.0
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ProgramFolder:
    """A folder, and a descriptor of it, which stays right if a program moves the folder away."""

    path: Path
    descriptor: int


@contextlib.contextmanager
def open_folder() -> Iterator[ProgramFolder]:
    """Yield a new temporary folder, and remove it. The kernel keeps its lock until this process ends."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        descriptor = os.open(path, _FLAGS)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield ProgramFolder(path, descriptor)
        finally:
            os.close(descriptor)
    finally:
        remove_folder(str(path))


def remove_abandoned_folders() -> list[Path]:
    """Remove the folders of this user whose harness is gone, and return them."""
    removed = []
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        if _is_abandoned(path):
            remove_folder(str(path))
            if not path.exists():
                removed.append(path)
    return removed


def _is_abandoned(path: Path) -> bool:
    try:
        facts = path.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
            return False
        if time.time() - facts.st_mtime < SHORTEST_AGE_SECONDS:
            return False
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
