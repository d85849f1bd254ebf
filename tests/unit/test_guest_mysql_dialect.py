"""MySQL's statements on SQLite leave the same rows as MySQL, and none harms the translator."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from effort import text_of_length
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.db.guest import database, mysql, mysql_dialect, mysql_functions, mysql_values

# Each line: a table, a statement, and the rows that MariaDB 10.11 left of it, by the collation
# utf8mb4_uca1400_nopad_ai_ci, which compares as MySQL's default does.
RECORDED = [
    json.loads(line)
    for line in Path(__file__).with_name("recorded_mysql.jsonl").read_text(encoding="utf-8").splitlines()
]
TEAMS: list[tuple[str | None, str | None]] = [
    ("Red Sox", "2001"),
    ("ann", "9"),
    ("ÁNN", "10"),
    ("pad ", None),
]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    mysql_functions.install_collations(connection)
    yield connection
    connection.close()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def fill(
    connection: sqlite3.Connection, name: str, columns: Sequence[str], rows: Sequence[Sequence[str | None]]
) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {quoted(name)}")
    defined = ", ".join(f"{quoted(column)} TEXT COLLATE NOCASE" for column in columns)
    connection.execute(f"CREATE TABLE {quoted(name)} ({defined})")
    connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({', '.join('?' * len(columns))})", rows)


def left_by(
    connection: sqlite3.Connection, sql: str, name: str = "t", *, meant_for_mysql: bool = True
) -> list[tuple[str | None, ...]]:
    failures = mysql_functions.install(connection)
    session = database.Session(connection, failures, 10, mysql_first=meant_for_mysql)
    session.run(sql, lambda cursor: cursor.fetchall())
    return connection.execute(f"SELECT * FROM {quoted(name)}").fetchall()


def leaves_the_recorded_rows(record: dict[str, Any]) -> bool:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        mysql_functions.install_collations(connection)
        fill(connection, record["table"], record["columns"], record["rows"])
        left = left_by(connection, record["sql"], record["table"])
    return Counter(left) == Counter(map(tuple, record["after"]))


def translated(sql: str) -> str:
    ((_, tokens),) = mysql.statements(sql, escapes=True)
    return mysql_dialect.translate(*mysql.prepare_for_parser(tokens, quotes_are_strings=True))


def test_every_recorded_statement_leaves_the_rows_of_mysql() -> None:
    assert [record["sql"] for record in RECORDED if not leaves_the_recorded_rows(record)] == []


@each_case(
    ("literal", "value"),
    [
        (r"'a\nb\tc'", "a\nb\tc"),
        (r"'a\%b\_c'", r"a\%b\_c"),
        (r"'a\xb\\c'", r"axb\c"),
        ("'it''s \"\"'", 'it\'s ""'),
        ('"say \\"it\\" ""so"""', 'say "it" "so"'),
        ("'a' 'b'  \"c\"", "abc"),
        ("_utf8mb4'é'", "é"),
        ("0x4D79", "My"),
        ("7.50", "7.50"),
        ("-007", "-7"),
        (".5", "0.5"),
        ("1e3", "1000"),
        ("12345678901234567890", "12345678901234567890"),
        ("TRUE", "1"),
        ("DEFAULT", None),
        (r"'a\0b'", "a\0b"),
    ],
)
def test_a_literal_is_stored_as_mysql_stores_it(
    connection: sqlite3.Connection, literal: str, value: str | None
) -> None:
    fill(connection, "t", ["a"], [])
    assert left_by(connection, f"INSERT INTO t VALUES ({literal})") == [(value,)]


@each_case(
    ("sql", "left"),
    [
        ("UPDATE t SET year = '1' WHERE 2nd IS NULL", "no such column"),
        ("UPDATE t SET team = 'x' WHERE `no column` = 'x'", "no such column"),
        ("INSERT INTO t (team, team) VALUES (1, 2)", "appears twice"),
        ("INSERT INTO t (team) VALUES (1, 2)", "2 values for 1 columns"),
        ("UPDATE t SET team = 'x' WHERE", "syntax error"),
        ("INSERT INTO t VALUES ('only one')", "1 values were supplied"),
    ],
)
def test_a_statement_that_mysql_refuses_is_refused(
    connection: sqlite3.Connection, sql: str, left: str
) -> None:
    fill(connection, "t", ["team", "year"], TEAMS)
    with pytest.raises(database.Refused, match=left):
        left_by(connection, sql)


