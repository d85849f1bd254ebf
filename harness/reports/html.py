"""The report of a run as one page: it loads nothing, and its data is in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from harness.core.text import escape_terminal, escape_text
from harness.core.types import AttemptRecord, Status, Summary
from harness.reports.attempt_figures import AttemptFigures, Durations, Timeline, describe_cost
from harness.reports.console import FittingAttempts, fit_attempts
from harness.reports.failures import Causes
from harness.reports.figures import (
    count,
    describe_headline,
    duration,
    find_category_interval,
    has_several_attempts,
    percent,
)
from harness.reports.page_file import encode, generate_page
from harness.reports.page_values import (
    describe_blocks,
    describe_category,
    describe_fact,
    describe_record,
    describe_result,
    flatten,
)
from harness.reports.remarks import BUNDLED_NOTICE
from harness.reports.run_folder import StoredRun
from harness.reports.transcript_entries import EXCERPT_CHARACTERS, Block, excerpt_transcript, read_prompt
from harness.runs.manifest import read_model_name
from harness.runs.run_files import replace_file
from harness.runs.run_names import find_state
from harness.runs.store import REPORT

if TYPE_CHECKING:
    from harness.runs.run import Run

_LEAST_POINTS = 3
_LANE, _MOST_HEIGHT, _AREA_HEIGHT, _WIDTH = 12, 480, 120, 1000


TEXT_LIMIT = 4000
"""The most characters of one text."""

_WHY_LIMIT = 160
# The characters of all transcripts together, and of one. They leave room for the other texts of the attempts.
_TRANSCRIPTS_CHARACTERS = 3_000_000
_TRANSCRIPT_CHARACTERS = 20_000
# A run with very many attempts shows no less than this of the prompt and of the program.
_LEAST_CHARACTERS = 500
# Together with the style sheet these limits keep every page below 10 MB.
_ATTEMPTS_BYTES = 8_000_000
_MOST_ROWS = 2000
_WITHOUT_SCRIPT = "This page shows its tables with JavaScript. `harness report --format markdown` needs none."
_MOST_CATEGORIES = 30


def draw_curve(curve: Sequence[tuple[int, float]]) -> dict[str, Any] | None:
    """Return a curve of pass@k, None with too few points for a line that shows more than the figures.

    `line` and `area` are points in a square of 100.
    """
    if len(curve) < _LEAST_POINTS:
        return None
    most = curve[-1][0]
    points = [f"{100 * (k - 1) / max(most - 1, 1):.2f},{100 - 100 * value:.2f}" for k, value in curve]
    line = " ".join(points)
    return {
        "label": f"from {percent(curve[0][1])} at k = 1 to {percent(curve[-1][1])} at k = {most:,}",
        "most": f"{most:,}",
        "line": line,
        "area": f"0,100 {line} 100,100",
        "figures": [(f"{k:,}", percent(value)) for k, value in curve],
    }


def draw_durations(found: Durations | None) -> dict[str, Any] | None:
    """Return the name, the number and the width of the bar of each bin of durations, None without any."""
    if found is None:
        return None
    largest = max(number for _, _, number in found.bins)
    return {
        "label": f"half of the attempts took at most {duration(found.median)}, nine of ten at most "
        f"{duration(found.ninetieth)}, the longest {duration(found.longest)}",
        "bins": [
            (
                f"over {duration(low)}" if high is None else f"up to {duration(high)}",
                f"{number:,}",
                f"{100 * number / largest:.2f}%",
            )
            for low, high, number in found.bins
        ],
    }


def draw_timeline(timeline: Timeline | None) -> dict[str, Any] | None:
    """Return a bar for each attempt, or an area for their number. None for a run without times."""
    if timeline is None:
        return None
    try:
        ended = timeline.began + timedelta(seconds=timeline.seconds)
    except OverflowError:
        ended = timeline.began
    ends = {"began": _format(timeline.began), "ended": _format(ended)}
    if timeline.bars:
        height = min(timeline.lanes * _LANE, _MOST_HEIGHT)
        label = (
            f"{count(len(timeline.bars), 'attempt')} in {duration(timeline.seconds)}, at most "
            f"{timeline.lanes:,} at once; an attempt includes the wait for a sandbox, and its grading"
        )
        return {"label": label, "height": height, "bars": _place_bars(timeline, height), "area": "", **ends}
    most = max(timeline.busy)
    last = len(timeline.busy) - 1
    points = " ".join(
        f"{_WIDTH * place / last:.1f},{_AREA_HEIGHT * (1 - busy / max(most, 1e-9)):.2f}"
        for place, busy in enumerate(timeline.busy)
    )
    return {
        "label": f"attempts under way in {duration(timeline.seconds)}, at most {most:,.1f} on average at one "
        "time",
        "height": _AREA_HEIGHT,
        "bars": [],
        "area": f"0,{_AREA_HEIGHT} {points} {_WIDTH},{_AREA_HEIGHT}",
        **ends,
    }


def _place_bars(timeline: Timeline, height: int) -> list[dict[str, str]]:
    """Return each attempt as a rectangle."""
    scale, lane = _WIDTH / timeline.seconds, height / timeline.lanes
    return [
        {
            "x": f"{bar.start * scale:.2f}",
            "y": f"{bar.lane * lane:.2f}",
            # An attempt that is too short to see is still there.
            "width": f"{max(bar.seconds * scale, 1):.2f}",
            "height": f"{lane:.2f}",
            "status": bar.status,
            "title": f"{bar.name}: {bar.status.replace('_', ' ')}, {duration(bar.seconds)}",
        }
        for bar in timeline.bars
    ]


def _format(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


class AttemptRows:
    """Describes attempts as JSON. The more attempts a run has, the less of their texts it has."""

    def __init__(self, manifest: Mapping[str, Any], folder: Path | None, attempts: int) -> None:
        share = _TRANSCRIPTS_CHARACTERS // max(attempts, 1)
        self._model = _read_model(manifest)
        self._folder = folder
        self._transcript = min(_TRANSCRIPT_CHARACTERS, share)
        self._text = max(_LEAST_CHARACTERS, min(TEXT_LIMIT, share))

    def encode(self, record: AttemptRecord) -> str:
        """Return an attempt with its texts and an excerpt of its transcript."""
        row = {
            "task_id": record.task_id.encode("utf-8", "backslashreplace").decode(),
            "name": escape_text(record.task_id),
            "attempt": record.attempt,
            "status": record.status.value,
            "category": escape_terminal(record.category or ""),
            "score": record.score,
            "duration_seconds": record.duration_seconds,
            "error": escape_terminal(record.error or "", _WHY_LIMIT),
            "values": describe_record(record, self._model, self._text),
            "blocks": [
                # Most values of a block are empty.
                {name: value for name, value in block.items() if value or name in ("heading", "text")}
                for block in describe_blocks(
                    self._read_transcript(record), min(EXCERPT_CHARACTERS, self._text)
                )
            ],
        }
        return encode(row)

    def _read_transcript(self, record: AttemptRecord) -> list[Block]:
        if self._folder is None:
            return []
        found = excerpt_transcript(self._folder, record, self._transcript)
        prompt = None if found else read_prompt(self._folder, record)
        return [Block(text=prompt, role="prompt")] if prompt else found


def generate_html(
    *,
    manifest: Mapping[str, Any],
    summary: Summary,
    attempts: Iterable[AttemptRecord],
    is_running: bool = False,
    folder: Path | None = None,
    duration_seconds: float | None = None,
    home: str = "",
) -> Iterator[str]:
    """Yield the parts of the report of a run as a complete HTML document.

    Every fact of the manifest is shown under its path. Unresolved attempts come first. Attempts have excerpts
    of their transcripts if `folder` is the run folder. If they do not fit on one page, it shows the first of
    each status, how many it leaves out, and the file that has them all. `home` is the address of a page that
    lists the run with others, "" without one.
    """
    facts = dict(flatten(manifest))
    charts = RunCharts(summary, manifest)
    rows = AttemptRows(manifest, folder, summary.attempts)
    fitting = fit_attempts(charts.watch(attempts), rows.encode, room=_ATTEMPTS_BYTES)
    is_stopped = summary.statuses.get(Status.CANCELLED, 0) > 0
    result = describe_result(summary, manifest, is_running=is_running, duration_seconds=duration_seconds)
    run = {
        **_describe_config(manifest, facts, folder),
        **result,
        "state": find_state(summary, is_running=is_running).value,
        "duration": "" if duration_seconds is None else duration(duration_seconds),
        "cost": describe_cost(summary.model.get("cost")) if summary.model else "",
        "problems": [*_list_left_out(summary, fitting, facts)],
        "statuses": {status.value: fitting.shown[status] for status in Status if fitting.shown[status]},
        "has_categories": bool(summary.by_category),
        "categories": [] if is_stopped else [*islice(_list_categories(summary), _MOST_ROWS)],
        "index": {"is_complete": True, "share": 1},
        "under_way": [],
        "stages": [],
    }
    data = {
        "run": run,
        "charts": charts.describe(),
        "manifest": [describe_fact(*fact, 200) for fact in islice(facts.items(), _MOST_ROWS)],
        "home": home,
    }
    headline = describe_headline(summary, is_running=is_running)
    return generate_page(
        title=f"{run['benchmark']} - harness report",
        without_script=f"{headline}. {_WITHOUT_SCRIPT}",
        data=_join(data, fitting.rows),
    )


def render_stored_run(run: StoredRun, home: str = "") -> Iterator[str]:
    """Yield the parts of the report of a stored run as a complete HTML document.

    `home` is the address of a page that lists the run with others, "" without one.
    """
    return generate_html(
        manifest=run.manifest,
        summary=run.summary,
        attempts=run.attempts(whole=True),
        is_running=run.is_running,
        folder=run.folder,
        duration_seconds=run.duration_seconds,
        home=home,
    )


def rewrite_report(run: StoredRun) -> Path:
    """Replace the `report.html` of a stored run and return its path. Raises StorageError."""
    with replace_file(run.folder / REPORT) as file:
        file.writelines(render_stored_run(run))
    return run.folder / REPORT


def write_report(run: Run) -> Path:
    """Write `report.html` into the run's folder and return its path. Raises StorageError."""
    parts = generate_html(
        manifest=run.manifest,
        summary=run.summary,
        attempts=run.records(whole=True),
        folder=run.folder,
        duration_seconds=run.duration_seconds,
    )
    with replace_file(run.folder / REPORT, resumed=run.folder) as file:
        file.writelines(parts)
    return run.folder / REPORT


