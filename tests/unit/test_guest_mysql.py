"""MySQL's dialect, told into statements and rewritten for SQLite, as text."""

from __future__ import annotations

import sqlite3
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.sandbox.guest import mysql, mysql_functions


def split(text: str, *, escapes: bool = False) -> list[str]:
    return [mysql.text_of(tokens) for _, tokens in mysql.statements(text, escapes=escapes)]


def translated(text: str, *, meant_for_mysql: bool = False) -> str:
    ((_, tokens),) = mysql.statements(text, escapes=True)
    return mysql.translated(tokens, meant_for_mysql=meant_for_mysql)


@pytest.mark.parametrize(
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
def test_a_text_is_told_into_statements(text: str, parts: list[str]) -> None:
    assert split(text) == parts


def test_with_escapes_a_backslash_escapes_a_quote() -> None:
    assert split("SELECT 'a\\'; b'; SELECT 2 # ; no", escapes=True) == ["SELECT 'a\\'; b'", "SELECT 2"]


@pytest.mark.parametrize("text", ["SELECT 'a", 'SELECT "a', "SELECT `a"])
def test_a_quote_that_is_not_closed_is_told(text: str) -> None:
    with pytest.raises(mysql.Unreadable, match="at character 8 is not closed"):
        split(text)


@pytest.mark.parametrize(
    ("text", "sqlites"),
    [
        ("SELECT 'it\\'s'", "SELECT 'it''s'"),
        ("SELECT a || b, c >= 1, d <> 2, e != 3", "SELECT a || b, c >= 1, d <> 2, e != 3"),
        ("SELECT a RLIKE 'x' && b <=> c", "SELECT a REGEXP 'x' AND b IS c"),
        ("SELECT left(a, 2), t.left", "SELECT mysql_left(a, 2), t.left"),
        ("INSERT INTO t SET a = f(1, 2), `b c` = 'x'", "INSERT INTO t (a, `b c`) VALUES (f(1, 2), 'x')"),
        ("INSERT IGNORE t VALUE (1)", "INSERT OR IGNORE INTO t VALUES(1)"),
        ("INSERT INTO t (a) VALUES (1)", "INSERT INTO t(a) VALUES(1)"),
        (
            "UPDATE t SET t.a = 1, t.`b` = (t.c = 2) WHERE t.a = 3",
            "UPDATE t SET a = 1, `b` =(t.c = 2) WHERE t.a = 3",
        ),
        ("TRUNCATE TABLE t", "DELETE FROM t"),
        ("START TRANSACTION", "BEGIN"),
        ("CREATE TABLE t (a int auto_increment) ENGINE=InnoDB CHARSET=utf8", "CREATE TABLE t(a int)"),
    ],
)
def test_what_only_mysql_reads_is_rewritten(text: str, sqlites: str) -> None:
    assert translated(text) == sqlites


@pytest.mark.parametrize(
    ("text", "sqlites"),
    [
        (
            "SELECT * FROM t WHERE a >= -5 AND `b` <> 2.5",
            "SELECT * FROM t WHERE (a + 0) >= - 5 AND (`b` + 0) <> 2.5",
        ),
        ("UPDATE t SET a = 1 WHERE b = 2", "UPDATE t SET a = 1 WHERE (b + 0) = 2"),
        ("DELETE FROM t WHERE a IN (1, 2) OR b = '2'", "DELETE FROM t WHERE (a + 0) IN(1, 2) OR b = '2'"),
        ("DELETE FROM t WHERE a BETWEEN 1 AND 2", "DELETE FROM t WHERE (a + 0) BETWEEN 1 AND 2"),
    ],
)
def test_what_mysql_compares_with_a_number_is_a_number(text: str, sqlites: str) -> None:
    assert translated(text, meant_for_mysql=True) == sqlites


def test_double_quotes_are_texts_where_that_is_asked_for() -> None:
    assert translated('SELECT "it\'s ""so"""', meant_for_mysql=True) == "SELECT 'it''s \"so\"'"


@given(st.text(alphabet="ab'\"`\\;#-/* \n()1.5,=", max_size=60), st.booleans())
@settings(max_examples=300)
def test_no_text_breaks_the_reading(text: str, escapes: bool) -> None:
    try:
        found = list(mysql.statements(text, escapes=escapes))
    except mysql.Unreadable:
        return
    for _, tokens in found:
        mysql.as_stored(tokens)
        mysql.translated(tokens, meant_for_mysql=escapes)


@given(st.text(max_size=30))
def test_a_string_keeps_its_meaning(value: str) -> None:
    value = value.replace("\0", "").encode("utf-8", "ignore").decode()
    literal = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    connection = sqlite3.connect(":memory:")
    assert connection.execute(translated(f"SELECT {literal}")).fetchone() == (value,)
    connection.close()


@pytest.mark.parametrize("text", [part * 200_000 for part in ("(", "'\\", "/*", "a,", "1.")])
def test_reading_takes_time_in_proportion_to_the_text(text: str) -> None:
    started = time.process_time()
    try:
        for _, tokens in mysql.statements(text, escapes=True):
            mysql.as_stored(tokens)
            mysql.translated(tokens, meant_for_mysql=False)
    except mysql.Unreadable:
        pass
    # A tenth of it here; with the square of the length it would be minutes.
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    ("one", "other"), [("a", "A"), ("é", "E"), ("ß", "SS"), ("ﬁ", "fi"), ("İ", "i"), ("", "")]
)
def test_case_and_accents_do_not_matter(one: str, other: str) -> None:
    assert mysql_functions.compare(one, other) == 0


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("a", "a "), ("–", "-"), ("", " ")])
def test_other_texts_are_ordered(one: str, other: str) -> None:
    assert mysql_functions.compare(one, other) == -mysql_functions.compare(other, one) != 0
