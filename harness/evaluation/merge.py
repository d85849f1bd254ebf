"""The merge of shards: one run folder, as one run of all tasks would have left it."""

from __future__ import annotations

import itertools
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.agents import build_agent, settings_for
from harness.benchmarks import Benchmark, load_benchmark
from harness.config import RunConfig, read_shard
from harness.errors import UsageError
from harness.evaluation.merged_manifest import merge_manifests
from harness.evaluation.new_folder import begin_folder, copy_samples
from harness.evaluation.plan import PlannedAttempt, plan_attempts, select_configured_tasks
from harness.evaluation.planned_tasks import describe_planned
from harness.evaluation.resume import read_resumed_config
from harness.evaluation.run import Run
from harness.evaluation.run_names import is_running
from harness.evaluation.run_signature import sign_run
from harness.evaluation.selection import Selection
from harness.evaluation.spending_log import SPENDING, copy_spending, read_spending
from harness.evaluation.store import (
    ATTEMPTS,
    SAMPLES,
    UNFINISHED,
    RunStore,
    make_run_folder,
    read_duration,
    read_manifest,
    read_records,
    read_records_at,
)
from harness.evaluation.transcripts import copy_transcripts
from harness.evaluation.trust import require_trusted_file
from harness.models.settings import choose_endpoint
from harness.types import AttemptRecord, Status

# A write is synced, so one holds many records, but not more than fit into memory.
_WRITTEN_RECORDS, _WRITTEN_CHARACTERS = 1000, 16_000_000
_NAMED_SHARDS = 5
_Key = tuple[str, int]


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
    # The offsets of all records of each attempt in `attempts.jsonl`, in the order in which they were written.
    offsets: Mapping[_Key, Sequence[int]]
    # The line of each attempt in the samples file.
    lines: Mapping[_Key, int | None]
    # The number of attempts that have a verdict.
    finished: int

    @property
    def planned(self) -> int:
        """The number of attempts that the shard planned."""
        planned = self.manifest.get("planned")
        attempts = planned.get("attempts") if isinstance(planned, dict) else None
        return attempts if type(attempts) is int else len(self.offsets)


def read_shard_run(folder: Path) -> ShardRun:
    """Return the shard in a run folder. Raises UsageError for a run under way, and one without a shard."""
    if is_running(folder):
        raise UsageError(f"{folder}: this run is under way", hint="merge it when it has ended")
    manifest = read_manifest(folder)
    config = read_resumed_config(folder, manifest)
    if config.shard is None:
        raise UsageError(
            f"{folder}: is a whole run and no shard, because it was run without --shard",
            hint="harness merge takes the runs of harness run --shard I/N",
        )
    offsets: dict[_Key, list[int]] = {}
    lines: dict[_Key, int | None] = {}
    statuses: dict[_Key, Status] = {}
    offset = 0
    if (folder / ATTEMPTS).exists():
        for record, size in read_records(folder / ATTEMPTS):
            key = record.task_id, record.attempt
            offsets.setdefault(key, []).append(offset)
            lines[key], statuses[key] = record.sample_line, record.status
            offset += size
    finished = sum(status not in UNFINISHED for status in statuses.values())
    return ShardRun(folder, manifest, config, *read_shard(config.shard), offsets, lines, finished)


