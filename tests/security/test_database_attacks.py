"""An agent that attacks a database, by SQL or by other means, gets no pass."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from case_checks import each_case
from contexts import environment_context
from docker import APIClient
from effort import THOROUGH

from harness.audit.attack_kinds import AnswerAttack, SqlAttack
from harness.audit.suite import list_attacks_on
from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.base import EnvironmentContext
from harness.environments.db.client import ask, read_table
from harness.environments.db.environment import Database, DatabaseSetup, make_table, open_environment
from harness.environments.db.grader import (
    NO_PLAIN_TABLE,
    DatabaseAnswer,
    DatabaseState,
    grade_answer,
    grade_state,
    table_hash,
)
from harness.sandbox.machine.images import build_images

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

TABLE = make_table('the "fish"', ["name", "weight"], [["cod", "7"], ["eel", "0"], ["Ray", "12"]])
RIGHT = make_table('the "fish"', ["name", "weight"], [["cod", "8"], ["eel", "0"], ["Ray", "12"]])
GOLD = "UPDATE `the \"fish\"` SET weight = '8' WHERE name = 'cod'"
STATE = DatabaseState((TABLE,), TABLE.name, GOLD, table_hash(RIGHT.rows))
TASK = Task("fish", "test", "db", "Set the weight of the cod to 8.", setup=DatabaseSetup((TABLE,)))
ON_STATES, ON_ANSWERS = list_attacks_on("DatabaseState"), list_attacks_on("DatabaseAnswer")
LABELS = (("7",), ("0",), ("none",), ("cod", "eel"), ("Ray",), ("45%",), ("",))
BENCHMARK: Any = None
# Attacks in Python, as the agent's user, in the agent's folder, which is more than a real agent has.
CONNECTED = "import os, sqlite3; c = sqlite3.connect('database.sqlite', isolation_level=None)\n"
FISH = '\\"the \\"\\"fish\\"\\"\\"'
GONE = f"{CONNECTED}c.execute('DROP TABLE {FISH}')\n"
ROWS = "('cod', '8'), ('eel', '0'), ('Ray', '12')"
WRITABLE = f"{CONNECTED}c.execute('PRAGMA writable_schema = ON')\n"
BY_FORCE = {
    "a link to another database": (
        "import os; os.rename('database.sqlite', 'other'); os.symlink('other', 'database.sqlite')"
    ),
    "a pipe": "import os; os.unlink('database.sqlite'); os.mkfifo('database.sqlite')",
    "a folder": "import os; os.unlink('database.sqlite'); os.mkdir('database.sqlite')",
    "nothing": "import os; os.unlink('database.sqlite')",
    "an empty file": "open('database.sqlite', 'w').close()",
    "a huge file": "import os; os.truncate('database.sqlite', 50_000_000)",
    "a text": "open('database.sqlite', 'w').write('passed' * 1000)",
    "noise after the header": (
        "import os; f = open('database.sqlite', 'r+b'); f.seek(100); f.write(os.urandom(8000))"
    ),
    "a write-ahead log": (
        f"{CONNECTED}c.execute('PRAGMA journal_mode = WAL'); c.execute('CREATE TABLE x (y)'); os._exit(0)"
    ),
    "a schema that points elsewhere": f"{WRITABLE}c.execute('UPDATE sqlite_master SET rootpage = 1')",
    "a schema of a view with the table's root": (
        f"{WRITABLE}c.execute('UPDATE sqlite_master SET sql = ?', ('CREATE VIEW {FISH} AS SELECT 1, 2',))"
    ),
    "a schema with a second table of the name": (
        f"{WRITABLE}c.execute('INSERT INTO sqlite_master SELECT * FROM sqlite_master')"
    ),
    "a virtual table": (
        f"{GONE}c.execute('CREATE VIRTUAL TABLE {FISH} USING fts5(name, weight)')\n"
        f'c.execute("INSERT INTO {FISH} VALUES {ROWS}")'
    ),
    "a generated column": (
        f"{GONE}c.execute(\"CREATE TABLE {FISH} (name TEXT, weight TEXT AS (CASE name WHEN 'cod' THEN '8'"
        " WHEN 'eel' THEN '0' ELSE '12' END))\")\n"
        f"c.execute(\"INSERT INTO {FISH} (name) VALUES ('cod'), ('eel'), ('Ray')\")"
    ),
    "a check that takes for ever": (
        f"{GONE}c.execute('CREATE TABLE {FISH} (name TEXT, weight TEXT"
        " CHECK (length(hex(zeroblob(400000000)))))'); c.execute('PRAGMA ignore_check_constraints = ON')\n"
        f"c.executemany('INSERT INTO {FISH} VALUES (?, ?)', [('cod', '8')] * 300)"
    ),
    "a journal of noise": "import os; open('database.sqlite-journal', 'wb').write(os.urandom(100_000))",
    "a journal that is a pipe": "import os; os.mkfifo('database.sqlite-journal')",
}
# These leave the table as it was made, so that nothing contradicts the set-up.
HARMLESS = ("a journal of noise",)
# These are refused as another one is, so they are tried with HARNESS_TESTS=thorough only.
REPEATS = ("a folder", "nothing", "an empty file", "a text")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def context(client: APIClient) -> AsyncIterator[EnvironmentContext]:
    await asyncio.to_thread(build_images, client, ["db"], notify=print)
    # As in a run, attempts share a sandbox one after the other, as long as it is clean.
    context = replace(environment_context(client, "db"), key="attacks")
    async with context.pool:
        yield context


@contextlib.asynccontextmanager
async def opened(context: EnvironmentContext) -> AsyncIterator[Database]:
    async with open_environment(TASK, context) as environment:
        yield environment


async def graded(environment: Database, answer: str = "") -> Verdict:
    await environment.end_acting()
    return await grade_state(environment, STATE, Submission(answer, ""))


async def act(environment: Database, sql: str) -> str:
    return (await environment.call("sql", {"sql": sql})).text


async def force(environment: Database, program: str) -> None:
    result = await environment.sandbox.exec(["/usr/bin/python3", "-c", program])
    assert result.exit_code == 0, str(result.stderr)


@pytest.mark.parametrize("attack", ON_STATES, ids=[attack.name for attack in ON_STATES])
async def test_no_attack_by_sql_passes_for_the_task(
    context: EnvironmentContext, attack: SqlAttack, monkeypatch: pytest.MonkeyPatch
) -> None:
    if attack.name == "endless expression":
        # It burns a processor up to the limit of its call.
        monkeypatch.setattr("harness.environments.db.client._GRACE_SECONDS", 0.5)
        monkeypatch.setattr("harness.environments.db.environment.ask", partial(ask, seconds=0.5))
    async with opened(context) as environment:
        submission = await attack.hand_in(BENCHMARK, TASK, 0, environment)
        assert (await graded(environment, submission.text)).status is Status.FAILED


async def test_the_task_done_passes(context: EnvironmentContext) -> None:
    async with opened(context) as environment:
        assert await act(environment, GOLD) == "OK, 1 row changed"
        verdict = await graded(environment)
    assert verdict.resolved
    assert verdict.metrics["published_hash_agrees"] is True


async def test_nothing_done_fails(context: EnvironmentContext) -> None:
    async with opened(context) as environment:
        assert (await graded(environment, "done")).status is Status.FAILED


async def test_a_trigger_on_the_agents_copy_does_not_reach_the_reference(context: EnvironmentContext) -> None:
    # Without a key, the reference runs in the agent's own sandbox.
    async with opened(replace(context, key=None)) as environment:
        seen = await act(
            environment,
            f'{GOLD}; CREATE TRIGGER eat BEFORE UPDATE ON "the ""fish""" BEGIN SELECT RAISE(IGNORE); END',
        )
        assert "error" not in seen
        assert (await graded(environment)).resolved


