"""The rows of a benchmark, from a path, from the hub, or from the small bundled sample."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.benchmarks.data.download import DownloadObserver, HubUnreachableError
from harness.benchmarks.data.hub import load_hub_rows
from harness.benchmarks.data.local import Table, parse_rows, read_file
from harness.benchmarks.data.rows import Row, file_suffix
from harness.benchmarks.data.splits import Gather, HubDataset, SplitFiles
from harness.benchmarks.data.tree import is_archive, read_tree
from harness.core.errors import DataError, UsageError
from harness.core.types import DataSource

# The folders that we create in a cache folder.
_KEPT = {"hub", "files"}
BUNDLED = Path(__file__).parent / "bundled"


class NotOnHubError(UsageError):
    """A benchmark whose rows are only in files."""


def load_rows(
    files: SplitFiles,
    *,
    data: str | None,
    hub: HubDataset | None,
    bundled: str | None,
    observer: DownloadObserver,
    cache_dir: Path | None = None,
    gather: Gather | None = None,
    table: Table | None = None,
) -> tuple[list[Row], DataSource]:
    """Return a benchmark's rows and their source.

    Args:
        files: The benchmark and the wanted split, and the rule that tells which file holds that split.
        data: `hub`, `bundled` or a path. Without `gather`, the path is a file, a folder with one file for
            the split, or a folder or an archive with one file for each row. A folder that is empty or a cache
            stores the rows of the hub. None asks the hub and, only if that cannot be reached, takes the
            bundled sample with a loud warning.
        bundled: The name of the bundled sample, None if there is none.
        gather: Reads the rows at a path, for a benchmark that is more than one file.
        table: The layout of CSV files.

    Raises DataError or UsageError.
    """
    benchmark, notify = files.benchmark, observer.note
    read = gather or (lambda path, _notify: _read_path(path, table, files))
    match data:
        case "hub":
            return _from_hub(benchmark, hub, observer, cache_dir, table)
        case "bundled":
            return _from_bundled(files, bundled, read, notify)
        case None:
            try:
                return _from_hub(benchmark, hub, observer, cache_dir, table)
            except (HubUnreachableError, NotOnHubError) as error:
                if bundled is None:
                    raise
                rows, source = _from_bundled(files, bundled, read, notify)
                notify(
                    f"WARNING: THIS IS NOT {benchmark.upper()}: {error.message}. {len(rows)} small problems "
                    f"of our own run instead, and their score says nothing about {benchmark}. "
                    "Use --data PATH for the real benchmark."
                )
                return rows, source
        case _:
            folder = Path(os.path.expanduser(data))
            if hub is not None and is_cache(folder):
                return _into_folder(benchmark, hub, observer, folder, table)
            return _from_path(data, files, read, notify)


def is_cache(path: Path) -> bool:
    """Return whether a path is a folder that is empty or holds only our own folders."""
    try:
        return path.is_dir() and {entry.name for entry in path.iterdir()} <= _KEPT
    except OSError:
        return False


def _from_hub(
    benchmark: str,
    hub: HubDataset | None,
    observer: DownloadObserver,
    cache_dir: Path | None,
    table: Table | None,
) -> tuple[list[Row], DataSource]:
    if hub is None:
        raise NotOnHubError(f"{benchmark} is not on the hub", hint="use --data PATH, or --data bundled")
    rows, sha256, location = load_hub_rows(hub, observer=observer, cache_dir=cache_dir, table=table)
    return rows, DataSource("hub", location, sha256, len(rows))


def _into_folder(
    benchmark: str, hub: HubDataset, observer: DownloadObserver, folder: Path, table: Table | None
) -> tuple[list[Row], DataSource]:
    """Return the hub's rows from a cache folder, and download them first if they are not in it."""
    try:
        return _from_hub(benchmark, hub, observer, folder, table)
    except HubUnreachableError as error:
        raise HubUnreachableError(
            f"--data {folder}: the folder holds no data of {benchmark}, and {error.message}",
            hint="name the file or the folder with the data, or use --data bundled for a small sample",
        ) from error


def _from_bundled(
    files: SplitFiles, name: str | None, read: Gather, notify: Callable[[str], None]
) -> tuple[list[Row], DataSource]:
    if name is None:
        raise UsageError(
            f"{files.benchmark} has no bundled sample of split '{files.wanted}'",
            hint="use --data hub, or a path",
        )
    rows, sha256 = read(BUNDLED / name, notify)
    return rows, DataSource("bundled", f"harness/benchmarks/data/bundled/{name}", sha256, len(rows))


def _from_path(
    data: str, files: SplitFiles, read: Gather, notify: Callable[[str], None]
) -> tuple[list[Row], DataSource]:
    if not data.strip():
        raise UsageError("--data is empty", hint="use bundled, hub or a path")
    path = Path(os.path.expanduser(data))
    has_ending = file_suffix(path) is not None or is_archive(path)
    if not os.path.exists(path) and os.sep not in data and not has_ending:
        near = difflib.get_close_matches(data.lower(), ["bundled", "hub"], n=1)
        hint = f"did you mean '{near[0]}'?" if near else "a path contains a folder or ends in a known suffix"
        raise UsageError(f"--data '{data}' is not bundled, hub or a path", hint=hint)
    if os.path.isfile(path) and not is_archive(path):
        files.require(path)
    rows, sha256 = read(path, notify)
    return rows, DataSource("path", os.path.abspath(path), sha256, len(rows))


def _read_path(path: Path, table: Table | None, files: SplitFiles) -> tuple[list[Row], str]:
    if is_archive(path) or (os.path.isdir(path) and not files.has_files(path)):
        return _read_many_files(path, files)
    return read_file(files.choose(path) if os.path.isdir(path) else path, table)


def _read_many_files(path: Path, files: SplitFiles) -> tuple[list[Row], str]:
    """Return the rows of a folder or an archive with one JSON object in each file, as MATH is published.

    A folder in it with the word of a split holds that split. The rows have the order of their files, and
    numbers in names count as numbers. Also returns the SHA-256 (hex) of names and contents. Raises DataError.
    """
    tree = read_tree(path, lambda name: name.endswith(".json") and files.holds(path, name))
    digest = hashlib.sha256()
    rows: list[Row] = []
    for name in sorted(tree.contents, key=_natural_order):
        digest.update(b"%s\0%d\0" % (name.encode(errors="surrogateescape"), len(tree.contents[name])))
        digest.update(tree.contents[name])
        found = parse_rows(tree.contents[name], tree.places[name])
        if len(found) != 1:
            raise DataError(f"holds {len(found):,} rows, not one object", path=tree.places[name])
        rows.append(replace(found[0], item=None, file=len(rows) + 1))
    if not rows:
        raise files.explain_nothing(path)
    return rows, digest.hexdigest()


def _natural_order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", name)]
