"""The shards of a run: disjoint parts of its tasks, the run that they divide, and its manifest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_DATA_BYTES, hash_file
from harness.core.invalid_values import quote_value
from harness.core.types import Status
from harness.runs.agents import build_agent
from harness.runs.agents.agent import is_built_in, settings_for
from harness.runs.agents.predictions import Predictions
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.filters import list_shard_tasks
from harness.runs.manifest import REPEATED, SUPERSEDED_VERDICTS, TOOL_MODE
from harness.runs.plan import plan_attempts, select_configured_tasks
from harness.runs.recorded_run import open_recording, require_same_recording
from harness.runs.records import PlannedAttempt, list_task_ids
from harness.runs.resume import ACCEPTED, Change, accept_changes, find_changes, read_resumed_config
from harness.runs.run_files import has_run_file, hash_run_file
from harness.runs.settings import KEYS, RunConfig
from harness.runs.settings.tasks import read_shard
from harness.runs.store import SAMPLES, UNFINISHED, read_manifest, read_records
from harness.runs.trust import SIGNATURE, describe_resume

AttemptKey = tuple[str, int]
ALLOW_HINT = "add --allow-unfinished to count the missing attempts as cancelled"
_NAMED_SHARDS = 5
_HINT = "repeat the shard: harness run --shard {shard} with its settings"
_ACCEPTED_HINT = "repeat the shards with other settings, because --accept cannot replace their attempts"
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


@dataclass(frozen=True, slots=True)
class ShardRun:
    """A run of one shard, read from its folder."""

    folder: Path
    manifest: Mapping[str, Any]
    config: RunConfig
    # The number of the shard, from 1.
    number: int
    # The number of all shards.
    shards: int
    # The offsets of all records of each attempt in `attempts.jsonl`, in the order that they were written.
    offsets: Mapping[AttemptKey, Sequence[int]]
    # The line of each attempt in the samples file.
    lines: Mapping[AttemptKey, int | None]
    # The attempts that have a verdict.
    finished: Set[AttemptKey]

    @property
    def planned(self) -> int:
        """The number of attempts that the shard planned."""
        attempts = self._read_plan().get("attempts")
        return attempts if type(attempts) is int else len(self.offsets)

    @property
    def planned_tasks(self) -> list[str]:
        """The ids of the tasks that the shard planned, without unsound ones."""
        found = self._read_plan().get("task_ids")
        if isinstance(found, list) and all(type(each) is str for each in found):
            return found
        return list(dict.fromkeys(task_id for task_id, _ in self.offsets))

    @property
    def unsound(self) -> Mapping[str, Any]:
        """The reason for each task that the shard has quarantined, by id."""
        found = self.manifest.get("unsound_references")
        return found if isinstance(found, dict) else {}

    def _read_plan(self) -> Mapping[str, Any]:
        planned = self.manifest.get("planned")
        return planned if isinstance(planned, dict) else {}


def read_shard_run(folder: Path) -> ShardRun:
    """Return the shard in a run folder. Raises UsageError for a run without a shard."""
    manifest = read_manifest(folder)
    config = read_resumed_config(folder, manifest)
    if config.shard is None:
        raise UsageError(
            f"{folder}: is a whole run and no shard, because it was run without --shard",
            hint="harness merge takes the runs of harness run --shard I/N",
        )
    offsets: dict[AttemptKey, list[int]] = {}
    lines: dict[AttemptKey, int | None] = {}
    statuses: dict[AttemptKey, Status] = {}
    offset = 0
    if has_run_file(folder, ATTEMPTS):
        for record, size in read_records(folder / ATTEMPTS):
            key = record.task_id, record.attempt
            offsets.setdefault(key, []).append(offset)
            lines[key], statuses[key] = record.sample_line, record.status
            offset += size
    finished = {key for key, status in statuses.items() if status not in UNFINISHED}
    return ShardRun(folder, manifest, config, *read_shard(config.shard), offsets, lines, finished)


@dataclass(frozen=True, slots=True)
class WholeRun:
    """The run that the shards divide."""

    # The ids of its tasks in the order of the data, also of those that a rehearsal has quarantined.
    task_ids: Sequence[str]
    # Its attempts. None if only an agent or a file of the user decides how many a task has, and this machine
    # does not have it.
    attempts: Sequence[PlannedAttempt] | None


def plan_whole_run(
    shards: Sequence[ShardRun], benchmark: Benchmark, config: RunConfig, samples: Path | None
) -> WholeRun:
    """Return the run that the shards divide.

    Args:
        shards: the shards.
        benchmark: the benchmark of the run.
        config: the config of the run.
        samples: the samples of the run, None if it has none or they are on another machine.

    Raises UsageError and DataError for settings and samples that cannot be used.
    """
    if config.replay_from is not None:
        return _plan_replay(shards, benchmark, config)
    tasks = select_configured_tasks(benchmark, config)
    agent = build_agent("null", settings_for(benchmark), benchmark)  # one that chooses no samples
    if config.samples is not None and config.agent == "predictions":
        if samples is None:
            return WholeRun([task.id for task in tasks], None)
        agent = Predictions(settings_for(benchmark, samples=samples))
    whole = plan_attempts(tasks, agent, n_samples=config.n_samples, seed=config.seed)
    if is_built_in(config.agent) or _fits(shards, whole):
        return WholeRun(list_task_ids(whole), whole)
    # An agent of the user may choose the samples, and a merge does not run its file.
    return WholeRun(_list_declared(shards, benchmark), None)


def find_samples(shard: ShardRun) -> Path | None:
    """Return the samples of a shard, by their hash: the copy in its folder, or else the file of its config.

    Raises UsageError for a copy that is not the samples of the run.
    """
    sha256 = shard.manifest.get("samples_sha256")
    if not isinstance(sha256, str):
        return None
    if has_run_file(shard.folder, SAMPLES):
        path = shard.folder / SAMPLES
        try:
            found = hash_run_file(shard.folder, SAMPLES, max_bytes=MAX_DATA_BYTES)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        if found != sha256:
            raise UsageError(
                f"{path}: is not the samples file of this run, whose SHA-256 is {sha256}",
                hint="restore the file",
            )
        return path
    try:
        path = Path(shard.config.samples or "")
        return path if hash_file(path) == sha256 else None
    except OSError:
        return None


def require_parts(
    shards: Sequence[ShardRun], benchmark: Benchmark, config: RunConfig, whole: WholeRun, *, accepted: bool
) -> None:
    """Raise UsageError unless each shard plans and holds attempts of its own part only.

    Args:
        shards: the shards.
        benchmark: the benchmark of the run.
        config: the config of the run.
        whole: the run that they divide.
        accepted: whether the user has accepted that the shards differ.
    """
    attempts = None if whole.attempts is None else {each.key: each.sample_line for each in whole.attempts}
    for shard in shards:
        name = f"{shard.number}/{shard.shards}"
        hint = _ACCEPTED_HINT if accepted else _HINT.format(shard=name)
        part = list_shard_tasks(whole.task_ids, name)
        _require_unsound(shard, benchmark, config, set(part))
        sound = [task_id for task_id in part if task_id not in shard.unsound]
        _require_records(shard, set(sound), attempts, hint)
        if shard.planned_tasks != sound:
            raise UsageError(
                f"{shard.folder}: its manifest plans {len(shard.planned_tasks):,} tasks, but these are not "
                f"the {len(sound):,} tasks of shard {name} of the run",
                hint=hint,
            )
        expected = None if whole.attempts is None else _count(whole.attempts, set(sound))
        planned = shard.planned
        if planned < len(shard.offsets) or (expected is not None and planned != expected):
            raise UsageError(
                f"{shard.folder}: its manifest plans {planned:,} attempts, but shard {name} of the run has "
                f"{len(shard.offsets) if expected is None else expected:,}",
                hint=hint,
            )


def require_finished(shards: Sequence[ShardRun], whole: WholeRun, *, allow_unfinished: bool) -> None:
    """Raise UsageError if attempts have no verdict, unless that is allowed and the missing ones are known."""
    hint = ALLOW_HINT
    if whole.attempts is None:
        allow_unfinished, hint = False, "finish all shards, and merge them then"
    require_all_shards(shards, allow_unfinished=allow_unfinished, hint=hint)
    unfinished = [shard for shard in shards if len(shard.finished) < shard.planned]
    if unfinished and not allow_unfinished:
        shard = unfinished[0]
        raise UsageError(
            f"{shard.folder}: {shard.planned - len(shard.finished):,} of {shard.planned:,} attempts of shard "
            f"{shard.number} have no verdict",
            hint=f"finish it: {describe_resume(shard.folder, shard.manifest)}; or {hint}",
        )


def require_all_shards(shards: Sequence[ShardRun], *, allow_unfinished: bool, hint: str) -> None:
    """Raise UsageError if a shard is missing, unless that is allowed."""
    missing = sorted(set(range(1, shards[0].shards + 1)) - {shard.number for shard in shards})
    if missing and not allow_unfinished:
        named = ", ".join(map(str, missing[:_NAMED_SHARDS])) + (" ..." if missing[_NAMED_SHARDS:] else "")
        verb = "is" if len(missing) == 1 else "are"
        message = f"{len(missing):,} of {shards[0].shards:,} shards {verb} missing: {named}"
        raise UsageError(message, hint=hint)


def plan_merged_run(
    shards: Sequence[ShardRun], benchmark: Benchmark, config: RunConfig, whole: WholeRun, unsound: Set[str]
) -> list[PlannedAttempt]:
    """Return the plan of the merged run, in the order of the data."""
    if whole.attempts is not None:
        return [each for each in whole.attempts if each.task.id not in unsound]
    lines = {key: line for shard in shards for key, line in shard.lines.items()}
    numbers: dict[str, list[int]] = {}
    for task_id, number in lines:
        numbers.setdefault(task_id, []).append(number)
    return [
        PlannedAttempt(task, number, lines[task.id, number], config.seed)
        for task in benchmark.tasks
        for number in sorted(numbers.get(task.id, ()))
    ]


def _plan_replay(shards: Sequence[ShardRun], benchmark: Benchmark, config: RunConfig) -> WholeRun:
    first = shards[0]
    try:
        recording = open_recording(config)
        require_same_recording(first.folder, first.manifest, recording)
    except UsageError:  # the recorded run is on another machine
        recording = None
    if recording is None:
        return WholeRun(_list_declared(shards, benchmark), None)
    tasks = select_configured_tasks(benchmark, config, recorded=recording.task_ids)
    whole = recording.plan(tasks, config.seed)
    return WholeRun(list_task_ids(whole), whole)


def _list_declared(shards: Sequence[ShardRun], benchmark: Benchmark) -> list[str]:
    """Return the tasks that the shards name, in the order of the data."""
    declared = {task_id for shard in shards for task_id in [*shard.planned_tasks, *shard.unsound]}
    return [task.id for task in benchmark.tasks if task.id in declared]


def _fits(shards: Sequence[ShardRun], whole: Sequence[PlannedAttempt]) -> bool:
    """Return whether shards of a user's own agent plan as many attempts as those of an ordinary agent."""
    task_ids = list_task_ids(whole)
    if shards[0].shards > len(task_ids):
        return False
    for shard in shards:
        part = list_shard_tasks(task_ids, f"{shard.number}/{shard.shards}")
        sound = [task_id for task_id in part if task_id not in shard.unsound]
        if shard.planned_tasks != sound or shard.planned != _count(whole, set(sound)):
            return False
    return True


