"""The splits of a benchmark: where each is published, and which file holds it.

The name of a file tells its split, so that no split is served as another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from harness.benchmarks.data.download import NOTE_SUFFIX
from harness.benchmarks.data.rows import SUFFIXES, Row, file_suffix
from harness.core.errors import DataError, UsageError

# The words for a split in the names of files. A split of any other name is its own word.
_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "development", "valid", "validation", "val"),
    "test": ("test", "testing"),
}
_MEANINGS = {word: split for split, words in _WORDS.items() for word in words}
_NAMED_FILES = 10
Gather = Callable[[Path, Callable[[str], None]], tuple[list[Row], str]]
"""Returns the rows of a benchmark in a file, folder or archive, at least one, and the SHA-256 (hex) of their
files. It notifies of each file that it leaves out, and raises DataError."""


@dataclass(frozen=True, slots=True)
class HubDataset:
    """Splits of a dataset on the hub."""

    repo: str
    config: str | None
    """The config, or several in order: `a+b`."""
    split: str
    """The split, or several in order: `test+train`."""
    files: tuple[str, ...] = ()
    """Paths in the repository, or URLs. If there are any, the dataset is these files, in this order.

    They are downloaded and stored unchanged.
    """
    left_on_disk: tuple[str, ...] = ()
    """The fields of JSONL files that are read when they are needed."""

    @property
    def origin(self) -> dict[str, str | None]:
        """Return the facts that identify the rows of this dataset among those in the cache."""
        return {"repo": self.repo, "config": self.config, "split": self.split}

    def __str__(self) -> str:
        if self.files:
            return f"{self.repo} ({', '.join(self.files)})"
        return f"{self.repo} ({f'{self.config}, ' if self.config else ''}{self.split})"


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


@dataclass(frozen=True, slots=True)
class Split:
    """A split of a benchmark: where it is published, and how many rows it has."""

    hub: HubDataset | None
    tasks: int | None
    holds: Callable[[Row], bool] | None = None
    """Returns whether a row belongs to the split, for files that hold the whole benchmark."""
    data: str | None = None
    """The path of the split in a user's own benchmark."""
