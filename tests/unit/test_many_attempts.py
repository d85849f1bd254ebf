from __future__ import annotations

import gc
import pickle
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness import RunResult, Status, Submission, Verdict, run
from harness.core.types import AttemptRecord, Task
from harness.reports.failures import choose_unresolved, find_first_failure, rank_failure
from harness.reports.progress import NotesOnly
from harness.runs.progress import RunObserver
from harness.runs.records import PlannedAttempt
from harness.runs.store import RunStore

SAMPLES = 12
RECORD = AttemptRecord("t", 0, None, None, False, Status.FAILED, 0.0, {}, "", "", 0.0, None)


class CountsObjects:
    """An observer that counts the objects of finished attempts at the end of a run."""

    def __init__(self) -> None:
        self.alive: Counter[str] = Counter()
        self.ended = 0

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        """Nothing is counted yet."""

    def on_attempt(self, record: AttemptRecord) -> None:
        """Count the attempt."""
        self.ended += 1

    def note(self, text: str) -> None:
        """Notes are not looked at."""

    def on_end(self) -> None:
        """Count the objects that are still reachable."""
        gc.collect()
        kinds = (AttemptRecord, Submission, Verdict)
        self.alive.update(type(each).__name__ for each in gc.get_objects() if type(each) in kinds)


async def run_many(folder: Path, observer: RunObserver) -> RunResult:
    """Return the result of a run without sandboxes that has SAMPLES attempts at each of two tasks."""
    return await run(
        "gsm8k",
        agent="null",
        data="bundled",
        sample_size=2,
        n_samples=SAMPLES,
        output_dir=str(folder),
        observer=observer,
    )


async def test_no_object_of_a_finished_attempt_stays_in_memory(tmp_path: Path) -> None:
    before = CountsObjects()
    before.on_end()
    observer = CountsObjects()
    await run_many(tmp_path, observer)
    assert observer.ended == 2 * SAMPLES
    # A worker's last attempt may still be on its way out.
    assert (observer.alive - before.alive).total() <= 8


async def test_the_attempts_of_a_result_are_read_when_they_are_used(tmp_path: Path) -> None:
    result = await run_many(tmp_path, NotesOnly(sys.stderr))
    shutil.rmtree(tmp_path)
    attempts = result.attempts
    numbers = [record.attempt for record in attempts]
    assert len(attempts) == 2 * SAMPLES
    assert numbers == [*range(SAMPLES), *range(SAMPLES)]
    assert [record.attempt for record in attempts[-2:]] == [SAMPLES - 2, SAMPLES - 1]
    assert attempts[0].task_id != attempts[-1].task_id
    assert pickle.loads(pickle.dumps(attempts)) == tuple(attempts)


def test_the_attempts_of_a_store_are_the_last_tries_in_the_order_of_the_plan(tmp_path: Path) -> None:
    task = Task("t", "b", "text", "prompt")
    plan = [PlannedAttempt(task, number, None) for number in range(3)]
    store = RunStore(tmp_path)
    store.append(replace(RECORD, attempt=2), replace(RECORD, status=Status.INFRA_ERROR, score=None))
    store.append(RECORD)
    attempts = store.attempts(plan)
    store.close()
    assert [(each.attempt, each.status) for each in attempts] == [(0, Status.FAILED), (2, Status.FAILED)]


STATUSES = st.lists(st.sampled_from([Status.PASSED, Status.FAILED, Status.INFRA_ERROR, Status.CANCELLED]))


@given(STATUSES, st.integers(1, 4))
def test_the_unresolved_attempts_that_are_shown_are_the_first_of_all(
    statuses: list[Status], most: int
) -> None:
    records = [
        replace(RECORD, attempt=place, status=status, resolved=status is Status.PASSED)
        for place, status in enumerate(statuses)
    ]
    unresolved = [record for record in records if not record.resolved]
    chosen = choose_unresolved(iter(records), most, has_samples=False)
    ranked = sorted(
        unresolved,
        key=lambda each: (each.status is not Status.INFRA_ERROR, rank_failure(each, has_samples=False)),
    )
    assert list(chosen.shown) == ranked[:most]
    assert chosen.number == len(unresolved)
    assert chosen.first == find_first_failure(records, has_samples=False)
