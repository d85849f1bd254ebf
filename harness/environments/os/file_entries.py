"""The files of a machine as data on the host: entries, snapshots, and plans of copies.

Programs of an agent decide about the files, so the guest of the other machine alone makes them.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic import dataclasses as checked

from harness.core.errors import SandboxError, UsageError
from harness.sandbox.limits import MIB

MAX_SIZE = 1 << 40
MAX_COPIED_BYTES = 256 * MIB
MAX_LINKS = 10
_ENTRY_BYTES = 1024
# The files of one request.
MAX_BATCH = 4000
MAX_PIECE_BYTES = 32 * MIB

# A path, an offset and a length in bytes.
FileRange = tuple[str, int, int]
ReadContents = Callable[[Sequence[FileRange]], Awaitable[bytes]]


class UnreadableFiles(Exception):
    """The sandbox contains files that cannot be listed, read or created. The agent caused this."""


@checked.dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, folder, link or FIFO as `guest.contents` describes it; times in nanoseconds."""

    path: str
    kind: Literal["folder", "file", "link", "fifo", "other"]
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    ctime_ns: int
    # The size in bytes, and 0 for anything but a file.
    size: int = 0
    # Whether a file uses less of the disk than its size, because it has holes.
    is_sparse: bool = False
    # The target of a link.
    to: str = ""
    # The names of all entries of a folder.
    names: tuple[str, ...] = ()
    # Equal for all names of a file that has several, and otherwise empty.
    inode: str = ""
    # The names and the values of extended attributes, the values in base64.
    xattrs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or posixpath.normpath(self.path) != self.path or "\0" in self.path:
            raise ValueError("a path is not absolute or not normalised")
        if self.path.startswith("//") or not 0 <= self.mode <= 0o7777 or not 0 <= self.size <= MAX_SIZE:
            raise ValueError("a path, mode or size is out of range")


_LISTING = TypeAdapter(list[FileEntry])
_PATHS = TypeAdapter(list[str])


def clean_path(path: str) -> str:
    """Return an absolute path without empty parts, `.` and `..`, as engines read it.

    Raises UsageError for a path with a zero byte, which no machine can have.
    """
    if "\0" in path:
        raise UsageError(f"{path!r} has a zero byte")
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def file_entries(listing: bytes) -> list[FileEntry]:
    """Return the entries of a listing, sorted by path. Raises SandboxError if the data is not a listing."""
    with _require("listing of files"):
        # pydantic's own parser refuses surrogates, which represent bytes of names that are not UTF-8.
        return sorted(_LISTING.validate_python(json.loads(listing)), key=lambda entry: entry.path)


def file_page(page: bytes) -> tuple[list[FileEntry], bool]:
    """Return the entries of a page of a listing, and whether it is the last one. Raises SandboxError."""
    with _require("page of files"):
        fields = json.loads(page)
        return _LISTING.validate_python(fields["entries"]), fields["is_last"] is True


def read_paths(listing: bytes) -> list[str]:
    """Return the paths of a reply. Raises SandboxError if the data is not a list of texts."""
    with _require("list of paths"):
        return _PATHS.validate_python(json.loads(listing), strict=True)


@contextlib.contextmanager
def _require(wanted: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SandboxError(f"the guest sent no {wanted}: {str(error)[:300]}") from error


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

    def plan(self) -> CopyPlan:
        """Return the plan that copies all of these files."""
        return CopyPlan(self.entries, complete=list_folders(self.entries))

    async def read_ranges(self, ranges: Sequence[FileRange]) -> bytes:
        """Return the bytes of these ranges of files, one after the other."""
        return b"".join(self.contents[path][start : start + length] for path, start, length in ranges)


def name_first_links(plan: CopyPlan) -> Iterator[Mapping[str, Any]]:
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


def split_ranges(
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


def list_folders(entries: Iterable[FileEntry]) -> frozenset[str]:
    """Return the paths of the folders among these files."""
    return frozenset(entry.path for entry in entries if entry.kind == "folder")
