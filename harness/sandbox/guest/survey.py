"""What lies in folders, and what of it was changed since a moment: by times that root cannot set.

A file's change time (ctime) is the kernel's own. Whatever puts another content, name, mode or owner in
place renews it, a copy into a container's own layer included.
"""

from __future__ import annotations

import json
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

MAX_FOUND = 20_000
# Of all that one answer says, as JSON: it is far below what a frame holds, escapes included.
MAX_BYTES = 16 << 20
# In Linux; Python has no name for it.
CLOCK_REALTIME_COARSE = 5


class TooMuchChanged(ValueError):
    """There is more to report than one answer may hold."""


class Report:
    """`[path, facts]` of several paths as one JSON array. What would make it too large is never built."""

    def __init__(self) -> None:
        self._entries: list[str] = []
        self._room = MAX_BYTES

    def add(self, path: str) -> None:
        """Describe a path. Raises OSError, TooMuchChanged."""
        # No character of a name takes less than a byte.
        entry = json.dumps([path, describe(path, self._room)])
        self._room -= len(entry)
        if self._room < 0:
            raise TooMuchChanged(f"a report of more than {MAX_BYTES} bytes")
        self._entries.append(entry)

    def text(self) -> bytes:
        return f"[{','.join(self._entries)}]".encode()


def report(paths: Iterable[str]) -> bytes:
    """Return a report of these paths. Raises OSError, TooMuchChanged."""
    told = Report()
    for path in paths:
        told.add(path)
    return told.text()


def now_ns() -> int:
    """The time that the kernel gives a change that is made now, in nanoseconds."""
    return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)


def changed_since(paths: list[str], since_ns: int) -> list[str]:
    """Return what was changed in and at these paths, folders before what is in them.

    Raises OSError where a folder cannot be listed, TooMuchChanged.
    """
    found = []
    folders = []
    for path in paths:
        try:
            facts = os.lstat(path)
        except FileNotFoundError:
            continue
        if facts.st_ctime_ns >= since_ns:
            found.append(path)
        if stat.S_ISDIR(facts.st_mode):
            folders.append(path)
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_ctime_ns >= since_ns:
                    found.append(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        if len(found) > MAX_FOUND:
            raise TooMuchChanged(f"more than {MAX_FOUND} files were changed")
    return found


def describe(path: str, room: int = MAX_BYTES) -> dict[str, Any]:
    """Return what a path is: its kind, where a link points, what names a folder has, which device it is.

    Raises OSError; TooMuchChanged where the names have more than `room` characters.
    """
    try:
        facts = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return {"kind": "absent"}
    if stat.S_ISDIR(facts.st_mode):
        return {"kind": "folder", "names": sorted(_names(path, room))}
    if stat.S_ISLNK(facts.st_mode):
        return {"kind": "link", "to": os.readlink(path)}
    if stat.S_ISREG(facts.st_mode):
        return {"kind": "file"}
    return {"kind": "other", "mode": facts.st_mode, "device": facts.st_rdev}


def _names(folder: str, room: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            room -= len(entry.name)
            if room < 0:
                raise TooMuchChanged(f"{folder} has more names than one answer may hold")
            yield entry.name