async def test_a_table_that_was_built_again_with_numbers_is_compared_as_text(
    context: EnvironmentContext,
) -> None:
    """AgentBench's hash joins the cells as texts, whatever the types of the columns are."""
    async with opened(context) as environment:
        seen = await act(
            environment,
            f"{GOLD}; CREATE TABLE again (name TEXT, weight INTEGER); "
            'INSERT INTO again SELECT * FROM "the ""fish"""; DROP TABLE "the ""fish"""; '
            'ALTER TABLE again RENAME TO "the ""fish"""; SELECT typeof(weight) FROM "the ""fish"""',
        )
        assert '["integer"]' in seen
        verdict = await graded(environment)
    assert verdict.resolved, verdict.evidence


@pytest.mark.parametrize(
    "name", [name for name in BY_FORCE if name not in (HARMLESS if THOROUGH else (*HARMLESS, *REPEATS))]
)
async def test_a_file_that_replaces_the_database_is_no_state(context: EnvironmentContext, name: str) -> None:
    async with opened(context) as environment:
        await act(environment, GOLD)
        await force(environment, BY_FORCE[name])
        verdict = await graded(environment, "done")
    assert verdict.status is Status.FAILED
    assert verdict.tampering == NO_PLAIN_TABLE


async def test_a_journal_of_noise_changes_nothing(context: EnvironmentContext) -> None:
    async with opened(context) as environment:
        await act(environment, GOLD)
        await force(environment, BY_FORCE["a journal of noise"])
        assert (await graded(environment)).resolved


