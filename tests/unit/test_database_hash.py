"""AgentBench's hash of a table's state."""

from __future__ import annotations

import hashlib

from harness.environments.db.grader import is_hash_of, table_hash

ROWS = (("1", "a"), ("2", None), (None, "é"))


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def test_the_hash_follows_the_recipe() -> None:
    digits = sorted(md5(text)[:5] for text in ("1,a", "2", "é"))
    assert table_hash(ROWS) == md5(",".join(digits))


def test_the_order_of_rows_does_not_matter() -> None:
    assert table_hash(reversed(ROWS)) == table_hash(ROWS)


def test_an_empty_text_is_no_null() -> None:
    assert table_hash([("1", "")]) != table_hash([("1", None)])


def test_the_hash_of_many_rows_is_cut_as_mysql_cuts_it() -> None:
    rows = [(str(number),) for number in range(500)]
    digits = ",".join(sorted(md5(text)[:5] for (text,) in rows))
    assert table_hash(rows, cut=True) == md5(digits[:1024])


def test_either_way_of_hashing_is_recognised() -> None:
    rows = [(str(number),) for number in range(500)]
    assert is_hash_of(table_hash(rows), rows)
    assert is_hash_of(table_hash(rows, cut=True), rows)
    assert not is_hash_of(table_hash(rows), rows[1:])


def test_texts_that_are_not_utf8_have_a_hash() -> None:
    assert table_hash([("\udcff",)]) != table_hash([("?",)])