@contextmanager
def open_merged_run(
    folders: Sequence[Path],
    output_dir: Path,
    *,
    data: str | None = None,
    accepted: Collection[str] = (),
    allow_unfinished: bool = False,
    is_trusted: bool = False,
    notify: Callable[[str], None],
) -> Iterator[Run]:
    """Merge shards into a new run folder, and yield its run, which makes no attempt.

    The attempts are written in the order of the plan, and each keeps the records of its earlier tries. The
    manifest is written last, so that the folder of an interrupted merge is no run.

    Args:
        folders: the run folders of the shards, in any order.
        output_dir: the folder of the new run folder.
        data: the place of the data if it is not that of the shards.
        accepted: the fields of the manifests in which the shards may differ.
        allow_unfinished: whether shards and attempts may be missing, which then count as cancelled.
        is_trusted: whether the user has accepted what unknown folders would run.
        notify: shows a message to the user.

    Raises:
        UsageError: for folders that are not all shards of one run, each of them once, for shards that are
            not finished, and for unknown ones whose benchmark is a Python file.
        DataError: if the data of the run cannot be loaded.
        StorageError: if the folder cannot be written.
    """
    shards = sorted((read_shard_run(folder) for folder in folders), key=lambda shard: shard.number)
    _require_one_run(shards)
    are_own = [
        require_trusted_file(shard.folder, shard.manifest, shard.config, is_trusted=is_trusted)
        for shard in shards
    ]
    manifest = merge_manifests([(shard.folder, shard.manifest) for shard in shards], accepted)
    _require_finished(shards, allow_unfinished)
    first = shards[0]
    config = first.config.model_copy(
        update={
            "shard": None,
            "output_dir": str(output_dir),
            "data": data or first.config.data,
            "timeout_seconds": manifest["config"]["timeout_seconds"],
        }
    )
    benchmark = _load(config, first, notify)
    plan = _plan(shards, benchmark, config, manifest["unsound_references"])
    order = {task.id: place for place, task in enumerate(benchmark.tasks)}
    unsound = sorted(manifest["unsound_references"].items(), key=lambda each: order.get(each[0], 0))
    manifest["unsound_references"] = dict(unsound)
    manifest["planned"] = describe_planned(plan)
    manifest["run_id"] = secrets.token_hex(8)
    folder = make_run_folder(output_dir, benchmark.name)
    try:
        store = RunStore(folder, metrics=benchmark.definition.kept_metrics)
        try:
            if (first.folder / SAMPLES).is_file():
                kept = copy_samples(store, first.folder / SAMPLES)
                config = config.model_copy(update={"samples": str(kept)})
            manifest["config"] = config.model_dump(mode="json")
            _write_attempts(store, shards, plan)
            copy_spending((shard.folder / SPENDING for shard in shards), folder / SPENDING)
            begin_folder(store, sign_run(manifest) if all(are_own) else manifest)
            agent = build_agent("null", settings_for(benchmark), benchmark)  # it makes no attempt
            endpoint = (
                None
                if config.model is None
                else choose_endpoint(config.model, config.base_url, config.endpoints)
            )
            selection = Selection(config, benchmark, agent, plan, endpoint=endpoint).without(dict(unsound))
            # The shards ran side by side, so the longest one stands for the run.
            seconds = max(read_duration(shard.folder) for shard in shards)
            run = Run(selection, store, None, manifest, {}, 0.0, seconds, read_spending(folder))
            run.write_summary()
        except BaseException:
            store.close()
            raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        yield run
    finally:
        store.close()


def _require_one_run(shards: Sequence[ShardRun]) -> None:
    """Raise UsageError unless the shards belong to one division, and each of them is there only once."""
    if not shards:
        raise UsageError("there is no shard to merge", hint="name the run folders of all shards")
    first = shards[0]
    for shard in shards[1:]:
        if shard.shards != first.shards:
            raise UsageError(
                f"{first.folder} is shard {first.number} of {first.shards}, but {shard.folder} is shard "
                f"{shard.number} of {shard.shards}",
                hint="name the shards of one run only",
            )
    for earlier, later in itertools.pairwise(shards):
        if earlier.number == later.number:
            raise UsageError(
                f"{earlier.folder} and {later.folder} are both shard {later.number} of {later.shards}",
                hint="name only one of them",
            )
    seen: dict[_Key, Path] = {}
    for shard in shards:
        for key in shard.offsets:
            if key in seen:
                raise UsageError(
                    f"{seen[key]} and {shard.folder} both hold attempt {key[1]} of task {key[0]}, so "
                    "they are not shards of one run"
                )
            seen[key] = shard.folder


def _require_finished(shards: Sequence[ShardRun], allow_unfinished: bool) -> None:
    """Raise UsageError if a shard is missing or not finished, unless that is allowed and possible."""
    missing = sorted(set(range(1, shards[0].shards + 1)) - {shard.number for shard in shards})
    unfinished = [shard for shard in shards if shard.finished < shard.planned]
    if not missing and not unfinished:
        return
    hint = "add --allow-unfinished to count the missing attempts as cancelled"
    is_known = all(len(shard.offsets) == shard.planned for shard in shards) and not missing
    config = shards[0].config
    if not is_known and (config.samples is not None or config.replay_from is not None):
        # The samples or the recorded run decide how many attempts a task has.
        allow_unfinished, hint = False, "finish all shards, and merge them then"
    if allow_unfinished:
        return
    if missing:
        named = ", ".join(map(str, missing[:_NAMED_SHARDS])) + (" ..." if missing[_NAMED_SHARDS:] else "")
        raise UsageError(f"{len(missing):,} of {shards[0].shards:,} shards are missing: {named}", hint=hint)
    shard = unfinished[0]
    raise UsageError(
        f"{shard.folder}: {shard.planned - shard.finished:,} of {shard.planned:,} attempts of shard "
        f"{shard.number} have no verdict",
        hint=f"finish it: harness run --resume {shard.folder}; or {hint}",
    )


