"""What lies in folders, and what of it was changed since a moment: by times that root cannot set.

A file's change time (ctime) is the kernel's own. Whatever puts another content, name, mode or owner in
place renews it, a copy into a container's own layer included.
"""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_FOUND = 20_000
# In Linux; Python has no name for it.
CLOCK_REALTIME_COARSE = 5


class TooMuchChanged(ValueError):
    """More has changed than anybody would tell of."""


def now_ns() -> int:
    """The time that the kernel gives a change that is made now, in nanoseconds."""
    return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)


def changed_since(paths: list[str], since_ns: int) -> list[list[Any]]:
    """Return `[path, facts]` of what was changed in and at these paths, folders before what is in them.

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
    return [[path, describe(path)] for path in found]


def describe(path: str) -> dict[str, Any]:
    """Say what a path is: its kind, where a link points, what names a folder has, which device it is."""
    try:
        facts = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return {"kind": "absent"}
    if stat.S_ISDIR(facts.st_mode):
        return {"kind": "folder", "names": sorted(os.listdir(path))}
    if stat.S_ISLNK(facts.st_mode):
        return {"kind": "link", "to": os.readlink(path)}
    if stat.S_ISREG(facts.st_mode):
        return {"kind": "file"}
    return {"kind": "other", "mode": facts.st_mode, "device": facts.st_rdev}
