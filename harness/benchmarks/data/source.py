"""The rows of a benchmark, from a path, from the hub, or from the small bundled sample.

The name of a file tells its split, so that no split is served as another one.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from harness.benchmarks.data.cache import NOTE_SUFFIX
from harness.benchmarks.data.download import DownloadObserver, HubUnreachableError
from harness.benchmarks.data.hub import HubDataset, load_hub_rows
from harness.benchmarks.data.local import SUFFIXES, Table, file_suffix, parse_rows, read_file
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.tree import is_archive, read_tree
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.types import DataSource

# The words for a split in the names of files. A split of any other name is its own word.
_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "development", "valid", "validation", "val"),
    "test": ("test", "testing"),
}
_MEANINGS = {word: split for split, words in _WORDS.items() for word in words}
_NAMED_FILES = 10
# The folders that we create in a cache folder.
_KEPT = {"hub", "files"}


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """The rule that tells which file holds the wanted split of a benchmark.

    A file whose name has the word of one split holds that split. A file without such a word, and a file by
    the published name of the evaluation split, holds the evaluation split.
    """

    benchmark: str
    wanted: str
    evaluation: str
    """The split that is published for evaluation."""
    others: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    """The names of the files that hold the published evaluation split, such as `NQ-open.dev.jsonl`."""
    by_row: frozenset[str] = frozenset()
    """The splits whose rows are chosen out of a file of the whole benchmark."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The reason why the benchmark lacks a split, by the split's name."""
    by_name: bool = True
    """Whether names tell splits. They do not if a user has named the file of each split."""

    def require(self, file: PurePath) -> None:
        """Raise UsageError, with the file's split and the remedy, unless the file holds the wanted split."""
        if not self._serves(file):
            raise UsageError(f"{file}: {self._describe(file)}, not '{self.wanted}'", hint=self._advise(file))

    def choose(self, folder: Path) -> Path:
        """Return the one file in a folder that holds the wanted split. Raises DataError.

        Among several files, one with a published name, the benchmark's or the split's name wins.
        """
        files = _list_files(folder)
        serving = [file for file in files if self._serves(file)]
        published = [file for file in serving if self._is_published(file)]
        named = [file for file in serving if _plain(self.benchmark) in _plain(file.name)]
        worded = [file for file in serving if self._splits_in(file) == {self.wanted}]
        both = [file for file in named if file in worded]
        for candidates in (published, both, named, worded, serving):
            if len(candidates) == 1:
                return candidates[0]
        if files and not serving:
            described = "; ".join(f"{file.name} {self._describe(file)}" for file in files[:_NAMED_FILES])
            raise DataError(
                f"is a folder without a file for split '{self.wanted}' of {self.benchmark}: {described}",
                path=folder,
                hint=self._advise(files[0]),
            )
        names = ", ".join(file.name for file in files[:_NAMED_FILES])
        raise self.explain_nothing(folder, names or f"no file that ends in {', '.join(SUFFIXES)}")

    def explain_nothing(self, path: Path, names: str = "no file NAME.json for it") -> DataError:
        """Return the error about a folder or an archive without the wanted split."""
        kind = "folder" if path.is_dir() else "file"
        return DataError(
            f"is a {kind} without exactly one file for split '{self.wanted}' of {self.benchmark}; "
            f"it has {names}",
            path=path,
            hint="name one file",
        )

    def has_files(self, folder: Path) -> bool:
        """Return whether a folder has a file of rows, or no folder at all. Raises DataError."""
        return bool(_list_files(folder)) or not any(entry.is_dir() for entry in folder.iterdir())

    def holds(self, root: Path, name: str) -> bool:
        """Return whether a file of one row holds the wanted split, by the folders of its name in `root`.

        Without the word of a split in these, the name of `root` counts. Without any, it is the evaluation
        split.
        """
        parts = PurePath(name).parts[:-1]
        found = {split for part in parts for split in self._splits_in(PurePath(part))}
        found = found or self._splits_in(PurePath(root.name))
        return found == {self.wanted} or (not found and self.wanted == self.evaluation)

    def _serves(self, file: PurePath) -> bool:
        if not self.by_name:
            return True
        split = self._split_of(file)
        return split == self.wanted or (split == self.evaluation and self.wanted in self.by_row)

    def _split_of(self, file: PurePath) -> str | None:
        """Return the split that a file holds, None if its name has the words of several splits."""
        if self._is_published(file):
            return self.evaluation
        found = self._splits_in(file)
        if len(found) == 1:
            return next(iter(found))
        # The hub's file of a benchmark that is split by rows may be named after all of its splits.
        return self.evaluation if not found or self.by_row else None

    def _splits_in(self, file: PurePath) -> set[str]:
        """Return the splits whose names or words are in a file's name, by their names in this benchmark."""
        names = (self.evaluation, *self.others)
        rest = _join_words(file.name)
        found: set[str] = set()
        # A long name goes first, because `test_hard` is not `test`.
        for name in sorted(names, key=len, reverse=True):
            if (own := _join_words(name)) in rest:
                found.add(name)
                rest = rest.replace(own, "-")
        same = {meant: name for name in names if (meant := _MEANINGS.get(name.lower()))}
        meanings = {_MEANINGS[word] for word in re.findall(r"[a-z]+", rest) if word in _MEANINGS}
        return found | {same.get(meaning, meaning) for meaning in meanings}

    def _is_published(self, file: PurePath) -> bool:
        return _without_gz(file.name) in {_without_gz(name) for name in self.published}

    def _describe(self, file: PurePath) -> str:
        split, found = self._split_of(file), sorted(self._splits_in(file))
        if split is None:
            return f"has the words of several splits in its name ({', '.join(found)})"
        if self._is_published(file) and found != [split]:
            return f"is published as split '{split}' of {self.benchmark}"
        if not found:
            return f"is split '{split}' of {self.benchmark}, because its name has no word of another split"
        if split not in (self.evaluation, *self.others):
            reason = f" ({self.missing[split]})" if split in self.missing else ""
            return f"is split '{split}' by its name, which {self.benchmark} lacks{reason}"
        return f"is split '{split}' of {self.benchmark} by its name"

    def _advise(self, file: PurePath) -> str:
        split = self._split_of(file)
        rename = f"rename a file that holds split '{self.wanted}' so that its name has that word and no other"
        known = split is not None and split in (self.evaluation, *self.others)
        return f"choose split '{split}', or {rename}" if known else rename


