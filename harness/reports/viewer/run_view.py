"""The values of the list of runs and of the page of one run."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError, UsageError
from harness.core.inputs.files import MAX_DATA_BYTES, MIB
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.scoring.metrics import clustered_interval
from harness.core.text import escape_terminal, escape_text
from harness.core.types import AttemptRecord, RateInterval, Status, Summary
from harness.reports.attempt_figures import describe_cost
from harness.reports.comparison import (
    conclude,
    list_figures,
    list_shown_differences,
    list_warnings,
    uses_bundled_sample,
)
from harness.reports.figures import count, describe_range, duration, percent
from harness.reports.html import RunCharts
from harness.reports.page_values import (
    describe_category,
    describe_fact,
    describe_record,
    describe_result,
    flatten,
)
from harness.reports.run_folder import read_run
from harness.reports.run_list import ListedRun, describe_listed_rate, describe_passed
from harness.reports.stored_summary import read_stored_summary
from harness.reports.viewer.attempt_query import (
    count_categories,
    count_resolved,
    count_tasks,
    find_offset,
    list_ended,
    list_shares,
)
from harness.reports.viewer.attempt_query import count_statuses as count_recorded_statuses
from harness.reports.viewer.catalogue import Catalogue, UnknownRunError
from harness.runs.attempt_index import AttemptIndex
from harness.runs.comparison import Comparison, compare_runs
from harness.runs.followed_index import FollowedIndex
from harness.runs.manifest import GRADING_VERSION, read_model_name
from harness.runs.progress import ActiveStage, ActiveStages, read_stages
from harness.runs.run_files import has_run_file, list_run_files, open_run_file, split_nested
from harness.runs.run_names import is_running
from harness.runs.store import read_manifest
from harness.runs.transcripts import TRANSCRIPTS, find_transcript, transcript_name

# More tasks, categories or facts than a reader looks through.
_MOST_TASKS, _MOST_CATEGORIES, _MOST_FACTS = 50_000, 500, 2000
_FACT_CHARACTERS = 2000
# The attempts under way whose transcripts are opened, and the longest first entry that is read.
_MOST_AGES, _FIRST_ENTRY_BYTES = 200, MIB
# More attempts take seconds to read.
_MOST_CHARTED = 20_000
MOST_RUNS = 200
"""The most runs of one range."""
RUN_SORTS = {
    "run": "name",
    "benchmark": "benchmark",
    "agent": "agent",
    "model": "model",
    "rate": "rate",
    "progress": "finished_attempts",
    "cost": "cost",
    "duration": "duration_seconds",
    "started": "started_at",
}
"""The fields of a run that sort the list, by the heads of its columns."""
_MOST_CELLS = 200
MOST_TASKS = 2000
"""The most names of one list of tasks."""


def describe_attempt(folder: Path, index: FollowedIndex, task_id: str, attempt: int) -> dict[str, Any]:
    """Return the values of an attempt. One that is under way has a transcript and no record.

    Raises:
        UnknownRunError: there is neither a record nor a transcript of the attempt.
        UsageError: the record cannot be read.
    """
    head = {"name": escape_text(task_id), "attempt": attempt}
    offset = find_offset(index, task_id, attempt)
    if offset is None:
        if not has_run_file(*split_nested(find_transcript(folder, task_id, attempt))):
            raise UnknownRunError("this run has no such attempt, or none yet")
        state = _describe_state(folder, task_id, attempt)
        return {**head, "status": None, "state": state, "texts": [], "facts": []}
    try:
        model = read_model_name(read_manifest(folder).get("config") or {})
    except HarnessError:
        model = None
    return {**head, **describe_record(read_record(index, offset), model)}


def _describe_state(folder: Path, task_id: str, attempt: int) -> str:
    """Return the state of an attempt that has no record, such as `under way, acting`."""
    if not is_running(folder):
        return "interrupted"
    active = read_stages(folder).attempts.get((task_id, attempt))
    return "under way" if active is None else f"under way, {describe_stage(active)}"


def describe_stage(active: ActiveStage) -> str:
    """Return the stage of an attempt under way, with the node that makes it."""
    return active.stage if active.place is None else f"{active.stage} on {escape_text(active.place)}"


def read_record(index: FollowedIndex, offset: int) -> AttemptRecord:
    """Return a whole record. Raises UsageError if it is no longer at its place."""
    try:
        return index.read(offset)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError("the record has changed while it was read", hint="reload the page") from error


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The order of the list of runs. Runs without the value come last."""

    # One of RUN_SORTS.
    sort: str = "started"
    descending: bool = True

    def __post_init__(self) -> None:
        if self.sort not in RUN_SORTS:
            known = ", ".join(RUN_SORTS)
            raise UsageError(f"runs cannot be sorted by {self.sort!r}", hint=f"use one of {known}")

    def arrange(self, runs: Sequence[tuple[str, ListedRun]]) -> list[tuple[str, ListedRun]]:
        """Return runs with their keys in this order."""
        field = RUN_SORTS[self.sort]
        known = [run for run in runs if getattr(run[1], field) is not None]
        rest = [run for run in runs if getattr(run[1], field) is None]
        return [*sorted(known, key=lambda run: getattr(run[1], field), reverse=self.descending), *rest]


