"""Attempts of `db` that share a sandbox pass nothing on, and no reference is where an agent acts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from case_checks import each_case
from contexts import environment_context
from docker import APIClient

from harness.core.errors import SandboxError
from harness.core.types import Submission, Task
from harness.environments.base import EnvironmentContext
from harness.environments.db.client import Table
from harness.environments.db.environment import Database, DatabaseSetup, make_table, open_environment, play
from harness.environments.db.grader import DatabaseState, grade_state
from harness.sandbox.machine.images import build_images

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

FISH = make_table("fish", ["name", "weight"], [["cod", "7"], ["eel", "0"]])
BIRDS = make_table("birds", ["name"], [["owl"]])
GOLD = "UPDATE fish SET weight = '8' WHERE name = 'cod'"
STATE = DatabaseState((FISH,), FISH.name, GOLD)
# Everything that SQL can set: each is written in one attempt, and the next reads it by the second statement.
BY_SQL = {
    "a row": ("INSERT INTO fish VALUES ('secret', '1')", "SELECT * FROM fish WHERE name = 'secret'"),
    "a table": ("CREATE TABLE secret (a)", "SELECT * FROM sqlite_master WHERE name = 'secret'"),
    "a view": ("CREATE VIEW secret AS SELECT 1", "SELECT * FROM sqlite_master WHERE name = 'secret'"),
    "a temporary table": ("CREATE TEMP TABLE secret (a)", "SELECT * FROM sqlite_temp_master"),
    "a trigger": (
        "CREATE TRIGGER secret AFTER INSERT ON fish BEGIN DELETE FROM fish; END",
        "SELECT * FROM sqlite_master WHERE type = 'trigger'",
    ),
    "statistics": ("ANALYZE", "SELECT * FROM sqlite_master WHERE name LIKE 'sqlite_stat%'"),
    "an open transaction": ("BEGIN; DELETE FROM fish", "SELECT 1 WHERE (SELECT count(*) FROM fish) != 2"),
    "a row id": (
        "CREATE TABLE counted (a INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO counted VALUES (7)",
        "SELECT * FROM sqlite_master WHERE name = 'sqlite_sequence'",
    ),
    "the last row id": ("INSERT INTO fish VALUES ('x', 'y')", "SELECT 1 WHERE last_insert_rowid() != 0"),
    "the number of changes": ("DELETE FROM fish", "SELECT 1 WHERE total_changes() != 0"),
}
# Programs of the agent's user, which a real agent could start only through a fault of SQLite.
BY_FORCE = {
    "a file in /tmp": "open('/tmp/secret', 'w').write('x')",
    "a hidden folder in /dev/shm": "import os; os.makedirs('/dev/shm/.a/b'); os.chmod('/dev/shm/.a', 0)",
    "a file next to the database": "open('secret', 'w').write('x')",
    "a journal": "open('database.sqlite-journal', 'wb').write(bytes(1000))",
    "a link": "import os; os.symlink('/tmp', 'database.sqlite-wal')",
    "a process": "import os, time; os.fork() or (os.setsid(), os.fork() or time.sleep(600))",
}
LOOK = """
import os, time
mine = os.getuid()

def find_others():
    found = []
    for name in os.listdir('/proc'):
        try:
            if name.isdigit() and os.stat('/proc/' + name).st_uid != mine:
                found.append((name, open('/proc/' + name + '/stat').read().split()[1:3]))
        except OSError:
            pass  # It has ended meanwhile.
    return found

# A process that PID 1 has killed, or that is about to become the agent's user, is gone within a moment.
deadline = time.monotonic() + 5
while len(others := find_others()) > 1 and time.monotonic() < deadline:
    time.sleep(0.01)
left = [path for top in ('/tmp', '/dev/shm', '/work') for path, _, _ in os.walk(top)]
names = [name for top in ('/tmp', '/dev/shm', '.') for name in os.listdir(top)]
print(sorted(left), sorted(names), [name for name, _ in others] == ['1'] or others)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def context(client: APIClient) -> AsyncIterator[EnvironmentContext]:
    await asyncio.to_thread(build_images, client, ["db"], notify=print)
    context = replace(environment_context(client, "db"), key="one")
    async with context.pool:
        yield context


@contextlib.asynccontextmanager
async def opened(context: EnvironmentContext, table: Table = FISH) -> AsyncIterator[Database]:
    task = Task("one", "test", "db", "", setup=DatabaseSetup((table,)))
    async with open_environment(task, context) as environment:
        assert isinstance(environment, Database)
        yield environment


