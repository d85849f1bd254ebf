"""The files of a machine as plain data: list the changed files, read them, and create them elsewhere.

A file counts as changed by its change time (ctime), which only the kernel sets. A new content, name, mode or
owner updates this time, and so does a copy from the image into the container's own layer.
"""

from __future__ import annotations

import base64
import os
import stat
import time

from harness.sandbox.guest import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# These files belong to the kernel and to the guest, and not to the machine.
SKIPPED = frozenset(("/proc", "/sys", "/dev", "/opt/harness"))
STARTS = ("/", "/dev/shm")
MAX_ENTRIES = 20_000
MAX_LISTING_BYTES = 8 * 1024 * 1024
# File systems leave holes in blocks of this size.
HOLE_BYTES = 4096
# Linux defines this constant, and Python has no name for it.
CLOCK_REALTIME_COARSE = 5
KINDS = ((stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "link"), (stat.S_ISFIFO, "fifo"))


class TooMuchChanged(ValueError):
    """More files were changed than one listing holds."""


def now_ns() -> int:
    """Return the time that the kernel assigns to a change at this moment, in nanoseconds."""
    return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)


def next_tick_ns() -> int:
    """Wait for the kernel's next time for changes and return it. Earlier changes have earlier times.

    Since 6.13 the kernel gives some changes a precise time, which its time for all others has not reached.
    """
    asked = time.time_ns()
    while (now := now_ns()) <= asked:
        time.sleep(0.001)
        # If the clock is set back in this moment, the time that was asked for may be hours away.
        asked = min(asked, time.time_ns())
    return now


def list_changed(since_ns: int) -> list[dict[str, Any]]:
    """Return an entry for each file of the machine that was changed at this time or later.

    Raises OSError if a folder cannot be read, and TooMuchChanged beyond MAX_ENTRIES or MAX_LISTING_BYTES.
    """
    listing = _Listing()
    _list_all(since_ns, None, listing)
    return listing.entries


def list_page(since_ns: int, after: str) -> dict[str, Any]:
    """Return the entries of the changed files behind a path, and whether they are the last ones.

    The first page comes with an empty path. Files are in the order of `page_order`. Raises OSError, and
    TooMuchChanged for a single entry that is too long.
    """
    listing = _Listing()
    try:
        _list_all(since_ns, page_order(after) if after else None, listing)
    except TooMuchChanged:
        if not listing.entries:
            raise
        return {"entries": listing.entries, "is_last": False}
    return {"entries": listing.entries, "is_last": True}


def _list_all(since_ns: int, done: tuple[str, ...] | None, listing: _Listing) -> None:
    """Add the changed files that are not `done` to the listing, each folder before its files."""
    paths = list(reversed(STARTS))
    while paths:
        path = paths.pop()
        is_behind = done is None or (parts := page_order(path)) > done
        try:
            facts = os.lstat(path)
            if is_behind and facts.st_ctime_ns >= since_ns:
                listing.add(path, facts)
            if stat.S_ISDIR(facts.st_mode) and (is_behind or done is None or done[: len(parts)] == parts):
                folder = "" if path == "/" else path
                inside = [f"{folder}/{name}" for name in sorted(os.listdir(path), reverse=True)]
                paths += [each for each in inside if each not in SKIPPED]
        except FileNotFoundError:
            continue  # A process of the set-up has removed the file.


def page_order(path: str) -> tuple[str, ...]:
    """Return the parts of a path, which sort the pages. The second start comes last."""
    last = "\U0010ffff" if path.startswith(STARTS[1]) else ""
    return (last, *filter(None, path.split("/")))


