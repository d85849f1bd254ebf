"""Upstream's tasks that no grader can rely on. A run leaves them out by default.

The gold of some is wrong or depends on the host. These are named here. The check of others believes the
agent, as its structure tells (`harness.environments.os.checks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.core.types import Reference, Task
from harness.environments.db.client import Table, TableUnreadable, replay_all
from harness.environments.db.grader import DatabaseState, is_hash_of
from harness.environments.os.grader import AnswerMatch, StateChecks
from harness.environments.os.scripts import is_comparison
from harness.sandbox.pool import SandboxPool, SandboxSettings

_HOST_PROCESSES = "its gold counts processes, and their number depends on the host and the moment"
_NO_SUCH_SHELL = (
    "its set-up ends in `su - jack`, which has no effect on the agent's shell, so that ~/test does not exist"
)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Tasks that are not sound, and the reason. In `tasks`, `*` stands for the name of a file."""

    tasks: str
    reason: str


QUARANTINE = (
    Quarantined(
        "os/dev/8", 'its check reads sizes as integers, and fails on "8.0K", the answer of its own example'
    ),
    Quarantined("os/dev/24", _NO_SUCH_SHELL),
    Quarantined("os/4/N11", "its example leaves out names with a k, but its text asks for names without a u"),
    Quarantined(
        "os/4/Q09/0",
        "its set-up writes to file descriptor 123321, because it lacks a blank before >, and that fails "
        "unless the host's limit of open files (nofile) is above that number",
    ),
    Quarantined(
        "os/4/Q47/0",
        "its checks accept any file of that name, so that they cannot tell a move from a new file",
    ),
    Quarantined("os/6/new/0", _NO_SUCH_SHELL),
    Quarantined("os/6/new/1", _NO_SUCH_SHELL),
    Quarantined("os/6/new/8", "its gold installs a package from the network, which no sandbox has"),
    Quarantined("os/7/*/0", _HOST_PROCESSES),
    Quarantined("os/7/*/4", _HOST_PROCESSES),
    Quarantined("os/7/*/75", _HOST_PROCESSES),
)


def why_quarantined(task_id: str) -> str | None:
    """Return the reason why a task is quarantined, or None if it is not."""
    return next((each.reason for each in QUARANTINE if fnmatchcase(task_id, each.tasks)), None)


def why_trusting(target: object) -> str | None:
    """Return the reason why a target's check believes the agent, or None if it does not."""
    if not isinstance(target, StateChecks) or target.judgement.kind != "trusting":
        return None
    return target.judgement.reason


def describe_manner(reference: Reference) -> str | None:
    """Return how the check of a task of `os` judges, in words, and None for a task of another environment."""
    target = reference.target
    if isinstance(target, AnswerMatch):
        return "sound: the host compares the answer"
    if not isinstance(target, StateChecks):
        return None
    judgement = target.judgement
    if judgement.kind == "trusting":
        return f"trusting: {judgement.reason}"
    if judgement.kind == "data":
        return f"programs judged as data: {judgement.reason}"
    compares = all(is_comparison(script) for script in target.scripts if script is not None)
    return "sound: compares texts" if compares else "sound: looks at the machine"


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