def _count(whole: Sequence[PlannedAttempt], task_ids: Set[str]) -> int:
    return sum(each.task.id in task_ids for each in whole)


def _require_unsound(
    shard: ShardRun, benchmark: Benchmark, config: RunConfig, task_ids: Collection[str]
) -> None:
    """Raise UsageError for a quarantined task that the shard could not have rehearsed."""
    rehearsed = set() if config.include_quarantined else set(benchmark.definition.rehearsals)
    possible = {task.id for task in benchmark.tasks if task.id in task_ids and task.environment in rehearsed}
    wrong = sorted(shard.unsound.keys() - possible)
    if wrong:
        raise UsageError(
            f"{shard.folder}: its manifest quarantines task {quote_value(wrong[0])}, which shard "
            f"{shard.number} of {shard.shards} of the run does not rehearse",
            hint="repeat the shard",
        )


def _require_records(
    shard: ShardRun,
    task_ids: Set[str],
    attempts: Mapping[AttemptKey, int | None] | None,
    hint: str,
) -> None:
    for key, line in shard.lines.items():
        task_id, number = key
        is_planned = number >= 0 if attempts is None else key in attempts
        if task_id not in task_ids or not is_planned:
            raise UsageError(
                f"{shard.folder}: holds attempt {number} of task {quote_value(task_id)}, which is not in "
                f"shard {shard.number} of {shard.shards} of the run",
                hint=hint,
            )
        if attempts is not None and attempts[key] != line:
            raise UsageError(
                f"{shard.folder}: attempt {number} of task {quote_value(task_id)} has the sample_line "
                f"{line}, but the run grades line {attempts[key]}",
                hint=hint,
            )


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
