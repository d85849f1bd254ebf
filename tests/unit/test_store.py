"""The run folder: its files after each write, and the records that are read back."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_LINE_BYTES
from harness.core.types import AttemptRecord, Reference, Status, Submission, Task, Verdict
from harness.environments.text.short_answers import NumberAnswer
from harness.runs import records, transcripts
from harness.runs.records import MAX_TEXT_CHARACTERS, PlannedAttempt, build_record, from_json, to_json
from harness.runs.run_files import StorageError, replace_file
from harness.runs.store import (
    ATTEMPTS,
    MANIFEST,
    SUMMARY,
    RunStore,
    make_run_folder,
    read_duration,
    read_manifest,
    read_records,
)
from harness.runs.transcripts import transcript_name

RECORD = AttemptRecord(
    task_id="t/1",
    attempt=0,
    sample_line=None,
    category=None,
    resolved=True,
    status=Status.PASSED,
    score=1.0,
    metrics={"tests": 3},
    agent_output="def f(): ...\n",
    expected_output="é \u2028 \ud800",
    duration_seconds=0.25,
    error=None,
)
LOST = replace(RECORD, task_id="t/2", status=Status.INFRA_ERROR, resolved=False, score=None)


def planned(*ids: str, attempts: int = 1) -> list[PlannedAttempt]:
    tasks = [Task(id=id_, benchmark="b", environment="python", prompt="") for id_ in ids]
    return [PlannedAttempt(task, number, None) for task in tasks for number in range(attempts)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(tmp_path)) as store:
        yield store


def reopened(folder: Path) -> Any:
    return closing(RunStore(folder))


# --- writing


def test_append_writes_one_line_at_once(store: RunStore) -> None:
    store.append(RECORD)
    assert (store.folder / ATTEMPTS).read_bytes() == to_json(RECORD).encode() + b"\n"


def test_record_survives_the_way_through_json() -> None:
    assert from_json(to_json(RECORD)) == RECORD


def test_record_is_one_line_of_ascii() -> None:
    line = to_json(RECORD)
    assert line.isascii()
    assert "\n" not in line


def test_a_record_is_on_the_disk_when_append_returns(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append((store.folder / ATTEMPTS).stat().st_size))
    store.append(RECORD)
    assert synced == [(store.folder / ATTEMPTS).stat().st_size]


def test_a_sign_of_tampering_is_remembered_when_the_folder_is_opened_anew(tmp_path: Path) -> None:
    with reopened(tmp_path) as first:
        first.append(replace(RECORD, metrics={"integrity": "left early"}))
    with reopened(tmp_path) as second:
        assert [kept.integrity for kept in second.results.values()] == ["left early"]


@contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond `size`: Python ignores the signal, and the write fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_leaves_no_half_line(store: RunStore) -> None:
    store.append(RECORD)
    whole = (store.folder / ATTEMPTS).read_bytes()
    with disk_full_at(len(whole) + 10), pytest.raises(StorageError, match="cannot be written"):
        store.append(LOST)
    assert (store.folder / ATTEMPTS).read_bytes() == whole


def test_full_disk_is_reported_with_the_command_that_resumes(store: RunStore) -> None:
    with disk_full_at(10), pytest.raises(StorageError) as caught:
        store.append(RECORD)
    assert caught.value.hint == f"make room, then run: harness run --resume {store.folder}"
    assert caught.value.exit_code == 3


def test_record_that_was_not_written_is_not_finished(store: RunStore) -> None:
    with disk_full_at(10), pytest.raises(StorageError):
        store.append(RECORD)
    assert store.finished == set()


def test_half_written_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    half = tmp_path / ".summary.json.0a1b2c3d"
    half.write_text('{"total": 1')
    with reopened(tmp_path):
        assert not half.exists()


# --- whole submissions


LONG = Submission(text="é" * 3000, agent_output="reply \ud800 " * 1000)


def recorded(submission: Submission | None) -> AttemptRecord:
    (attempt,) = planned("t/1")
    reference = Reference("t/1", "", NumberAnswer(Decimal(4)), expected_output="4" * 501)
    verdict = Verdict(Status.FAILED, 0.0)
    return build_record(attempt, reference, verdict, submission=submission, duration_seconds=0.5)


def test_a_record_holds_the_whole_submission_and_the_length_of_each_cut() -> None:
    record = recorded(LONG)
    assert (record.agent_output, record.agent_output_cut) == (LONG.agent_output[:500], 8000 - 500)
    assert (record.agent_output_full, record.submission) == (LONG.agent_output, LONG.text)
    assert (record.expected_output, record.expected_output_cut) == ("4" * 500, 1)
    assert from_json(to_json(record), whole=True) == record


def test_whole_texts_are_read_back_only_on_request(store: RunStore) -> None:
    record = recorded(LONG)
    store.append(record)
    (lean,) = store.records(planned("t/1"))
    assert lean == replace(record, agent_output_full=None, submission=None)
    ((whole, _),) = read_records(store.folder / ATTEMPTS, whole=True)
    assert whole == record


def append_beyond(store: RunStore, most: int) -> int:
    """Append a record whose texts are longer than `most` characters, and return the bytes of its line."""
    text = "\U0001f600" * (most + 1)
    store.append(recorded(Submission(text, text)))
    ((whole, size),) = read_records(store.folder / ATTEMPTS, whole=True)
    assert str(whole.submission) == f"{text[:most]}... ({len(text)} characters in all)"
    return size


def test_a_text_beyond_the_limit_is_cut_and_marked(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_TEXT_CHARACTERS", 100_000)
    # The line at the real limit is longer by the same factor at most.
    assert append_beyond(store, 100_000) * (MAX_TEXT_CHARACTERS / 100_000) < MAX_LINE_BYTES


@pytest.mark.thorough
def test_a_record_with_the_longest_texts_fits_into_a_line(store: RunStore) -> None:
    assert append_beyond(store, MAX_TEXT_CHARACTERS) < MAX_LINE_BYTES


def test_an_attempt_without_a_submission_has_no_texts() -> None:
    record = recorded(None)
    assert (record.agent_output, record.agent_output_full, record.submission) == ("", None, None)
    assert "submission" not in json.loads(to_json(record))


def test_a_record_of_an_earlier_version_is_read() -> None:
    earlier = json.loads(to_json(RECORD))
    del earlier["agent_output_cut"], earlier["expected_output_cut"]
    assert from_json(json.dumps(earlier)) == RECORD


# --- reads


def test_records_come_in_the_order_of_the_plan(store: RunStore) -> None:
    second, first = replace(RECORD, task_id="t/2"), RECORD
    store.append(second)
    store.append(first)
    assert list(store.records(planned("t/1", "t/2", "t/3"))) == [first, second]


def test_record_of_any_length_is_read_back(store: RunStore) -> None:
    long = replace(RECORD, agent_output="x" * 300_000)
    store.append(long)
    store.append(LOST)
    assert list(store.records(planned("t/1"))) == [long]


def test_reopened_store_knows_what_is_finished(tmp_path: Path, store: RunStore) -> None:
    store.append(RECORD)
    store.close()
    with reopened(tmp_path) as again:
        assert again.finished == {("t/1", 0)}
        assert list(again.records(planned("t/1"))) == [RECORD]


@each_case("status", [Status.INFRA_ERROR, Status.CANCELLED])
def test_attempt_that_we_or_the_user_ended_is_not_finished(store: RunStore, status: Status) -> None:
    store.append(replace(LOST, status=status))
    assert store.finished == set()


@each_case("status", [s for s in Status if s.has_score])
def test_every_other_end_is_a_verdict(store: RunStore, status: Status) -> None:
    store.append(replace(LOST, status=status))
    assert store.finished == {("t/2", 0)}


def test_the_last_record_of_an_attempt_counts(tmp_path: Path, store: RunStore) -> None:
    store.append(LOST)
    mended = replace(RECORD, task_id="t/2")
    store.append(mended)
    store.close()
    with reopened(tmp_path) as again:
        assert list(again.records(planned("t/2"))) == [mended]
        assert again.results["t/2", 0].resolved


@pytest.mark.parametrize("torn", [b"{", b'{"task_id": "t/9", "att', to_json(LOST).encode()])
def test_torn_last_line_is_cut_off(tmp_path: Path, store: RunStore, torn: bytes) -> None:
    store.append(RECORD)
    store.close()
    path = tmp_path / ATTEMPTS
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    with reopened(tmp_path) as again:
        assert again.finished == {("t/1", 0)}
        assert path.read_bytes() == whole
        again.append(LOST)
    assert path.read_bytes() == whole + to_json(LOST).encode() + b"\n"


BROKEN = {
    "not JSON": b"garbage\n",
    "empty": b"\n",
    "not an object": b"[1]\n",
    "a field too few": b'{"status": "passed"}\n',
    "a field too many": json.dumps({**json.loads(to_json(RECORD)), "more": 1}).encode() + b"\n",
    "resolved without a pass": to_json(replace(RECORD, status=Status.FAILED)).encode() + b"\n",
    "passed but not resolved": to_json(replace(RECORD, resolved=False)).encode() + b"\n",
    "an unknown status": to_json(RECORD).replace('"passed"', '"won"').encode() + b"\n",
    "not UTF-8": b"\xff\xfe\n",
}


@each_case("line", BROKEN.values(), ids=BROKEN)
def test_corrupt_line_is_named_and_nothing_is_changed(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / ATTEMPTS
    content = to_json(RECORD).encode() + b"\n" + line + to_json(LOST).encode() + b"\n"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"attempts.jsonl:2: is not an attempt record"):
        RunStore(tmp_path)
    assert path.read_bytes() == content


def test_folder_that_could_not_be_opened_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / ATTEMPTS
    path.write_bytes(b"garbage\n")
    with pytest.raises(UsageError):
        RunStore(tmp_path)
    path.unlink()
    RunStore(tmp_path).close()


# --- one process at a time


def test_folder_in_use_is_refused(tmp_path: Path, store: RunStore) -> None:
    with pytest.raises(UsageError, match="another process uses this run folder"):
        RunStore(tmp_path)


def test_closed_folder_can_be_opened_again(tmp_path: Path, store: RunStore) -> None:
    store.close()
    RunStore(tmp_path).close()


def test_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        RunStore(tmp_path / "nowhere")


# --- other files


def test_long_task_ids_that_begin_alike_have_their_own_transcripts() -> None:
    ids = ["a" * 200, "a" * 201, "a" * 300, "a" * 300 + "b", "é" * 60, "é" * 61]
    names = [transcript_name(task_id, 0) for task_id in ids]
    assert len(set(names)) == len(ids)
    assert max(len(name.encode()) for name in names) <= 255


def test_short_task_id_is_readable_in_the_name_of_its_transcript() -> None:
    assert transcript_name("a" * 200, 3) == f"{'a' * 200}-3.jsonl"
    assert transcript_name("os/dev/1", 0) == "os%2Fdev%2F1-0.jsonl"


def test_file_is_replaced_in_one_step(store: RunStore) -> None:
    store.write_text("report.html", "old")
    with replace_file(store.folder / "report.html") as file:
        file.write("new")
        assert (store.folder / "report.html").read_text() == "old"
    assert (store.folder / "report.html").read_text() == "new"


@each_case("name", [MANIFEST, SUMMARY, "report.html"])
def test_a_file_is_on_the_disk_whole_before_it_takes_its_place(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    steps: list[tuple[str, str]] = []
    replace_file = os.replace

    def sync(descriptor: int) -> None:
        steps.append(("sync", Path(f"/proc/self/fd/{descriptor}").read_text()))

    def move(source: Path, target: Path) -> None:
        steps.append(("move", target.name))
        replace_file(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", move)
    store.write_json(name, {"total": 1})
    assert steps == [("sync", '{\n  "total": 1\n}\n'), ("move", name)]


def test_failed_write_leaves_the_old_file_and_nothing_else(store: RunStore) -> None:
    store.write_text("report.html", "old")
    with disk_full_at(10), pytest.raises(StorageError, match=r"report\.html: cannot be written"):
        store.write_text("report.html", "x" * 10_000)
    assert (store.folder / "report.html").read_text() == "old"
    assert sorted(path.name for path in store.folder.iterdir()) == [ATTEMPTS, "report.html"]


def test_run_folders_made_in_one_second_have_distinct_names(tmp_path: Path) -> None:
    folders = {make_run_folder(tmp_path / "runs", "mbpp") for _ in range(5)}
    assert len(folders) == 5
    assert all("mbpp" in folder.name and (folder / "transcripts").is_dir() for folder in folders)


def test_run_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot make a run folder") as caught:
        make_run_folder(tmp_path / "file", "mbpp")
    assert "--output-dir" in str(caught.value.hint)


@each_case(("text", "said"), [("{", "is not JSON"), ("[]", "is not a manifest"), (None, "No such file")])
def test_folder_without_a_usable_manifest_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_manifest(tmp_path)


def test_a_manifest_of_another_schema_is_refused(tmp_path: Path) -> None:
    values = {
        "schema_version": 2,
        "harness_version": "9.1",
        "run_id": "r",
        "benchmark": "b",
        "agent": "a",
        "source": "path",
        "data": {"kind": "path", "location": "p", "sha256": "0", "rows": 1},
        "images": {},
        "config": {},
    }
    (tmp_path / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(
        UsageError, match="has schema_version 2, but this version of harness reads 1"
    ) as caught:
        read_manifest(tmp_path)
    assert "9.1" in str(caught.value.hint)


# --- the duration of a run before it is resumed


def test_a_run_that_was_killed_has_no_duration_yet(tmp_path: Path) -> None:
    assert read_duration(tmp_path) == 0.0


def test_the_duration_of_a_run_is_read_back(tmp_path: Path) -> None:
    (tmp_path / SUMMARY).write_text('{"duration_seconds": 12.5}')
    assert read_duration(tmp_path) == 12.5


@each_case("text", ["{", "[]", "{}", '{"duration_seconds": -1}', '{"duration_seconds": true}'])
def test_a_summary_without_a_usable_duration_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / SUMMARY).write_text(text)
    with pytest.raises(UsageError, match=r"summary\.json") as caught:
        read_duration(tmp_path)
    assert caught.value.hint == "remove the file"


def test_a_full_transcript_has_room_for_the_end_of_the_attempt(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "MAX_TRANSCRIPT_BYTES", 1000)
    monkeypatch.setattr(transcripts, "END_BYTES", 500)
    transcript = store.begin_transcript("t/1", 0)
    for number in range(100):
        transcript.write({"text": "x" * 100, "number": number})
    transcript.write({"kind": "program", "stdout": "y" * 300}, is_end=True)
    transcript.write({"output": "z" * 300}, is_end=True)
    (path,) = store.folder.glob("transcripts/*")
    *_, last, full, end = (json.loads(line) for line in path.read_text().splitlines())
    assert (last["number"], full["kind"], end["kind"]) == (2, "full", "program")
    assert path.stat().st_size <= 1000
