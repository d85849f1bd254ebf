"""The list of run folders: their progress and results, without their attempts where a summary has them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TextIO

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from harness.core.errors import UsageError
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.invalid_values import describe_first_error
from harness.core.scoring.metrics import wilson_interval
from harness.core.text import escape_terminal
from harness.core.types import Status
from harness.reports.attempt_figures import describe_cost
from harness.reports.console import LONG, cell, grid, is_terminal, open_report, print_line
from harness.reports.figures import count, describe_range, duration, percent
from harness.reports.stored_summary import read_stored_summary
from harness.runs.followed_index import FinishedCount
from harness.runs.manifest import read_model_name
from harness.runs.run_files import read_run_file
from harness.runs.run_names import RUNS, is_running, list_run_folders
from harness.runs.store import SUMMARY, UNFINISHED, read_manifest
from harness.runs.summary import SUMMARY_VERSION

if TYPE_CHECKING:
    from rich.table import Table

State = Literal["running", "interrupted", "finished", "broken"]

# A log has no width, and a run on one line is easy to search for.
_LOG_WIDTH = 400
_STYLES: Mapping[str, str] = {"running": "cyan", "interrupted": "yellow", "broken": "red"}
# A column whose heading has `>` aligns right.
_COLUMNS = (
    *("run", "benchmark", "agent", "model", "variant", "progress"),
    *(">passed", ">rate", ">cost", ">duration", "started"),
)


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run folder in the list. A value that is not known, or not there, is None."""

    name: str
    folder: str
    state: State
    benchmark: str | None = None
    agent: str | None = None
    model: str | None = None
    planned_attempts: int | None = None
    # The attempts that have a verdict.
    finished_attempts: int | None = None
    # The result of a finished run: `resolved` counts first attempts, and `rate` is the mean over the tasks of
    # the share of attempts that passed, with its 95 % interval.
    total: int | None = None
    resolved: int | None = None
    passed_attempts: int | None = None
    rate: float | None = None
    rate_low: float | None = None
    rate_high: float | None = None
    first_attempt_rate: float | None = None
    # Whether the tasks are the bundled sample, so that the figures are not results of the benchmark.
    bundled: bool = False
    cost: float | None = None
    model_requests: int | None = None
    # The MCP servers of the config, and whether the run goes without them to be compared with.
    mcp_servers: Sequence[str] = ()
    baseline: bool = False
    # The folder of the run that a replay repeats, and the number of attempts that had other observations.
    replay_from: str | None = None
    replay_different: int | None = None
    duration_seconds: float | None = None
    started_at: str | None = None
    # The reason why a folder is broken.
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RunList:
    """The newest runs in a folder, and the number of all."""

    output_dir: Path
    number: int
    runs: Sequence[ListedRun] = field(default_factory=list)


_Count = Annotated[int, Field(ge=0, le=2**53)]


class _Planned(TypedDict):
    tasks: _Count
    attempts: _Count


class _Server(TypedDict):
    name: str


class _Config(TypedDict):
    mcp_servers: NotRequired[list[_Server]]
    baseline: NotRequired[bool]
    replay_from: NotRequired[str | None]


class _Headline(TypedDict, total=False):
    low: Annotated[float, Field(ge=0, le=1)] | None
    high: Annotated[float, Field(ge=0, le=1)] | None


class _Manifest(BaseModel):
    """The fields of a manifest that the list shows."""

    model_config = ConfigDict(extra="ignore", strict=True)

    benchmark: str
    agent: str
    config: _Config
    started_at: str | None = None
    planned: _Planned | None = None
    source: str | None = None


class _Model(TypedDict, total=False):
    model_requests: _Count | None
    cost: Annotated[float, Field(ge=0)] | None


class _Replay(TypedDict, total=False):
    different: _Count


class _Summary(BaseModel):
    """The fields of a summary that the list shows."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    schema_version: int = 1
    headline: _Headline = Field(default_factory=_Headline)
    total: _Count
    attempts: _Count
    resolved: _Count
    rate: Annotated[float, Field(ge=0, le=1)]
    first_attempt_rate: Annotated[float, Field(ge=0, le=1)] = 0.0
    statuses: dict[Status, _Count]
    duration_seconds: Annotated[float, Field(ge=0)]
    model: _Model = Field(default_factory=_Model)
    replay: _Replay = Field(default_factory=_Replay)

    @property
    def has_rate_of_first_attempts(self) -> bool:
        """Whether an earlier version has written it, whose rate counts the first attempts."""
        is_whole = not self.statuses.get(Status.CANCELLED)
        return self.schema_version < SUMMARY_VERSION and is_whole and self.attempts > self.total

    def find_interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the rate, None if it is not known."""
        low, high = self.headline.get("low"), self.headline.get("high")
        if low is not None and high is not None:
            return low, high
        return wilson_interval(self.resolved, self.total) if self.attempts == self.total else None

    @property
    def finished(self) -> int:
        """The number of attempts that have a verdict."""
        return self.attempts - sum(self.statuses.get(status, 0) for status in UNFINISHED)