def _list_files(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if _holds_rows(entry))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=folder) from error


def _holds_rows(file: Path) -> bool:
    hidden = file.name.startswith(".") or file.name.endswith(NOTE_SUFFIX)
    return file_suffix(file) is not None and not hidden and file.is_file()


def _join_words(name: str) -> str:
    """Return the words of a name between dashes, such as `-nq-test-qa-csv-`."""
    return "-".join(["", *re.findall(r"[a-z0-9]+", name.lower()), ""])


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _without_gz(name: str) -> str:
    return name.lower().removesuffix(".gz")


BUNDLED = Path(__file__).parent / "bundled"


class NotOnHubError(UsageError):
    """A benchmark whose rows are only in files."""


Gather = Callable[[Path, Callable[[str], None]], tuple[list[Row], str]]
"""Returns the rows of a benchmark in a file, folder or archive, at least one, and the SHA-256 (hex) of their
files. It notifies of each file that it leaves out, and raises DataError."""


def load_rows(
    files: SplitFiles,
    *,
    data: str | None,
    hub: HubDataset | None,
    bundled: str | None,
    notify: Callable[[str], None],
    cache_dir: Path | None = None,
    gather: Gather | None = None,
    table: Table | None = None,
    observer: DownloadObserver | None = None,
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
    observer = observer or DownloadObserver(notify)
    benchmark = files.benchmark
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
                notify(_not_the_benchmark(benchmark, len(rows), error))
                return rows, source
        case _:
            if hub is not None and is_cache(Path(os.path.expanduser(data))):
                return _into_folder(benchmark, hub, observer, Path(os.path.expanduser(data)), table)
            return _from_path(data, files, read, notify)


def is_cache(path: Path) -> bool:
    """Return whether a path is a folder that is empty or holds only our own folders."""
    try:
        return path.is_dir() and {entry.name for entry in path.iterdir()} <= _KEPT
    except OSError:
        return False


def _not_the_benchmark(benchmark: str, rows: int, error: HarnessError) -> str:
    return (
        f"WARNING: THIS IS NOT {benchmark.upper()}: {error.message}. {rows} small problems of our own run "
        f"instead, and their score says nothing about {benchmark}. Use --data PATH for the real benchmark."
    )


def _from_hub(
    benchmark: str,
    hub: HubDataset | None,
    observer: DownloadObserver,
    cache_dir: Path | None,
    table: Table | None,
) -> tuple[list[Row], DataSource]:
    if hub is None:
        raise NotOnHubError(f"{benchmark} is not on the hub", hint="use --data PATH, or --data bundled")
    rows, sha256, location = load_hub_rows(
        hub, cache_dir=cache_dir, notify=observer.note, observer=observer, table=table
    )
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
    if not os.path.exists(path) and os.sep not in data and not _has_ending(path):
        near = difflib.get_close_matches(data.lower(), ["bundled", "hub"], n=1)
        hint = f"did you mean '{near[0]}'?" if near else "a path contains a folder or ends in a known suffix"
        raise UsageError(f"--data '{data}' is not bundled, hub or a path", hint=hint)
    if os.path.isfile(path) and not is_archive(path):
        files.require(path)
    rows, sha256 = read(path, notify)
    return rows, DataSource("path", os.path.abspath(path), sha256, len(rows))


def _has_ending(path: Path) -> bool:
    return file_suffix(path) is not None or is_archive(path)


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
