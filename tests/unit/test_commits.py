"""Writes of records: no attempt goes on before its record is on the disk, and attempts share writes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.types import AttemptRecord, Status
from harness.runs.executors.execution import Commits
from harness.runs.run_files import StorageError
from harness.runs.store import ATTEMPTS, RunStore

RECORD = AttemptRecord(
    task_id="t",
    attempt=0,
    sample_line=None,
    category=None,
    resolved=True,
    status=Status.PASSED,
    score=1.0,
    metrics={"em": 1.0, "f1": 0.5},
    agent_output="",
    expected_output="",
    duration_seconds=0.0,
    error=None,
)


def records(number: int) -> list[AttemptRecord]:
    return [replace(RECORD, task_id=f"t/{place}") for place in range(number)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with closing(RunStore(tmp_path, metrics=("f1", "missing"))) as store:
        yield store


def lines(store: RunStore) -> int:
    return (store.folder / ATTEMPTS).read_bytes().count(b"\n")


async def test_every_record_is_on_the_disk_when_its_attempt_goes_on(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = 0

    def fsync(_descriptor: int) -> None:
        nonlocal synced
        synced = lines(store)

    monkeypatch.setattr(os, "fsync", fsync)
    commits = Commits(store)

    async def attempt(record: AttemptRecord) -> int:
        await commits.store(record)
        assert (record.task_id, 0) in store.finished
        return synced

    seen = await asyncio.gather(*(attempt(record) for record in records(50)))
    assert lines(store) == 50
    assert all(place < count for place, count in enumerate(seen))


async def test_records_that_come_during_a_write_share_the_next_one(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(os, "fsync", syncs.append)
    commits = Commits(store)
    await asyncio.gather(*(commits.store(record) for record in records(200)))
    assert (lines(store), len(syncs)) == (200, 1)


async def test_a_full_disk_fails_every_attempt_whose_record_is_missing(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    commits = Commits(store)
    ended = await asyncio.gather(*(commits.store(each) for each in records(3)), return_exceptions=True)
    assert [type(error) for error in ended] == [StorageError] * 3
    assert (lines(store), store.finished) == (0, set())


async def test_attempt_that_is_cancelled_while_its_record_is_written_ends_after_that(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, may_end = threading.Event(), threading.Event()

    def fsync(_descriptor: int) -> None:
        writing.set()
        may_end.wait(30)

    monkeypatch.setattr(os, "fsync", fsync)
    task = asyncio.create_task(Commits(store).store(RECORD))
    await asyncio.to_thread(writing.wait, 30)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    assert not done
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.finished == {("t", 0)}


def test_metrics_of_first_attempts_survive_a_reopening(tmp_path: Path, store: RunStore) -> None:
    store.append(RECORD, replace(RECORD, attempt=1))
    store.close()
    with closing(RunStore(tmp_path, metrics=("f1", "missing"))) as again:
        assert again.results == store.results
    assert [kept.metrics for kept in store.results.values()] == [(0.5, 0.0), ()]