def read_run_list(output_dir: Path | None, *, number: int | None = None) -> RunList:
    """Return the newest `number` runs in a folder, or all, the newest first.

    Args:
        output_dir: the folder of the run folders, None for `runs`, which need not exist.
        number: the maximum number of runs.

    Raises:
        UsageError: `output_dir` is not a folder.
    """
    if output_dir is not None and not output_dir.is_dir():
        raise UsageError(f"{output_dir}: is not a folder", hint="name the folder of the run folders")
    place = output_dir or RUNS
    folders = list_run_folders(place)
    return RunList(place, len(folders), [read_listed_run(folder) for folder in folders[:number]])


def read_listed_run(folder: Path, *, count_finished: Callable[[Path], int | None] | None = None) -> ListedRun:
    """Return the entry of a run folder. A folder that cannot be read is broken, with the reason.

    `count_finished` returns the number of attempts in the folder that have a verdict, None if it is not known
    yet. Without it all records of an unfinished run are read.
    """
    try:
        return _read_listed_run(folder, count_finished or _count_finished)
    except UsageError as error:
        return _break(folder, error.message)
    except ValidationError as error:
        return _break(folder, f"{folder}: {describe_first_error(error)}")
    except OSError as error:
        return _break(folder, f"{error.filename or folder}: cannot be read: {error.strerror}")


def _break(folder: Path, reason: str) -> ListedRun:
    return ListedRun(folder.name, str(folder), "broken", reason=reason)


def _count_finished(folder: Path) -> int | None:
    return FinishedCount(folder).read()


def _read_listed_run(folder: Path, count_finished: Callable[[Path], int | None]) -> ListedRun:
    # Look at the lock first, because a run that ends now has written all its files when it gives up the lock.
    running = is_running(folder)
    stored = read_manifest(folder)
    manifest = _Manifest.model_validate(stored)
    summary = _read_summary(folder)
    listed = ListedRun(
        folder.name,
        str(folder),
        "running" if running else "interrupted",
        benchmark=manifest.benchmark,
        agent=manifest.agent,
        model=read_model_name(stored["config"]),
        mcp_servers=[server["name"] for server in manifest.config.get("mcp_servers", [])],
        baseline=manifest.config.get("baseline", False),
        replay_from=manifest.config.get("replay_from"),
        bundled=manifest.source == "bundled",
        planned_attempts=None if manifest.planned is None else manifest.planned["attempts"],
        duration_seconds=_measure(manifest.started_at) if running else None,
        started_at=manifest.started_at,
    )
    if summary is not None:
        listed = replace(
            listed,
            planned_attempts=listed.planned_attempts or summary.attempts,
            cost=summary.model.get("cost"),
            model_requests=summary.model.get("model_requests"),
            replay_different=summary.replay.get("different"),
            duration_seconds=listed.duration_seconds if running else summary.duration_seconds,
        )
    if running or summary is None or summary.statuses.get(Status.CANCELLED):
        return replace(listed, finished_attempts=count_finished(folder))
    low, high = summary.find_interval() or (None, None)
    return replace(
        listed,
        state="finished",
        finished_attempts=summary.finished,
        total=summary.total,
        resolved=summary.resolved,
        passed_attempts=summary.statuses.get(Status.PASSED, 0),
        rate=summary.rate,
        rate_low=low,
        rate_high=high,
        first_attempt_rate=summary.first_attempt_rate,
    )


def _read_summary(folder: Path) -> _Summary | None:
    try:
        summary = TypeAdapter(_Summary).validate_python(parse_json(read_run_file(folder, SUMMARY)))
        if not summary.has_rate_of_first_attempts:
            return summary
        return _Summary.model_validate(read_stored_summary(folder)[0])
    except FileNotFoundError:
        return None
    except BrokenJSONError as error:
        raise UsageError(f"{folder / SUMMARY}:{error.line}: is not JSON: {error}") from error


def _measure(started_at: str | None) -> float | None:
    """Return the seconds since the start, None if its time is not known."""
    started = _parse_start(started_at)
    return None if started is None else max(time.time() - started.timestamp(), 0.0)