class _Listing:
    """Collects entries within the bounds of a listing."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._bytes = 0

    def add(self, path: str, facts: os.stat_result) -> None:
        entry = describe(path, facts)
        texts = (path, entry.get("to", ""), *entry.get("names", ()))
        # JSON needs at most six bytes for one byte of a name.
        self._bytes += 200 + sum(6 * len(text) + 4 for text in texts)
        self._bytes += sum(len(name) + len(value) for name, value in entry.get("xattrs", ()))
        if len(self.entries) == MAX_ENTRIES or self._bytes > MAX_LISTING_BYTES:
            raise TooMuchChanged(
                f"more files were changed than a listing of {MAX_ENTRIES} files and "
                f"{MAX_LISTING_BYTES} bytes holds"
            )
        self.entries.append(entry)


def describe(path: str, facts: os.stat_result) -> dict[str, Any]:
    """Return the entry of a path: its kind, owner, mode and times, and the facts that belong to that kind."""
    kind = next((name for is_kind, name in KINDS if is_kind(facts.st_mode)), "other")
    entry: dict[str, Any] = {
        "path": path,
        "kind": kind,
        "mode": stat.S_IMODE(facts.st_mode),
        "uid": facts.st_uid,
        "gid": facts.st_gid,
        "mtime_ns": facts.st_mtime_ns,
        "ctime_ns": facts.st_ctime_ns,
    }
    if kind == "folder":
        entry["names"] = _names(path)
    elif kind == "link":
        entry["to"] = os.readlink(path)
    elif kind == "file":
        entry["size"] = facts.st_size
        # The kernel counts in blocks of 512 bytes, whatever the file system uses.
        entry["is_sparse"] = facts.st_blocks * 512 < facts.st_size
        if facts.st_nlink > 1:
            entry["inode"] = f"{facts.st_dev}:{facts.st_ino}"
    if attributes := _list_attributes(path):
        entry["xattrs"] = attributes
    return entry


def _list_attributes(path: str) -> list[tuple[str, str]]:
    """Return the names and values of extended attributes, the values in base64."""
    found = []
    try:
        for name in os.listxattr(path, follow_symlinks=False):
            value = os.getxattr(path, name, follow_symlinks=False)
            found.append((name, base64.b64encode(value).decode()))
    except OSError:
        pass  # The file system has none, or one was just removed.
    return found


def _names(folder: str) -> list[str]:
    """Return the names in a folder, within the bounds of a listing. Raises OSError, TooMuchChanged."""
    names = []
    room = MAX_LISTING_BYTES
    with os.scandir(folder) as entries:
        for entry in entries:
            room -= len(entry.name)
            if room < 0:
                raise TooMuchChanged(f"{folder} has more names than a listing holds")
            names.append(entry.name)
    return names


def describe_each(paths: list[str]) -> list[dict[str, Any]]:
    """Return the entry of each of these paths that exists. Raises TooMuchChanged, OSError."""
    listing = _Listing()
    for path in paths:
        try:
            listing.add(path, os.lstat(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
    return listing.entries


def read_ranges(ranges: list[tuple[str, int, int]]) -> bytes:
    """Return the bytes of each `(path, offset, length)`, one after the other. Raises OSError, FileRefused."""
    parts = []
    for path, offset, length in ranges:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise files.FileRefused(f"{path} is not a regular file")
            parts.append(_read_exactly(descriptor, offset, length, path))
        finally:
            os.close(descriptor)
    return b"".join(parts)


def _read_exactly(descriptor: int, offset: int, length: int, path: str) -> bytes:
    parts = []
    while length:
        part = os.pread(descriptor, min(length, 1 << 20), offset)
        if not part:
            raise files.FileRefused(f"{path} became shorter while it was read")
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)


def make(entries: Sequence[Mapping[str, Any]]) -> None:
    """Create these files without their contents, folders before their files. Replace existing files.

    If a folder has `names`, everything else in it is removed. An `absent` path is removed. Raises OSError,
    and ValueError for a path that a link leads elsewhere.
    """
    checked = None
    for entry in entries:
        path = entry["path"]
        folder = os.path.dirname(path)
        # The entries of a folder follow it without a change of the folder itself.
        if folder != checked and os.path.realpath(folder) != folder:
            raise ValueError(f"a link leads {path} elsewhere")
        checked = folder
        if entry["kind"] == "folder":
            _make_folder(path, entry.get("names"))
        else:
            _make_other(path, entry)


def _make_folder(path: str, names: list[str] | None) -> None:
    if os.path.islink(path) or not os.path.isdir(path):
        files.remove([path])
        os.mkdir(path, 0o700)
    if names is not None:
        surplus = {os.path.join(path, name) for name in set(os.listdir(path)).difference(names)}
        files.remove(sorted(surplus - SKIPPED))


def _make_other(path: str, entry: Mapping[str, Any]) -> None:
    kind = entry["kind"]
    if kind == "file" and "same_as" not in entry and os.path.ismount(path):
        os.truncate(path, 0)  # The engine mounts files such as /etc/hosts, which cannot be replaced.
        return
    files.remove([path])
    if kind == "link":
        os.symlink(entry["to"], path)
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "file" and "same_as" in entry:
        os.link(entry["same_as"], path, follow_symlinks=False)
    elif kind == "file":
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        if "hole" in entry:  # `fill` leaves the holes of this file as they are.
            os.truncate(path, entry["hole"])


def fill(ranges: list[tuple[str, int, int]], data: bytes) -> None:
    """Write `data` into files, one range `(path, offset, length)` after the other. Raises OSError.

    Zeros are not written into a file that `make` made as one hole, so that `du` finds the size that it had.
    """
    start = 0
    for path, offset, length in ranges:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            view = memoryview(data)[start : start + length]
            if os.fstat(descriptor).st_size < offset + length:
                _write_all(descriptor, view, offset)
            else:
                _write_around_holes(descriptor, view, offset)
        finally:
            os.close(descriptor)
        start += length


def _write_all(descriptor: int, view: memoryview, offset: int) -> None:
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _write_around_holes(descriptor: int, view: memoryview, offset: int) -> None:
    zeros = bytes(HOLE_BYTES)
    for start in range(0, len(view), HOLE_BYTES):
        piece = view[start : start + HOLE_BYTES]
        if piece != zeros[: len(piece)]:
            _write_all(descriptor, piece, offset + start)


def remove_links(paths: list[str], kept_out: Sequence[str]) -> list[str]:
    """Remove the links among these that lead to or below a path of `kept_out`, or to the top. Return them."""
    removed = []
    for path in paths:
        target = os.path.realpath(path)
        if os.path.islink(path) and (
            target == "/" or any(target == each or target.startswith(each + "/") for each in kept_out)
        ):
            os.unlink(path)
            removed.append(path)
    return removed


def finish(entries: Sequence[Mapping[str, Any]]) -> None:
    """Give files their owners, modes, attributes and times, folders after their files. Raises OSError."""
    for entry in reversed(entries):
        path = entry["path"]
        if entry["kind"] == "absent" or path == "/":
            continue
        os.chown(path, entry["uid"], entry["gid"], follow_symlinks=False)
        if entry["kind"] != "link":
            os.chmod(path, entry["mode"])
        # A change of the owner removes the capabilities of a file.
        for name, value in entry.get("xattrs", ()):
            os.setxattr(path, name, base64.b64decode(value), follow_symlinks=False)
        times = (entry["mtime_ns"], entry["mtime_ns"])
        os.utime(path, ns=times, follow_symlinks=False)


class SetClock:
    """Compares the clock of the machine with the time since its boot, which nobody can set.

    A clock that a service only slows down or speeds up changes both times alike.
    """

    def __init__(self) -> None:
        self._highest_ns = 0
        self.note()

    def note(self) -> None:
        """Record the state of the clock, because someone relies on its time from now on."""
        # In this order, a delay between the two calls makes the difference smaller.
        shown = time.time_ns()
        self._highest_ns = max(self._highest_ns, shown - time.clock_gettime_ns(time.CLOCK_BOOTTIME))

    def back_ns(self) -> int:
        """Return by how many nanoseconds the clock was set back since the first record, or 0."""
        # In this order, a delay between the two calls makes the result smaller.
        since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return max(0, self._highest_ns - (time.time_ns() - since_boot))