def list_runs(
    catalogue: Catalogue,
    search: str = "",
    first: int = 0,
    number: int = MOST_RUNS,
    order: RunOrder | None = None,
) -> dict[str, Any]:
    """Return a range of the runs where all words of a search occur, and all audits."""
    listed = catalogue.read_list()
    words = search.lower().split()
    found = [(key, run) for key, run in listed.runs if _has_words(run, words)]
    shown = (order or RunOrder()).arrange(found)[first : first + number]
    return {
        "place": escape_text(f"{catalogue.output_dir}/") if catalogue.is_open else "",
        "all": len(listed.runs),
        "found": len(found),
        "runs": [_describe_listed(key, run) for key, run in shown],
        "audits": [{"key": audit.key, "runs": len(audit.runs)} for audit in listed.audits],
    }


def describe_matrix(catalogue: Catalogue) -> dict[str, Any]:
    """Return the models by benchmarks: in each cell the newest finished run, and the number of runs."""
    cells: dict[tuple[str, str], dict[str, list[tuple[str, ListedRun]]]] = {}
    for key, run in catalogue.read_list().runs:
        if run.state == "finished" and run.rate is not None:
            row = cells.setdefault((run.model or "", run.agent or ""), {})
            row.setdefault(run.benchmark or "", []).append((key, run))
    benchmarks = sorted({name for row in cells.values() for name in row})[:_MOST_CELLS]
    return {
        "benchmarks": [escape_text(name) for name in benchmarks],
        "rows": [
            {
                "model": escape_text(model or agent),
                "agent": escape_text(agent) if model else "",
                "cells": [_describe_cell(row.get(name, [])) for name in benchmarks],
            }
            for (model, agent), row in sorted(cells.items())[:_MOST_CELLS]
        ],
    }


def _describe_cell(runs: Sequence[tuple[str, ListedRun]]) -> dict[str, Any] | None:
    if not runs:
        return None
    key, run = runs[0]
    rate = run.rate or 0.0
    low, high = (rate if bound is None else bound for bound in (run.rate_low, run.rate_high))
    interval = "" if run.rate_low is None else describe_range(low, high)
    bounds = {"share": rate, "low": low, "high": high}
    return {
        "key": key,
        "rate": percent(rate),
        "interval": interval,
        **bounds,
        "runs": len(runs),
        "is_bundled": run.bundled,
    }


def _has_words(run: ListedRun, words: Sequence[str]) -> bool:
    texts = (run.name, run.benchmark, run.agent, run.model, run.state)
    whole = " ".join(text or "" for text in texts).lower()
    return all(word in whole for word in words)


