"""Every reader of a broken file reports an error that names the file, and ends in no other way."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attempt_records import make_manifest
from case_checks import each_case
from effort import one_in_four, one_in_two, text_of_length

from harness.audit.run import plan_resumed_audit
from harness.benchmarks import load_benchmark
from harness.benchmarks.data.download import list_cached_files, read_note
from harness.benchmarks.data.hub import read_cached_rows
from harness.benchmarks.data.tree import read_tree
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.types import AttemptRecord, Status
from harness.reports.html import rewrite_report
from harness.reports.remarks import list_model_remarks
from harness.reports.run_folder import read_attempts, read_run
from harness.reports.table import print_record_details, print_summary
from harness.reports.transcript_entries import print_transcript
from harness.runs.config import load_config
from harness.runs.records import from_json, to_json
from harness.runs.resume import read_resumed_config
from harness.runs.selection import select
from harness.runs.store import ATTEMPTS, MANIFEST, SUMMARY, RunStore, read_records


def refusal(read: Callable[[], object]) -> HarnessError | None:
    """Return the error that a reader reports, or None if it can use the file. Raises any other exception."""
    try:
        read()
    except HarnessError as error:
        return error
    return None


NESTED = "[" * 90 + "]" * 90
BROKEN = {
    "empty": b"",
    "zeros": b"\0" * 100,
    "not UTF-8": b"\xff\xfe{}\n",
    "deep lists": b"[" * 100_000 + b"\n",
    "deep objects": b'{"a":' * 100_000 + b"\n",
    "deep values": f'{{"task_id": {NESTED}, "id": {NESTED}, "a": {NESTED}}}\n'.encode(),
    "a long integer": b'{"a": ' + b"9" * 5000 + b"}\n",
    "an integer that no float holds": b'{"a": ' + b"9" * 299 + b"}\n",
    "half of a surrogate pair": b'{"task_id": "\\ud800", "completion": "\\ud800", "answer": "\\ud800"}\n',
    "not a number": b'{"task_id": NaN, "completion": NaN, "rate": NaN}\n',
    "infinity": b'{"task_id": 1e999}\n',
    "a list": b"[1, null, {}]\n",
    "a number": b"5\n",
    "nothing": b"null\n",
    "an empty object": b"{}\n",
    "an object with an empty key": b'{"": null}\n',
    "cut short": b'{"task_id": 1, "compl',
    "one long line": text_of_length("x", 1_000_000).encode() + b"\n",
}


def read_data(benchmark: str) -> Callable[[Path], object]:
    return lambda path: load_benchmark(benchmark, data=str(path))


def read_samples(path: Path) -> object:
    values = {"benchmark": "mbpp", "data": "bundled", "samples": str(path), "agent": "predictions"}
    return select(load_config(None, values), notify=lambda _text: None)


def in_place(name: str, read: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return a reader of a file from a reader of folders, which finds the file under this name."""

    def read_folder(path: Path) -> object:
        target = path.parent / "folder" / name
        target.parent.mkdir(parents=True)
        shutil.copy(path, target)
        return read(path.parent / "folder")

    return read_folder


# The readers of files that may be broken, and the name of each file.
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "config": ("c.yaml", lambda path: load_config(path, {})),
    "own benchmark": ("own.yaml", lambda path: load_benchmark(str(path))),
    "own program": ("own.py", lambda path: load_benchmark(str(path))),
    "samples": ("samples.jsonl", read_samples),
    "an array of rows": ("rows.json", read_data("mbpp")),
    "packed rows": ("rows.jsonl.gz", read_data("mbpp")),
    "a table": ("rows.csv", read_data("math")),
    "parquet": ("rows.parquet", read_data("gsm8k")),
    "an archive": ("rows.zip", lambda path: read_tree(path, lambda _name: True)),
    "a packed archive": ("rows.tgz", lambda path: read_tree(path, lambda _name: True)),
    **{
        f"rows of {name}": ("rows.jsonl", read_data(name))
        for name in ("mbpp", "humaneval", "gsm8k", "math", "hotpotqa", "nq", "livecodebench", "agentbench")
    },
    "manifest": ("file", in_place(MANIFEST, read_resumed_config)),
    "summary": ("file", in_place(SUMMARY, read_run)),
    "attempts": ("file", in_place(ATTEMPTS, lambda folder: list(read_attempts(folder)))),
    "attempts of a run that goes on": ("file", in_place(ATTEMPTS, lambda folder: RunStore(folder).close())),
    "transcript": (
        "file",
        in_place(
            "transcripts/t-0.jsonl", lambda folder: print_transcript(folder, "t", 0, stream=io.StringIO())
        ),
    ),
    "audit": (
        "file",
        in_place("audit.json", lambda folder: plan_resumed_audit(folder, notify=lambda _text: None)),
    ),
    "note of a download": ("file.note.json", lambda path: read_note(path.with_name("file"))),
    "note of kept rows": ("file.note.json", lambda path: read_cached_rows(path.with_name("file"), {})),
    "cache": ("file.note.json", lambda path: list_cached_files(path.parent, verify=True)),
}