def _load(config: RunConfig, shard: ShardRun, notify: Callable[[str], None]) -> Benchmark:
    """Return the benchmark of the run. Raises UsageError if its data are not those of the shards."""
    replay = shard.manifest.get("replay")
    benchmark = load_benchmark(
        config.benchmark,
        data=config.data,
        split=config.split,
        notify=notify,
        extract=config.extract,
        categories=replay["categories"] if isinstance(replay, dict) else config.filter_category,
        **config.options,
    )
    if benchmark.source.sha256 != shard.manifest["data"]["sha256"]:
        raise UsageError(
            f"{benchmark.source.location}: the data are not those of the shards: data.sha256 was "
            f"{shard.manifest['data']['sha256']}, and is {benchmark.source.sha256}",
            hint="name the data of the shards: --data PATH",
        )
    return benchmark


def _plan(
    shards: Sequence[ShardRun], benchmark: Benchmark, config: RunConfig, unsound: Collection[str]
) -> list[PlannedAttempt]:
    """Return the plan of the whole run: the recorded attempts, and those that unfinished shards lack."""
    lines = {key: line for shard in shards for key, line in shard.lines.items()}
    numbers: dict[str, set[int]] = {}
    for task_id, number in lines:
        numbers.setdefault(task_id, set()).add(number)
    unknown = numbers.keys() - {task.id for task in benchmark.tasks}
    if unknown:
        raise UsageError(f"{benchmark.name} has no task {min(unknown)}, of which a shard has an attempt")
    if len(shards) < shards[0].shards or sum(shard.planned for shard in shards) > len(lines):
        tasks = select_configured_tasks(benchmark, config)
        agent = build_agent("null", settings_for(benchmark), benchmark)  # one that chooses no samples
        for planned in plan_attempts(tasks, agent, n_samples=config.n_samples):
            if planned.task.id not in unsound:
                numbers.setdefault(planned.task.id, set()).add(planned.number)
    return [
        PlannedAttempt(task, number, lines.get((task.id, number)), config.seed)
        for task in benchmark.tasks
        for number in sorted(numbers.get(task.id, ()))
    ]


def _write_attempts(store: RunStore, shards: Sequence[ShardRun], plan: Sequence[PlannedAttempt]) -> None:
    """Write the records of all tries in the order of the plan, and copy the transcripts."""
    places = {key: shard for shard in shards for key in shard.offsets}
    for batch in _batch(_read_in_order(places, plan)):
        store.append(*batch)
    for planned in plan:
        if planned.key in places:
            copy_transcripts(places[planned.key].folder, store.folder, *planned.key)


def _read_in_order(
    places: Mapping[_Key, ShardRun], plan: Sequence[PlannedAttempt]
) -> Iterator[AttemptRecord]:
    """Yield the records of all tries of the planned attempts. Every file is opened once."""
    readers: dict[int, Iterator[AttemptRecord]] = {}
    for planned in plan:
        shard = places.get(planned.key)
        if shard is None:
            continue
        if shard.number not in readers:
            offsets = (offset for each in plan for offset in shard.offsets.get(each.key, ()))
            readers[shard.number] = read_records_at(shard.folder / ATTEMPTS, offsets, whole=True)
        yield from itertools.islice(readers[shard.number], len(shard.offsets[planned.key]))


def _batch(records: Iterator[AttemptRecord]) -> Iterator[list[AttemptRecord]]:
    batch: list[AttemptRecord] = []
    characters = 0
    for record in records:
        batch.append(record)
        characters += len(record.agent_output_full or "") + len(record.submission or "")
        if len(batch) >= _WRITTEN_RECORDS or characters >= _WRITTEN_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