def _join(data: Mapping[str, Any], rows: Iterable[str]) -> Iterator[str]:
    """Yield the parts of the data of a page, with one row at a time."""
    yield f'{encode(data).removesuffix("}")},"attempts":['
    for place, row in enumerate(rows):
        yield f",{row}" if place else row
    yield "]}"


class RunCharts:
    """The charts of a run, and the causes of its failures, gathered while its attempts pass by."""

    def __init__(self, summary: Summary, manifest: Mapping[str, Any]) -> None:
        self._summary = summary
        self._figures = AttemptFigures(several_attempts=has_several_attempts(summary))
        config = manifest.get("config")
        samples = config.get("samples") if isinstance(config, Mapping) else None
        self._causes = Causes(has_samples=samples is not None)

    def watch(self, records: Iterable[AttemptRecord]) -> Iterator[AttemptRecord]:
        """Yield the records, and take their figures."""
        return self._causes.watch(self._figures.watch(records))

    def describe(self) -> dict[str, Any]:
        """Return the charts that there are, and the causes."""
        is_stopped = self._summary.statuses.get(Status.CANCELLED, 0) > 0
        charts = {
            "curve": None if is_stopped else draw_curve(self._figures.pass_curve(self._summary.total)),
            "durations": draw_durations(self._figures.durations()),
            "timeline": draw_timeline(self._figures.timeline()),
        }
        causes = [
            [each.status.value, escape_terminal(each.exception), each.number, escape_terminal(each.example)]
            for each in self._causes.list_most_frequent()
        ]
        return {"causes": causes, **charts}


