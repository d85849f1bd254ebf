"""The guest's counters of processor time and of waiting, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from case_checks import each_case

from harness.sandbox.guest import processor_time, waiting
from harness.sandbox.guest.cgroup import ProcessorCounter, count_processors
from harness.sandbox.guest.loop import Loop
from harness.sandbox.guest.processes import compute_backstop
from harness.sandbox.guest.processor_time import UNTRUSTED, Account, read_clock, sum_seconds
from harness.sandbox.guest.waiting import Waiting

BURNT_SECONDS = 0.05


def loop() -> Loop:
    """Return a stand-in for an account's loop, because a real loop would take the signals of these tests."""
    return cast(Loop, SimpleNamespace(orphan_seconds=0.0, collect_ended=lambda: 0))


def burn() -> None:
    while time.process_time() < BURNT_SECONDS:
        pass


@contextmanager
def child(work: Callable[[], None]) -> Iterator[int]:
    """Fork a child that works and then sleeps. Yield its id once it sleeps."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        work()
        os.close(write_end)
        time.sleep(60)
        os._exit(0)
    os.close(write_end)
    os.read(read_end, 1)
    os.close(read_end)
    yield pid
    os.kill(pid, 9)
    os.waitpid(pid, 0)


def wait_for_a_burning_child() -> None:
    if os.fork() == 0:
        burn()
        os._exit(0)
    os.wait()


def file_of(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@each_case(
    ("text", "key", "units", "seconds"),
    [
        ("usage_usec 2500000\nuser_usec 1\nsystem_usec 1\n", b"usage_usec", 10**6, 2.5),
        ("2500000000\n", b"", 10**9, 2.5),
        ("nr_periods 3\n", b"usage_usec", 10**6, None),
        ("", b"", 10**9, None),
    ],
    ids=["version 2", "version 1", "another file", "an empty file"],
)
def test_the_counter_reads_both_versions_of_cgroups(
    tmp_path: Path, text: str, key: bytes, units: int, seconds: float | None
) -> None:
    path = file_of(tmp_path, "counter", text)
    assert ProcessorCounter(((path, key, units),)).seconds() == seconds


def test_the_counter_takes_the_first_file_that_it_can_read(tmp_path: Path) -> None:
    files = (str(tmp_path / "absent"), file_of(tmp_path, "wrong", "what"), file_of(tmp_path, "right", "7"))
    assert ProcessorCounter(tuple((path, b"", 1) for path in files)).seconds() == 7


def test_a_container_without_a_counter_has_no_processor_time() -> None:
    assert ProcessorCounter((("/nonexistent", b"", 1),)).seconds() is None


@each_case(
    ("texts", "processors"),
    [
        (["50000 100000\n"], 0.5),
        (["max 100000\n"], len(os.sched_getaffinity(0))),
        (["50000\n", "100000\n"], 0.5),
        (["-1\n", "100000\n"], len(os.sched_getaffinity(0))),
        (["100000000000 100000\n"], len(os.sched_getaffinity(0))),
    ],
    ids=["version 2", "version 2 without a quota", "version 1", "version 1 without a quota", "a large quota"],
)
def test_the_quota_says_how_many_processors_there_are(
    tmp_path: Path, texts: list[str], processors: float
) -> None:
    paths = tuple(file_of(tmp_path, str(number), text) for number, text in enumerate(texts))
    assert count_processors((("/nonexistent",), paths)) == processors


def test_the_clock_of_a_process_counts_what_it_used_and_that_of_a_dead_one_nothing() -> None:
    with child(burn) as pid:
        assert read_clock(pid) >= BURNT_SECONDS
    assert read_clock(pid) == 0


def test_a_sum_counts_the_children_that_a_process_waited_for() -> None:
    with child(wait_for_a_burning_child) as pid:
        assert sum_seconds([pid]) - read_clock(pid) >= BURNT_SECONDS * 0.5


def test_an_account_without_a_cgroup_adds_the_first_process_the_living_and_the_orphans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor_time, "COUNTER", ProcessorCounter(()))
    reaper = loop()
    with child(burn) as pid:
        account = Account(reaper, lambda: [pid])
        reaper.orphan_seconds += 5
        used = account.seconds(2.0)
        account.close()
    assert 7 + BURNT_SECONDS <= used < 8


def test_an_account_leaves_out_orphans_of_an_earlier_job_that_are_not_reaped_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor_time, "COUNTER", ProcessorCounter(()))
    reaper = loop()
    ended = [5.0]

    def collect() -> int:
        reaper.orphan_seconds += sum(ended)
        ended.clear()
        return 1

    monkeypatch.setattr(reaper, "collect_ended", collect)
    account = Account(reaper, list)
    reaper.collect_ended()
    assert account.seconds(2.0) == 2.0
    account.close()


def test_accounts_that_are_open_at_the_same_time_count_their_own_processes_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr(UNTRUSTED, "seconds", lambda: float(next(seconds)))
    first = Account(loop(), list)
    assert first.seconds() == 1
    second = Account(loop(), list)
    assert (first.seconds(0.5), second.seconds(0.25)) == (0.5, 0.25)
    first.close()
    second.close()
    third = Account(loop(), list)
    assert third.seconds() == 1
    third.close()


def test_an_account_leaves_out_what_the_trusted_process_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((10.0, 14.0))
    monkeypatch.setattr(UNTRUSTED, "seconds", lambda: next(seconds))
    account = Account(loop(), list, trusted_uid=4_000_000_000)
    account.record_trusted_end(1.5)
    assert account.seconds() == 2.5
    account.close()


def test_an_account_leaves_out_a_living_trusted_process_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((10.0, 14.0))
    monkeypatch.setattr(UNTRUSTED, "seconds", lambda: next(seconds))
    account = Account(loop(), list, trusted_uid=4_000_000_000)
    with child(burn) as pid:
        account.record_trusted_process(pid)
        assert 3 < account.seconds() <= 4 - BURNT_SECONDS
    account.close()


def test_the_backstop_is_well_above_the_limit() -> None:
    assert compute_backstop(0.5) == 6
    assert compute_backstop(6) == 28


def set_threads(monkeypatch: pytest.MonkeyPatch, **threads: tuple[float, float]) -> None:
    """Let the kernel report of these ordinary threads how long they ran and waited."""
    found = dict(enumerate(threads.values()))
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) + 1
    monkeypatch.setattr(waiting, "_ordinary", lambda _pids: [(1, number, now) for number in found])
    monkeypatch.setattr(waiting, "_ran_or_waited", lambda _pid, thread: sum(found[thread]))


def test_the_time_in_which_the_only_thread_waited_is_credited(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waiting()
    set_threads(monkeypatch, only=(1.0, 3.0))
    assert waited.seconds([1], 1.0) == 3.0


def test_threads_that_wait_at_the_same_time_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waiting()
    set_threads(monkeypatch, sleeper=(0.0, 0.0), first=(0.25, 3.0), second=(0.25, 3.0), third=(0.25, 2.0))
    assert waited.seconds([1], 0.75) == 2.5


def test_threads_that_wait_for_each_other_get_no_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waiting()
    set_threads(monkeypatch, sleeper=(0.0, 0.0), first=(1.0, 3.0), second=(3.0, 1.0))
    assert waited.seconds([1], 4.0) == 0


def test_earlier_waiting_of_a_thread_does_not_count() -> None:
    with child(burn) as pid:
        assert Waiting([pid]).seconds([pid], 0.0) < BURNT_SECONDS


def test_an_unmeasured_earlier_thread_gets_no_credit() -> None:
    with child(burn) as pid:
        assert Waiting().seconds([pid], 0.0) == 0


def test_only_threads_of_normal_priority_are_ordinary() -> None:
    def idle() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    def batch() -> None:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

    def ordinary(pid: int) -> list[int]:
        return [thread for _pid, thread, _start in waiting._ordinary([pid])]

    def nice() -> None:
        os.nice(1)

    with child(lambda: None) as plain, child(nice) as niced:
        # Also if the tests themselves have a lower priority.
        assert ordinary(plain) == [plain]
        assert ordinary(niced) == []
    for change in (idle, batch):
        with child(change) as changed:
            assert ordinary(changed) == []


def test_threads_with_the_low_priority_of_their_container_are_ordinary() -> None:
    program = "import os; from harness.sandbox.guest import waiting; print(waiting._ordinary([os.getpid()]))"
    ended = subprocess.run(["nice", sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout != b"[]\n"
