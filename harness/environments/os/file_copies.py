"""Copy files between sandboxes as plain data: contents, owners, modes, and times to the nanosecond.

Extended attributes and sockets are not copied. The host decides which files a copy holds, and no program of
either sandbox takes part.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.environments.os.file_entries import FileEntry, FileRange
from harness.environments.os.root_sandbox import RootSandbox, UnreadableFiles
from harness.sandbox.limits import MIB

MAX_COPIED_BYTES = 256 * MIB
MAX_LINKS = 10
MAX_PIECE_BYTES = 32 * MIB

ReadRanges = Callable[[Sequence[FileRange]], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The files that a copy receives.

    `entries` are sorted by path. A folder in `complete` contains nothing afterwards but the names in its
    entry. `absent` holds the paths to remove.
    """

    entries: tuple[FileEntry, ...] = ()
    complete: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one moment, stored on the host."""

    entries: tuple[FileEntry, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)

    def follow(self, path: str) -> str | None:
        """Return the path of a regular file behind the links at a path, None if there is no such file."""
        links = {entry.path: entry.to for entry in self.entries if entry.kind == "link"}
        for _link in range(MAX_LINKS):
            path = posixpath.normpath(path)
            if path in self.contents:
                return path
            if path not in links:
                return None
            path = posixpath.join(posixpath.dirname(path), links[path])
        return None

    async def read_ranges(self, ranges: Sequence[FileRange]) -> bytes:
        """Return the bytes of these ranges of files, one after the other."""
        return b"".join(self.contents[path][start : start + length] for path, start, length in ranges)


async def take_snapshot(sandbox: RootSandbox, since_ns: int | None = None) -> Snapshot:
    """Return the files that were changed since a time or since the start. Raises UnreadableFiles."""
    entries = await sandbox.list_changed(since_ns)
    contents: dict[str, bytearray] = {entry.path: bytearray() for entry in entries if entry.kind == "file"}
    for piece in _split_ranges(entries):
        data = await sandbox.read_ranges(piece)
        start = 0
        for path, _offset, length in piece:
            contents[path] += data[start : start + length]
            start += length
    return Snapshot(tuple(entries), {path: bytes(data) for path, data in contents.items()})


async def copy_files(plan: CopyPlan, read: ReadRanges, target: RootSandbox) -> None:
    """Create the files of the plan in `target`, with contents from `read`.

    Raises UnreadableFiles if the files are too large for a copy or cannot be created.
    """
    absent: list[Mapping[str, Any]] = [{"path": path, "kind": "absent"} for path in plan.absent]
    entries = list(_name_first_links(plan))
    if absent or entries:
        await target.make_files(make=[*absent, *entries])
    further_names = {entry["path"] for entry in entries if "same_as" in entry}
    for piece in _split_ranges([entry for entry in plan.entries if entry.path not in further_names]):
        await target.make_files(fill=piece, data=await read(piece))
    if entries:
        await target.make_files(finish=entries)


def _name_first_links(plan: CopyPlan) -> Iterator[Mapping[str, Any]]:
    """Yield the entries for the guest. Of a file with several names, the first name is the file."""
    first_names: dict[str, str] = {}
    for entry in plan.entries:
        if entry.kind == "other":
            continue
        made: dict[str, Any] = {
            "path": entry.path,
            "kind": entry.kind,
            "mode": entry.mode,
            "uid": entry.uid,
            "gid": entry.gid,
            "mtime_ns": entry.mtime_ns,
        }
        if entry.path in plan.complete:
            made["names"] = entry.names
        if entry.kind == "link":
            made["to"] = entry.to
        if entry.is_sparse:
            made["hole"] = entry.size
        if entry.inode:
            first = first_names.setdefault(entry.inode, entry.path)
            if first != entry.path:
                made["same_as"] = first
        yield made


def _split_ranges(entries: Sequence[FileEntry]) -> Iterator[list[FileRange]]:
    """Yield all ranges of these files in lists that fit into one request. Raises UnreadableFiles."""
    size = sum(entry.size for entry in entries if entry.kind == "file")
    if size > MAX_COPIED_BYTES:
        raise UnreadableFiles(f"the files have {size} bytes; the limit of a copy is {MAX_COPIED_BYTES}")
    piece: list[FileRange] = []
    room = MAX_PIECE_BYTES
    for entry in entries:
        offset = 0
        while entry.kind == "file" and offset < entry.size:
            length = min(entry.size - offset, room)
            piece.append((entry.path, offset, length))
            offset, room = offset + length, room - length
            if room == 0:
                yield piece
                piece, room = [], MAX_PIECE_BYTES
    if piece:
        yield piece
