"""The inputs of a run as hashes, by which a node shows that it would make the very same attempts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.runs.manifest import hash_definition, hash_samples
from harness.runs.recorded_run import describe_recording
from harness.runs.resume import find_agent_hash
from harness.runs.settings import RunConfig

if TYPE_CHECKING:
    from harness.runs.selection import Selection


def hash_inputs(selection: Selection) -> dict[str, str | None]:
    """Return the SHA-256 (hex) of each input of a run by its name, None for one that the run lacks.

    The order is that in which a difference explains the later ones. Raises UsageError for a file that cannot
    be read.
    """
    recording = describe_recording(selection.recording)
    return {
        "data": selection.benchmark.source.sha256,
        "file of the benchmark": hash_definition(selection.benchmark),
        "file of the agent": find_agent_hash(selection.agent),
        "samples": hash_samples(selection.config),
        "recorded run": None if recording is None else recording["attempts_sha256"],
        "plan": _hash_plan(selection),
    }


def find_difference(ours: Mapping[str, str | None], theirs: Mapping[str, str | None]) -> str | None:
    """Return the first input that differs, in words, None if all are equal."""
    for name, sha256 in ours.items():
        if theirs.get(name) != sha256:
            found = _show(theirs.get(name))
            return f"its {name} has the SHA-256 {found}, and the run's is {_show(sha256)}"
    return None


def _show(sha256: str | None) -> str:
    return "none" if sha256 is None else sha256[:12]


def _hash_plan(selection: Selection) -> str:
    digest = hashlib.sha256()
    for planned in selection.plan:
        task = planned.task
        values = [*planned.key, planned.sample_line, planned.run_seed, task.environment, task.prompt]
        digest.update(json.dumps(values).encode())
    return digest.hexdigest()


def describe_config(selection: Selection) -> dict[str, Any]:
    """Return the config of a run as JSON, for a node that selects the same attempts.

    It names the source of the data that the run reads, because a node may reach the hub when the run did not.
    The order of the attempts is the business of the process that leases them.
    """
    config = selection.config
    kind = selection.benchmark.source.kind
    changed = config.model_copy(
        update={
            "data": config.data or (kind if kind in ("hub", "bundled") else None),
            "split": selection.benchmark.split,
            "durations_from": None,
        }
    )
    return changed.model_dump(mode="json", exclude={"executor", "ray_address"})


def read_config(values: Mapping[str, Any]) -> RunConfig:
    """Return the config that `describe_config` has described."""
    return RunConfig.model_validate(dict(values), strict=False)
