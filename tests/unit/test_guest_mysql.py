"""MySQL's dialect: the split into statements, and the comparison of texts."""

from __future__ import annotations

import contextlib

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.db.guest import mysql, mysql_values


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
    try:
        found = list(mysql.statements(text, escapes=escapes))
    except mysql.Unreadable:
        return
    for _, tokens in found:
        mysql.quote_stored_numbers(tokens)
        mysql.prepare_for_parser(tokens, quotes_are_strings=escapes)


# Linear time is half a second here, and quadratic time would be minutes.
@pytest.mark.timeout(60)
@each_case("text", [part * 100_000 for part in ("(", "'\\", "/*", "a,", "1.")])
def test_reading_takes_time_in_proportion_to_the_text(text: str) -> None:
    with contextlib.suppress(mysql.Unreadable):
        for _, tokens in mysql.statements(text, escapes=True):
            mysql.quote_stored_numbers(tokens)
            mysql.prepare_for_parser(tokens, quotes_are_strings=False)


@each_case(("one", "other"), [("a", "A"), ("é", "E"), ("ß", "SS"), ("ﬁ", "fi"), ("İ", "i"), ("", "")])
def test_case_and_accents_do_not_matter(one: str, other: str) -> None:
    assert mysql_values.compare(one, other) == 0


@each_case(("one", "other"), [("a", "b"), ("a", "a "), ("–", "-"), ("", " ")])
def test_other_texts_are_ordered(one: str, other: str) -> None:
    assert mysql_values.compare(one, other) == -mysql_values.compare(other, one) != 0
