"""A job of Harbor: a folder with a trial for each attempt, which Harbor's viewer and leaderboards read.

Source: `harbor/models/job` and `harbor/models/trial` of harbor 0.26.0.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.core.types import AttemptRecord, Phase, Status
from harness.core.version import __version__
from harness.reports.exports.atif import build_trajectory
from harness.reports.recorded_attempts import list_objects, read_count
from harness.reports.trajectories.attempts import (
    ExportedAttempt,
    ExportedRun,
    describe_record,
    format_time,
    name_attempt,
)

SUFFIXES = ()

# Harbor's tables decide by these exceptions whether a reward counts.
_EXCEPTIONS = {
    Status.AGENT_ERROR: "NonZeroAgentExitCodeError",
    Status.GRADER_ERROR: "RewardFileNotFoundError",
    Status.INFRA_ERROR: "RuntimeRequestError",
    Status.CANCELLED: "CancelledError",
}
_TIMEOUTS = {Phase.AGENT.value: "AgentTimeoutError", Phase.EVALUATOR.value: "VerifierTimeoutError"}
_TOKENS = {
    "n_input_tokens": "input_tokens",
    "n_cache_tokens": "cached_tokens",
    "n_output_tokens": "output_tokens",
}


@dataclass(slots=True)
class _Counts:
    """The figures of the job so far."""

    trials: int = 0
    errors: int = 0
    cancelled: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    # The names of the trials by the key and the value of their reward, and by their exception.
    rewards: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    exceptions: dict[str, list[str]] = field(default_factory=dict)


def write_tree(run: ExportedRun, folder: Path) -> None:
    """Write the job into a new, empty folder, one trial at a time."""
    job_id, tasks, counts = _make_id(run.run_id), _Tasks(run), _Counts()
    paths: dict[str, None] = {}
    locks = []
    for attempt in run.read_attempts():
        record = attempt.record
        name = _name_trial(run, record)
        path, digest = tasks.find(record.task_id)
        paths[path] = None
        config = {
            "schema_version": 1,
            "task": {"path": path, "source": run.benchmark},
            "trial_name": name,
            "trials_dir": run.stored.folder.name,
            "agent": {"name": run.agent, "model_name": run.model},
            "environment": {"type": "docker"},
            "verifier": {},
            "job_id": job_id,
        }
        result = _describe_trial(run, attempt, name, config, digest)
        trial = folder / name
        _write(trial / "config.json", config)
        _write(trial / "result.json", result)
        task = {
            "name": record.task_id,
            "type": "local",
            "digest": digest,
            "source": run.benchmark,
            "path": path,
        }
        parts = {key: config[key] for key in ("agent", "environment", "verifier")}
        locks.append({"schema_version": 2, "task": task, **parts})
        _write(trial / "lock.json", locks[-1])
        _write(trial / "agent" / "trajectory.json", build_trajectory(run, attempt))
        if result["verifier_result"] is not None:
            _write(trial / "verifier" / "reward.json", result["verifier_result"]["rewards"])
        if record.error is not None:
            (trial / "verifier").mkdir(exist_ok=True)
            (trial / "verifier" / "test-stdout.txt").write_text(record.error, "utf-8", "backslashreplace")
        _write(trial / "artifacts" / "manifest.json", [])
        _count(counts, result, name)
    agent = {"name": run.agent, "model_name": run.model}
    job = {"job_name": run.stored.folder.name, "agents": [agent], "tasks": [{"path": each} for each in paths]}
    _write(folder / "config.json", {"schema_version": 1, **job})
    harbor = {"created_at": format_time(run.started), "n_concurrent_trials": 1, "retry": {}}
    _write(folder / "lock.json", {"schema_version": 3, **harbor, "trials": locks})
    _write(folder / "result.json", _describe_job(run, job_id, counts))


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def _make_id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"harness:{name}"))


def _name_trial(run: ExportedRun, record: AttemptRecord) -> str:
    """Return the name of a trial's folder. It is safe whatever the task's id holds."""
    short = re.sub(r"[^A-Za-z0-9._-]+", "-", record.task_id.rpartition("/")[2])[:32].strip("_-.")
    digest = hashlib.sha256(name_attempt(run, record).encode()).hexdigest()
    return f"{short or 'task'}__{digest[:7]}"


class _Tasks:
    """The folders and the digests of the tasks of a run."""

    def __init__(self, run: ExportedRun) -> None:
        data = run.manifest.get("data")
        self._data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        self._known = self._read()

    def _read(self) -> dict[str, tuple[str, str]]:
        """Return the path and the digest of each task folder, none unless they are the run's."""
        from harness.benchmarks.task_folders import folder_definition

        location = Path(str(self._data.get("location", "")))
        try:
            gather = folder_definition(location).gather if location.exists() else None
            rows, sha256 = ([], None) if gather is None else gather(location, lambda _note: None)
        except HarnessError:
            return {}
        if sha256 != self._data.get("sha256"):
            return {}
        return {row.values["name"]: (row.values["folder"], row.values["digest"]) for row in rows}

    def find(self, task_id: str) -> tuple[str, str]:
        """Return the path and the digest of a task. Tasks without a folder have the digest of the data."""
        path, digest = self._known.get(task_id, (f"{self._data.get('location', '')}/{task_id}", ""))
        return path, digest or f"sha256:{self._data.get('sha256') or '0' * 64}"


