"""The settings that a user gives to a run that has begun, and those of them that it may take."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from harness.config import RunConfig
from harness.errors import UsageError, quote_value
from harness.evaluation.changes import Change, accept_changes, find_changes
from harness.evaluation.store import read_manifest
from harness.option_names import name_option

# They change no verdict.
_CHANGEABLE = frozenset(
    ("max_concurrent", "max_sandboxes", "run_budget", "durations_from", "executor", "ray_address")
)
# They decide which attempts there are and what they start from, so the recorded attempts would not fit.
_FIXED = frozenset(
    (
        *("benchmark", "agent", "data", "split", "options", "samples", "replay_from", "extract"),
        *("task_ids", "filter_category", "filter_difficulty", "filter_tags", "include_quarantined"),
        *("sample_size", "sampling", "stratify_by", "shard", "cluster_by"),
        *("seed", "n_samples", "k", "output_dir"),
    )
)
_GROUPS = frozenset(("generation", "command", "limits", "attempt_budget"))


def change_resumed_config(
    folder: Path, recorded: RunConfig, given: RunConfig, accepted: Collection[str]
) -> tuple[RunConfig, list[Change]]:
    """Return the config of a resumed run with the given settings, and the accepted changes.

    Args:
        folder: the run folder.
        recorded: the config of the run.
        given: the config with the settings that the user gives. Only those count.
        accepted: the fields of the manifest that may change, such as `config.generation`.

    Raises:
        UsageError: for a setting that differs and cannot change, or whose change is not accepted.
    """
    # The reader of configs sets these two, also if nobody gives them.
    unset = {name for name in ("data", "samples") if getattr(given, name) is None}
    taken = given.model_fields_set - unset
    # Options of the command line set a few settings of a group, and leave the others as they are.
    groups = {name: _merge(getattr(recorded, name), getattr(given, name)) for name in _GROUPS & taken}
    given = given.model_copy(update=groups)
    names = taken - _CHANGEABLE
    before, after = ({"config": _dump(config, names)} for config in (recorded, given))
    changes = find_changes(before, after)
    for change in changes:
        key = change.field.removeprefix("config.")
        if key.partition(".")[0] in _FIXED:
            raise UsageError(
                f"{_describe(folder, change.field, quote_value(change.before), quote_value(change.after))}, "
                f"but a resumed run cannot change {name_option(key.partition('.')[0])}",
                hint="start a new run, because the recorded attempts do not fit this setting",
            )
    found = accept_changes(
        changes,
        accepted,
        manifest=read_manifest(folder),
        describe=partial(_describe, folder),
        hints={"": "leave the setting as it was, start a new run"},
    )
    return recorded.model_copy(update={name: getattr(given, name) for name in taken}), found


def _merge(recorded: BaseModel, given: BaseModel) -> BaseModel:
    """Return a group of settings with those that are given."""
    return recorded.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def _dump(config: RunConfig, names: Collection[str]) -> Mapping[str, Any]:
    values = config.model_dump(mode="json")
    return {name: values[name] for name in sorted(names)}


def _describe(folder: Path, field: str, before: str, after: str) -> str:
    return f"{folder}: {field} was {before} when this run started, and is {after} now"
