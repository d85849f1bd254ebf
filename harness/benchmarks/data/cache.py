"""List the files in the folder of downloads: whole ones with their notes, and interrupted downloads."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.rows import Row, describe
from harness.core.errors import DataError
from harness.core.inputs.files import hash_file, read_input
from harness.core.inputs.json_text import parse_json

NOTE_SUFFIX = ".note.json"


@dataclass(frozen=True, slots=True)
class CachedRows:
    """Rows from the cache, the SHA-256 (hex) of their file, and the content of its note."""

    rows: list[Row]
    sha256: str
    note: Mapping[str, Any]


def read_cached_rows(file: Path, origin: Mapping[str, Any]) -> CachedRows | None:
    """Return rows from the cache, or None unless they are exactly those written for this `origin`."""
    try:
        note = parse_json(read_input(note_file(file)))
        rows, sha256 = read_rows(file)
    except (OSError, ValueError, DataError):
        return None
    if not isinstance(note, dict):
        return None
    expected = {**origin, "sha256": sha256, "rows": len(rows)}
    # The note went through JSON, which turns a tuple into a list.
    whole = all(note.get(key) == value for key, value in json.loads(json.dumps(expected)).items())
    return CachedRows(rows, sha256, note) if whole else None


def write_cached_rows(
    file: Path, rows: Iterable[Mapping[str, Any]], origin: Mapping[str, Any], **more: str | None
) -> None:
    """Write rows to the cache, and a note of their origin, `more`, their number and their SHA-256.

    Each file appears whole or not at all. If the two do not match, `read_cached_rows` returns None. Raises
    DataError if a value cannot be JSON or the folder is not writable.
    """
    lines = [json.dumps(row, ensure_ascii=False, default=_refuse) + "\n" for row in rows]
    data = "".join(lines).encode()
    note = {
        **origin,
        **more,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "rows": len(lines),
        "fetched": now(),
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, data)
        replace_file(note_file(file), json.dumps(note, indent=2).encode() + b"\n")
    except OSError as error:
        raise DataError(
            f"cannot be written: {error.strerror or error}",
            path=file,
            hint="set HARNESS_DATA to a writable folder",
        ) from error


def now() -> str:
    """Return the time in UTC, in the format of notes."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def note_file(file: Path) -> Path:
    """Return the path of a file's note."""
    return file.with_name(f"{file.name}{NOTE_SUFFIX}")


def replace_file(file: Path, data: bytes) -> None:
    """Write a file so that it appears whole or not at all. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


def _refuse(value: Any) -> NoReturn:
    raise DataError(f"the dataset holds {describe(value)}, which is not plain data")


class State(StrEnum):
    """`whole` by its size, `verified` byte for byte, `damaged`, or `partial`: an interrupted download."""

    WHOLE = "whole"
    VERIFIED = "verified"
    DAMAGED = "damaged"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file in the cache. `source` is the place where it is published, with the commit if it is known."""

    path: Path
    bytes: int
    state: State
    source: str
    sha256: str | None = None
    rows: int | None = None
    fetched: str | None = None


def list_cached_files(cache_dir: Path, *, verify: bool = False) -> list[CachedFile]:
    """Return the files below a cache folder in the order of their paths; `verify` hashes each of them."""
    found = [*_list_whole(cache_dir, verify), *_list_partial(cache_dir)]
    return sorted(found, key=lambda file: file.path)


def _list_whole(cache_dir: Path, verify: bool) -> Iterator[CachedFile]:
    for note_path in cache_dir.rglob(f"*{NOTE_SUFFIX}"):
        path = note_path.with_name(note_path.name.removesuffix(NOTE_SUFFIX))
        try:
            note = parse_json(read_input(note_path))
            size = path.stat().st_size
        except (OSError, ValueError):
            note, size = None, 0
        if not isinstance(note, dict):
            yield CachedFile(path, size, State.DAMAGED, "the note or the file cannot be read")
            continue
        yield CachedFile(
            path=path,
            bytes=size,
            state=_state(path, size, note, verify),
            source=_source(note),
            sha256=note.get("sha256"),
            rows=note.get("rows"),
            fetched=note.get("fetched"),
        )


def _state(path: Path, size: int, note: dict[str, Any], verify: bool) -> State:
    if note.get("bytes", size) != size:
        return State.DAMAGED
    if not verify:
        return State.WHOLE
    try:
        same = hash_file(path) == note.get("sha256")
    except OSError:
        same = False
    return State.VERIFIED if same else State.DAMAGED


def _source(note: dict[str, Any]) -> str:
    name = str(note.get("url") or note.get("repo") or "?").removeprefix("hf://datasets/")
    commit = f"@{str(note['revision'])[:12]}" if note.get("revision") else ""
    what = ", ".join(str(note[key]) for key in ("config", "split") if note.get(key))
    return f"{name}{commit}" + (f" ({what})" if what else "")


def _list_partial(cache_dir: Path) -> Iterator[CachedFile]:
    for path in cache_dir.rglob("*.part"):
        try:
            url = str(parse_json(read_input(path.with_name(f"{path.name}.json")))["url"])
            size = path.stat().st_size
        except (OSError, ValueError, KeyError, TypeError):
            continue
        yield CachedFile(path, size, State.PARTIAL, url)
