"""A run of one shard, read from its folder for a merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import RunConfig, read_shard
from harness.errors import UsageError
from harness.evaluation.resume import read_resumed_config
from harness.evaluation.run_files import has_run_file
from harness.evaluation.store import ATTEMPTS, UNFINISHED, read_manifest, read_records
from harness.types import Status

AttemptKey = tuple[str, int]


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
