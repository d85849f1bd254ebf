"""Wall limits and users of the guest's jobs, with a clock of the test: no program runs and no test waits."""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from case_checks import each_case

from harness.environments.maths.guest.procedures import Service
from harness.environments.python.guest import input_jobs, testing_job
from harness.environments.python.guest.input_jobs import InputsJob
from harness.environments.python.guest.testing_job import Spawners, TestJob
from harness.runs.settings.attempts import MIN_TIMEOUT_SECONDS
from harness.sandbox.guest import jobs, processes
from harness.sandbox.guest.durations import MOST_PATIENCE, find_longest
from harness.sandbox.guest.jobs import Job
from harness.sandbox.guest.loop import Timer
from harness.sandbox.guest.processor_time import Account
from harness.sandbox.guest.users import User
from harness.sandbox.guest_calls import GRACE_SECONDS
from harness.sandbox.limits import Limits

WALL_SECONDS = 40.0
# A limit ends a job no sooner than it states, and at most this many seconds later.
LATEST = 1.2
LIMITS = {"wall_seconds": WALL_SECONDS, "cpu_seconds": 600, "keep_bytes": 64, "output_bytes": 64}
LIMITS |= {"file_bytes": 64, "open_files": 64}
HUNG_UP = 71 << 8
# No process has this id.
NOBODY = (1 << 22) + 1
READY = b'{"ready": true}\n'
DRIVEN = READY + b'{"lost": null, "breach": null, "pid": 1}\n'


class Clockwork:
    """A loop whose time passes only when a test advances it. It watches and reaps nothing."""

    orphan_seconds = 0.0

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(self.now + seconds, call)
        heapq.heappush(self._timers, (timer.when, next(self._numbers), timer))
        return timer

    def collect_ended(self) -> int:
        return 0

    def watch(self, *_arguments: object) -> None:
        """Ignore the descriptor."""

    unwatch = on_exit = watch

    def until(self, happened: Callable[[], bool], *, most: float = 1000.0) -> float:
        """Let time pass until a condition holds, and return the seconds."""
        began = self.now
        while not happened():
            when, _, timer = heapq.heappop(self._timers)
            assert when - began <= most, "it never happens"
            self.now = max(self.now, when)
            if timer.call is not None:
                timer.call()
        return self.now - began


class Spawned:
    """A spawner that starts nothing and records its requests."""

    pid = 0

    def __init__(self) -> None:
        self.child: Any = None
        self.ended: Any = None
        self.descriptors: list[int] = []

    def spawn(self, child: Any, _settings: object, descriptors: list[int], ended: Any) -> None:
        self.child, self.ended = child, ended
        self.descriptors = [os.dup(descriptor) for descriptor in descriptors]

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


