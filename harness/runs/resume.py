"""The continuation of a run: its config and manifest are read back, and changed inputs are refused."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from harness.core.errors import UsageError, unknown_name
from harness.core.inputs.files import MAX_DATA_BYTES
from harness.core.invalid_values import describe_first_error, quote_value
from harness.core.text import escape_terminal
from harness.runs.manifest import GRADING_VERSION, hash_definition, hash_samples, read_grading_version
from harness.runs.records import PlannedAttempt, has_same_tasks
from harness.runs.run_files import has_run_file, open_run_file
from harness.runs.settings import KEYS, RunConfig, name_option
from harness.runs.store import MANIFEST, SAMPLES, read_manifest
from harness.sandbox.backends.base import BackendFacts

if TYPE_CHECKING:
    from harness.runs.selection import Selection

# The key of a manifest with the changes that the user has accepted.
ACCEPTED = "accepted_changes"
_SHOWN_VALUE = 200
# What the user can do about a changed input, by the first part of its field.
_HINTS: Mapping[str, str] = {
    "image_tags": "start a new run, because one run must not mix verdicts of two images",
    "images": "start a new run, because one run must not mix verdicts of two images",
    "data": "restore the data, start a new run",
    GRADING_VERSION: "start a new run, because one run must not mix verdicts of two gradings",
    "": "restore the file, start a new run",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A field of a manifest with two values."""

    # The path of the field, such as `data.sha256`.
    field: str
    before: Any
    after: Any

    def describe(self) -> dict[str, Any]:
        """Return the change as a manifest holds it."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {"field": self.field, "before": self.before, "after": self.after, "accepted_at": now}


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the changes between two mappings, a field for each value that is not a mapping itself."""
    earlier, later = dict(_flatten("", before)), dict(_flatten("", after))
    return [
        Change(name, earlier.get(name), later.get(name))
        for name in dict.fromkeys([*earlier, *later])
        if earlier.get(name) != later.get(name)
    ]


def accept_changes(
    changes: Iterable[Change],
    accepted: Collection[str],
    *,
    manifest: Mapping[str, Any],
    describe: Callable[[str, str, str], str],
    hints: Mapping[str, str],
) -> list[Change]:
    """Return the changes. The user has accepted them all.

    Args:
        changes: the changes that were found.
        accepted: the fields whose change the user accepts. A field includes the fields below it.
        manifest: the manifest whose fields can be accepted.
        describe: returns the message of a refusal from the field and its two values.
        hints: what else the user can do, by the first part of the field, and by "" for any other.

    Raises:
        UsageError: for a change that is not accepted, and for an accepted field that does not exist.
    """
    found = list(changes)
    fields = {*(path for path, _ in _flatten("", manifest)), *(change.field for change in found)}
    for name in accepted:
        if not any(field == name or field.startswith(f"{name}.") for field in fields):
            raise unknown_name("field for --accept", name, {field.partition(".")[0] for field in fields})
    for change in found:
        if any(change.field == name or change.field.startswith(f"{name}.") for name in accepted):
            continue
        raise UsageError(
            describe(change.field, _show(change.before), _show(change.after)),
            hint=f"{hints.get(change.field.partition('.')[0], hints[''])}, or add: --accept {change.field}",
        )
    return found