# What the translation lacks, for an agent's statement and for one of a benchmark.
LACKING = {
    "SELECT STDDEV(year) FROM t": "ERROR 1305 (42000): FUNCTION STDDEV does not exist",
    "SELECT team <=> LEFT(team) FROM t": "ERROR 1582 (42000): Incorrect parameter count in the call to "
    "native function 'LEFT'",
    "SELECT QUOTE(team) <=> team FROM t": "ERROR 1235 (42000): This version of MySQL doesn't yet support "
    "'QUOTE()'",
    "SELECT team FROM t WHERE (team, year) < ('a', 1) XOR 1": "ERROR 1235 (42000): This version of MySQL "
    "doesn't yet support 'this comparison of rows'",
    "UPDATE t LEFT JOIN t u ON t.team = u.year SET t.team = 1": "ERROR 1235 (42000): This version of MySQL "
    "doesn't yet support 'UPDATE with LIMIT, USING or an outer JOIN over several tables'",
}


def test_what_is_missing_gets_the_error_that_mysql_prints(connection: sqlite3.Connection) -> None:
    fill(connection, "t", ["team", "year"], TEAMS)
    said = []
    for sql in LACKING:
        for meant_for_mysql in (True, False):
            with pytest.raises(database.Refused) as caught:
                left_by(connection, sql, meant_for_mysql=meant_for_mysql)
            said.append((sql, str(caught.value)))
    assert said == [pair for pair in LACKING.items() for _ in range(2)]


# The years of the rows that each statement gives the team x, which are those that MySQL would choose.
CHOICES: dict[str, list[str | None]] = {
    "UPDATE t SET team = 'x' WHERE 1 NOT IN (SELECT year FROM t)": [],
    "UPDATE t SET team = 'x' WHERE 'Ann' IN (SELECT team FROM t) AND year = 9": ["9"],
    "UPDATE t SET year = 'z', team = (SELECT IF(MAX(year) = 9, 'x', 'y') FROM u)": ["z"] * 4,
    "UPDATE t JOIN u ON t.year = u.year SET t.team = 'x' WHERE u.team = 'ann'": ["9", "10"],
    "UPDATE t SET team = 'x' WHERE (team, year) NOT IN (('ann', 9), ('red sox', 2001))": ["10", None],
}


def choose(sql: str) -> list[str | None]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        mysql_functions.install_collations(connection)
        for name in ("t", "u"):
            fill(connection, name, ["team", "year"], TEAMS)
        return [year for team, year in left_by(connection, sql) if team == "x"]


def test_a_condition_over_rows_means_the_same_as_in_mysql() -> None:
    assert {sql: choose(sql) for sql in CHOICES} == CHOICES


@each_case(
    "sql",
    [
        "DELETE a FROM t a JOIN t b ON a.team = b.team AND a.year < b.year",
        "DELETE FROM t WHERE team = 'ann' ORDER BY year + 0 LIMIT 1",
        "DELETE FROM t WHERE year IN (SELECT MIN(year + 0) FROM t)",
        "DELETE FROM t WHERE team = 'ANN' AND year < 10",
        "DELETE FROM t WHERE BINARY team = 'ann'",
    ],
)
def test_rows_are_chosen_as_mysql_chooses_them(connection: sqlite3.Connection, sql: str) -> None:
    fill(connection, "t", ["team", "year"], TEAMS)
    left = left_by(connection, sql)
    expected = [row for row in TEAMS if row != ("ann", "9")]
    # The join compares texts, and as a text "10" comes before "9".
    assert left == (expected if "JOIN" not in sql else [row for row in TEAMS if row != ("ÁNN", "10")])


def test_assignments_are_made_from_left_to_right(connection: sqlite3.Connection) -> None:
    fill(connection, "t", ["team", "year"], [("a", "1")])
    assert left_by(connection, "UPDATE t SET team = year + 1, year = team") == [("2", "2")]


def test_a_name_may_begin_with_a_digit(connection: sqlite3.Connection) -> None:
    fill(connection, "2010_stats", ["1st"], [("a",)])
    assert left_by(connection, "UPDATE 2010_stats SET 1st = 'b'", "2010_stats") == [("b",)]


def test_double_quotes_of_an_agent_are_a_name_if_it_exists_and_else_a_text(
    connection: sqlite3.Connection,
) -> None:
    fill(connection, "t", ["team", "year"], [("ann", "9")])
    sql = 'UPDATE t SET "team" = CONCAT(LEFT("team", 1), "z") WHERE "year" <=> "9"'
    assert left_by(connection, sql, meant_for_mysql=False) == [("az", "9")]


DEEP = 3_000
UNBOUNDED = {
    "parentheses": "SELECT " + "(" * DEEP + "1" + ")" * DEEP,
    "negations": "SELECT " + "- " * DEEP + "1",
    "calls": "SELECT " + "f(" * DEEP + "1" + ")" * DEEP,
    "queries": "SELECT " + "(SELECT " * DEEP + "1" + ")" * DEEP,
    "cases": "SELECT " + "CASE WHEN " * DEEP,
    "braces": "SELECT " + "{" * DEEP,
    "operators": "SELECT 1" + " XOR 1" * DEEP,
    "assignments that double": "UPDATE t SET " + ",".join(f"c{i + 1} = c{i} + c{i}" for i in range(40)),
    "characters": "SELECT '" + "x" * 300_000 + "'",
}