class Bench:
    """The parts that a job is made with."""

    def __init__(self, folder: Path) -> None:
        numbers = itertools.count(10_000)
        self.clock = Clockwork()
        self.candidates, self.tests = Spawned(), Spawned()
        self.killed: list[int] = []
        self.accounts: list[Account] = []
        # The share of the elapsed time in which a run waited for a processor.
        self.waiting_share = 0.0
        self.users: Any = SimpleNamespace(
            open=lambda: User(next(numbers), str(folder)),
            identify=lambda: next(numbers),
            close=lambda _user: True,
        )

    def make_ready(self, job: TestJob) -> None:
        """Let the tests report that their own set-up has ended."""
        os.write(self.tests.descriptors[2], READY)
        job._read_result()

    @property
    def loop(self) -> Any:
        return self.clock

    @property
    def spawners(self) -> Any:
        candidates: Any = self.candidates
        tests: Any = self.tests
        return Spawners(candidates, tests)

    def test_job(self, *, calls: bool = False) -> TestJob:
        tests = {"calls": []} if calls else {"statements": [], "setup": "", "classes": {}, "program": ""}
        rest: dict[str, Any] = {} if calls else {"preamble": "", "exports": {}}
        request = {"limits": LIMITS, "environment": {}, **tests, **rest}
        job = TestJob(self.loop, request, b"", self.users, self.spawners, lambda _reply, _body: None)
        self.accounts.append(job.account)
        return job

    def run_on_an_input(self, *, of_each: float, in_all: float) -> Any:
        request = {
            "limits": {**LIMITS, "wall_seconds": of_each},
            "wall_seconds": in_all,
            "environment": {},
            "program_bytes": 0,
            "preamble_bytes": 0,
            "input_bytes": [0],
            "stdin": "real",
            "stdout_bytes": 64,
        }
        candidates: Any = self.candidates
        job = InputsJob(self.loop, request, b"", self.users, candidates, lambda _reply, _body: None)
        assert job._current is not None
        self.accounts.append(job._current.account)
        return job._current

    def wait_for_end(self, job: Any) -> float:
        """Let time pass until a job or a run is stopped, and return the seconds."""
        return self.clock.until(lambda: job.stop_reason is not None)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    clock = SimpleNamespace(monotonic=lambda: bench.clock.now)
    for module in (jobs, input_jobs, testing_job):
        monkeypatch.setattr(module, "time", clock)
    began = bench.clock.now
    waiting = SimpleNamespace(seconds=lambda *_: bench.waiting_share * (bench.clock.now - began))
    monkeypatch.setattr(jobs, "Waiting", lambda **_: waiting)
    monkeypatch.setattr(testing_job, "Waiting", lambda _pids: waiting)
    # The program has become its user, unless a test says otherwise.
    monkeypatch.setattr(processes, "list_processes_of", lambda _uids: [NOBODY])
    monkeypatch.setattr(processes, "kill_all_of", bench.killed.append)

    def end_processes(uids: Iterable[int]) -> bool:
        bench.killed.extend(sorted(uids))
        return True

    monkeypatch.setattr(processes, "end_processes", end_processes)
    yield bench
    for account in bench.accounts:
        account.close()
    bench.candidates.close()
    bench.tests.close()


def is_on_time(seconds: float, limit: float = WALL_SECONDS) -> bool:
    return limit <= seconds <= LATEST * limit


def test_a_job_is_stopped_at_its_wall_limit(bench: Bench) -> None:
    reasons: list[str] = []

    class Stopped(Job):
        def stop(self, reason: str) -> None:
            reasons.append(reason)

    Stopped(bench.loop, {"limits": LIMITS}, lambda _reply, _body: None)
    seconds = bench.clock.until(lambda: bool(reasons))
    assert (reasons, is_on_time(seconds)) == (["wall"], True), seconds


def test_a_program_under_tests_is_ended_at_the_wall_limit(bench: Bench) -> None:
    job = bench.test_job()
    bench.clock.now += WALL_SECONDS / 2
    bench.make_ready(job)
    seconds = bench.wait_for_end(job)
    assert (job.stop_reason, is_on_time(seconds)) == ("wall", True), seconds
    assert {bench.candidates.child.uid, bench.tests.child.uid} <= set(bench.killed)


def test_judging_has_its_own_wall_limit(bench: Bench) -> None:
    job = bench.test_job()
    os.write(bench.tests.descriptors[2], DRIVEN)
    bench.clock.now += WALL_SECONDS / 2
    job._read_result()
    bench.candidates.ended(HUNG_UP, 0.0)
    seconds = bench.wait_for_end(job)
    assert (job.stop_reason, is_on_time(seconds)) == ("wall", True), seconds


def test_a_program_and_its_tests_are_different_users(bench: Bench) -> None:
    bench.test_job()
    assert bench.candidates.child.uid != bench.tests.child.uid


def test_judging_does_not_start_while_the_program_lives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.users.close = lambda _user: False
    monkeypatch.setattr(processes, "list_processes_of", lambda _uids: [4711])
    job = bench.test_job()
    os.write(bench.tests.descriptors[2], DRIVEN)
    job._read_result()
    bench.candidates.ended(HUNG_UP, 0.0)
    assert os.read(bench.tests.descriptors[3], 1) == b""


def test_tests_of_a_program_that_waits_for_a_processor_go_on(bench: Bench) -> None:
    bench.waiting_share = 0.5
    job = bench.test_job()
    bench.make_ready(job)
    seconds = bench.wait_for_end(job)
    assert (job.stop_reason, is_on_time(seconds, 2 * WALL_SECONDS)) == ("wall", True), seconds


