"""The tasks of a plan as the manifest records them, so that a resumed run can compare them with its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.evaluation.plan import PlannedAttempt, list_task_ids

MAX_LISTED_BYTES = 2 * 1024 * 1024
"""The maximum size of the list of task ids as JSON. Each command that names the run reads its manifest."""
_LIST, _HASH = "task_ids", "task_ids_sha256"


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