def _describe_listed(key: str, run: ListedRun) -> dict[str, Any]:
    return {
        "key": key,
        "name": escape_text(run.name),
        "state": run.state,
        "benchmark": escape_text(run.benchmark or ""),
        "is_bundled": run.bundled,
        "agent": escape_text(run.agent or ""),
        "model": escape_text(run.model or ""),
        "planned": run.planned_attempts,
        "finished": run.finished_attempts,
        "passed": describe_passed(run),
        "rate": describe_listed_rate(run),
        "cost": describe_cost(run.cost) if run.model_requests else "",
        "duration": "" if run.duration_seconds is None else duration(run.duration_seconds),
        "started_at": escape_text(run.started_at or ""),
        "reason": escape_text(run.reason or ""),
        "sort": {name: getattr(run, field) for name, field in RUN_SORTS.items()},
    }


def describe_run(catalogue: Catalogue, key: str) -> dict[str, Any]:
    """Return the values of one run: its state, its headline, and the counts of its attempts.

    Raises HarnessError and OSError if the folder cannot be read.
    """
    folder = catalogue.find_run(key)
    listed = catalogue.read_listed_run(key, folder)
    index = catalogue.read_attempts(folder)
    summary, seconds = _summarize(listed, index), listed.duration_seconds
    problems = [text for text in (listed.reason, index.problem) if text]
    if listed.state == "finished":
        try:
            summary = read_stored_summary(folder)[1].summary()
        except HarnessError as error:
            problems.append(error.message)
    try:
        manifest = read_manifest(folder)
    except HarnessError:
        manifest = {}
    is_running = listed.state == "running"
    stages = read_stages(folder) if is_running else ActiveStages()
    return {
        **_describe_listed(key, listed),
        **describe_result(summary, manifest, is_running=is_running, duration_seconds=seconds),
        "problems": [escape_text(text) for text in problems],
        # The attempts with a record, which filter the list.
        "statuses": {status.value: number for status, number in count_recorded_statuses(index).items()},
        "has_categories": any(count_categories(index)),
        "categories": [*_list_categories(index)],
        "attempts": len(index),
        "index": {"is_complete": index.is_complete, "share": index.end / index.size if index.size else 1.0},
        "under_way": [*_list_under_way(folder, index, stages)] if is_running else [],
        "stages": [(stage, number) for stage, number in stages.counts.items()],
    }


def describe_charts(folder: Path) -> dict[str, Any]:
    """Return the charts and the causes of a run, none of a run with very many attempts.

    Raises UsageError if the run cannot be read.
    """
    run = read_run(folder)
    if len(run.offsets) > _MOST_CHARTED:
        return {}
    charts = RunCharts(run.summary, run.manifest)
    for _ in charts.watch(run.attempts()):
        pass
    return charts.describe()


def list_facts(folder: Path) -> list[tuple[str, str]]:
    """Return the leaves of a manifest with their paths. Raises UsageError if it cannot be read."""
    facts = [*flatten(read_manifest(folder))]
    return [describe_fact(name, text, _FACT_CHARACTERS) for name, text in facts[:_MOST_FACTS]]


def _summarize(listed: ListedRun, index: AttemptIndex) -> Summary:
    """Return the summary of the attempts so far. It counts attempts to come as cancelled."""
    statuses = count_recorded_statuses(index)
    made = sum(statuses.values())
    planned = max(listed.planned_attempts or 0, made)
    if planned > made:
        statuses[Status.CANCELLED] = statuses.get(Status.CANCELLED, 0) + planned - made
    total = listed.total or count_tasks(index)
    resolved = count_resolved(index)
    # A run that lacks attempts has no rate, and a finished one has a summary.
    shares = list_shares(index) if planned == made and listed.state != "finished" else []
    rate = math.fsum(share for _, share in shares) / total if total else 0.0
    spread = clustered_interval([(share, 1) for _, share in shares], attempts=made)
    interval = None if spread is None else RateInterval(*spread, len(shares))
    return Summary(total, planned, resolved, rate, {}, statuses, {}, rate_interval=interval)


def _list_categories(index: AttemptIndex) -> Iterator[dict[str, Any]]:
    """Yield the categories, none if there is only one."""
    counts = count_categories(index)
    if len(counts) < 2:
        return
    shares: dict[str, list[float]] = {}
    for name, share in list_shares(index):
        shares.setdefault(name, []).append(share)
    for name, (attempts, number) in sorted(counts.items())[:_MOST_CATEGORIES]:
        of_tasks = shares.get(name, [0.0])
        low, high = clustered_interval([(share, 1) for share in of_tasks], attempts=attempts) or (0.0, 0.0)
        rate = math.fsum(of_tasks) / len(of_tasks)
        passed = f"{number:,} of {count(attempts, 'attempt')}"
        yield describe_category(name, passed, rate, low, high)