def test_a_machine_on_which_a_program_under_tests_always_waits_is_to_blame(bench: Bench) -> None:
    bench.waiting_share = 1.0
    job = bench.test_job()
    bench.make_ready(job)
    seconds = bench.wait_for_end(job)
    assert (job.stop_reason, job.fault) == ("machine", jobs.BUSY)
    assert is_on_time(seconds, find_longest(WALL_SECONDS, TestJob.patience)), seconds


def test_a_set_up_of_the_tests_has_its_own_wall_limit_and_breaks_the_tests(bench: Bench) -> None:
    job = bench.test_job()
    seconds = bench.wait_for_end(job)
    assert (job.stop_reason, is_on_time(seconds)) == ("wall", True), seconds
    assert job._find_broken(None) == "the tests' own set-up ran for more than 40 s"


def test_the_time_before_a_program_has_become_its_user_does_not_count(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    living: list[int] = []
    monkeypatch.setattr(processes, "list_processes_of", lambda _uids: living)
    run = bench.run_on_an_input(of_each=WALL_SECONDS, in_all=10_000.0)
    waited = bench.clock.until(lambda: run.stop_reason is not None or bench.clock.now > 1080.0)
    assert waited >= 2 * WALL_SECONDS
    living.append(NOBODY)
    seconds = bench.wait_for_end(run)
    assert (run.stop_reason, seconds <= LATEST * WALL_SECONDS) == ("wall", True), seconds


def test_a_machine_on_which_the_judging_always_waits_is_to_blame(bench: Bench) -> None:
    job = bench.test_job()
    os.write(bench.tests.descriptors[2], DRIVEN)
    job._read_result()
    bench.waiting_share = 1.0
    bench.candidates.ended(HUNG_UP, 0.0)
    seconds = bench.wait_for_end(job)
    assert (job.stop_reason, job.fault) == ("machine", jobs.BUSY)
    assert is_on_time(seconds, find_longest(WALL_SECONDS)), seconds


def test_the_host_waits_for_a_patient_guest_and_judging_but_not_until_the_timeout_of_a_grader() -> None:
    wall = Limits().wall_seconds
    needed = (TestJob.patience + 1) * wall
    assert needed <= MOST_PATIENCE * wall + GRACE_SECONDS < MIN_TIMEOUT_SECONDS


def test_the_machine_is_to_blame_for_calls_that_all_together_reach_their_wall_limit(bench: Bench) -> None:
    job = bench.test_job(calls=True)
    seconds = bench.wait_for_end(job)
    assert (job.stop_reason, job.fault, is_on_time(seconds)) == ("machine", jobs.BUSY, True), seconds


@each_case(("of_each", "in_all", "reason"), [(WALL_SECONDS, 500.0, "wall"), (500.0, WALL_SECONDS, "machine")])
def test_a_run_on_an_input_is_ended_at_the_first_wall_limit(
    bench: Bench, of_each: float, in_all: float, reason: str
) -> None:
    run = bench.run_on_an_input(of_each=of_each, in_all=in_all)
    seconds = bench.wait_for_end(run)
    assert (run.stop_reason, is_on_time(seconds)) == (reason, True), seconds


def test_a_machine_on_which_a_run_always_waits_is_to_blame(bench: Bench) -> None:
    bench.waiting_share = 1.0
    run = bench.run_on_an_input(of_each=WALL_SECONDS, in_all=10_000.0)
    seconds = bench.wait_for_end(run)
    assert (run.stop_reason, run.fault) == ("machine", jobs.BUSY)
    assert is_on_time(seconds, find_longest(WALL_SECONDS)), seconds


def test_a_service_that_does_not_answer_is_ended_at_the_wall_limit(bench: Bench) -> None:
    reasons: list[str] = []

    class Silent(Service):
        def __init__(self) -> None:
            self.loop = bench.loop
            self.timer = bench.loop.after(1.0, lambda: None)
            self.ended, self._answered, self._question = None, None, -1

        def stop(self, reason: str) -> None:
            reasons.append(reason)

    Silent().ask(b"a question", WALL_SECONDS, lambda _reply, _line: None)
    seconds = bench.clock.until(lambda: bool(reasons))
    assert (reasons, is_on_time(seconds)) == (["wall"], True), seconds
