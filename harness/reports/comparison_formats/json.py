"""The JSON document of a comparison, whose schema docs/compare.md describes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from harness.runs.comparison import ChangedTask, Comparison, Side

SCHEMA_VERSION = 1


def write_report(comparison: Comparison, stream: TextIO) -> None:
    """Write the document. It has every text of a run as a string of ASCII."""
    json.dump(_list_values(comparison), stream, indent=2, allow_nan=False)
    stream.write("\n")


def _list_values(comparison: Comparison) -> Mapping[str, Any]:
    low, high = comparison.interval
    spread, flips = comparison.noise_spread, comparison.noise_flips
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmark": comparison.benchmark,
        "tasks": comparison.tasks,
        "unnamed_tasks": comparison.unnamed_tasks,
        "left_out_tasks": comparison.left_out_tasks,
        "rate": {
            "difference": comparison.difference,
            "low": low,
            "high": high,
            "clusters": comparison.clusters,
            "clustered_by": comparison.cluster_by,
        },
        "score": _list_score(comparison),
        "bootstrap": {"resamples": comparison.resamples, "seed": comparison.seed},
        "mcnemar": {
            "gained": len(comparison.gained),
            "lost": len(comparison.lost),
            "p_value": comparison.p_value,
        },
        "regression": {
            "threshold": comparison.regression_threshold,
            "is_regression": comparison.is_regression,
        },
        "noise_floor": None
        if spread is None
        else {"spread": spread, "flips": flips, "is_exceeded": comparison.exceeds_noise},
        "baseline": _list_side(comparison.baseline),
        "candidate": _list_side(comparison.candidate),
        "gained": _list_changed(comparison.gained),
        "lost": _list_changed(comparison.lost),
        "differences": [
            {
                "field": each.name,
                "is_unfair": each.is_unfair,
                "baseline": [json.loads(value) for value in each.baseline],
                "candidate": [json.loads(value) for value in each.candidate],
            }
            for each in comparison.differences
        ],
    }


def _list_score(comparison: Comparison) -> Mapping[str, float] | None:
    if comparison.score_difference is None or comparison.score_interval is None:
        return None
    low, high = comparison.score_interval
    return {"difference": comparison.score_difference, "low": low, "high": high}


def _list_side(side: Side) -> Mapping[str, Any]:
    return {
        "runs": [
            {
                "folder": str(run.folder),
                "run_id": run.manifest["run_id"],
                "agent": run.manifest["agent"],
                "model": run.model,
                "started_at": run.manifest.get("started_at"),
                "is_running": run.is_running,
                "planned_tasks": run.planned_tasks,
                "planned_attempts": run.planned_attempts,
                "recorded_attempts": run.recorded_attempts,
                "duration_seconds": run.duration_seconds,
            }
            for run in side.runs
        ],
        "rate": side.rate,
        "rate_low": side.interval.low,
        "rate_high": side.interval.high,
        "score": side.score,
        "resolved": side.resolved,
        "attempts": side.attempts,
        "without_verdict": side.without_verdict,
        "missing": list(side.missing),
        "statuses": {status.value: number for status, number in side.statuses.items()},
        "model": dict(side.usage),
        "attempt_seconds": side.attempt_seconds,
        "duration_seconds": side.duration_seconds,
        "noise": None if side.noise is None else asdict(side.noise),
    }


def _list_changed(tasks: Sequence[ChangedTask]) -> list[Mapping[str, Any]]:
    return [asdict(task) for task in tasks]
