"""The files of a folder or an archive, by their names in it. Archives are never unpacked to disk."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import IO

from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, open_input

ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")
MAX_FILES = 100_000
"""The most files that a folder or an archive may hold."""
MAX_BYTES = 256 * 1024**2
"""The most bytes that an archive may hold unpacked, or that may be read from a folder."""
# The libraries raise any of these for a damaged archive, for instance if a chain of long names is too deep, a
# length is wrong, or a name cannot be decoded.
_DAMAGED = (
    *(EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
    *(struct.error, ValueError, OverflowError, RecursionError, LookupError, TypeError),
)
Found = dict[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Tree:
    """Regular files by their names, which are relative, with `/`, and in order.

    Files and folders whose names begin with a dot are left out.
    """

    contents: Mapping[str, bytes]
    """The contents of the files that the caller wanted."""
    places: Mapping[str, PurePath]
    """The name of each file in errors: its path, or the archive and its name in it."""

    @property
    def names(self) -> Iterable[str]:
        return self.places

    def rename(self, rename: Callable[[str], str]) -> Tree:
        """Return the same files under other names."""
        return Tree(
            {rename(name): data for name, data in self.contents.items()},
            {rename(name): place for name, place in self.places.items()},
        )


def is_archive(path: PurePath) -> bool:
    """Return whether a file's name ends in the suffix of an archive."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


def read_tree(
    path: Path, wanted: Callable[[str], bool], *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES
) -> Tree:
    """Return the files of a folder or an archive, with the contents of those whose names are `wanted`.

    Links in an archive are not followed, and nothing outside of it is read. Raises DataError if the archive
    cannot be read, is damaged, holds a name that leads out of it, or exceeds the bounds.
    """
    try:
        found = _files_of(path, wanted, _Bounds(path, max_files, max_bytes))
    except _DAMAGED as error:
        raise DataError(
            f"damaged archive: {error}", path=path, hint="it is cut short, or its suffix is wrong"
        ) from error
    except (NotImplementedError, RuntimeError) as error:  # zipfile: an unknown method, a password
        raise DataError(f"cannot be unpacked: {error}", path=path, hint="unpack it yourself") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    names = sorted(found)
    inside = path.is_dir()
    return Tree(
        {name: data for name in names if (data := found[name]) is not None},
        {name: path / name if inside else PurePath(f"{path}: {name}") for name in names},
    )


class _Bounds:
    """The files and bytes that may still be read."""

    def __init__(self, path: Path, max_files: int, max_bytes: int) -> None:
        self.path = path
        self.files = max_files
        self.bytes = max_bytes
        self._most = (max_files, max_bytes)

    def count_file(self) -> None:
        self.files -= 1
        if self.files < 0:
            raise self._error(f"{self._most[0]:,} files")

    def read(self, stream: IO[bytes], size: int = -1) -> bytes:
        """Return up to `size` bytes, or all that are left if `size` is negative. Raises DataError."""
        wanted = self.bytes + 1 if size < 0 else min(size, self.bytes + 1)
        data = stream.read(wanted)
        self.bytes -= len(data)
        if self.bytes < 0:
            raise self._error(f"{self._most[1]:,} bytes")
        return data

    def _error(self, most: str) -> DataError:
        return DataError(
            f"holds more than {most}", path=self.path, hint="name the folder of one environment in it"
        )


class _CountedStream(io.RawIOBase):
    """A stream of an archive's unpacked bytes. It counts all of them, also those that are skipped."""

    def __init__(self, stream: IO[bytes], bounds: _Bounds) -> None:
        self._stream = stream
        self._bounds = bounds

    def read(self, size: int = -1) -> bytes:
        return self._bounds.read(self._stream, size)


def _files_of(path: Path, wanted: Callable[[str], bool], bounds: _Bounds) -> Found:
    if path.is_dir():
        return dict(_folder(path, wanted, bounds))
    members = _zip if path.name.lower().endswith(".zip") else _tar
    found: Found = {}
    for name, data in members(path, wanted, bounds):
        if name in found:
            raise DataError("is in the archive twice", path=f"{path}: {name}")
        found[name] = data
    return found


def _folder(root: Path, wanted: Callable[[str], bool], bounds: _Bounds) -> Iterator[tuple[str, bytes | None]]:
    seen = {os.path.realpath(root)}
    for folder, folders, files in os.walk(root, followlinks=True, onerror=_raise):
        # A user's own folder may contain links. Read each folder once, because links may form a loop.
        kept = {name: os.path.realpath(os.path.join(folder, name)) for name in folders if _visible(name)}
        folders[:] = sorted(name for name, real in kept.items() if real not in seen)
        seen.update(kept.values())
        for file in sorted(files):
            full = os.path.join(folder, file)
            if not _visible(file) or not os.path.isfile(full):
                continue
            bounds.count_file()
            name = PurePath(os.path.relpath(full, root)).as_posix()
            if wanted(name):
                with open_input(full, max_bytes=MAX_DATA_BYTES) as stream:
                    yield name, bounds.read(stream)
            else:
                yield name, None


def _tar(path: Path, wanted: Callable[[str], bool], bounds: _Bounds) -> Iterator[tuple[str, bytes | None]]:
    with open_input(path, max_bytes=MAX_DATA_BYTES) as raw:
        packed = path.name.lower().endswith("gz")
        plain: IO[bytes] = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
        stream = _CountedStream(plain, bounds)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                bounds.count_file()
                name = _safe_name(path, member.name)
                if name is None or member.isdir():
                    continue
                if not member.isfile() or member.issparse():
                    _require_unwanted(path, name, wanted)
                    continue
                content = archive.extractfile(member) if wanted(name) else None
                yield name, None if content is None else content.read()


def _zip(path: Path, wanted: Callable[[str], bool], bounds: _Bounds) -> Iterator[tuple[str, bytes | None]]:
    with open_input(path, max_bytes=MAX_DATA_BYTES) as raw, zipfile.ZipFile(raw) as archive:
        for member in archive.infolist():
            bounds.count_file()
            name = _safe_name(path, member.filename)
            if name is None or member.is_dir():
                continue
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                _require_unwanted(path, name, wanted)
            elif wanted(name):
                with archive.open(member) as stream:
                    yield name, bounds.read(stream)
            else:
                yield name, None


def _safe_name(path: Path, name: str) -> str | None:
    """Return a member's name in its plain form, or None if it is left out. Raises DataError."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or (parts and parts[0] == "/") or "\0" in name:
        raise DataError(f"holds a name that leads out of the archive: {name[:200]!r}", path=path)
    return "/".join(parts) if parts and all(_visible(part) for part in parts) else None


def _require_unwanted(path: Path, name: str, wanted: Callable[[str], bool]) -> None:
    if wanted(name):
        raise DataError("is not a plain file; links are not followed", path=f"{path}: {name}")


def _visible(name: str) -> bool:
    return not name.startswith(".") and name != "__MACOSX"


def _raise(error: OSError) -> None:
    raise error
