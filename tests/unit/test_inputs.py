"""Files that hang, never end or explode, and text that breaks its reader: refused at once, with a place."""

from __future__ import annotations

import gzip
import json
import os
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.data.local import read_rows
from harness.errors import DataError, UsageError
from harness.inputs import files
from harness.inputs.files import open_input, read_input, sha256_of, unpack, whole_lines
from harness.inputs.json_text import MAX_DEPTH, BrokenJSONError, parse_json
from harness.inputs.yaml_text import parse_yaml, read_yaml


def make_fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def make_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


def make_link(target: str) -> Callable[[Path], Path]:
    def link(path: Path) -> Path:
        path.symlink_to(target)
        return path

    return link


# How to make each, and what the reason must hold.
NOT_FILES = {
    "a named pipe": (make_fifo, "is a named pipe"),
    "a socket": (make_socket, "No such device or address"),
    "a folder": (make_link("/"), "is a folder"),
    "/dev/zero": (make_link("/dev/zero"), "is a device"),
    "a file of the kernel that has its reader wait": (make_link("/proc/kmsg"), "kernel|not permitted"),
    "a file of the kernel without end": (make_link("/proc/self/pagemap"), "is made up by the kernel"),
    "a file of the kernel with an end": (make_link("/proc/cpuinfo"), "is made up by the kernel"),
    "a loop of links": (make_link("input"), "Too many levels"),
    "nothing": (lambda path: path, "No such file"),
}


@pytest.mark.parametrize(("make", "reason"), NOT_FILES.values(), ids=NOT_FILES)
def test_what_is_not_a_regular_file_is_refused_without_waiting(
    tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    path = make(tmp_path / "input")
    with pytest.raises(OSError, match=reason):
        read_input(path)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_text_that_is_no_file_name_is_an_error_of_the_system(name: str) -> None:
    with pytest.raises(OSError, match="is not a file name"):
        read_input(name)


def test_refused_file_is_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="is a device"):
            read_input("/dev/zero")
    assert len(os.listdir("/proc/self/fd")) == before


def test_file_is_read_up_to_the_limit_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"x" * 10)
    assert read_input(path, max_bytes=10) == b"x" * 10
    with pytest.raises(OSError, match="holds more than 9 bytes"):
        read_input(path, max_bytes=9)


def test_file_that_grows_while_it_is_read_ends_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"x")
    with open_input(path, max_bytes=100) as stream:
        path.write_bytes(b"x" * 1000)
        with pytest.raises(OSError, match="holds more than 100 bytes"):
            stream.read()


def test_empty_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "input").touch()
    assert read_input(tmp_path / "input") == b""
    assert sha256_of(tmp_path / "input").startswith("e3b0c442")


def test_gzip_bomb_is_refused_long_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RATIO_FROM_BYTES", 1024 * 1024)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * 50_000_000))
    tracemalloc.start()
    with pytest.raises(DataError, match="as a gzip bomb does"):
        read_rows(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_data_that_is_packed_well_is_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RATIO_FROM_BYTES", 1024)
    text = "".join(json.dumps({"task_id": number, "solution": "return 1"}) + "\n" for number in range(20_000))
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    assert len(read_rows(tmp_path / "rows.jsonl.gz")[0]) == 20_000


def test_unpacked_stream_is_what_was_packed(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    data = os.urandom(300_000)
    path.write_bytes(gzip.compress(data))
    with open_input(path, max_bytes=1_000_000) as stream:
        assert unpack(stream, path).read() == data


def test_lines_end_before_one_that_a_kill_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n\nb\nhalf")
    with open_input(path, max_bytes=100) as stream:
        assert list(whole_lines(stream, path)) == [(1, b"a\n"), (2, b"\n"), (3, b"b\n")]


def test_line_without_end_is_refused_with_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 10)
    path = tmp_path / "lines"
    path.write_bytes(b"short\n" + b"x" * 11)
    with (
        open_input(path, max_bytes=100) as stream,
        pytest.raises(OSError, match="line 2 is longer than 10 bytes"),
    ):
        list(whole_lines(stream, path))


# --- JSON


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


BROKEN_JSON = {
    "nothing": (b"", 1, "broken JSON"),
    "half of it": (b'{"a":\n[1,', 2, "broken JSON"),
    "two values": (b"{}\n{}", 2, "Extra data"),
    "one level too deep": (nested(MAX_DEPTH + 2).encode(), 1, "nested too deeply"),
    "a million levels": (b'{"a":' * 1_000_000, 1, "nested too deeply"),
    "a long integer": (b"[" + b"9" * 301 + b"]", 1, "an integer of 301 digits"),
    "an integer that Python refuses": (b"-" + b"9" * 5000, 1, "an integer of 5,000 digits"),
    "not a number": (b"[NaN]", 1, "NaN is not JSON"),
    "infinity": (b"[-Infinity]", 1, "-Infinity is not JSON"),
    "a number as large as infinity": (b"[1e999]", 1, "too large"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), 1, "not UTF-8"),
    "Latin 1": (b'{\n"a": "\xe9"}', 2, "not UTF-8 (byte 0xe9)"),
    "a raw line end in a text": (b'["a\nb"]', 1, "broken JSON"),
}


