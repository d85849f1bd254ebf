"""The merge of shards: one run folder, as one run of all tasks would have left it."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_DATA_BYTES
from harness.core.text import escape_terminal
from harness.core.types import AttemptRecord
from harness.models.settings import choose_endpoint
from harness.runs.agents import build_agent
from harness.runs.agents.agent import settings_for
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.manifest import correct_superseded_verdicts
from harness.runs.plan import load_configured, name_clusters
from harness.runs.records import PlannedAttempt, describe_planned
from harness.runs.resume import ACCEPTED
from harness.runs.run import Run
from harness.runs.run_files import StorageError, has_run_file, open_run_file
from harness.runs.run_names import UNFINISHED_MERGE, hold_still
from harness.runs.run_starts import RunEngine, copy_samples
from harness.runs.selection import Selection
from harness.runs.settings import RunConfig
from harness.runs.shards import (
    ALLOW_HINT,
    AttemptKey,
    ShardRun,
    find_samples,
    merge_manifests,
    plan_merged_run,
    plan_whole_run,
    read_shard_run,
    require_all_shards,
    require_finished,
    require_parts,
)
from harness.runs.spending_log import copy_spending, read_spending
from harness.runs.store import (
    MANIFEST,
    SAMPLES,
    RunStore,
    make_run_folder,
    read_duration,
    read_manifest,
    read_records_at,
)
from harness.runs.transcripts import copy_transcripts, measure_transcripts
from harness.runs.trust import is_signed, require_trusted_file, sign_run

# A merge locks its folder long before that.
_START_SECONDS = 60.0
_HINT = "make room, or choose another folder with --output-dir DIR"
# A write is synced, so one holds many records, but not more than fit into memory.
_WRITTEN_RECORDS, _WRITTEN_CHARACTERS = 1000, 16_000_000
# The folders that a notice names.
_NAMED_FOLDERS = 5


@contextmanager
def open_merge_folder(output_dir: Path, benchmark: str, metrics: Sequence[str]) -> Iterator[RunStore]:
    """Yield the store of a new folder, which becomes a run folder at the end of the block.

    An error removes the folder. The folder of a merge that was killed has a hidden name, and no command
    finds it, and the next merge to the same place removes it.

    Raises:
        UsageError: if the folder cannot be made.
        StorageError: if it cannot be written. It has a hint.
    """
    _remove_dead_folders(output_dir)
    folder = make_run_folder(output_dir, benchmark, prefix=UNFINISHED_MERGE)
    try:
        store = RunStore(folder, metrics=metrics)
        try:
            yield store
            store.move_to(find_final_folder(store))
        except BaseException:
            store.close()
            raise
    except StorageError as error:
        _remove(folder)
        raise StorageError(error.message, hint=_HINT) from error
    except BaseException:
        _remove(folder)
        raise


def find_final_folder(store: RunStore) -> Path:
    """Return the path that the folder of a merge gets when it is complete."""
    return store.folder.with_name(store.folder.name.removeprefix(UNFINISHED_MERGE))


def _remove_dead_folders(output_dir: Path) -> None:
    for folder in output_dir.glob(f"{UNFINISHED_MERGE}*"):
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A merge makes this file after it has locked its folder.
                is_old = time.time() - os.fstat(descriptor).st_mtime > _START_SECONDS
                if is_old or has_run_file(folder, ATTEMPTS):
                    _remove(folder)
            finally:
                os.close(descriptor)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def choose_shards(folders: Sequence[Path], notify: Callable[[str], None]) -> list[Path]:
    """Return the folders without files, audits and whole runs, which a pattern such as `runs/*` matches too.

    If no shard is among them, all are returned, and the merge refuses the first one. Raises UsageError for a
    folder whose manifest cannot be read.
    """
    shards, others = list[Path](), list[Path]()
    for folder in folders:
        is_run = folder.is_dir() and has_run_file(folder, MANIFEST)
        is_shard = is_run and read_manifest(folder)["config"].get("shard") is not None
        (shards if is_shard else others).append(folder)
    if not shards:
        return [*folders]
    if others:
        names = ", ".join(escape_terminal(folder.name) for folder in others[:_NAMED_FOLDERS])
        more = ", ..." if len(others) > _NAMED_FOLDERS else ""
        notify(f"left out, because only shards can be merged: {names}{more}")
    return shards


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
    folder gets its name when it is complete, so a merge that is killed leaves no run. Meanwhile no run can go
    on in the folder of a shard.

    Args:
        folders: the run folders of the shards, in any order.
        output_dir: the folder of the new run folder.
        data: the place of the data if it is not the shards'.
        accepted: the fields of the manifests that may differ between shards.
        allow_unfinished: whether shards and attempts may be missing, which then count as cancelled.
        is_trusted: whether the user has accepted what unknown folders would run.
        notify: shows a message to the user.

    Raises:
        UsageError: for folders that are not all shards of one run, each of them once, for shards that are
            under way or not finished, and for unknown ones whose benchmark is a Python file.
        DataError: if the data of the run cannot be loaded.
        StorageError: if the folder cannot be written.
    """
    with ExitStack() as held:
        for folder in folders:
            held.enter_context(hold_still(folder))
        run = _merge(folders, output_dir, data, accepted, allow_unfinished, is_trusted, notify)
    try:
        yield run
    finally:
        run.store.close()


