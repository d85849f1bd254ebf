"""The trial of references that are SQL before a run: each runs on a copy of its task's tables, in a sandbox.

No agent has acted in that sandbox, and no SQL of the data runs on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.environments.db.client import Table, TableUnreadable, replay_all
from harness.environments.db.grader import DatabaseState
from harness.environments.db.table_hash import is_hash_of
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.types import Reference, Task

ENVIRONMENT = "db"
_SECONDS = 30.0
_SECONDS_EACH = 20.0


async def find_unsound(
    pool: SandboxPool, settings: SandboxSettings, tried: Sequence[tuple[Task, Reference]]
) -> Mapping[str, str]:
    """Return the reason for each reference that no grader can rely on, by task id. Raises SandboxError."""
    states = {
        reference.task_id: reference.target
        for _task, reference in tried
        if isinstance(reference.target, DatabaseState)
    }
    if not states:
        return {}
    async with pool.lease(settings, seconds=_SECONDS + _SECONDS_EACH * len(states)) as sandbox:
        made = await replay_all(sandbox, [state.change for state in states.values()])
    reasons = (why_unsound(state, table) for state, table in zip(states.values(), made, strict=True))
    return {task_id: reason for task_id, reason in zip(states, reasons, strict=True) if reason is not None}


def why_unsound(state: DatabaseState, made: Table | TableUnreadable) -> str | None:
    """Return the reason why no grader can rely on a state, or None for a sound one.

    `made` is the table after the state's own SQL. If the published hash is that of the table before it,
    MySQL refused the SQL. MySQL refuses more than SQLite does, for instance an UPDATE that compares a number
    with a text such as `2012-13`.
    """
    if isinstance(made, TableUnreadable):
        return f"its reference's own SQL fails: {made}"
    published = state.published_hash
    if published is None or is_hash_of(published, made.rows) or not is_hash_of(published, state.before.rows):
        return None
    return (
        "its published hash is that of the unchanged table, because its reference's own SQL failed upstream"
    )
