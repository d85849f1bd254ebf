"""The runs and audits that the viewer shows, by the keys that its addresses hold.

A request names a run by a key from the list, and never by a path.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_DATA_BYTES
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.invalid_values import describe_first_error
from harness.core.text import escape_terminal, escape_text
from harness.core.types import Status
from harness.reports.figures import count
from harness.reports.run_list import ListedRun, read_listed_run
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.followed_index import FinishedCount, FollowedIndex
from harness.runs.run_files import read_run_file
from harness.runs.run_names import RUNS, is_run_folder, is_running, list_run_folders
from harness.runs.store import AUDIT, AUDIT_RESULTS, MANIFEST, SUMMARY

# The indexes that stay open. Each has up to 64 MB of its table in memory.
_MOST_INDEXES = 4
# The time that one request reads on in a long file.
_INDEX_SECONDS = 0.4
_Signature = tuple[object, ...]
_MOST_WRONG = 500


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
        self._indexes: OrderedDict[Path, FollowedIndex] = OrderedDict()

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

    def find_index(self, folder: Path) -> FollowedIndex:
        """Return the index of a run folder, which stays in memory while it is among the last in use."""
        with self._lock:
            index = self._indexes.pop(folder, None) or FollowedIndex(folder)
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

    def read_attempts(self, folder: Path) -> FollowedIndex:
        """Return the index of a run folder after a look at the new part of its file. Raises OSError."""
        index = self.find_index(folder)
        index.advance(_INDEX_SECONDS)
        return index

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


_Count = Annotated[int, Field(ge=0, le=2**53)]


class _Summary(BaseModel):
    model_config = ConfigDict(extra="ignore")

    forged: _Count
    guessed: _Count
    failed_references: _Count
    unfinished: _Count
    containers_left: _Count
    attacked_tasks: _Count
    attacks: _Count


class _Attempt(BaseModel):
    model_config = ConfigDict(extra="ignore")

    task_id: str
    attack: str
    kind: Annotated[str | None, Field(alias="class")] = None
    forged: bool
    failed: bool
    status: Status
    error: str | None = None


class _About(BaseModel):
    model_config = ConfigDict(extra="ignore")

    benchmark: str


class _Results(BaseModel):
    model_config = ConfigDict(extra="ignore")

    audit: _About
    summary: _Summary
    attempts: list[_Attempt]


def describe_audit(audit: ViewedAudit) -> dict[str, Any]:
    """Return the values of an audit. One that has not ended has only its runs.

    Raises UsageError if its results cannot be read.
    """
    head = {"key": audit.key, "name": escape_text(audit.key), "runs": list(audit.runs)}
    path = audit.folder / AUDIT_RESULTS
    try:
        text = read_run_file(audit.folder, AUDIT_RESULTS, max_bytes=MAX_DATA_BYTES)
        results = _Results.model_validate(parse_json(text))
    except FileNotFoundError:
        return {**head, "conclusion": None}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except BrokenJSONError as error:
        raise UsageError(f"{path}:{error.line}: is not JSON: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: is not the result of an audit: {describe_first_error(error)}") from error
    summary = results.summary
    unfinished = (Status.INFRA_ERROR, Status.CANCELLED)
    wrong = [each for each in results.attempts if each.forged or each.failed or each.status in unfinished]
    return {
        **head,
        "benchmark": escape_text(results.audit.benchmark),
        "conclusion": _conclude(summary),
        "is_sound": not (
            summary.forged or summary.failed_references or summary.unfinished or summary.containers_left
        ),
        "attacks": f"{count(summary.attacks, 'attack')} on {count(summary.attacked_tasks, 'task')}",
        "classes": [*_list_classes(results.attempts)],
        "number_of_wrong": len(wrong),
        "wrong": [_describe_wrong(each) for each in wrong[:_MOST_WRONG]],
    }


def _conclude(summary: _Summary) -> str:
    return (
        f"{summary.forged:,} forged, {summary.failed_references:,} references failed, "
        f"{summary.unfinished:,} without a verdict, {summary.containers_left:,} containers left, "
        f"{summary.guessed:,} passed where a constant answer is right"
    )


def _list_classes(attempts: list[_Attempt]) -> Iterator[dict[str, Any]]:
    """Yield each class of attacks with its counts. References and controls have rows for themselves."""
    groups: dict[str, list[_Attempt]] = {}
    for each in attempts:
        is_control = each.attack in ("oracle", "null", "constant")
        groups.setdefault(each.attack if is_control else each.kind or "", []).append(each)
    for name, group in groups.items():
        statuses = Counter(each.status for each in group)
        yield {
            "name": escape_text(name),
            "attempts": len(group),
            "forged": sum(each.forged for each in group),
            "statuses": {status.value: statuses[status] for status in Status if statuses[status]},
        }


def _describe_wrong(each: _Attempt) -> dict[str, str]:
    reason = "forged" if each.forged else "reference failed" if each.failed else "no verdict"
    return {
        "reason": reason,
        "attack": escape_terminal(each.attack),
        "task": escape_terminal(each.task_id),
        "status": each.status.value,
        "error": escape_terminal(each.error or ""),
    }
