"""Which rows a run gets: a path, the hub, or the small bundled sample (DESIGN section 7, Data)."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from pathlib import Path

from harness.data.hub import HubDataset, HubUnreachableError, load_hub_rows
from harness.data.local import SUFFIXES, data_suffix, read_rows
from harness.data.rows import Row
from harness.data.tree import is_archive
from harness.errors import DataError, UsageError
from harness.model import DataSource

_BUNDLED = Path(__file__).parent / "bundled"


Gather = Callable[[Path, Callable[[str], None]], tuple[list[Row], str]]
"""Reads what a benchmark has at a path, a file, folder or archive: the rows, at least one, and the SHA-256
(hex) of the files that they are from. It tells what it leaves out, and raises DataError."""


def load_rows(
    *,
    benchmark: str,
    data: str | None,
    hub: HubDataset,
    bundled: str,
    notify: Callable[[str], None],
    cache_dir: Path | None = None,
    gather: Gather | None = None,
) -> tuple[list[Row], DataSource]:
    """Load a benchmark's rows from where `data` says, and say where they came from.

    `data` is `hub`, `bundled` or a path: what `gather` reads, else a file, or a folder with one file of
    the benchmark. None asks the hub and, only where that cannot be reached, takes the bundled sample
    and says so loudly. `bundled` is the sample's name. Raises DataError or UsageError.
    """
    read = gather or (lambda path, _notify: _one_file(benchmark, path))
    match data:
        case "hub":
            return _from_hub(hub, notify, cache_dir)
        case "bundled":
            return _from_bundled(bundled, read, notify)
        case None:
            try:
                return _from_hub(hub, notify, cache_dir)
            except HubUnreachableError as error:
                rows, source = _from_bundled(bundled, read, notify)
                notify(_not_the_benchmark(benchmark, len(rows), error))
                return rows, source
        case _:
            return _from_path(data, read, notify)


def _not_the_benchmark(benchmark: str, rows: int, error: HubUnreachableError) -> str:
    return (
        f"WARNING: THIS IS NOT {benchmark.upper()}: {error.message}. In its place run {rows} small problems "
        f"of our own, whose score says nothing about {benchmark}. Use --data PATH for the real one."
    )


def _from_hub(
    hub: HubDataset, notify: Callable[[str], None], cache_dir: Path | None
) -> tuple[list[Row], DataSource]:
    rows, sha256, location = load_hub_rows(hub, cache_dir=cache_dir, notify=notify)
    return rows, DataSource("hub", location, sha256, len(rows))


def _from_bundled(name: str, read: Gather, notify: Callable[[str], None]) -> tuple[list[Row], DataSource]:
    rows, sha256 = read(_BUNDLED / name, notify)
    return rows, DataSource("bundled", f"harness/data/bundled/{name}", sha256, len(rows))


def _from_path(data: str, read: Gather, notify: Callable[[str], None]) -> tuple[list[Row], DataSource]:
    if not data.strip():
        raise UsageError("--data is empty", hint="use bundled, hub, or a path")
    path = Path(os.path.expanduser(data))
    if not os.path.exists(path) and os.sep not in data and not _has_ending(path):
        near = difflib.get_close_matches(data.lower(), ["bundled", "hub"], n=1)
        hint = f"did you mean '{near[0]}'?" if near else "a path has a folder or a known ending in it"
        raise UsageError(f"--data '{data}' is neither bundled nor hub nor a path", hint=hint)
    rows, sha256 = read(path, notify)
    return rows, DataSource("path", os.path.abspath(path), sha256, len(rows))


def _has_ending(path: Path) -> bool:
    return data_suffix(path) is not None or is_archive(path)


def _one_file(benchmark: str, path: Path) -> tuple[list[Row], str]:
    return read_rows(_only_file(path, benchmark) if os.path.isdir(path) else path)


def _only_file(folder: Path, benchmark: str) -> Path:
    """Return the one data file in a folder that bears the benchmark's name, or the one there is."""
    try:
        files = sorted(entry for entry in folder.iterdir() if data_suffix(entry) and entry.is_file())
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=folder) from error
    named = [file for file in files if _plain(benchmark) in _plain(file.name)]
    for candidates in (named, files):
        if len(candidates) == 1:
            return candidates[0]
    found = ", ".join(file.name for file in files[:10]) or f"no file that ends in {', '.join(SUFFIXES)}"
    raise DataError(
        f"a folder without exactly one file for {benchmark}: {found}", path=folder, hint="name one file"
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