def _read_model(manifest: Mapping[str, Any]) -> str | None:
    config = manifest.get("config")
    return read_model_name(config) if isinstance(config, Mapping) else None


def _describe_config(
    manifest: Mapping[str, Any], facts: Mapping[str, str], folder: Path | None
) -> dict[str, Any]:
    """Return the names of a run, and its data with a short hash."""
    data = manifest.get("data")
    origin = ""
    if isinstance(data, Mapping):
        origin = f"{data.get('kind')}: {data.get('location')}, sha256 {str(data.get('sha256'))[:12]}"
    benchmark, agent = (facts.get(f"config.{name}", "null") for name in ("benchmark", "agent"))
    return {
        "key": "",
        "name": "" if folder is None else escape_text(folder.resolve().name),
        "benchmark": "run" if benchmark == "null" else escape_terminal(benchmark),
        "agent": "" if agent == "null" else escape_terminal(agent),
        "model": escape_terminal(_read_model(manifest) or ""),
        "started_at": escape_terminal(str(manifest.get("started_at") or "")),
        "origin": escape_terminal(origin),
        # Look for it anywhere in the manifest, because a needless warning is better than a missing one.
        "is_bundled": "bundled" in facts.values(),
        "planned": None,
        "finished": None,
    }


def _list_left_out(summary: Summary, fitting: FittingAttempts, facts: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each part that the page lacks because it would be too large."""
    shown, given = fitting.shown, fitting.given
    if shown != given:
        of_each = (
            f"{status.replace('_', ' ')} {shown[status]:,} of {given[status]:,}"
            for status in Status
            if given[status]
        )
        yield (
            f"{shown.total():,} of {given.total():,} attempts are shown. These are the first of each status, "
            f"because a page of all attempts would be too large: {', '.join(of_each)}. "
            "All attempts are in attempts.jsonl, in the folder of this report."
        )
    for number, noun, file in (
        (len(summary.by_category), "categories", "summary.json"),
        (len(facts), "facts of the manifest", "manifest.json"),
    ):
        if number > _MOST_ROWS:
            yield f"{_MOST_ROWS:,} of {number:,} {noun} are shown. All are in {file}."


def _list_categories(summary: Summary) -> Iterator[dict[str, Any]]:
    """Yield the categories, none if there is only one."""
    by = " by the first attempt" if has_several_attempts(summary) else ""
    for name, row in summary.by_category.items() if len(summary.by_category) > 1 else ():
        resolved = f"{row['resolved']:,} of {row['total']:,}{by}"
        found = describe_category(name, resolved, row["rate"], *find_category_interval(row))
        yield {**found, "category": escape_terminal(name)}


def describe_rate(summary: Summary) -> str:
    """Return the headline of a run, such as `75.0 % resolved (95 % interval ...): 3 of 4 tasks`."""
    return str(describe_headline(summary))


def render_result(summary: Summary, folder: Path, *, is_bundled: bool = False) -> str:
    """Return a small piece of HTML: rate, statuses and categories. All names in it are escaped.

    `is_bundled` adds the notice that the figures are not results of the benchmark.
    """
    rows = [(status.value, f"{number:,}") for status, number in summary.statuses.items() if number]
    rows += [(f"pass@{k}", percent(value)) for k, value in summary.pass_at_k.items() if value is not None]
    if len(summary.by_category) > 1:
        listed = list(summary.by_category.items())
        for name, row in listed[:_MOST_CATEGORIES]:
            by = " at the first attempt" if has_several_attempts(summary) else ""
            rows.append((name, f"{percent(row['rate'])}, {row['resolved']:,} of {row['total']:,}{by}"))
        if len(listed) > _MOST_CATEGORIES:
            rows.append((f"{len(listed) - _MOST_CATEGORIES:,} more categories", ""))
    cells = Markup("").join(
        Markup("<tr><th style='text-align:left'>{}</th><td>{}</td></tr>").format(escape_terminal(name), text)
        for name, text in rows
    )
    notice = Markup("<div><strong>{}</strong></div>").format(BUNDLED_NOTICE) if is_bundled else Markup("")
    return str(
        Markup("<div>{}<strong>{}</strong><table>{}</table><small>{}</small></div>").format(
            notice, describe_rate(summary), cells, escape_terminal(str(folder))
        )
    )
