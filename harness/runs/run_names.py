"""The names of run folders, the order of the runs, and their state. It imports nothing slow."""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.types import Status, Summary
from harness.runs.run_files import read_run_file

LATEST = "latest"
RUNS = Path("runs")
_MANIFEST = "manifest.json"
# The beginning of the name of a folder that a merge writes, which is no run yet.
UNFINISHED_MERGE = ".merge-"
# A folder with one of these is a run folder, even if its manifest was never written.
_SIGNS = (_MANIFEST, "attempts.jsonl", "summary.json", "transcripts")
_STARTED_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NAMED_RUNS = 3
# The name in JSON of attempts that a run under way has not made yet.
_TO_COME = "to_come"


def find_run(name: str | Path, output_dir: Path | None = None) -> Path:
    """Return the run folder that a user calls `name`.

    Args:
        name: a path, the name of a folder in `output_dir`, or `latest` for the run that was started last. A
            folder of that name comes before the run that was started last.
        output_dir: the folder of the run folders, None for `runs`.

    Raises:
        UsageError: There is no such run.
    """
    output_dir = output_dir or RUNS
    places = [Path(name), output_dir / name]
    for place in places:
        if os.path.lexists(place / _MANIFEST):
            return place
    for place in places:
        if os.path.exists(place):
            return place
    runs = list_run_folders(output_dir)
    if str(name) == LATEST and runs:
        return runs[0]
    raise _unknown_run(str(name), output_dir, runs)


def list_run_folders(output_dir: Path) -> list[Path]:
    """Return the run folders in a folder, the one that was started last first. It may not exist."""
    return sorted(find_run_folders(output_dir), key=_start_key, reverse=True)


def find_run_folders(output_dir: Path) -> Iterator[Path]:
    """Yield the run folders in a folder in any order, without opening a file. It may not exist."""
    try:
        with os.scandir(output_dir) as entries:
            for entry in entries:
                if entry.is_dir() and is_run_folder(entry.path):
                    yield Path(entry.path)
    except OSError:
        return


def is_run_folder(path: str) -> bool:
    """Return whether a folder is that of a run, even if it cannot be read."""
    return not os.path.basename(path).startswith(UNFINISHED_MERGE) and any(
        os.path.lexists(f"{path}/{sign}") for sign in _SIGNS
    )


def is_running(folder: Path) -> bool:
    """Return whether a process holds the lock of a run folder, because its run is under way."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # A shared lock, because two commands that look at the same time must not take each other for a run.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def hold_still(folder: Path) -> Iterator[None]:
    """Keep runs from a folder in the block. Raises UsageError if a run is under way in it."""
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:  # its reader reports that
            yield
            return
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{folder}: this run is under way", hint="repeat the command when it has ended"
            ) from error
        yield


def _start_key(folder: Path) -> tuple[str, float, str]:
    """Return the key that sorts runs by their start. The clock of a manifest counts whole seconds."""
    try:
        changed = os.lstat(folder / _MANIFEST).st_mtime
    except OSError:
        changed = os.stat(folder).st_mtime if folder.exists() else 0.0
    started = _read_start(folder)
    return started or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(changed)), changed, folder.name


def _read_start(folder: Path) -> str | None:
    """Return the time in the manifest, None if the manifest cannot be read."""
    try:
        manifest = json.loads(read_run_file(folder, _MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    started = manifest.get("started_at") if isinstance(manifest, dict) else None
    return started if isinstance(started, str) and _STARTED_AT.fullmatch(started) else None


def _unknown_run(name: str, output_dir: Path, runs: list[Path]) -> UsageError:
    """Return the error for a run that does not exist. It names the nearest runs, or the newest ones."""
    if not runs:
        message = f"{name}: is not a run folder, and there are no runs in {output_dir}"
        return UsageError(
            message,
            hint="name a run folder, or its parent folder with --output-dir; `harness runs` lists runs",
        )
    names = [run.name for run in runs]
    near = [each for each in names if name in each][:_NAMED_RUNS]
    near = near or difflib.get_close_matches(name, [LATEST, *names], n=_NAMED_RUNS, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the newest: {', '.join(names[:_NAMED_RUNS])};"
    message = f"{name}: is not a run folder, and {output_dir} has no run of this name"
    return UsageError(message, hint=f"{hint} `harness runs` lists all runs")


class RunState(StrEnum):
    """Whether a run goes on."""

    FINISHED = "finished"
    # Attempts are left, and no process works on them.
    INTERRUPTED = "interrupted"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class StatusCount:
    """The number of attempts with one status."""

    status: Status
    """`cancelled` also for attempts to come."""
    key: str
    """The name in JSON: the status's, or `to_come`."""
    number: int

    @property
    def label(self) -> str:
        """The name for people."""
        return "to come" if self.key == _TO_COME else self.status.value


def find_state(summary: Summary, *, is_running: bool) -> RunState:
    """Return the state of a run with this summary."""
    if is_running:
        return RunState.RUNNING
    return RunState.INTERRUPTED if summary.statuses.get(Status.CANCELLED) else RunState.FINISHED


def count_statuses(summary: Summary, *, is_running: bool) -> Sequence[StatusCount]:
    """Return the statuses that attempts have, in their order.

    A summary counts each attempt without a verdict as cancelled. While the run is under way it is to come.
    """
    return [
        StatusCount(status, _TO_COME if is_running and status is Status.CANCELLED else status.value, number)
        for status in Status
        if (number := summary.statuses.get(status, 0))
    ]
