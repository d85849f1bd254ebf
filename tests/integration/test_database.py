"""The database of a sandbox: the SQL that an agent can use, the results that it sees, and the limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case
from docker import APIClient
from effort import THOROUGH

from harness import Sandbox
from harness.environments.db.client import (
    Change,
    TableUnreadable,
    ask,
    create_tables,
    read_table,
    replay,
    replay_all,
    run_routine,
)
from harness.environments.db.environment import make_table
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.machine.images import build_images

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

PEOPLE = make_table(
    "the people",
    ["name", "born", "", "Name"],
    [["José", "1970", "x", "a"], ["Ann", "1981", None, "b"], ["Bob", "9", "10%", "c"]],
)
QUERY = {"seconds": 5, "rows": 10, "characters": 1000, "meant_for_mysql": False}
BOMBS = {
    "endless recursion": "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n) "
    "SELECT max(i) FROM n",
    "cross join": "SELECT count(*) FROM " + ", ".join(f'"the people" t{number}' for number in range(25)),
    "random bytes": "SELECT randomblob(1000000000)",
    "zero bytes": "SELECT zeroblob(2000000000)",
    "joined bytes": "SELECT group_concat(hex(randomblob(100000))) FROM pragma_function_list",
    "printed width": "SELECT printf('%.*c', 2000000000, 'x')",
    "deep expression": "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "deep negation": "SELECT " + "- " * 5000 + "1",
    "long union": " UNION ALL ".join(["SELECT 1"] * 5000),
    "endless regular expression": "SELECT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!' REGEXP '^(a+)+$'",
    "deep call of MySQL's": "SELECT " + "`f`(" * 20_000 + "1" + ")" * 20_000 + " <=> 1",
    "long list of MySQL's": "SELECT 1 <=> 1" + " XOR 1" * 30_000,
    "sort of much": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000) "
    "SELECT i FROM n ORDER BY hex(randomblob(1000))",
}
# Others fill the memory and end by the time limit as well, and a test of its own has the expression.
SLOW_BOMBS = ("printed width", "sort of much", "endless regular expression")

OTHERS = """
import os, time
def others():
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/status') as file:
                facts = dict(line.split(':', 1) for line in file)
        except OSError:
            continue
        if int(name) != os.getpid() and int(facts['Uid'].split()[0]) == os.getuid():
            yield int(name), facts['State'].split()[0]
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(client: APIClient, backend: DockerBackend) -> AsyncIterator[Sandbox]:
    await asyncio.to_thread(build_images, client, ["db"], notify=print)
    async with Sandbox.open("db", backend=backend) as sandbox:
        await create_tables(sandbox, [PEOPLE])
        yield sandbox


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill a call soon after its limit, because a regular expression burns a processor up to its end."""
    monkeypatch.setattr("harness.environments.db.client._GRACE_SECONDS", 0.5)


def rows(observation: str) -> list[list[object]]:
    """Return the rows of one result, as the agent sees it."""
    assert observation.startswith("columns: "), observation
    return [json.loads(line) for line in observation.splitlines()[1:-1]]


async def value(sandbox: Sandbox, expression: str) -> object:
    """Return the only value of the only row."""
    ((found,),) = rows(await ask(sandbox, f"SELECT {expression}"))
    return found


async def test_a_table_is_read_as_it_was_made(sandbox: Sandbox) -> None:
    assert PEOPLE.columns == ("name", "born", "column_3", "Name_2")
    assert await read_table(sandbox, PEOPLE.name) == PEOPLE


async def test_a_database_is_made_once(sandbox: Sandbox) -> None:
    with pytest.raises(Exception, match="could not be created"):
        await create_tables(sandbox, [PEOPLE])


async def test_a_result_is_columns_rows_and_their_number(sandbox: Sandbox) -> None:
    seen = await ask(sandbox, "SELECT name, column_3, 1.5 AS n FROM `the people` WHERE born < '2'")
    assert seen == 'columns: ["name", "column_3", "n"]\n["José", "x", 1.5]\n["Ann", null, 1.5]\n(2 rows)'


@each_case(
    ("sql", "first"),
    [
        ("SHOW TABLES", ["the people"]),
        ("DESCRIBE `the people`", ["name", "TEXT", "YES", "", None]),
        ("desc 'the people'", ["name", "TEXT", "YES", "", None]),
        ("SHOW COLUMNS FROM `the people`;", ["name", "TEXT", "YES", "", None]),
        ("show full fields in `main`.`the people`", ["name", "TEXT", "YES", "", None]),
        ("EXPLAIN `the people`", ["name", "TEXT", "YES", "", None]),
        ("SHOW DATABASES", ["main"]),
        ("PRAGMA table_info('the people')", [0, "name", "TEXT", 0, None, 0]),
        ("SELECT * FROM `the people` LIMIT 1, 1", ["Ann", "1981", None, "b"]),
        ("SELECT name FROM `the people` WHERE name RLIKE '^an'  # a comment", ["Ann"]),
        ('SELECT name FROM `the people` WHERE name = "ann"', ["Ann"]),
        ("SELECT name FROM `the people` WHERE name = 'JOSE'", ["José"]),
        ("SELECT GROUP_CONCAT(name SEPARATOR '; ') FROM `the people`", ["José; Ann; Bob"]),
        ("SELECT 'It\\'s; fine'", ["It's; fine"]),
    ],
)
async def test_habits_of_mysql_work(sandbox: Sandbox, sql: str, first: list[object]) -> None:
    assert rows(await ask(sandbox, sql))[0] == first


@each_case(
    ("expression", "expected"),
    [
        ("CONCAT('a', 1, 'b')", "a1b"),
        ("CONCAT('a', NULL)", None),
        ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
        ("IF(1 > 2, 'yes', 'no')", "no"),
        ("IFNULL(NULL, 3)", 3),
        ("'Straße' LIKE 'STRA_E'", 1),
        ("'50%' LIKE '50\\%'", 1),
        ("'50x' LIKE '50\\%'", 0),
        ("'50%' LIKE '50!%' ESCAPE '!'", 1),
        ("'abcabd' LIKE '%a_d'", 1),
        ("'abc' NOT LIKE 'b%'", 1),
        ("'x1' REGEXP '[0-9]$'", 1),
        ("LEFT('abc', 2)", "ab"),
        ("RIGHT('abc', 2)", "bc"),
        ("SUBSTRING_INDEX('a.b.c', '.', -2)", "b.c"),
        ("CHAR_LENGTH('é')", 1),
        ("LPAD('7', 3, '0')", "007"),
        ("GREATEST(2, '10')", 10),
        ("CAST('28,310' AS SIGNED)", 28),
        ("7 MOD 4", 3),
        ("YEAR('2001-02-03')", 2001),
        ("'a\\\\b'", "a\\\\b"),
    ],
)
async def test_expressions_of_mysql_work(sandbox: Sandbox, expression: str, expected: object) -> None:
    assert await value(sandbox, expression) == expected


@each_case(
    ("sql", "kept"),
    [
        ("INSERT INTO w VALUES (7.50, -5.0)", ["7.50", "-5.0"]),
        ("INSERT w (a) VALUE (12345678901234567890)", ["12345678901234567890", None]),
        ("INSERT INTO w SET a = 'x', b = 'y, z'", ["x", "y, z"]),
        ("INSERT IGNORE INTO w VALUES (TRUE, 007)", ["1", "7"]),
        ("INSERT INTO w VALUES ('a\\'b', \"c\")", ["a'b", "c"]),
        ("INSERT INTO w VALUES ('a;b', 'c--d')", ["a;b", "c--d"]),
        ("INSERT INTO w VALUES ('1', '2'); UPDATE w SET w.a = 3.10, w.b = concat(w.b, 'x')", ["3.10", "2x"]),
    ],
)
async def test_written_values_are_stored_as_mysql_stores_them(
    sandbox: Sandbox, sql: str, kept: list[object]
) -> None:
    seen = await ask(sandbox, f"CREATE TABLE w (a TEXT, b TEXT); {sql}")
    assert "error" not in seen
    assert rows(await ask(sandbox, "SELECT * FROM w")) == [kept]
    await ask(sandbox, "DROP TABLE w")


async def test_trusted_sql_is_read_as_mysql_first(sandbox: Sandbox) -> None:
    sql = "UPDATE `the people` SET born = \"it\\'s\" WHERE name = 'jose'; DELETE FROM `the people` WHERE 0"
    left = await replay(sandbox, Change((PEOPLE,), PEOPLE.name, sql))
    assert [row[:2] for row in left.rows] == [("José", "it's"), ("Ann", "1981"), ("Bob", "9")]
    assert await read_table(sandbox, PEOPLE.name) == PEOPLE


@each_case("where", ["born = 9", "born < 10", "born IN (9, 1981) AND name > 'b'", "`born` BETWEEN 8 AND 10"])
async def test_trusted_sql_compares_with_numbers_as_mysql_does(sandbox: Sandbox, where: str) -> None:
    deletion = f"DELETE FROM `the people` WHERE {where}"
    left = await replay(sandbox, Change((PEOPLE,), PEOPLE.name, deletion))
    assert [row[0] for row in left.rows] == ["José", "Ann"]


async def test_the_agents_sql_can_be_read_as_mysql_first(sandbox: Sandbox) -> None:
    sql = "SELECT name FROM `the people` WHERE born < 10"
    assert rows(await ask(sandbox, sql, meant_for_mysql=True)) == [["Bob"]]
    assert rows(await ask(sandbox, sql)) == []


async def test_an_error_of_trusted_sql_is_reported(sandbox: Sandbox) -> None:
    with pytest.raises(TableUnreadable, match="no such table: nowhere"):
        await replay(sandbox, Change((PEOPLE,), PEOPLE.name, "DELETE FROM nowhere"))


async def test_changes_that_share_a_process_are_apart_and_fail_alone(sandbox: Sandbox) -> None:
    endless = "DELETE FROM `the people` WHERE 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!' REGEXP '^(a+)+$'"
    statements = [
        "DELETE FROM `the people`",
        "DELETE FROM nowhere",
        endless,
        "UPDATE `the people` SET born = 7",
    ]
    changes = [Change((PEOPLE,), PEOPLE.name, sql) for sql in statements]
    made = await replay_all(sandbox, changes, seconds=1.0)
    empty, unknown, killed, changed = made
    assert not isinstance(empty, TableUnreadable)
    assert empty.rows == ()
    assert str(unknown) == "no such table: nowhere"
    assert "was killed" in str(killed)
    assert not isinstance(changed, TableUnreadable)
    assert [row[1] for row in changed.rows] == ["7", "7", "7"]


async def test_each_statement_is_committed_and_an_error_names_the_one_that_failed(sandbox: Sandbox) -> None:
    seen = await ask(sandbox, "CREATE TABLE kept (a); INSERT INTO kept VALUES (1); SELECT nope; SELECT 2")
    assert "no such column: nope (in statement 3" in seen
    assert await value(sandbox, "count(*) FROM kept") == 1
    await ask(sandbox, "DROP TABLE kept")


async def test_a_transaction_is_committed_at_the_calls_end(sandbox: Sandbox) -> None:
    await ask(sandbox, "CREATE TABLE kept (a); START TRANSACTION; INSERT INTO kept VALUES (1)")
    assert await ask(sandbox, "COMMIT") == "OK"
    assert await value(sandbox, "count(*) FROM kept") == 1
    await ask(sandbox, "DROP TABLE kept")


async def test_a_transaction_that_fails_is_rolled_back(sandbox: Sandbox) -> None:
    seen = await ask(sandbox, "BEGIN; DELETE FROM `the people`; SELECT nope")
    assert "rolled back" in seen
    assert await value(sandbox, "count(*) FROM `the people`") == 3


async def test_temporary_tables_last_for_one_call(sandbox: Sandbox) -> None:
    assert "error" not in await ask(sandbox, "CREATE TEMP TABLE gone (a); SELECT * FROM gone")
    assert "no such table" in await ask(sandbox, "SELECT * FROM gone")


async def test_nothing_of_a_connection_reaches_the_next_call(sandbox: Sandbox) -> None:
    writing = (
        "CREATE TABLE counted (a); INSERT INTO counted VALUES (1); SELECT changes(), last_insert_rowid()"
    )
    assert "[1, 1]" in await ask(sandbox, writing)
    assert await value(sandbox, "changes() + last_insert_rowid() + total_changes()") == 0
    await ask(sandbox, "DROP TABLE counted")


async def test_the_process_of_the_agents_sql_is_stopped_between_calls(sandbox: Sandbox) -> None:
    assert [await value(sandbox, f"{number}") for number in (1, 2)] == [1, 2]
    seen = await _look_for_others(
        sandbox, "while [state for _, state in others()] != ['T']: time.sleep(0.01)"
    )
    assert len(seen) == 1
    # The end of the command has ended all processes of the agent, so that a new one serves the next call.
    assert await value(sandbox, "3") == 3


async def test_no_process_of_the_agent_lives_while_trusted_code_reads_the_database(sandbox: Sandbox) -> None:
    assert [await value(sandbox, f"{number}") for number in (1, 2)] == [1, 2]
    await read_table(sandbox, PEOPLE.name)
    assert await _look_for_others(sandbox) == []


async def test_a_process_that_has_used_much_is_replaced(sandbox: Sandbox) -> None:
    much = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000) SELECT max(i) FROM n"
    )
    request = {**QUERY, "seconds": 60, "sql": much}
    for _ in range(2):
        assert await value(sandbox, "1") == 1
        result = await run_routine(sandbox, "query", request, timeout=60.0)
        assert (result.exit_code, result.limit) == (0, None)
        assert rows(str(result.stdout)) == [[3_000_000]]


async def _look_for_others(sandbox: Sandbox, first: str = "") -> list[str]:
    """Return id and state of each other process of the agent, after the statement `first`."""
    program = f"{OTHERS}\n{first}\nfor other in others(): print(*other)"
    result = await sandbox.exec(["python3", "-c", program], timeout=60)
    assert (result.exit_code, result.limit) == (0, None), result
    return str(result.stdout).splitlines()


async def test_a_long_result_is_cut_and_marked(sandbox: Sandbox) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) SELECT i FROM n"
    seen = await ask(sandbox, numbers, rows=10)
    assert seen.splitlines()[-1].startswith("(the first 10 rows of more")
    assert len(await ask(sandbox, numbers, rows=100_000, characters=2000)) < 3000


async def test_a_long_value_is_cut_and_marked(sandbox: Sandbox) -> None:
    assert str(await value(sandbox, "replace(hex(zeroblob(5000)), '00', 'x')")).endswith(
        "4000 characters more]"
    )


async def test_values_that_json_lacks_are_shown(sandbox: Sandbox) -> None:
    assert await value(sandbox, "x'00ff'") == "x'00ff'"
    assert await value(sandbox, "CAST(x'ff41' AS TEXT)") == "\udcffA"


@each_case(
    ("sql", "said"),
    [
        ("", "OK, nothing to do"),
        (" ; -- nothing\n;", "OK, nothing to do"),
        ("SELEC 1", 'error: near "SELEC": syntax error'),
        ("SELECT 'open", "error: the quote ' at character 8 is not closed"),
        ("SELECT * FROM nowhere", "error: no such table: nowhere"),
        ("DESCRIBE nowhere", "error: no such table: nowhere"),
        ("SHOW PROCESSLIST", "error: the database is SQLite"),
        ("SELECT 'a' REGEXP '('", "error: REGEXP: missing )"),
        ("SELECT '\ud800'", "error: "),
        ("-" * 1_000_001, "error: the SQL is longer than 1,000,000 characters"),
    ],
)
async def test_an_impossible_request_is_refused(sandbox: Sandbox, sql: str, said: str) -> None:
    assert (await ask(sandbox, sql)).startswith(said)


@each_case("name", [name for name in BOMBS if THOROUGH or name not in SLOW_BOMBS])
async def test_bombs_end_within_the_limit_and_harm_nothing(
    sandbox: Sandbox, short_grace: None, name: str
) -> None:
    assert (await ask(sandbox, BOMBS[name], seconds=0.3)).startswith("error: ")
    assert await read_table(sandbox, PEOPLE.name) == PEOPLE


async def test_a_killed_call_leaves_the_state_before_it(sandbox: Sandbox, short_grace: None) -> None:
    seen = await ask(
        sandbox,
        "BEGIN; UPDATE `the people` SET name = 'x'; " + BOMBS["endless regular expression"],
        seconds=0.3,
    )
    assert "was killed" in seen
    assert await read_table(sandbox, PEOPLE.name) == PEOPLE


async def test_a_call_works_after_all_processes_of_the_agent_were_killed(sandbox: Sandbox) -> None:
    await ask(sandbox, "SELECT 1")
    await sandbox.exec(["sh", "-c", "kill -9 -1"])
    assert rows(await ask(sandbox, "SELECT 2")) == [[2]]


async def test_the_limit_on_processor_time_is_that_of_the_call_and_not_of_the_call_before(
    sandbox: Sandbox,
) -> None:
    await run_routine(sandbox, "query", {**QUERY, "sql": "SELECT 1"}, timeout=600.0)
    with_limit = {**QUERY, "seconds": 60, "sql": BOMBS["endless regular expression"]}
    result = await run_routine(sandbox, "query", with_limit, timeout=0.5)
    assert result.limit == "wall_seconds"
    assert rows(await ask(sandbox, "SELECT 3")) == [[3]]


async def test_a_database_cannot_grow_without_bound(sandbox: Sandbox) -> None:
    filling = (
        "CREATE TABLE big (a); INSERT INTO big WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) SELECT zeroblob(1000000) FROM n"
    )
    assert "must not grow beyond 16 MiB" in await ask(sandbox, filling)
    assert await read_table(sandbox, PEOPLE.name) == PEOPLE
    await ask(sandbox, "DROP TABLE big")


async def test_a_call_costs_little_more_than_the_cheapest_command(sandbox: Sandbox) -> None:
    commands, calls = [], []
    for _ in range(15):
        commands.append((await sandbox.exec(["true"])).cpu_seconds)
        calls.append(
            (await run_routine(sandbox, "query", {**QUERY, "sql": "SELECT 1"}, timeout=10.0)).cpu_seconds
        )
    # A call takes about twice as much. A Python that starts for each call would take ten times as much.
    assert min(calls) < 4 * min(commands)
