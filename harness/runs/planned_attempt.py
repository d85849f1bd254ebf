"""One attempt of a run's plan, and the record of the plan in a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.types import Task

MAX_LISTED_BYTES = 2 * 1024 * 1024
"""The maximum size of the list of task ids as JSON. Each command that names the run reads its manifest."""
_LIST, _HASH = "task_ids", "task_ids_sha256"


@dataclass(frozen=True, slots=True)
class PlannedAttempt:
    """One attempt to make. `number` counts from 0 within its task, `sample_line` from 1 in the file.

    Its seeds are computed when they are used, because a plan may have very many attempts.
    """

    task: Task
    number: int
    sample_line: int | None
    run_seed: int = 0
    # The cluster of its task if the run clusters tasks by a field, else None.
    cluster: str | None = None

    @property
    def seed(self) -> int:
        """The seed that the agent gets."""
        return _derive_seed(f"{self.run_seed}/{self.task.id}/{self.number}")

    @property
    def environment_seed(self) -> int:
        """The seed of what the environment draws. The agent does not get it."""
        return _derive_seed(f"environment/{self.run_seed}/{self.task.id}/{self.number}")

    @property
    def key(self) -> tuple[str, int]:
        return self.task.id, self.number


def list_task_ids(plan: Sequence[PlannedAttempt]) -> list[str]:
    """Return the ids of the tasks in a plan, each once, in the order of the plan."""
    return list(dict.fromkeys(planned.task.id for planned in plan))


def _derive_seed(name: str) -> int:
    """Return the seed of this name, from 0 to 2**31 - 1, which every model API accepts."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:4]) >> 1


def describe_planned(plan: Sequence[PlannedAttempt]) -> dict[str, Any]:
    """Return the field `planned` of a manifest: the number of tasks and attempts, and the tasks.

    `task_ids` lists the tasks. If the list has more than MAX_LISTED_BYTES, `task_ids_sha256` has its hash
    instead.
    """
    ids = list_task_ids(plan)
    listed = _encode(ids)
    tasks = {_LIST: ids} if len(listed) <= MAX_LISTED_BYTES else {_HASH: _hash(listed)}
    return {"tasks": len(ids), "attempts": len(plan), **tasks}


def has_same_tasks(planned: Any, plan: Sequence[PlannedAttempt]) -> bool:
    """Return whether a plan has the tasks of the field `planned` of a manifest, in the same order.

    The manifest of an earlier version records no tasks, so that any plan agrees with it.
    """
    if not isinstance(planned, Mapping):
        return True
    if planned.get(_LIST) is not None:
        return bool(planned[_LIST] == list_task_ids(plan))
    return planned.get(_HASH) is None or planned[_HASH] == _hash(_encode(list_task_ids(plan)))


def _encode(ids: Sequence[str]) -> bytes:
    """Return the ids as ASCII, because half a surrogate pair in an id has no encoding in UTF-8."""
    return json.dumps(ids, separators=(",", ":")).encode("ascii")


def _hash(listed: bytes) -> str:
    return hashlib.sha256(listed).hexdigest()
