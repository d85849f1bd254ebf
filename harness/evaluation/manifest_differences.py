"""The differences between the manifests of compared runs, and which of them make a comparison unfair."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A difference in one of these, or in a field below it, means that the runs did not face the same tasks under
# the same rules.
CONDITIONS = (
    *("split", "definition_sha256", "data.sha256", "planned.tasks", "unsound_references", "judge"),
    *("timeouts", "limits", "isolation", "image_tags"),
    *("config.sample_size", "config.task_ids", "config.filter_category", "config.include_quarantined"),
    "config.n_samples",
    *("config.filter_difficulty", "config.filter_tags", "config.sampling", "config.stratify_by"),
    *("config.shard", "superseded_verdicts"),
    *("config.options", "config.rounds", "config.extract", "config.runtime"),
)
SEED = "seed"
# The fields of a manifest that are compared. All settings of the config are, except for those below.
_COMPARED = (
    *("harness_version", "git_revision", "split", "definition_sha256", "agent", "agent_sha256"),
    *("samples_sha256", "judge", SEED, "tool_mode", "timeouts", "isolation", "limits", "image_tags"),
    *("python_version", "superseded_verdicts", "service"),
)
# Other fields say the same better, or the setting changes no verdict.
_OTHERWISE_KNOWN = frozenset(
    (
        *("benchmark", "agent", "data", "split", "samples", "seed", "limits", "timeout_seconds", "isolation"),
        *("output_dir", "durations_from", "max_concurrent", "max_sandboxes", "k", "cluster_by"),
    )
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of the manifests in which the runs differ."""

    # The path of the field, such as `config.generation.temperature`.
    name: str
    # The different values of each side as JSON, in the order of its runs.
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]
    # Whether the difference makes the comparison unfair.
    is_unfair: bool


def list_differences(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> list[Difference]:
    """Return the differences between the manifests of two sides, those that are unfair first.

    A condition that differs is unfair. So is a setting that differs between the runs of one side, because
    they are no repetitions then. Repetitions may have different seeds.
    """
    sides = [[dict(_flatten_compared(manifest)) for manifest in side] for side in (baseline, candidate)]
    names = dict.fromkeys(name for side in sides for values in side for name in values)
    found = []
    for name in names:
        before, after = ([values.get(name, "null") for values in side] for side in sides)
        if len({*before, *after}) == 1:
            continue
        if name == SEED:
            is_unfair = before[0] != after[0]
        else:
            is_repetition = len({*before}) == 1 and len({*after}) == 1
            is_unfair = _is_condition(name) or not is_repetition
        found.append(Difference(name, tuple(dict.fromkeys(before)), tuple(dict.fromkeys(after)), is_unfair))
    return sorted(found, key=lambda each: not each.is_unfair)


def _is_condition(name: str) -> bool:
    return any(name == condition or name.startswith(f"{condition}.") for condition in CONDITIONS)


def _flatten_compared(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _COMPARED:
        yield from _flatten(name, manifest.get(name))
    # One value, because a list of the tasks would hide all other differences.
    yield "unsound_references", json.dumps(manifest.get("unsound_references"), sort_keys=True)
    yield "data.sha256", json.dumps(manifest["data"].get("sha256"))
    planned = manifest.get("planned")
    yield "planned.tasks", json.dumps(planned.get("tasks") if isinstance(planned, dict) else None)
    for name, value in manifest["config"].items():
        if name not in _OTHERWISE_KNOWN:
            yield from _flatten(f"config.{name}", value)


def _flatten(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each value below a field with its path, as JSON. An empty group has none."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(f"{name}.{key}", inner)
    else:
        yield name, json.dumps(value)