async def act(environment: Database, sql: str) -> str:
    return (await environment.call("sql", {"sql": sql})).text


async def force(environment: Database, program: str) -> str:
    result = await environment.sandbox.exec(["/usr/bin/python3", "-c", program])
    return str(result.stdout) + str(result.stderr)


@each_case("name", BY_SQL)
async def test_nothing_that_sql_writes_reaches_the_next_attempt(
    context: EnvironmentContext, name: str
) -> None:
    write, read = BY_SQL[name]
    async with opened(context) as first:
        seen = await act(first, write)
        assert not seen.startswith("error"), seen
        await first.end_acting()
    async with opened(context) as second:
        assert second.sandbox is first.sandbox
        assert "(0 rows)" in await act(second, read)
        assert "(2 rows)" in await act(second, "SELECT * FROM fish")


@pytest.mark.parametrize("name", BY_FORCE)
async def test_nothing_that_a_program_leaves_reaches_the_next_attempt(
    context: EnvironmentContext, name: str
) -> None:
    async with opened(context) as fresh:
        await act(fresh, "SELECT 1")
        expected = await force(fresh, LOOK)
    async with opened(context) as first:
        await act(first, "SELECT 1")
        await force(first, BY_FORCE[name])
    async with opened(context) as second:
        await act(second, "SELECT 1")
        assert await force(second, LOOK) == expected
        assert "(2 rows)" in await act(second, "SELECT * FROM fish")


async def test_another_task_finds_its_own_tables_alone(context: EnvironmentContext) -> None:
    async with opened(context) as first:
        await act(first, "SELECT 1")
    async with opened(context, BIRDS) as second:
        assert second.sandbox is first.sandbox
        assert "fish" not in await act(second, "SELECT name FROM sqlite_master")


async def test_each_attempt_has_a_user_that_no_other_had(context: EnvironmentContext) -> None:
    users = []
    for _ in range(3):
        async with opened(context) as environment:
            users.append(await force(environment, "import os; print(os.getuid())"))
    assert len(set(users)) == 3


async def test_no_reference_is_in_a_sandbox_in_which_agents_act(context: EnvironmentContext) -> None:
    async with opened(context) as environment:
        await act(environment, GOLD)
        await environment.end_acting()
        async with environment.open_for_reference() as trusted:
            assert trusted is not environment.sandbox
            assert not trusted.agent_acted
        assert (await grade_state(environment, STATE, Submission("done", ""))).resolved


async def test_an_attempt_that_shares_nothing_is_graded_in_its_own_sandbox(
    context: EnvironmentContext,
) -> None:
    async with opened(replace(context, key=None)) as environment:
        await act(environment, GOLD)
        await environment.end_acting()
        async with environment.open_for_reference() as trusted:
            assert trusted is environment.sandbox
        assert (await grade_state(environment, STATE, Submission("done", ""))).resolved


async def test_no_agent_acts_where_the_oracle_has_used_the_reference(context: EnvironmentContext) -> None:
    async with opened(context) as first:
        await play(first, GOLD)
    async with opened(context) as second:
        assert second.sandbox is not first.sandbox


async def test_a_sandbox_that_is_not_clean_serves_no_further_attempt(context: EnvironmentContext) -> None:
    async with opened(context) as first:
        first.sandbox.clean = False
    async with opened(context) as second:
        assert second.sandbox is not first.sandbox


async def test_a_sandbox_whose_guest_ended_serves_no_further_attempt(context: EnvironmentContext) -> None:
    async with opened(context) as first:
        with pytest.raises(SandboxError):
            await first.sandbox.call("bye", {}, timeout=1.0)
    async with opened(context) as second:
        assert second.sandbox is not first.sandbox


async def test_attempts_at_the_same_time_share_no_sandbox(context: EnvironmentContext) -> None:
    async with opened(context) as first, opened(context) as second:
        assert second.sandbox is not first.sandbox


async def test_sandboxes_with_other_keys_are_not_shared(context: EnvironmentContext) -> None:
    async with opened(context) as first:
        await act(first, "SELECT 1")
    async with opened(replace(context, key="two")) as second:
        assert second.sandbox is not first.sandbox


async def test_an_error_of_the_attempt_destroys_the_sandbox(context: EnvironmentContext) -> None:
    with pytest.raises(ZeroDivisionError):
        async with opened(context) as first:
            raise ZeroDivisionError
    async with opened(context) as second:
        assert second.sandbox is not first.sandbox
