"""Files of a sandbox as plain data, read from a listing that hostile code may have influenced."""

from __future__ import annotations

import posixpath
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from harness.errors import SandboxError

# A path, an offset and a length in bytes.
FileRange = tuple[str, int, int]
MAX_SIZE = 1 << 40


@dataclass(frozen=True, slots=True)
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

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or posixpath.normpath(self.path) != self.path or "\0" in self.path:
            raise ValueError("a path is not absolute or not normalised")
        if self.path.startswith("//") or not 0 <= self.mode <= 0o7777 or not 0 <= self.size <= MAX_SIZE:
            raise ValueError("a path, mode or size is out of range")


_LISTING = TypeAdapter(list[FileEntry])


def file_entries(listing: bytes) -> list[FileEntry]:
    """Return the entries of a listing, sorted by path. Raises SandboxError if the data is not a listing."""
    import json

    try:
        # pydantic's own parser refuses surrogates, which stand for bytes of names that are not UTF-8.
        entries = _LISTING.validate_python(json.loads(listing))
    except (ValidationError, ValueError, RecursionError) as error:
        raise SandboxError(f"the guest sent no listing of files: {str(error)[:300]}") from error
    return sorted(entries, key=lambda entry: entry.path)
