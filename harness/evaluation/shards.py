"""The shards of a run: disjoint parts of its tasks that other processes or machines make."""

from __future__ import annotations

from collections.abc import Sequence

from harness.config import read_shard
from harness.errors import UsageError
from harness.evaluation.plan import PlannedAttempt, list_task_ids


def select_shard(plan: Sequence[PlannedAttempt], shard: str) -> list[PlannedAttempt]:
    """Return the attempts of one shard, in the order of the plan.

    The tasks are dealt out in turn, because neighbours in the data often take similar time. All attempts at a
    task are in one shard, because they share a sandbox. The plan depends on nothing but the config and the
    data, so every machine divides it in the same way.

    Args:
        plan: the attempts of the whole run.
        shard: the shard, such as `2/8`.

    Raises:
        UsageError: if there are more shards than tasks, whichever of them is selected.
    """
    part = set(list_shard_tasks(list_task_ids(plan), shard))
    return [each for each in plan if each.task.id in part]


def list_shard_tasks(task_ids: Sequence[str], shard: str) -> list[str]:
    """Return the tasks of one shard, by id, from those of the whole run. Raises as `select_shard` does."""
    number, shards = read_shard(shard)
    tasks = len(task_ids)
    if shards > tasks:
        raise UsageError(
            f"--shard {shard}: the run selects {tasks:,} tasks, too few for {shards:,} shards",
            hint=f"divide it into at most {tasks:,} shards, for example --shard 1/{max(tasks, 1)}",
        )
    return list(task_ids[number - 1 :: shards])
