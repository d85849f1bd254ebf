"""The reader of data files accepts every known form, and refuses others with a clear error."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks.data.local import read_rows
from harness.core.errors import DataError

ROWS = [{"id": 1, "text": "naïve 🦊 \u2028 end"}, {"id": 2, "text": "\x0b\x0c\x85"}]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
ARRAY = json.dumps(ROWS, ensure_ascii=False, indent=2).encode()


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    return path


def failure(path: Path, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read_rows(path, **options)
    assert str(path) in str(caught.value)
    return caught.value


@each_case(
    ("name", "data"),
    [
        ("d.jsonl", LINES),
        ("d.jsonl.gz", LINES),
        ("D.JSONL.GZ", LINES),
        ("d.json", ARRAY),
        ("d.json.gz", ARRAY),
        ("crlf.jsonl", LINES.replace(b"\n", b"\r\n")),
        ("blank.jsonl", b"\n  \n" + LINES.replace(b"\n", b"\n\r\n\t\n")),
        ("open.jsonl", LINES.rstrip(b"\n")),
        ("bom.jsonl", b"\xef\xbb\xbf" + LINES),
        ("bom.json", b"\xef\xbb\xbf" + ARRAY),
        ("bom.jsonl.gz", b"\xef\xbb\xbf" + LINES),
    ],
)
def test_reads_the_same_rows_in_every_form(tmp_path: Path, name: str, data: bytes) -> None:
    path = write(tmp_path, name, data)
    rows, sha256 = read_rows(path)
    assert [row.values for row in rows] == ROWS
    assert {row.path for row in rows} == {str(path)}
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_rows_know_their_line_or_item(tmp_path: Path) -> None:
    rows, _ = read_rows(write(tmp_path, "d.jsonl", b"\n" + LINES.replace(b"\n", b"\n\n")))
    assert [(row.line, row.item) for row in rows] == [(2, None), (4, None)]
    rows, _ = read_rows(write(tmp_path, "d.json", ARRAY))
    assert [(row.line, row.item) for row in rows] == [(None, 1), (None, 2)]


def test_odd_numbers_and_repeated_keys_are_fine(tmp_path: Path) -> None:
    big = "9" * 4_000
    data = f'{{"nan": NaN, "inf": -Infinity, "big": {big}, "minus": -{big}, "same": 1, "same": 2}}'
    (row,), _ = read_rows(write(tmp_path, "d.jsonl", data.encode()))
    assert math.isnan(row.values["nan"])
    assert row.values["inf"] == -math.inf
    assert row.integer("big") == 10**4_000 - 1
    assert row.integer("minus") == 1 - 10**4_000
    assert row.integer("same") == 2


def test_several_gzip_members_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl.gz"
    path.write_bytes(b"".join(gzip.compress(line) for line in LINES.splitlines(keepends=True)))
    assert len(read_rows(path)[0]) == 2


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, "HumanEval.jsonl.gz", LINES)
    error = failure(tmp_path / "HumanEval.jsonl")
    assert "no such file" in str(error)
    assert error.hint == "did you mean 'HumanEval.jsonl.gz'?"
    assert failure(tmp_path / "no" / "such" / "folder.json").hint == "name a file, hub or bundled"
    assert "no such file" in str(failure(tmp_path / "nothing"))


def test_folder_fifo_and_unknown_ending_are_refused(tmp_path: Path) -> None:
    (tmp_path / "d.json").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert "is a folder" in str(failure(tmp_path / "d.json"))
    assert "not a regular file" in str(failure(tmp_path / "pipe.jsonl"))
    assert ".jsonl.gz" in (failure(write(tmp_path, "d.csv", b"a,b")).hint or "")
    assert "too long" in str(failure(tmp_path / ("x" * 300 + ".json")))


@each_case(
    ("name", "data"),
    [
        ("d.jsonl", b""),
        ("d.json", b""),
        ("d.jsonl.gz", b""),
        ("d.jsonl", b"\n \r\n"),
        ("d.json", b" \n"),
        ("d.json", b"[]"),
        ("d.jsonl", b"\xef\xbb\xbf"),
    ],
)
def test_no_rows_is_an_error(tmp_path: Path, name: str, data: bytes) -> None:
    assert "holds no rows" in str(failure(write(tmp_path, name, data)))


@each_case(
    ("name", "data", "line", "said"),
    [
        ("d.jsonl", b'{"a": 1}\n\n{"a": }\n', 3, "broken JSON at column 7"),
        ("d.jsonl.gz", b'{"a": 1}\n{"a": 1\n', 2, "broken JSON"),
        ("d.json", b'[\n  {"a": 1},\n  {"a": 2,}\n]', 3, "broken JSON at column"),
        ("d.json", b"", None, "holds no rows"),
        ("d.jsonl", b'{"a": 1}\n[1, 2]\n', 2, "needs a JSON object, found a list of 2"),
        ("d.jsonl", b"null\n", 1, "needs a JSON object, found null"),
        ("d.json", b'{"a": 1}', None, "needs a JSON array of objects, found an object"),
        ("d.json", b'[{"a": 1}, "b"]', None, "item 2: needs a JSON object, found a string ('b')"),
        ("d.jsonl", b'{"a": 1}\n{"a": "\xff"}\n', 2, "not UTF-8 (byte 0xff)"),
        ("d.json", b'[\n{"a":\n"caf\xe9"}]', 3, "not UTF-8 (byte 0xe9)"),
        ("d.jsonl", '{"a": 1}\n'.encode("utf-16"), 1, "not UTF-8"),
        ("d.jsonl", b'{"a": ' + b"1" * 200_000 + b"}", 1, "an integer has 200,000 digits"),
        ("d.jsonl", b'{"a": 1}\n' + b"[" * 200_000, 2, "nested too deeply"),
    ],
)
def test_broken_content_names_its_line(
    tmp_path: Path, name: str, data: bytes, line: int | None, said: str
) -> None:
    path = write(tmp_path, name, data)
    error = failure(path)
    assert said in str(error)
    assert error.line == line
    if line is not None:
        assert str(error).startswith(f"{path}:{line}: ")
    assert len(str(error)) < len(str(path)) + 200


def test_a_format_under_the_wrong_suffix_is_recognised(tmp_path: Path) -> None:
    assert ".jsonl" in (failure(write(tmp_path, "d.json", LINES)).hint or "")
    assert ".json file" in (failure(write(tmp_path, "a.jsonl", ARRAY)).hint or "")
    assert ".json" in (failure(write(tmp_path, "b.jsonl", json.dumps(ROWS).encode())).hint or "")


@each_case("cut", [0, 5, 12, 40, -1])
def test_truncated_gzip(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "d.jsonl.gz"
    path.write_bytes(gzip.compress(LINES * 50)[:cut])
    said = str(failure(path))
    assert "holds no rows" in said if cut == 0 else "broken gzip data" in said


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "d.json.gz"
    path.write_bytes(ARRAY)
    assert "broken gzip data" in str(failure(path))
    whole = bytearray(gzip.compress(ARRAY))
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)
    assert "broken gzip data" in str(failure(path))


@each_case("name", ["d.jsonl", "d.jsonl.gz", "d.json", "d.json.gz"])
def test_reading_is_bounded_by_unpacked_bytes(tmp_path: Path, name: str) -> None:
    data = LINES if ".jsonl" in name else ARRAY
    path = write(tmp_path, name, data)
    assert len(read_rows(path, max_bytes=len(data))[0]) == 2
    assert "holds more than" in str(failure(path, max_bytes=len(data) - 1))


def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = write(tmp_path, "bomb.jsonl.gz", b" " * 50_000_000)
    assert "holds more than 1,000,000 bytes" in str(failure(path, max_bytes=1_000_000))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", LINES)
    path.chmod(0)
    assert "cannot be read: Permission denied" in str(failure(path))