def add_accepted(manifest: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    """Return a manifest with accepted changes after those that it has."""
    described = [change.describe() for change in changes]
    return (
        {**manifest, ACCEPTED: [*(manifest.get(ACCEPTED) or []), *described]} if described else {**manifest}
    )


def _show(value: Any) -> str:
    return escape_terminal(json.dumps(value), _SHOWN_VALUE)


def _flatten(name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        path = f"{name}.{key}" if name else key
        if isinstance(value, Mapping) and value:
            yield from _flatten(path, value)
        elif value is not None and value != {}:
            yield path, value


def read_resumed_config(folder: Path, manifest: Mapping[str, Any] | None = None) -> RunConfig:
    """Return the config that the run in `folder` was started with. Raises UsageError.

    `manifest` is that of the folder, if it has been read.
    """
    manifest = read_manifest(folder) if manifest is None else manifest
    try:
        config = RunConfig.model_validate(manifest["config"], strict=False)
        kept = folder / SAMPLES
        is_kept = config.samples is not None and has_run_file(folder, SAMPLES)
        is_own = os.path.abspath(config.samples or "") == os.path.abspath(kept)
        if is_kept and (is_own or not os.path.exists(config.samples or "")):
            _require_file(folder)
            # The folder has been moved. Its copy of the samples has the hash that the manifest holds.
            config = config.model_copy(update={"samples": os.path.abspath(kept)})
        # A resumed run uses the same source, whether or not the hub can be reached now.
        decided = manifest["source"] if manifest["source"] in ("hub", "bundled") else None
        return config.model_copy(update={"data": config.data or decided})
    except ValidationError as error:
        raise UsageError(
            f"{folder / MANIFEST}: its config is not valid: {describe_first_error(error)}"
        ) from error


def _require_file(folder: Path) -> None:
    """Raise UsageError unless the copy of the samples is a file of the run folder, such as no link is."""
    try:
        open_run_file(folder, SAMPLES, max_bytes=MAX_DATA_BYTES).close()
    except OSError as error:
        raise UsageError(f"{folder / SAMPLES}: cannot be read: {error.strerror}") from error


def read_unsound_references(folder: Path) -> dict[str, str]:
    """Return the unsound references that the run in `folder` found. Raises UsageError."""
    found = read_manifest(folder).get("unsound_references", {})
    if not isinstance(found, dict) or not all(type(reason) is str for reason in found.values()):
        raise UsageError(f"{folder / MANIFEST}: its unsound_references are not a map of texts")
    return found


def accept_resumed_manifest(
    folder: Path,
    manifest: Mapping[str, Any],
    selection: Selection,
    facts: BackendFacts | None,
    accepted: Collection[str],
) -> dict[str, Any]:
    """Return the manifest of a resumed run, with the values of now for the fields whose change is accepted.

    The arguments and errors are as for `accept_input_changes`.
    """
    changes = accept_input_changes(folder, manifest, selection, facts, accepted)
    if not changes:
        return dict(manifest)
    now = _list_inputs(selection, facts, with_tags="image_tags" in manifest)
    images = {} if facts is None else dict(facts.images)
    data = asdict(selection.benchmark.source)
    return add_accepted({**manifest, **now, "images": images, "data": data}, changes)


def require_same_tasks(folder: Path, manifest: Mapping[str, Any], plan: Sequence[PlannedAttempt]) -> None:
    """Raise UsageError if a resumed run selects other tasks than at its start."""
    if not has_same_tasks(manifest.get("planned"), plan):
        raise UsageError(
            f"{folder}: the settings of this run select other tasks than when it started",
            hint=f"use the version of harness that started it: {quote_value(manifest['harness_version'])}",
        )


def accept_input_changes(
    folder: Path,
    manifest: Mapping[str, Any],
    selection: Selection,
    facts: BackendFacts | None,
    accepted: Collection[str],
) -> list[Change]:
    """Return the changes of a run's inputs since its manifest was written, all of which are accepted.

    Args:
        folder: the run folder.
        manifest: its manifest.
        selection: the benchmark, the agent and the config as they are now.
        facts: the engine and the images, None for a run without sandboxes.
        accepted: the fields of the manifest that may have changed.

    Raises:
        UsageError: for a changed field that is not accepted, with both values.
    """
    now = _list_inputs(selection, facts, with_tags="image_tags" in manifest)
    return accept_changes(
        find_changes(_list_recorded_inputs(manifest), now),
        accepted,
        manifest=manifest,
        describe=partial(_describe_change, folder, selection),
        hints=_HINTS,
    )


def require_planned(
    folder: Path, results: Collection[tuple[str, int]], plan: Iterable[PlannedAttempt]
) -> None:
    """Raise UsageError if the run has a record of an attempt that is no longer in its plan."""
    lost = set(results) - {planned.key for planned in plan}
    if lost:
        task_id, number = min(lost)
        raise UsageError(
            f"{folder}: has a record of attempt {number} of task {task_id}, which the changed "
            "run would not make",
            hint="start a new run",
        )


def _describe_change(folder: Path, selection: Selection, field: str, before: str, after: str) -> str:
    config = selection.config
    subject = {
        "data": f"the data has changed since this run started: {selection.benchmark.source.location}",
        GRADING_VERSION: f"the grading of {config.benchmark} has changed since this run started",
        "definition_sha256": f"{config.benchmark} has changed since this run started",
        "samples_sha256": f"the samples have changed since this run started: {config.samples}",
        "agent_sha256": f"agent '{config.agent}' has changed since this run started",
    }.get(field.partition(".")[0], "the sandbox image has changed since this run started")
    return f"{folder}: {subject}: {field} was {before}, and is {after} now"


def _list_inputs(selection: Selection, facts: BackendFacts | None, *, with_tags: bool) -> dict[str, Any]:
    """Return the fields of a manifest that describe the inputs of a run.

    The tag of an image is a hash of its sources. The id of an image changes with every build, so it is
    compared only if the manifest is of an earlier version, which wrote no tags.
    """
    tags = {} if facts is None else dict(facts.image_tags)
    ids = {} if facts is None else dict(facts.images)
    benchmark = selection.benchmark
    return {
        "data": {"sha256": benchmark.source.sha256},
        GRADING_VERSION: benchmark.definition.grading_version,
        "definition_sha256": hash_definition(benchmark),
        "samples_sha256": hash_samples(selection.config),
        "agent_sha256": selection.agent_sha256,
        **({"image_tags": tags} if with_tags else {"images": ids}),
    }


def _list_recorded_inputs(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `_list_inputs` from a manifest."""
    images = "image_tags" if "image_tags" in manifest else "images"
    hashes = ("definition_sha256", "samples_sha256", "agent_sha256")
    return {
        "data": {"sha256": manifest["data"]["sha256"]},
        GRADING_VERSION: read_grading_version(manifest),
        **{name: manifest.get(name) for name in hashes},
        images: manifest[images],
    }


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
    names = {name for name in taken if KEYS[name].rules.on_resume != "free"}
    values = {name: getattr(given, name) for name in names}
    groups = {
        name: getattr(recorded, name).model_copy(
            update={key: getattr(group, key) for key in group.model_fields_set}
        )
        for name, group in values.items()
        if isinstance(group, BaseModel)
    }
    given = given.model_copy(update=groups)
    dumped = (config.model_dump(mode="json") for config in (recorded, given))
    before, after = ({"config": {name: values[name] for name in sorted(names)}} for values in dumped)
    changes = find_changes(before, after)
    for change in changes:
        key = change.field.split(".")[1]
        if KEYS[key].rules.on_resume == "fixed":
            raise UsageError(
                f"{_describe(folder, change.field, quote_value(change.before), quote_value(change.after))}, "
                f"but a resumed run cannot change {name_option(key)}",
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


def _describe(folder: Path, field: str, before: str, after: str) -> str:
    return f"{folder}: {field} was {before} when this run started, and is {after} now"