@each_case(
    ("place", "name", "read"),
    [(place, *reader) for place, reader in enumerate(READERS.values())],
    ids=READERS,
)
def test_broken_file_is_read_or_refused_by_name(
    tmp_path: Path, place: int, name: str, read: Callable[[Path], object]
) -> None:
    for number, (kind, content) in enumerate(one_in_four(list(BROKEN.items()), place)):
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        path.write_bytes(content)
        error = refusal(partial(read, path))
        if error is not None:
            assert error.exit_code == 2, kind
            assert str(path.parent) in error.message, kind
            assert len(error.message) < 1000, kind


DIRECT = {kind: reader for kind, reader in READERS.items() if reader[0] != "file"}


@each_case("target", ["/dev/zero", None], ids=["device", "named pipe"])
@each_case(("name", "read"), DIRECT.values(), ids=DIRECT)
def test_an_irregular_file_is_refused_without_waiting(
    tmp_path: Path, name: str, read: Callable[[Path], object], target: str | None
) -> None:
    path = tmp_path / name
    os.mkfifo(path) if target is None else path.symlink_to(target)
    error = refusal(lambda: read(path))
    if error is not None:  # An unreadable note counts as no note.
        assert "not a regular file" in error.message


# --- a run folder where one value is of another type


RECORD = AttemptRecord(
    task_id="t",
    attempt=0,
    sample_line=None,
    category="c",
    resolved=True,
    status=Status.PASSED,
    score=1.0,
    metrics={"f1": 0.5, "integrity": "sign"},
    agent_output="out",
    expected_output="out",
    duration_seconds=0.25,
    error="why",
    agent_output_cut=3,
    agent_output_full="out and more",
    submission="out",
)
CATEGORY = {"total": 2, "resolved": 1, "rate": 0.5}
DOCUMENTS: dict[str, dict[str, Any]] = {
    MANIFEST: make_manifest(
        images={"python": "sha256:0"},
        config={"benchmark": "b", "limits": {"memory_mb": 256}},
        tool_mode="text",
    ),
    SUMMARY: {
        "source": "path",
        "duration_seconds": 1.5,
        "total": 2,
        "attempts": 2,
        "resolved": 1,
        "rate": 0.5,
        "pass_at_k": {"1": 0.5, "2": None},
        "statuses": {"passed": 1, "infra_error": 0},
        "by_category": {"c": CATEGORY, "d": CATEGORY},
        "integrity": {"sign": 1},
        "resolved_strict": {"tasks": 1, "resolved": 1, "resolved_strict": 1, "differ": 0},
        "scores": {
            "categories": {
                "os": {"score": 0.5, "measure": "m", "kinds": {"k": {"score": 1}}, "missing_kinds": []}
            },
            "overall": {"score": 0.5, "method": "mean", "missing": []},
        },
        "quarantined": {"t": "why"},
        "metrics": {"f1": {"mean": 0.5, "low": 0.1, "high": 0.9, "interval": "i", "tasks": 2}},
        "model": {"model_requests": 2, "input_tokens": 10, "cost": 0.5, "context_truncated": 1},
        "budget": {"cost": {"allowed": 1.5, "used": 2.5}, "total_tokens": {"allowed": 9, "used": None}},
        "asking": {"attempts": 2, "asked": 0},
    },
    ATTEMPTS: json.loads(to_json(RECORD)),
    "transcripts/t-0.jsonl": {
        "round": 1,
        "tool": "bash",
        "seconds": 0.1,
        "arguments": {"script": "ls", "more": 1},
        "observation": "text",
        "refused": False,
    },
}
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**299,
    0.5,
    "text",
    "\ud800\0",
    [],
    [None],
    {},
    {"": 1},
    json.loads(NESTED),
)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*place, key))


