"""The files of a machine as data on the host, and copies of them in another machine.

Programs of an agent decide about the files, so the guest of the other machine alone makes them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.core.errors import UsageError
from harness.environments.os.root_sandbox import FileEntry, FileRange, RootSandbox, UnreadableFiles
from harness.sandbox.limits import MIB

MAX_COPIED_BYTES = 256 * MIB
MAX_LINKS = 10
# The files of a snapshot that other machines start from.
MAX_KEPT_FILES = 50_000
_ENTRY_BYTES = 1024
# The files of one request.
MAX_BATCH = 4000
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

    @property
    def size_bytes(self) -> int:
        """The memory that the files take."""
        return sum(map(len, self.contents.values())) + _ENTRY_BYTES * len(self.entries)

    def follow(self, path: str) -> str | None:
        """Return the path of a regular file behind the links at a path, or None."""
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


async def take_snapshot(
    sandbox: RootSandbox, since_ns: int | None = None, *, most: int | None = None
) -> Snapshot:
    """Return the files that were changed since a time or since the start. Raises UnreadableFiles.

    There may be up to `most` of them, by default as many as one listing holds.
    """
    if most is None:
        entries = await sandbox.list_changed(since_ns)
    else:
        entries = await sandbox.list_all_changed(most, since_ns=since_ns)
    contents: dict[str, bytearray] = {entry.path: bytearray() for entry in entries if entry.kind == "file"}
    for piece in _split_ranges(entries):
        data = await sandbox.read_ranges(piece)
        start = 0
        for path, _offset, length in piece:
            contents[path] += data[start : start + length]
            start += length
    return Snapshot(tuple(entries), {path: bytes(data) for path, data in contents.items()})


async def copy_files(
    plan: CopyPlan, read: ReadRanges, target: RootSandbox, *, max_bytes: int = MAX_COPIED_BYTES
) -> None:
    """Create the files of the plan in `target`, with contents from `read`.

    Raises UnreadableFiles if the files are too large for a copy or cannot be created.
    """
    absent: list[Mapping[str, Any]] = [{"path": path, "kind": "absent"} for path in plan.absent]
    entries = list(_name_first_links(plan))
    for batch in _batches([*absent, *entries]):
        await target.make_files(make=batch)
    further_names = {entry["path"] for entry in entries if "same_as" in entry}
    copied = [entry for entry in plan.entries if entry.path not in further_names]
    for piece in _split_ranges(copied, max_bytes):
        await target.make_files(fill=piece, data=await read(piece))
    # Folders after their files, because a file that is made changes the time of its folder.
    for batch in reversed(list(_batches(entries))):
        await target.make_files(finish=batch)


def _batches(entries: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    return (entries[start : start + MAX_BATCH] for start in range(0, len(entries), MAX_BATCH))


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
        if entry.xattrs:
            made["xattrs"] = entry.xattrs
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


def _split_ranges(
    entries: Sequence[FileEntry], max_bytes: int = MAX_COPIED_BYTES
) -> Iterator[list[FileRange]]:
    """Yield all ranges of these files in lists that fit into one request. Raises UnreadableFiles."""
    size = sum(entry.size for entry in entries if entry.kind == "file")
    if size > max_bytes:
        raise UnreadableFiles(f"the files have {size} bytes; the limit of a copy is {max_bytes}")
    piece: list[FileRange] = []
    room = MAX_PIECE_BYTES
    for entry in entries:
        offset = 0
        while entry.kind == "file" and offset < entry.size:
            length = min(entry.size - offset, room)
            piece.append((entry.path, offset, length))
            offset, room = offset + length, room - length
            if room == 0 or len(piece) == MAX_BATCH:
                yield piece
                piece, room = [], MAX_PIECE_BYTES
    if piece:
        yield piece


def plan_all(before: Sequence[FileEntry]) -> CopyPlan:
    """Return the plan that copies all of the set-up. `before` lists the files before the agent acted."""
    return CopyPlan(tuple(before), complete=list_folders(before))


def list_folders(entries: Iterable[FileEntry]) -> frozenset[str]:
    """Return the paths of the folders among these files."""
    return frozenset(entry.path for entry in entries if entry.kind == "folder")


async def keep_files(sandbox: RootSandbox, since_ns: int | None = None) -> Snapshot:
    """Return the files that were changed since a time or since the start, while no process changes them.

    Raises UsageError if there are too many of them, or one cannot be read, and SandboxError.
    """
    await sandbox.pause_all()
    try:
        return await take_snapshot(sandbox, since_ns, most=MAX_KEPT_FILES)
    except UnreadableFiles as error:
        raise UsageError(f"the files of the machine cannot be kept: {error}") from error
    finally:
        await sandbox.resume_all()


async def bring_files(kept: Snapshot, sandbox: RootSandbox) -> None:
    """Give a machine of the same image these files in place of those that it has. Raises SandboxError."""
    try:
        await copy_files(plan_all(kept.entries), kept.read_ranges, sandbox)
    except UnreadableFiles as error:
        raise sandbox.build_failure(f"the files of a snapshot cannot be made: {error}") from error
