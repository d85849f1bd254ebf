"""Call the procedures of a sandbox's database from the host. Replies are hostile data, and bounded.

Trusted code creates the database file before an agent acts. Each call runs the agent's SQL in its own
process, as the agent's user. A user that the agent never was reads the final state, from a copy of the file's
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.sandbox.guest.durations import find_longest
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import KEEP_BYTES, Sandbox

if TYPE_CHECKING:
    from harness.environments.db.guest.messages import Create, Query, Replay, RunRoutine, State, TableData

SECONDS = 5.0
"""The processor time that the statements of a call may take. The database ends them and reports that."""

MAX_SQL_CHARACTERS = 1_000_000
ROWS = 200
CHARACTERS = 16_000
# Added to SECONDS for work that does not check the timer, such as a regular expression.
_GRACE_SECONDS = 3.0
_TRUSTED_SECONDS = 20.0
# The approximate number of characters in the changes that share a process.
_MOST_AT_ONCE = 500_000
_KEEP_BYTES = 64 * 1024 * 1024
_LIMIT_MESSAGES = {
    "wall_seconds": "took too long and was killed",
    "cpu_seconds": "took too long and was killed",
    "memory_mb": "used too much memory and was killed",
    "output_mb": "wrote too much output and was killed",
    "file_mb": "wrote too large a file and was killed",
    "processes": "could not start: the limit on processes is reached",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts. Each row has one cell for each column, and None is NULL."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


class TableUnreadable(Exception):
    """The table is missing, is not a plain table of texts, or cannot be trusted.

    The message gives the reason.
    """


async def create_tables(sandbox: Sandbox, tables: Sequence[Table]) -> None:
    """Create the sandbox's database with these tables. It must not exist yet. Raises SandboxError."""
    request: Create = {"tables": [_plain(table) for table in tables]}
    result = await run_routine(sandbox, "create", request, timeout=_TRUSTED_SECONDS)
    if result.exit_code != 0:
        raise SandboxError(f"the database could not be created: {_describe_failure(result)}")


async def ask(
    sandbox: Sandbox,
    sql: str,
    *,
    seconds: float = SECONDS,
    rows: int = ROWS,
    characters: int = CHARACTERS,
    meant_for_mysql: bool = False,
) -> str:
    """Run the agent's SQL, one statement or several, and return the text that the agent sees.

    Each statement is committed, unless the same call opens a transaction. With `meant_for_mysql`, as for a
    benchmark's own SQL, the guest first reads the SQL as MySQL would, as `replay` does. Raises SandboxError.
    """
    if len(sql) > MAX_SQL_CHARACTERS:
        return f"error: the SQL is longer than {MAX_SQL_CHARACTERS:,} characters"
    request: Query = {
        "sql": sql,
        "seconds": seconds,
        "rows": rows,
        "characters": characters,
        "meant_for_mysql": meant_for_mysql,
    }
    result = await run_routine(
        sandbox,
        "query",
        request,
        timeout=seconds + _GRACE_SECONDS,
        # A character may take four bytes, and the last row may exceed the number of characters.
        keep_bytes=8 * characters,
        translates=meant_for_mysql,
    )
    if result.limit is not None:
        return f"error: the call {_LIMIT_MESSAGES[result.limit]}"
    if result.exit_code not in (0, 1):
        return f"error: the database failed: {_describe_failure(result)}"
    text = str(result.stdout)
    return text if len(text) <= 2 * characters else f"{text[: 2 * characters]}\n[cut]"


async def reset(sandbox: Sandbox) -> bool:
    """Remove the agent's user with its processes and files; return whether nothing of it is left.

    The sandbox can then hold another database. Raises SandboxError.
    """
    header, _ = await sandbox.call("reset", {}, timeout=_TRUSTED_SECONDS)
    with sandbox.catch_unreadable():
        return header["clean"] is True


async def read_table(sandbox: Sandbox, name: str) -> Table:
    """Return a table of the sandbox's database after the agent's end, without trust in anything that it left.

    Raises TableUnreadable if the table is no longer a plain one, and SandboxError if the sandbox fails.
    """
    request: State = {"table": name, "seconds": _TRUSTED_SECONDS / 2}
    return _parse_table(await _run_for_json(sandbox, "state", request), name)


@dataclass(frozen=True, slots=True)
class Change:
    """SQL of MySQL's dialect with the tables it runs on. `table` names the one that is compared."""

    tables: tuple[Table, ...]
    table: str
    sql: str


async def replay(sandbox: Sandbox, change: Change) -> Table:
    """Return the table after a trusted change, which runs on copies in the memory of one process.

    Raises TableUnreadable if the SQL fails, and SandboxError.
    """
    (found,) = await replay_all(sandbox, [change])
    if isinstance(found, TableUnreadable):
        raise found
    return found