def changed(document: dict[str, Any], place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    return {**document, place[0]: changed(document[place[0]], place[1:], value)}


def read_everything(folder: Path) -> None:
    """Read and show a run folder in every way. Raises the error of the first way that fails."""
    for read in (
        lambda: RunStore(folder, metrics=["f1"]).close(),
        lambda: read_resumed_config(folder),
        lambda: show_run(folder),
        lambda: show_records(folder),
        lambda: print_transcript(folder, "t", 0, stream=io.StringIO()),
    ):
        error = refusal(read)
        assert error is None or str(folder) in error.message


def show_records(folder: Path) -> None:
    for record in read_attempts(folder):
        print_record_details(record, folder=folder, stream=io.StringIO())


def show_run(folder: Path) -> None:
    run = read_run(folder)
    rewrite_report(run)
    print_summary(
        run.summary,
        title=run.manifest["benchmark"],
        source=run.source,
        duration_seconds=run.duration_seconds,
        stream=io.StringIO(),
        run_dir=folder,
        attempts=run.attempts(),
    )


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    (tmp_path / "transcripts").mkdir()
    for name, document in DOCUMENTS.items():
        (tmp_path / name).write_text(json.dumps(document) + "\n")
    return tmp_path


def test_sound_run_folder_is_shown(run_folder: Path) -> None:
    show_run(run_folder)
    assert "95 %" in (run_folder / "report.html").read_text()


def test_all_that_a_summary_knows_of_the_model_is_shown_again(run_folder: Path) -> None:
    """A field that reading back drops would be lost without a sign."""
    shown = dict(list_model_remarks(read_run(run_folder).summary))
    assert shown.keys() == {"agent", "budget", "context"}


PLACES = [(name, place) for name, document in DOCUMENTS.items() for place in places(document)]


@each_case(
    ("name", "place"),
    one_in_two(PLACES, 0),
    ids=lambda part: part if isinstance(part, str) else ".".join(part) or "whole",
)
def test_value_of_another_type_is_shown_or_refused(
    run_folder: Path, name: str, place: tuple[str, ...]
) -> None:
    for value in one_in_four(WRONG, PLACES.index((name, place))):
        (run_folder / name).write_text(json.dumps(changed(DOCUMENTS[name], place, value)) + "\n")
        read_everything(run_folder)


# --- files that harness writes


@each_case(
    "metric",
    [float("nan"), float("inf"), 10**5000, json.loads("[" * 300 + "]" * 300), {1, 2}, b"bytes"],
    ids=["nan", "infinity", "long integer", "nested", "set", "bytes"],
)
def test_metric_that_json_cannot_hold_costs_no_record(metric: Any) -> None:
    kept = from_json(to_json(replace(RECORD, metrics={"metric": metric})), whole=True)
    assert list(kept.metrics) == ["unreadable"]
    assert replace(kept, metrics={}) == replace(RECORD, metrics={})


def test_records_before_a_broken_one_are_read(tmp_path: Path) -> None:
    path = tmp_path / ATTEMPTS
    path.write_text(to_json(RECORD) + "\n" + to_json(RECORD).replace("0.25", '"0.25"') + "\n")
    records = read_records(path, whole=True)
    assert next(records)[0] == RECORD
    with pytest.raises(UsageError, match=r"attempts\.jsonl:2: is not an attempt record: 'duration_seconds'"):
        next(records)


def test_attempts_that_are_a_named_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ATTEMPTS)
    with pytest.raises(UsageError, match="not a regular file"):
        RunStore(tmp_path)


# --- programs of a user


OWN = "NAME = 'own'\nMETRIC = 'exact_match'\n"


@each_case(
    ("program", "said"),
    [
        ("import sys; sys.exit(0)", "SystemExit"),
        (OWN + "def tasks(): exit(0)", "SystemExit"),
        (OWN + "def tasks():\n  while True: yield {}", "more than 5 tasks"),
        (
            OWN + "def tasks():\n  a = []\n  a.append(a)\n  return [{'prompt': 'p', 'reference': a}]",
            "plain data",
        ),
        (OWN + "def tasks(): return [{'prompt': 'p', 'reference': 'r', 'id': '\\ud800'}]", "surrogate"),
    ],
)
def test_program_that_ends_or_floods_us_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    monkeypatch.setattr("harness.benchmarks.custom.definition.MAX_TASKS", 5)
    path = tmp_path / "own.py"
    path.write_text(program)
    with pytest.raises((UsageError, DataError), match=said):
        load_benchmark(str(path))


@each_case("lines", [0, 2])
def test_a_summary_that_does_not_fit_the_attempts_is_refused(tmp_path: Path, lines: int) -> None:
    for name, document in DOCUMENTS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(document) + "\n")
    records = [{**DOCUMENTS[ATTEMPTS], "attempt": number} for number in range(lines)]
    (tmp_path / ATTEMPTS).write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(UsageError, match=f"holds {lines} attempts, but .* counts 1"):
        read_run(tmp_path)