def _describe_trial(
    run: ExportedRun, attempt: ExportedAttempt, name: str, config: Mapping[str, Any], digest: str
) -> dict[str, Any]:
    record = attempt.record
    provider, _, model = (run.model or "").rpartition("/")
    started, ended = format_time(attempt.started), format_time(attempt.ended)
    exception = _find_exception(record)
    return {
        "schema_version": 1,
        "id": _make_id(name_attempt(run, record)),
        "task_name": record.task_id,
        "trial_name": name,
        "trial_uri": f"{run.stored.folder.name}/{name}",
        "task_id": {"path": config["task"]["path"]},
        "source": run.benchmark,
        "task_checksum": digest.removeprefix("sha256:"),
        "config": config,
        "agent_info": {
            "name": run.agent,
            "version": f"harness {__version__}",
            "model_info": None if run.model is None else {"name": model, "provider": provider or None},
        },
        "agent_result": {
            **{name: read_count(record.metrics.get(metric)) for name, metric in _TOKENS.items()},
            # The prices of a config have no currency.
            "cost_usd": None,
            "metadata": {"verdict": describe_record(record)},
        },
        "verifier_result": _describe_rewards(record.score, record.metrics),
        "step_results": [
            {
                "step_name": str(step.get("name")),
                "verifier_result": _describe_rewards(
                    0.0 if "integrity" in step else step.get("reward"), step
                ),
            }
            for step in list_objects(record.metrics.get("steps"))
        ]
        or None,
        "exception_info": None
        if exception is None
        else {
            "exception_type": exception,
            "exception_message": record.error or record.status,
            "exception_traceback": "",
            "occurred_at": ended,
        },
        "started_at": started,
        "finished_at": ended,
    }


def _describe_rewards(score: Any, metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the rewards that the tests wrote, or the score, and None for a verdict without a score.

    Evidence of tampering makes the score 0, whatever the tests wrote.
    """
    if type(score) not in (int, float):
        return None
    written, reward = metrics.get("rewards"), metrics.get("reward")
    if "integrity" in metrics or type(reward) not in (int, float):
        return {"rewards": {"reward": score}}
    numbers = written.items() if isinstance(written, Mapping) else ()
    return {"rewards": {k: v for k, v in numbers if type(v) in (int, float)} or {"reward": reward}}


def _find_exception(record: AttemptRecord) -> str | None:
    if record.status == Status.TIMEOUT:
        return _TIMEOUTS.get(str(record.metrics.get("phase")), _TIMEOUTS[Phase.AGENT.value])
    return _EXCEPTIONS.get(Status(record.status))


def _count(counts: _Counts, result: Mapping[str, Any], name: str) -> None:
    counts.trials += 1
    for key in _TOKENS:
        if (tokens := result["agent_result"][key]) is not None:
            counts.tokens[key] = counts.tokens.get(key, 0) + tokens
    verified, exception = result["verifier_result"], result["exception_info"]
    kind = None if exception is None else exception["exception_type"]
    if kind is not None:
        counts.errors += 1
        counts.cancelled += kind == _EXCEPTIONS[Status.CANCELLED]
        counts.exceptions.setdefault(kind, []).append(name)
    if verified is not None and kind != _TIMEOUTS[Phase.EVALUATOR.value]:
        for key, value in verified["rewards"].items():
            counts.rewards.setdefault(key, {}).setdefault(str(value), []).append(name)


def _describe_job(run: ExportedRun, job_id: str, counts: _Counts) -> dict[str, Any]:
    evals = "__".join(filter(None, (run.agent, run.model, run.benchmark)))
    rewarded = {name for values in counts.rewards.values() for names in values.values() for name in names}
    planned = run.manifest.get("planned")
    whole = planned.get("attempts") if isinstance(planned, Mapping) and run.task_id is None else None
    total = max(counts.trials, whole if type(whole) is int else 0)
    return {
        "schema_version": 1,
        "id": job_id,
        "started_at": format_time(run.started),
        "finished_at": None if run.ended is None else format_time(run.ended),
        "n_total_trials": total,
        "stats": {
            "n_completed_trials": counts.trials,
            "n_errored_trials": counts.errors,
            "n_pending_trials": total - counts.trials,
            "n_cancelled_trials": counts.cancelled,
            **{key: counts.tokens.get(key) for key in _TOKENS},
            "evals": {
                evals: {
                    "n_trials": len(rewarded),
                    "n_errors": counts.errors,
                    "reward_stats": counts.rewards,
                    "exception_stats": counts.exceptions,
                }
            },
        },
    }
