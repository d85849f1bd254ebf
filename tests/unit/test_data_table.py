"""CSV, TSV and Parquet as rows."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from case_checks import each_case

from harness.benchmarks.data.local import Table, read_file
from harness.benchmarks.data.rows import file_suffix
from harness.core.errors import DataError

DPR = Table(columns=("question", "answer"), delimiter="\t", literals=("answer",))


def values(path: Path, table: Table | None = None) -> list[dict[str, object]]:
    return [dict(row.values) for row in read_file(path, table)[0]]


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_a_header_names_the_fields(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.csv", 'name,note\r\nÅse,"one, two"\r\nBo,"a ""quoted"" word"\r\n\r\nNone,nan\r\n'
    )
    assert values(path) == [
        {"name": "Åse", "note": "one, two"},
        {"name": "Bo", "note": 'a "quoted" word'},
        {"name": "None", "note": "nan"},
    ]
    assert read_file(path)[1] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_tabs_and_compression_are_known_by_the_name(tmp_path: Path) -> None:
    text = "a\tb\n1\t2,3\n"
    assert values(written(tmp_path / "a.tsv", text)) == [{"a": "1", "b": "2,3"}]
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(text.encode()))
    assert values(tmp_path / "a.tsv.gz") == [{"a": "1", "b": "2,3"}]


def test_a_line_end_in_quotes_belongs_to_the_field_and_lines_are_still_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'a,b\n"one\r\ntwo",2\n3,4\n')
    rows, _ = read_file(path)
    assert rows[0].values["a"] == "one\r\ntwo"
    assert rows[1].line == 4


def test_answers_of_dpr_are_literals_and_nothing_is_evaluated(tmp_path: Path) -> None:
    path = written(tmp_path / "nq.csv", "who wrote it\t['Bob', \"O'Neil\"]\nwhen\t['1972']\n")
    assert values(path, DPR) == [
        {"question": "who wrote it", "answer": ["Bob", "O'Neil"]},
        {"question": "when", "answer": ["1972"]},
    ]
    for hostile in ("__import__('os').system('true')", "[open('/etc/passwd')]", "(" * 5000, "9" * 5000, ""):
        with pytest.raises(DataError) as caught:
            values(written(tmp_path / "bad.csv", f"who\t['a']\nwhy\t{hostile}\n"), DPR)
        assert (caught.value.line, caught.value.field) == (2, "answer")


@each_case(
    ("text", "line", "said"),
    [
        ("a,b\n1,2\n3\n", 3, "needs 2 fields"),
        ("a,b\n1,2,3\n", 2, "needs 2 fields"),
        ("a,a\n1,2\n", 1, "a different name for each column"),
        ("a,\n1,2\n", 1, "a different name for each column"),
        ('a,b\n1,"2\n', 2, "broken table"),
        ("a,b\n", None, "holds no rows"),
        ("", None, "holds no rows"),
    ],
)
def test_a_broken_table_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int | None, said: str
) -> None:
    with pytest.raises(DataError, match=said) as caught:
        read_file(written(tmp_path / "a.csv", text))
    assert caught.value.line == line


def test_bytes_that_are_not_utf_8_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,2\n\xff,3\n")
    with pytest.raises(DataError, match="not UTF-8") as caught:
        read_file(tmp_path / "a.csv")
    assert caught.value.line == 3


def test_broken_gzip_data_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n")[:-6])
    with pytest.raises(DataError, match="broken gzip data"):
        read_file(tmp_path / "a.csv.gz")


def test_parquet_is_read_by_datasets(tmp_path: Path) -> None:
    rows = [{"id": 1, "texts": ["a", "b"], "none": None}, {"id": 2, "texts": [], "none": "x"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    read, sha256 = read_file(tmp_path / "a.parquet")
    assert [dict(row.values) for row in read] == rows
    assert [row.item for row in read] == [1, 2]
    assert sha256 == hashlib.sha256((tmp_path / "a.parquet").read_bytes()).hexdigest()


def test_a_file_that_only_has_the_name_of_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_file(written(tmp_path / "a.parquet", "no"))


def test_endings_are_known() -> None:
    known = {
        "a.jsonl": ".jsonl",
        "A.CSV": ".csv",
        "b.tsv.gz": ".tsv.gz",
        "c.parquet": ".parquet",
        "d.txt": None,
        "a.gz": None,
        "jsonl": None,
    }
    assert {name: file_suffix(Path(name)) for name in known} == known


def test_a_file_of_another_kind_names_the_kinds(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_file(written(tmp_path / "a.txt", "a"))
    assert ".jsonl" in (caught.value.hint or "")