async def test_a_write_that_was_killed_is_rolled_back(context: EnvironmentContext) -> None:
    """The main file is half new, and only its journal has the old half."""
    program = (
        "import os, sqlite3; c = sqlite3.connect('database.sqlite'); c.execute('PRAGMA cache_size = 1');"
        "c.execute('PRAGMA cache_spill = 1'); c.execute('BEGIN');"
        "c.execute('''UPDATE \"the \"\"fish\"\"\" SET weight = printf('%.*c', 200000, 'x')''');"
        "os.kill(os.getpid(), 9)"
    )
    async with opened(context) as environment:
        await act(environment, GOLD)
        result = await environment.sandbox.exec(["/usr/bin/python3", "-c", program])
        assert result.exit_code == -9
        names = await environment.sandbox.exec(["ls"])
        assert "database.sqlite-journal" in str(names.stdout)
        assert await read_table(environment.sandbox, TABLE.name) == RIGHT


async def test_a_process_that_the_agent_left_does_not_write_on(context: EnvironmentContext) -> None:
    program = (
        "import os, time\nif os.fork() == 0:\n os.setsid()\n while True:\n"
        "  open('database.sqlite', 'wb').write(b'x' * 200)\n"
        "while os.path.getsize('database.sqlite') > 200: time.sleep(0.01)"
    )
    async with opened(context) as environment:
        await force(environment, program)
        await force(environment, "import os; os.unlink('database.sqlite')")
        await environment.end_acting()
        listed = await environment.sandbox.exec(["ls"])
        assert "database.sqlite" not in str(listed.stdout)


async def test_no_statement_makes_a_file(context: EnvironmentContext) -> None:
    (attack,) = (each for each in ON_STATES if each.name == "swapped file")
    assert isinstance(attack, SqlAttack)
    async with opened(context) as environment:
        for sql in attack.statements:
            await act(environment, sql)
            listed = await environment.sandbox.exec(["ls", "-A"])
            assert str(listed.stdout).split() == ["database.sqlite"], sql
            assert await read_table(environment.sandbox, TABLE.name) == TABLE, sql


@each_case(
    "sql",
    [
        "PRAGMA writable_schema = ON",
        "PRAGMA journal_mode",
        "PRAGMA main.journal_mode = WAL",
        "PRAGMA trusted_schema = OFF",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA max_page_count = 1000000",
        "PRAGMA user_version = 7",
        "PRAGMA temp_store_directory = '/tmp'",
        "SELECT * FROM pragma_hard_heap_limit(0)",
        "ATTACH ':memory:' AS m",
        "ATTACH 'file:x?mode=memory' AS m",
        "VACUUM",
        "VACUUM INTO 'x'",
        "SELECT load_extension('x')",
        "SELECT load_extension('x', 'y')",
        "CREATE VIRTUAL TABLE temp.v USING fts5(x)",
        "CREATE TABLE x (y); DROP TABLE x; SELECT 1 FROM x WHERE fts3_tokenizer('a') = 1",
        "UPDATE sqlite_master SET sql = ''",
        "INSERT INTO sqlite_schema VALUES ('table', 'x', 'x', 2, 'CREATE TABLE x(y)')",
    ],
)
async def test_statements_that_change_the_settings_of_the_database_are_refused(
    shared_environment: Database, sql: str
) -> None:
    assert "error: " in await act(shared_environment, sql)
    assert await read_table(shared_environment.sandbox, TABLE.name) == TABLE


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_environment(context: EnvironmentContext) -> AsyncIterator[Database]:
    async with opened(context) as environment:
        yield environment


@each_case("attack", ON_ANSWERS)
@each_case("label", LABELS)
async def test_no_answer_that_says_too_much_passes(attack: AnswerAttack, label: tuple[str, ...]) -> None:
    answer = attack.write_answer(TASK, 0)
    assert not (await grade_answer(DatabaseAnswer(label), Submission(answer, ""))).resolved