def _list_under_way(folder: Path, index: AttemptIndex, stages: ActiveStages) -> Iterator[dict[str, Any]]:
    """Yield the attempts that have a transcript and no record yet. Very long runs yield none."""
    try:
        planned = read_manifest(folder).get("planned")
    except HarnessError:
        return
    ids = planned.get("task_ids") if isinstance(planned, Mapping) else None
    if not isinstance(ids, list) or len(ids) > _MOST_TASKS or len(index) > _MOST_TASKS:
        return
    stems = {transcript_name(task_id, 0).removesuffix("-0.jsonl"): task_id for task_id in ids}
    try:
        names = list_run_files(folder, TRANSCRIPTS)
    except OSError:
        return
    ended = list_ended(index)
    found = []
    for name in names:
        stem, _, number = name.removesuffix(".jsonl").rpartition("-")
        if stem in stems and number.isdecimal() and (stems[stem], int(number)) not in ended:
            found.append((stems[stem], int(number), name))
    now = time.time()
    for place, (task_id, attempt, name) in enumerate(found):
        seconds = _measure_ages(folder, name, now) if place < _MOST_AGES else (None, None)
        active = stages.attempts.get((task_id, attempt))
        yield {
            "task_id": task_id,
            "name": escape_text(task_id),
            "attempt": attempt,
            "seconds": seconds[0],
            "quiet_seconds": seconds[1],
            "stage": "" if active is None else describe_stage(active),
        }


def _measure_ages(folder: Path, name: str, now: float) -> tuple[float | None, float | None]:
    """Return the seconds since the first and since the last entry of a transcript, None if not known."""
    try:
        with open_run_file(folder, f"{TRANSCRIPTS}/{name}", max_bytes=MAX_DATA_BYTES) as stream:
            changed = os.fstat(stream.fileno()).st_mtime
            first = parse_json(stream.readline(_FIRST_ENTRY_BYTES), allow_nan=True)
    except (OSError, BrokenJSONError):
        return None, None
    began = first.get("time") if isinstance(first, dict) else None
    age = now - began if isinstance(began, float) and 0 <= began <= now else None
    return age, max(now - changed, 0.0)


def describe_comparison(baseline: Path, candidate: Path) -> dict[str, Any]:
    """Return the comparison of two runs as plain values. Raises UsageError if they cannot be compared."""
    comparison = compare_runs([baseline], [candidate], accept=[GRADING_VERSION])
    return {
        "benchmark": escape_text(comparison.benchmark),
        "is_bundled": uses_bundled_sample(comparison),
        "conclusions": [*conclude(comparison)],
        "warnings": [*list_warnings(comparison)],
        "difference": comparison.difference,
        "interval": comparison.interval,
        "figures": [
            [
                each.label,
                *(escape_terminal(text, 300) for text in (each.baseline, each.candidate)),
                each.change,
            ]
            for each in list_figures(comparison)
        ],
        "tasks": [_describe_tasks(label, names) for label, names in _list_tasks(comparison)],
        "differences": [
            {
                "name": escape_terminal(each.name, 300),
                "baseline": escape_terminal(each.baseline, 1000),
                "candidate": escape_terminal(each.candidate, 1000),
                "is_unfair": each.is_unfair,
            }
            for each in list_shown_differences(comparison)
        ],
    }


def _list_tasks(comparison: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("lost", tuple(task.task_id for task in comparison.lost)),
        ("gained", tuple(task.task_id for task in comparison.gained)),
        ("missing in the baseline", comparison.baseline.missing),
        ("missing in the candidate", comparison.candidate.missing),
    ]


def _describe_tasks(label: str, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "label": label,
        "number": len(names),
        "tasks": [{"task_id": name, "name": escape_text(name)} for name in names[:MOST_TASKS]],
    }