@pytest.mark.parametrize(("text", "line", "said"), BROKEN_JSON.values(), ids=BROKEN_JSON)
def test_broken_json_is_refused_with_its_line(text: bytes, line: int, said: str) -> None:
    with pytest.raises(BrokenJSONError) as caught:
        parse_json(text)
    assert said in str(caught.value)
    assert caught.value.line == line
    assert len(str(caught.value)) < 200


def test_json_within_the_bounds_is_read() -> None:
    text = f'{{"deep": {nested(MAX_DEPTH)}, "long": {"9" * 300}, "half": "\\ud800"}}'
    value = parse_json("\ufeff".encode() + text.encode())
    assert (value["long"], value["half"]) == (int("9" * 300), "\ud800")
    assert json.loads(json.dumps(value)) == value


# --- YAML

BROKEN_YAML = {
    "an escape beyond the last character": ('a: "\\U00110000"', 1, "stands for no character"),
    "an escape that no number holds": ('a: 1\nb: "\\Uffffffff"', 2, "stands for no character"),
    "an alias": ("a: &x [1]\nb: *x", 1, "aliases"),
    "an alias of nothing": ("a: *x", 1, "aliases"),
    "an anchor on a key": ("&x a: 1", 1, "aliases"),
    "a merge": ("a:\n  <<: {b: 1}", 2, "merges"),
    "a key twice": ("a: 1\nb: 2\na: 3", 3, "the key 'a' occurs twice"),
    "a key twice, deep down": ("a:\n  b: [{c: 1, c: 2}]", 2, "the key 'c' occurs twice"),
    "the same key in two ways": ("yes: 1\non: 2", 2, "occurs twice"),
    "a list as a key": ("? [1]\n: 2", 1, "a key that is not text"),
    "deep lists": ("[" * 500, 1, "more than 20 levels"),
    "deep blocks": ("- " * 500 + "1", 1, "more than 20 levels"),
    "a long integer": ("a:\n  - " + "9" * 5000, 2, "a number of 5,000 characters"),
    "an integer of 65 bits": (f"a: {2**63}", 1, "beyond 64 bits"),
    "a hexadecimal integer": ("a: 0x" + "f" * 60, 1, "beyond 64 bits"),
    "an integer to base 60": ("a: 1" + ":59" * 30, 1, "beyond 64 bits"),
    "a day that is none": ("a: 2024-99-99", 1, "month must be"),
    "an integer that is none": ("a: !!int x", 1, "int"),
    "Python's own tags": ("a: !!python/object/apply:os.system [id]", 1, "the tag"),
    "binary": ("a: !!binary x", 1, "the tag"),
    "a NUL": ('a: "\\0"', 1, "NUL"),
    "half of a surrogate pair": ('b: 1\na: "\\ud800"', 2, "surrogate"),
    "a raw control character": ("b: 1\na: \x07", 2, "a character that YAML does not allow"),
    "two documents": ("--- 1\n--- 2", 2, "another document"),
    "an open quote": ("a: 'b", 1, "end of stream"),
}


@pytest.mark.parametrize(("text", "line", "said"), BROKEN_YAML.values(), ids=BROKEN_YAML)
def test_yaml_outside_of_the_plain_part_is_refused_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_yaml(text, Path("c.yaml"))
    assert caught.value.message.startswith(f"c.yaml:{line}: is not YAML")
    assert said in caught.value.message


def test_more_values_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.inputs.yaml_text.MAX_NODES", 100)
    assert len(parse_yaml("- 1\n" * 99)) == 99
    with pytest.raises(UsageError, match=r"line 100: .*more than 100 values"):
        parse_yaml("- 1\n" * 100)


def test_plain_yaml_is_read() -> None:
    text = "a: 1\nb: {c: [x, 1.5, null, true], d: |\n  text\n  }\n"
    assert parse_yaml("# é\n" + text.replace("d: |\n  text\n  }", "d: ''}")) == {
        "a": 1,
        "b": {"c": ["x", 1.5, None, True], "d": ""},
    }
    assert parse_yaml(f"{2**63 - 1}") == 2**63 - 1


def test_yaml_file_larger_than_allowed_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    with path.open("wb") as file:
        file.truncate(5 * 1024**3)
    with pytest.raises(UsageError, match=r"c\.yaml: cannot be read: holds more than 1,048,576 bytes"):
        read_yaml(path)