async def replay_all(
    sandbox: Sandbox, changes: Sequence[Change], *, seconds: float = _TRUSTED_SECONDS
) -> list[Table | TableUnreadable]:
    """Return the table after each of many trusted changes.

    A process runs many of them, each on its own tables. Each process may take `seconds`. If one fails as a
    whole, each half of its changes is tried, until the change that causes the failure is alone. Raises
    SandboxError.
    """
    if sum(_size(change) for change in changes) > _MOST_AT_ONCE and len(changes) > 1:
        return await _replay_in_halves(sandbox, changes, seconds)
    request: Replay = {
        "changes": [
            {"tables": [_plain(table) for table in change.tables], "table": change.table, "sql": change.sql}
            for change in changes
        ],
        "seconds": seconds / 2,
    }
    try:
        data = await _run_for_json(sandbox, "replay", request, seconds, translates=True)
        if type(data) is not list or len(data) != len(changes):
            raise TableUnreadable("the tables could not be read")
    except TableUnreadable as error:
        return [error] if len(changes) == 1 else await _replay_in_halves(sandbox, changes, seconds)
    return [_parse_table_or_fault(each, change.table) for each, change in zip(data, changes, strict=True)]


async def _replay_in_halves(
    sandbox: Sandbox, changes: Sequence[Change], seconds: float
) -> list[Table | TableUnreadable]:
    half = len(changes) // 2
    first = await replay_all(sandbox, changes[:half], seconds=seconds)
    return [*first, *await replay_all(sandbox, changes[half:], seconds=seconds)]


def _size(change: Change) -> int:
    cells = (cell for table in change.tables for row in table.rows for cell in row)
    return len(change.sql) + sum(len(cell or "") + 8 for cell in cells)


def _parse_table_or_fault(data: Any, name: str) -> Table | TableUnreadable:
    try:
        return _parse_table(data, name)
    except TableUnreadable as error:
        return error


async def run_routine(
    sandbox: Sandbox,
    routine: str,
    request: Mapping[str, object],
    *,
    timeout: float,
    keep_bytes: int = KEEP_BYTES,
    translates: bool = False,
) -> ExecResult:
    """Run a procedure of the database as a job and return its result, whose stdout is the routine's text.

    `translates` is set for a routine that translates from MySQL's dialect for certain. Exit code 2 means that
    the routine itself failed, and stderr gives the reason.
    """
    limits = sandbox.job_limits(timeout, keep_bytes)
    asked: RunRoutine = {"limits": limits, "translates": translates}
    data = json.dumps(request).encode()
    # The guest does not count the time that the routine waits for a processor.
    longest = find_longest(limits["wall_seconds"])
    return sandbox.read_result(*await sandbox.call(routine, asked, data, timeout=longest))


async def _run_for_json(
    sandbox: Sandbox,
    routine: str,
    request: Mapping[str, object],
    seconds: float = _TRUSTED_SECONDS,
    *,
    translates: bool = False,
) -> Any:
    """Return the JSON that the routine wrote.

    It is hostile, because the process may have read a hostile file.
    """
    result = await run_routine(
        sandbox, routine, request, timeout=seconds, keep_bytes=_KEEP_BYTES, translates=translates
    )
    if result.limit is not None:
        raise TableUnreadable(f"reading the table {_LIMIT_MESSAGES[result.limit]}")
    if result.exit_code < 0:
        raise TableUnreadable(f"reading the table was ended by signal {-result.exit_code}")
    if result.exit_code not in (0, 1):
        raise SandboxError(f"the database could not be read: {_describe_failure(result)}")
    try:
        return json.loads(result.stdout.data)
    except (ValueError, RecursionError) as error:
        raise TableUnreadable("the reply is not a table of texts") from error


def _parse_table(data: Any, name: str) -> Table:
    """Return the table in a reply. Raises TableUnreadable unless the reply is a table of texts."""
    try:
        if "fault" in data:
            raise TableUnreadable(str(data["fault"])[:500])
        columns, rows = data["columns"], data["rows"]
        if (
            type(columns) is not list
            or type(rows) is not list
            or not all(type(text) is str for text in columns)
        ):
            raise TypeError
        for row in rows:
            if type(row) is not list or len(row) != len(columns):
                raise TypeError
            if not all(cell is None or type(cell) is str for cell in row):
                raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TableUnreadable("the reply is not a table of texts") from error
    return Table(name, tuple(columns), tuple(tuple(row) for row in rows))


def _plain(table: Table) -> TableData:
    return {"name": table.name, "columns": list(table.columns), "rows": [list(row) for row in table.rows]}


def _describe_failure(result: ExecResult) -> str:
    return (str(result.stderr) or f"exit code {result.exit_code}")[-500:]