def _parse_start(started_at: str | None) -> datetime | None:
    try:
        return datetime.strptime(started_at or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def write_runs(found: RunList, stream: TextIO) -> None:
    """Write the runs as a JSON list."""
    json.dump([asdict(run) for run in found.runs], stream, indent=2)
    stream.write("\n")


def print_runs(found: RunList, *, stream: TextIO) -> None:
    """Print the runs as a table, and the reasons for broken folders below it."""
    with open_report(stream) as console:
        if not is_terminal(stream):
            console.width = _LOG_WIDTH
        if not found.runs:
            print_line(console, f"no runs in {escape_terminal(str(found.output_dir), LONG)}")
        else:
            console.print(_table(found.runs, console.width))
        for run in found.runs:
            if run.reason is not None:
                print_line(console, f"broken: {escape_terminal(run.reason, LONG)}", _STYLES["broken"])
        if len(found.runs) < found.number:
            print_line(console, f"{len(found.runs):,} of {count(found.number, 'run')}", "dim")


def _table(runs: Sequence[ListedRun], width: int) -> Table:
    rows = [_describe(run) for run in runs]
    optional = {name: any(row[name] for row in rows) for name in ("model", "variant", "cost")}
    headings = [name for name in _COLUMNS if optional.get(name.lstrip(">"), True)]
    for narrow in _NARROWER:
        names = [name.lstrip(">") for name in headings]
        lengths = (max(len(name), *(len(row[name]) for row in rows)) for name in names)
        if sum(lengths) + 2 * (len(names) - 1) <= width:
            break
        if isinstance(narrow, str):
            headings = [name for name in headings if name.lstrip(">") != narrow]
        else:
            rows = [{name: narrow(text) for name, text in row.items()} for row in rows]
    table = grid(*headings)
    for run, row in zip(runs, rows, strict=True):
        cells = [cell(row[name.lstrip(">")]) for name in headings]
        table.add_row(*cells, style=_STYLES.get(run.state, ""))
    return table


def _abbreviate(text: str) -> str:
    """Return the text of a column without the word `finished`, and without the interval of a rate."""
    return re.sub(r" finished$|(?<= %) \(.* %\)$", "", text.replace("(bundled sample)", "(sample)"))


# The steps that make the table narrower, until it fits: columns that go, and a shorter form of all texts. The
# name of a run begins with its start, and its report has everything.
_NARROWER: Sequence[str | Callable[[str], str]] = (
    *("started", "duration", _abbreviate, "variant", "cost", "passed", "agent"),
)


def _describe(run: ListedRun) -> dict[str, str]:
    """Return the text of each column."""
    started = _parse_start(run.started_at)
    return {
        "run": run.name,
        "benchmark": f"{run.benchmark or ''}{' (bundled sample)' if run.bundled else ''}",
        "agent": run.agent or "",
        "model": run.model or "",
        "variant": _describe_variant(run),
        "progress": _describe_progress(run),
        "passed": describe_passed(run),
        "rate": describe_listed_rate(run),
        "cost": describe_cost(run.cost) if run.model_requests else "",
        "duration": "" if run.duration_seconds is None else duration(run.duration_seconds),
        "started": "" if started is None else started.astimezone().strftime("%Y-%m-%d %H:%M"),
    }


def describe_passed(run: ListedRun) -> str:
    """Return how many attempts of a finished run passed, "" for any other."""
    return "" if run.rate is None else f"{run.passed_attempts:,}/{run.planned_attempts:,}"


def describe_listed_rate(run: ListedRun) -> str:
    """Return the rate of a finished run with its interval, "" for any other."""
    if run.rate is None:
        return ""
    if run.rate_low is None or run.rate_high is None:
        return percent(run.rate)
    return f"{percent(run.rate)} ({describe_range(run.rate_low, run.rate_high)})"


def _describe_variant(run: ListedRun) -> str:
    """Return the facts that tell runs of one agent and one model apart, "" without any."""
    servers = ", ".join(run.mcp_servers)
    if run.baseline:
        return f"baseline without {servers}" if servers else "baseline"
    if run.replay_from is not None:
        different = f", {run.replay_different:,} different" if run.replay_different else ""
        return f"of {Path(run.replay_from).name}{different}"
    return f"with {servers}" if servers else ""


def _describe_progress(run: ListedRun) -> str:
    if run.finished_attempts is None:
        return run.state
    planned = "?" if run.planned_attempts is None else f"{run.planned_attempts:,}"
    return f"{run.finished_attempts:,}/{planned} {run.state}"
