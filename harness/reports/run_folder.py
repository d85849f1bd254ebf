"""The report that lies in every run folder, and reading a run folder back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engine.records import from_json
from harness.engine.run import Run
from harness.engine.store import ATTEMPTS, REPORT, SUMMARY, read_manifest, replaced
from harness.errors import UsageError
from harness.model import AttemptRecord, DataSource, MetricSummary, Status, Summary
from harness.reports.html import render_html


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as its folder tells it, finished or interrupted."""

    folder: Path
    manifest: dict[str, Any]
    summary: Summary
    duration_seconds: float

    @property
    def source(self) -> DataSource:
        return DataSource(**self.manifest["data"])

    def attempts(self) -> Iterator[AttemptRecord]:
        """Yield the stored attempts in the order in which they ended, the last try of each."""
        return stored_attempts(self.folder)


def write_report(run: Run) -> Path:
    """Write `report.html` into the run's folder and return its path. Raises StorageError."""
    html = render_html(manifest=run.manifest, summary=run.summary, attempts=run.records())
    run.store.write_text(REPORT, html)
    return run.folder / REPORT


def stored_attempts(folder: Path) -> Iterator[AttemptRecord]:
    """Yield the attempts in a run folder in the order in which they ended, the last try of each.

    Raises UsageError where the folder has none that can be read; a run may still be going on in it.
    """
    path = folder / ATTEMPTS
    last: dict[tuple[str, int], AttemptRecord] = {}
    number = 0
    try:
        with open(path, "rb") as lines:
            for line in lines:
                number += 1
                if line.endswith(b"\n"):
                    record = from_json(line)
                    last[record.task_id, record.attempt] = record
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a run folder, see runs/") from error
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path}:{number}: is not an attempt record: {error}") from error
    yield from last.values()


def read_run(folder: Path) -> StoredRun:
    """Read a run folder back. Raises UsageError for a folder that is not one."""
    manifest = read_manifest(folder)
    path = folder / SUMMARY
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        del values["source"]
        duration = float(values.pop("duration_seconds"))
        values["pass_at_k"] = {int(k): value for k, value in values["pass_at_k"].items()}
        values["statuses"] = {Status(name): count for name, count in values["statuses"].items()}
        metrics = values.pop("metrics", {})
        summary = Summary(**values, metrics={name: MetricSummary(**found) for name, found in metrics.items()})
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", hint=f"the run was killed; harness run --resume {folder} ends it"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: is not a summary: {error}") from error
    return StoredRun(folder, manifest, summary, duration)


def rewrite_report(run: StoredRun) -> Path:
    """Write `report.html` of a stored run anew and return its path. Raises StorageError."""
    html = render_html(manifest=run.manifest, summary=run.summary, attempts=run.attempts())
    with replaced(run.folder / REPORT) as file:
        file.write(html)
    return run.folder / REPORT