@pytest.mark.timeout(60)
@each_case("sql", UNBOUNDED.values(), ids=UNBOUNDED)
def test_a_statement_out_of_bounds_is_refused(sql: str) -> None:
    with pytest.raises(mysql.Unreadable):
        translated(sql)


WORDS = (
    "SELECT INSERT UPDATE DELETE REPLACE INTO FROM t SET WHERE a = 1 'x' \"y\" `z` ( ) , ; IN LIKE BETWEEN "
    "AND OR XOR NOT NULL CASE WHEN THEN END INTERVAL DAY CAST AS CHAR DECIMAL GROUP_CONCAT DISTINCT ORDER BY "
    "LIMIT VALUES ROW DEFAULT ON DUPLICATE KEY COLLATE utf8mb4_bin ROUND 2.5 -- /* */ /*! # @x := {"
)


@given(st.lists(st.sampled_from(WORDS.split()), max_size=14).map(" ".join))
def test_no_statement_breaks_the_translation(sql: str) -> None:
    with suppress(mysql.Unreadable):
        for _, tokens in mysql.statements(sql, escapes=True):
            if mysql.text_of(tokens):
                mysql_dialect.translate(*mysql.prepare_for_parser(tokens, quotes_are_strings=True))


@given(st.text(max_size=30))
def test_a_string_keeps_its_meaning(value: str) -> None:
    value = value.encode("utf-8", "ignore").decode()
    literal = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    connection = sqlite3.connect(":memory:")
    assert connection.execute(translated(f"SELECT {literal}")).fetchone() == (value,)
    connection.close()


def split(text: str, *, escapes: bool = False) -> list[str]:
    return [mysql.text_of(tokens) for _, tokens in mysql.statements(text, escapes=escapes)]


@each_case(
    ("text", "parts"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';'; SELECT \"a;b\", `c;d`, [e;f]", ["SELECT ';'", 'SELECT "a;b", `c;d`, [e;f]']),
        ("SELECT 1 -- ; no\n; SELECT /* ; */ 2", ["SELECT 1", "SELECT   2"]),
        ("SELECT 'it''s; one'", ["SELECT 'it''s; one'"]),
        (
            "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; SELECT 2; END; SELECT 3",
            ["CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; SELECT 2; END", "SELECT 3"],
        ),
    ],
)
def test_a_text_is_split_into_statements(text: str, parts: list[str]) -> None:
    assert split(text) == parts


def test_with_escapes_a_backslash_escapes_a_quote() -> None:
    assert split("SELECT 'a\\'; b'; SELECT 2 # ; no", escapes=True) == ["SELECT 'a\\'; b'", "SELECT 2"]


@each_case("text", ["SELECT 'a", 'SELECT "a', "SELECT `a"])
def test_an_unclosed_quote_is_an_error(text: str) -> None:
    with pytest.raises(mysql.Unreadable, match="at character 8 is not closed"):
        split(text)


@given(st.text(alphabet="ab'\"`\\;#-/* \n()1.5,=", max_size=60), st.booleans())
def test_no_text_breaks_the_reader(text: str, escapes: bool) -> None:
    found = []
    with suppress(mysql.Unreadable):
        found = list(mysql.statements(text, escapes=escapes))
    for _, tokens in found:
        mysql.quote_stored_numbers(tokens)
        mysql.prepare_for_parser(tokens, quotes_are_strings=escapes)


# Linear time is half a second here, and quadratic time would be minutes.
@pytest.mark.timeout(60)
@each_case("text", [text_of_length(part, 200_000) for part in ("(", "'\\", "/*", "a,", "1.")])
def test_reading_takes_time_in_proportion_to_the_text(text: str) -> None:
    with suppress(mysql.Unreadable):
        for _, tokens in mysql.statements(text, escapes=True):
            mysql.quote_stored_numbers(tokens)
            mysql.prepare_for_parser(tokens, quotes_are_strings=False)


@each_case(("one", "other"), [("a", "A"), ("é", "E"), ("ß", "SS"), ("ﬁ", "fi"), ("İ", "i"), ("", "")])
def test_case_and_accents_do_not_matter(one: str, other: str) -> None:
    assert mysql_values.compare(one, other) == 0


@each_case(("one", "other"), [("a", "b"), ("a", "a "), ("–", "-"), ("", " ")])
def test_other_texts_are_ordered(one: str, other: str) -> None:
    assert mysql_values.compare(one, other) == -mysql_values.compare(other, one) != 0
