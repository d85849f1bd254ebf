"""The runs and audits that the viewer shows, by the keys that stand in its addresses.

A request names a run by a key from the list, and never by a path.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.audit.run import AUDIT
from harness.errors import UsageError
from harness.evaluation.finished_count import FinishedCount
from harness.evaluation.run_names import RUNS, is_run_folder, is_running, list_run_folders
from harness.evaluation.store import ATTEMPTS, MANIFEST, SUMMARY
from harness.reports.run_list import ListedRun, read_listed_run
from harness.viewer.attempt_index import AttemptIndex, IndexedAttempts

# The indexes that stay in memory. That of a million attempts takes about 200 MB.
_MOST_INDEXES = 4
# The time for which one request reads on in a long file.
_INDEX_SECONDS = 0.4
_Signature = tuple[object, ...]


class UnknownRunError(UsageError):
    """The key is not in the list of runs or audits."""


class RemovedRunError(UsageError):
    """The folder of a run that was in the list is no longer there."""


@dataclass(frozen=True, slots=True)
class ViewedAudit:
    """An audit in the list, with the keys of its runs."""

    key: str
    folder: Path
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsAndAudits:
    """The list at one moment."""

    # The runs with their keys, the one that was started last first.
    runs: Sequence[tuple[str, ListedRun]]
    # The audits, the newest first.
    audits: Sequence[ViewedAudit]


class Catalogue:
    """The run folders in one folder, or those that the user named. Several threads may use it."""

    def __init__(self, output_dir: Path | None = None, named: Sequence[Path] = ()) -> None:
        self.output_dir = output_dir or RUNS
        self._named = tuple(named)
        self._lock = threading.Lock()
        # All runs that were ever seen.
        self._folders: dict[str, Path] = {}
        self._audits: dict[str, ViewedAudit] = {}
        self._listed: dict[str, tuple[_Signature, ListedRun]] = {}
        self._finished: dict[Path, FinishedCount] = {}
        self._indexes: OrderedDict[Path, AttemptIndex] = OrderedDict()

    @property
    def is_open(self) -> bool:
        """Whether new runs join the list, because the user has named none."""
        return not self._named

    def read_list(self) -> RunsAndAudits:
        """Return the runs and audits that are there now, each with its key."""
        shown, audits = self._look()
        runs = [(key, self.read_listed_run(key, folder)) for key, folder in shown.items()]
        runs.sort(key=lambda each: (each[1].started_at or "", each[0]), reverse=True)
        # The name of an audit begins with the time of its start.
        return RunsAndAudits(runs, sorted(audits.values(), key=lambda audit: audit.key, reverse=True))

    def find_run(self, key: str) -> Path:
        """Return the folder of a run. Raises UnknownRunError and RemovedRunError."""
        if key not in self._folders:
            self._look()
        folder = self._folders.get(key)
        if folder is None:
            raise UnknownRunError("the list has no such run")
        if not folder.is_dir():
            raise RemovedRunError("the folder of this run was removed")
        return folder

    def find_audit(self, key: str) -> ViewedAudit:
        """Return an audit. Raises UnknownRunError and RemovedRunError."""
        if key not in self._audits:
            self._look()
        audit = self._audits.get(key)
        if audit is None:
            raise UnknownRunError("the list has no such audit")
        if not audit.folder.is_dir():
            raise RemovedRunError("the folder of this audit was removed")
        return audit

    def find_index(self, folder: Path) -> AttemptIndex:
        """Return the index of a run folder, which stays in memory while it is among the last in use."""
        with self._lock:
            index = self._indexes.pop(folder, None) or AttemptIndex(folder)
            self._indexes[folder] = index
            while len(self._indexes) > _MOST_INDEXES:
                self._indexes.popitem(last=False)
            return index

    def read_listed_run(self, key: str, folder: Path) -> ListedRun:
        """Return the entry of a run, which is read again only if one of its files has changed."""
        signature = _sign(folder)
        known = self._listed.get(key)
        if known is not None and known[0] == signature and known[1].state != "running":
            return known[1]
        listed = read_listed_run(folder, count_finished=self._count_finished)
        # The next look reads on in a file that was too long for this one.
        if listed.state == "broken" or listed.finished_attempts is not None:
            self._listed[key] = signature, listed
        return listed

    def read_attempts(self, folder: Path) -> tuple[AttemptIndex, IndexedAttempts]:
        """Return the index of a run folder after a look at the new part of its file. Raises OSError."""
        index = self.find_index(folder)
        return index, index.advance(_INDEX_SECONDS)

    def _count_finished(self, folder: Path) -> int | None:
        # Not by an index, because more runs may be under way than indexes stay in memory.
        with self._lock:
            finished = self._finished.setdefault(folder, FinishedCount(folder))
        return finished.read(_INDEX_SECONDS)

    def _look(self) -> tuple[Mapping[str, Path], Mapping[str, ViewedAudit]]:
        """Return the runs and audits that are there now by their keys. A removed one stays known."""
        shown: dict[str, Path] = {}
        audits: dict[str, ViewedAudit] = {}
        of_audits: dict[str, Path] = {}
        for key, folder in _make_keys(self._named) if self._named else _list_folders(self.output_dir):
            if (folder / AUDIT).is_file():
                runs = {f"{key}/{_encode(run.name)}": run for run in list_run_folders(folder)}
                audits[key] = ViewedAudit(key, folder, tuple(runs))
                of_audits |= runs
            elif folder.is_dir():
                shown[key] = folder
        with self._lock:
            self._folders |= shown | of_audits
            self._audits |= audits
        return shown, audits


def _list_folders(output_dir: Path) -> list[tuple[str, Path]]:
    """Return the folders of runs and audits with their keys, which are their names."""
    try:
        with os.scandir(output_dir) as entries:
            return [
                (_encode(entry.name), Path(entry.path))
                for entry in entries
                if entry.is_dir() and (is_run_folder(entry.path) or os.path.isfile(f"{entry.path}/{AUDIT}"))
            ]
    except OSError:
        return []


def _make_keys(folders: Sequence[Path]) -> list[tuple[str, Path]]:
    """Return the folders that the user named with their keys: their names, if need be with a number."""
    keys: dict[str, Path] = {}
    for folder in folders:
        name = _encode(folder.resolve().name)
        key, number = name, 1
        while key in keys:
            number += 1
            key = f"{name} ({number})"
        keys[key] = folder
    return [*keys.items()]


def _encode(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def _sign(folder: Path) -> _Signature:
    """Return facts that change with every file of a run that the list shows."""
    found: list[object] = [is_running(folder)]
    for name in (MANIFEST, ATTEMPTS, SUMMARY):
        try:
            facts = os.lstat(f"{folder}/{name}")
            found.append((facts.st_ino, facts.st_size, facts.st_mtime_ns))
        except OSError:
            found.append(None)
    return tuple(found)