def _merge(
    folders: Sequence[Path],
    output_dir: Path,
    data: str | None,
    accepted: Collection[str],
    allow_unfinished: bool,
    is_trusted: bool,
    notify: Callable[[str], None],
) -> Run:
    shards = sorted((read_shard_run(folder) for folder in folders), key=lambda shard: shard.number)
    _require_one_division(shards)
    for shard in shards:
        require_trusted_file(shard.folder, shard.manifest, shard.config, is_trusted=is_trusted)
    manifest = merge_manifests([(shard.folder, shard.manifest) for shard in shards], accepted)
    _require_disjoint(shards)
    require_all_shards(shards, allow_unfinished=allow_unfinished, hint=ALLOW_HINT)
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
    samples = None if config.samples is None else find_samples(first)
    whole = plan_whole_run(shards, benchmark, config, samples)
    require_parts(shards, benchmark, config, whole, accepted=ACCEPTED in manifest)
    require_finished(shards, whole, allow_unfinished=allow_unfinished)
    plan = plan_merged_run(shards, benchmark, config, whole, manifest["unsound_references"].keys())
    plan = name_clusters(plan, config.cluster_by)
    order = {task.id: place for place, task in enumerate(benchmark.tasks)}
    unsound = sorted(manifest["unsound_references"].items(), key=lambda each: order.get(each[0], 0))
    manifest["unsound_references"] = dict(unsound)
    manifest["planned"] = describe_planned(plan)
    manifest["run_id"] = secrets.token_hex(8)
    with open_merge_folder(output_dir, benchmark.name, benchmark.definition.kept_metrics) as store:
        if samples == first.folder / SAMPLES:
            _copy_samples(first.folder, store)
            kept = find_final_folder(store).resolve() / SAMPLES
            config = config.model_copy(update={"samples": str(kept)})
        manifest["config"] = config.model_dump(mode="json")
        _write_attempts(store, shards, plan)
        manifest = correct_superseded_verdicts(manifest, store.results.count_superseded())
        copy_spending([shard.folder for shard in shards], store.folder)
        # Whoever accepts the benchmark of unknown shards has not seen what else their settings would do.
        are_own = all(is_signed(shard.manifest) for shard in shards)
        manifest = sign_run(manifest) if are_own else manifest
        store.write_json(MANIFEST, manifest)
        agent = build_agent("null", settings_for(benchmark), benchmark)  # it makes no attempt
        endpoint = (
            None if config.model is None else choose_endpoint(config.model, config.base_url, config.endpoints)
        )
        selection = Selection(config, benchmark, agent, plan, endpoint=endpoint).without(dict(unsound))
        # The shards ran side by side, so the longest one counts for the run.
        seconds = max(read_duration(shard.folder) for shard in shards)
        run = Run(selection, store, RunEngine(), manifest, seconds, read_spending(store.folder))
        run.write_summary()
    return run


def _require_one_division(shards: Sequence[ShardRun]) -> None:
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


def _require_disjoint(shards: Sequence[ShardRun]) -> None:
    """Raise UsageError if two shards hold the same attempt."""
    seen: dict[AttemptKey, Path] = {}
    for shard in shards:
        for key in shard.offsets:
            if key in seen:
                raise UsageError(
                    f"{seen[key]} and {shard.folder} both hold attempt {key[1]} of task {key[0]}, so "
                    "they are not shards of one run",
                    hint="name the shards of one run only; `harness runs` lists all runs",
                )
            seen[key] = shard.folder


def _load(config: RunConfig, shard: ShardRun, notify: Callable[[str], None]) -> Benchmark:
    """Return the benchmark of the run. Raises UsageError if its data are not the shards'."""
    replay = shard.manifest.get("replay")
    categories = replay["categories"] if isinstance(replay, dict) else None
    benchmark = load_configured(config, notify=notify, categories=categories)
    if benchmark.source.sha256 != shard.manifest["data"]["sha256"]:
        raise UsageError(
            f"{benchmark.source.location}: the data are not the shards': data.sha256 was "
            f"{shard.manifest['data']['sha256']}, and is {benchmark.source.sha256}",
            hint="name the data of the shards: --data PATH",
        )
    return benchmark


def _write_attempts(store: RunStore, shards: Sequence[ShardRun], plan: Sequence[PlannedAttempt]) -> None:
    """Write the records of all tries in the order of the plan, and copy the transcripts."""
    places = {key: shard for shard in shards for key in shard.offsets}
    for batch in _batch(_read_in_order(places, plan)):
        store.append(*batch)
    copied = [
        (places[planned.key].folder, planned.key, store.results[planned.key].superseded)
        for planned in plan
        if planned.key in places
    ]
    _require_room(store, sum(measure_transcripts(folder, *key, tries) for folder, key, tries in copied))
    for folder, key, tries in copied:
        copy_transcripts(folder, store.folder, *key, tries)


def _require_room(store: RunStore, number: int) -> None:
    """Raise StorageError if the disk has no room for a number of bytes, before they fill it."""
    try:
        free = shutil.disk_usage(store.folder).free
    except OSError as error:
        raise StorageError(f"{store.folder}: cannot be written: {error.strerror}") from error
    if number > free:
        raise StorageError(
            f"{store.folder.parent}: {os.strerror(errno.ENOSPC)}: the transcripts of the shards have "
            f"{number:,} bytes, and {free:,} are free"
        )


def _copy_samples(source: Path, store: RunStore) -> None:
    """Copy the samples from the folder of a shard. Raises StorageError."""
    try:
        with open_run_file(source, SAMPLES, max_bytes=MAX_DATA_BYTES) as stream:
            copy_samples(store, stream)
    except OSError as error:
        place = store.folder / SAMPLES
        raise StorageError(f"{place}: cannot be copied from {source / SAMPLES}: {error.strerror}") from error


def _read_in_order(
    places: Mapping[AttemptKey, ShardRun], plan: Sequence[PlannedAttempt]
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
