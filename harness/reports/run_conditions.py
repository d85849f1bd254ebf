"""The conditions without which the rate of a run misleads: a part of the tasks, a seed, and accepted changes.

The window of a benchmark that grows and the service that has graded are further ones.

A manifest may be of somebody else, so every value in it may have another type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.errors import quote_value
from harness.evaluation.changes import ACCEPTED
from harness.evaluation.grading_service import SERVICE
from harness.reports.figures import count
from harness.text import escape_terminal

_FILTERS = ("filter_category", "filter_difficulty", "filter_tags")
_MOST_CHANGES = 10
_SHOWN = 300
_SAMPLES = {
    "first": "the first {} of the tasks",
    "random": "{} of the tasks, drawn at random",
    "stratified": "{} of the tasks, drawn at random from each {}",
}

BUNDLED_NOTICE = (
    "bundled sample: a few problems of our own in the benchmark's format. These figures are no result"
)
"""The notice of every report on a run with the bundled sample."""


def list_conditions(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each condition as a label and a text of one line.

    A whole run of this machine with the default seed has none, unless its benchmark grows.
    """
    data = manifest.get("data")
    if isinstance(data, dict) and data.get("window") is not None:
        yield "window", _quote(data["window"], bare=True)
    config = manifest.get("config")
    if isinstance(config, dict):
        if selection := describe_selection(config):
            yield "selected", selection
        if (seed := config.get("seed")) or (seed is not None and config.get("sample_size") is not None):
            yield "seed", _quote(seed)
    service = manifest.get(SERVICE)
    if isinstance(service, dict):
        yield "graded by", f"a service with harness {_quote(service.get('harness_version'), bare=True)}"
    changes = list(_list_changes(manifest))
    if changes:
        left_out = count(len(changes) - _MOST_CHANGES, "more change")
        more = [f"and {left_out}, in manifest.json"] if len(changes) > _MOST_CHANGES else []
        yield "accepted", "; ".join(changes[:_MOST_CHANGES] + more)


def describe_selection(config: Mapping[str, Any]) -> str:
    """Return the part of the benchmark's tasks that a run has, "" for all of them. `config` is recorded."""
    parts: list[str] = []
    if names := config.get("task_ids"):
        parts.append(f"{count(len(names), 'named task')}" if isinstance(names, list) else _quote(names))
    parts += [f"{name} {_quote(config[name])}" for name in _FILTERS if config.get(name)]
    if (size := config.get("sample_size")) is not None:
        pattern = _SAMPLES.get(str(config.get("sampling", "random")), "{} of the tasks")
        parts.append(pattern.format(_quote(size), _quote(config.get("stratify_by") or "category", bare=True)))
    if config.get("include_quarantined"):
        parts.append("with the quarantined tasks")
    if (shard := config.get("shard")) is not None:
        parts.append(f"only shard {_quote(shard, bare=True)}, which is not the whole run")
    return "; ".join(parts)


def describe_changes(manifest: Mapping[str, Any]) -> str:
    """Return all changes of a run's inputs that its user has accepted, "" without one."""
    return "; ".join(_list_changes(manifest))


def _list_changes(manifest: Mapping[str, Any]) -> Iterator[str]:
    changes = manifest.get(ACCEPTED)
    for change in changes if isinstance(changes, list) else ():
        if isinstance(change, dict):
            before, after = _quote(change.get("before")), _quote(change.get("after"))
            yield f"{_quote(change.get('field'), bare=True)} from {before} to {after}"


def _quote(value: Any, *, bare: bool = False) -> str:
    return escape_terminal(value if bare and isinstance(value, str) else quote_value(value), _SHOWN)
