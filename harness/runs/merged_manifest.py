"""The manifest of a merged run, from its shards' manifests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError
from harness.runs.changes import ACCEPTED, Change, accept_changes, find_changes
from harness.runs.manifest import REPEATED, SUPERSEDED_VERDICTS, TOOL_MODE
from harness.runs.settings import KEYS
from harness.runs.trust import SIGNATURE

# The key of a manifest with the facts about the shards of which a run was merged.
MERGED = "merged_from"
# The fields that hold a value for each environment or task, and a shard has only some of them.
_PARTIAL = (
    *("timeouts", "limits", "isolation", "images", "image_tags", "unsound_references"),
    *("own_sandboxes", "weak_tests"),
)
# These describe one process or one machine. Images have an id for each build, and a tag for their sources.
_OWN = frozenset(
    (
        *("run_id", "started_at", "planned", "engine", "runtime", "host", "source"),
        TOOL_MODE,
        *_PARTIAL,
        ACCEPTED,
        SIGNATURE,
        REPEATED,
        SUPERSEDED_VERDICTS,
    )
)
_KEPT_OF_SHARD = ("run_id", "started_at", "host")


def merge_manifests(
    shards: Sequence[tuple[Path, Mapping[str, Any]]], accepted: Collection[str]
) -> dict[str, Any]:
    """Return the manifest of the merged run, as for a run without shards, with `merged_from` in addition.

    Args:
        shards: the folder and the manifest of each shard, in the order of the shards.
        accepted: the fields that may differ between shards. Then the values of the first shard count.

    Raises:
        UsageError: for a field that differs, with both values and the option that accepts them.
    """
    place, first = shards[0]
    differences: list[Change] = []
    for folder, manifest in shards[1:]:
        differences += accept_changes(
            [*_find_differences(first, manifest)],
            accepted,
            manifest=first,
            describe=partial(_describe, place, folder),
            hints={"": "repeat the shard that is wrong"},
        )
    # These are facts of one shard alone.
    shared = {name: value for name, value in first.items() if name not in (SIGNATURE, REPEATED)}
    merged: dict[str, Any] = {**shared, "started_at": min(manifest["started_at"] for _, manifest in shards)}
    for name in _PARTIAL:
        parts = [manifest.get(name) for _, manifest in shards]
        if not all(isinstance(part, dict) for part in parts):
            raise UsageError(f"{place}: its manifest has no {name}, because an earlier version wrote it")
        values = {key: value for part in reversed(parts) for key, value in part.items()}
        merged[name] = {key: values[key] for key in sorted(values)}
    modes = [manifest.get(TOOL_MODE) for _, manifest in shards]
    merged[TOOL_MODE] = next((mode for mode in modes if mode is not None), None)
    limits = {manifest["config"].get("timeout_seconds") for _, manifest in shards}
    merged["config"] = {**first["config"], "timeout_seconds": limits.pop() if len(limits) == 1 else None}
    merged[MERGED] = [
        {
            "shard": manifest["config"]["shard"],
            **{name: manifest.get(name) for name in _KEPT_OF_SHARD},
            **({REPEATED: manifest[REPEATED]} if REPEATED in manifest else {}),
        }
        for _, manifest in shards
    ]
    earlier = [change for _, manifest in shards for change in manifest.get(ACCEPTED) or []]
    if differences or earlier:
        merged[ACCEPTED] = [*earlier, *(change.describe() for change in differences)]
    return merged


def _describe(first: Path, second: Path, field: str, before: str, after: str) -> str:
    return f"the shards differ in {field}: it is {before} in {first}, and {after} in {second}"


def _find_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the differences between two shards that one run cannot have."""
    yield from find_changes(_select_compared(first), _select_compared(second))
    for name in ("timeouts", "limits", "isolation", "image_tags", TOOL_MODE):
        for change in find_changes({name: first.get(name)}, {name: second.get(name)}):
            # A shard has no value for an environment without tasks in it, or a mode that it never needed.
            if change.before is not None and change.after is not None:
                yield change


def _select_compared(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in which all shards must agree."""
    compared = {name: value for name, value in manifest.items() if name not in _OWN and name != MERGED}
    compared["data"] = {"sha256": manifest["data"]["sha256"]}
    config = {
        name: value
        for name, value in manifest["config"].items()
        if name not in KEYS or not KEYS[name].rules.differs_in_shards
    }
    # A file has a path, which may differ between machines, and a hash.
    if manifest.get("definition_sha256") is not None:
        del config["benchmark"]
    if manifest.get("agent_sha256") is not None:
        del config["agent"], compared["agent"]
    return {**compared, "config": config}
