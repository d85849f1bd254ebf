"""No unbounded time reaches a system call, because sums over thousands of attempts are too long for it."""

from __future__ import annotations

import math
import os
import resource
import select
import signal
from collections.abc import Iterator

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.environments.python.guest.call_tests import Clock
from harness.sandbox.guest import durations, processes
from harness.sandbox.guest.durations import (
    MOST_PROCESSOR_SECONDS,
    MOST_WAIT_SECONDS,
    bound_processor_seconds,
    bound_wait,
    moment_after,
)
from harness.sandbox.guest.loop import Loop
from harness.sandbox.limits import MOST_SECONDS, bound_seconds

ENORMOUS: list[float] = [3600 * 1200.0, 1e9, 1e18, 1e300, math.inf, 10**19, 10**400]


class Ended(Exception):
    """The loop, which serves for ever, was left."""


@pytest.fixture
def loop() -> Iterator[Loop]:
    handler = signal.getsignal(signal.SIGCHLD)
    loop = Loop()
    yield loop
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, handler)


def run_to_its_end(loop: Loop) -> None:
    def end() -> None:
        raise Ended

    read, write = os.pipe()
    loop.watch(read, end)
    os.write(write, b".")
    try:
        with pytest.raises(Ended):
            loop.run()
    finally:
        os.close(read)
        os.close(write)


@each_case("seconds", ENORMOUS)
def test_a_loop_waits_despite_a_timer_beyond_any_wait(loop: Loop, seconds: float) -> None:
    loop.after(seconds, lambda: pytest.fail("it was due at once"))
    run_to_its_end(loop)


@each_case("seconds", ENORMOUS)
def test_an_enormous_timer_does_not_delay_the_next_one(loop: Loop, seconds: float) -> None:
    def end() -> None:
        raise Ended

    loop.after(seconds, lambda: pytest.fail("it was due at once"))
    loop.after(-seconds, end)
    with pytest.raises(Ended):
        loop.run()


def test_a_timer_that_is_not_a_number_is_refused(loop: Loop) -> None:
    with pytest.raises(ValueError, match="nan"):
        loop.after(math.nan, lambda: None)
    run_to_its_end(loop)


@each_case("seconds", [-math.inf, -1, 0, 1e-9, *ENORMOUS])
def test_every_bounded_wait_is_one_that_poll_takes(seconds: float) -> None:
    read, write = os.pipe()
    os.write(write, b".")
    poll = select.poll()
    poll.register(read, select.POLLIN)
    assert poll.poll(bound_wait(seconds) * 1000 + 1) == [(read, select.POLLIN)]
    os.close(read)
    os.close(write)


def test_a_wait_that_the_kernel_accepts_is_unchanged_and_one_that_is_no_number_is_refused() -> None:
    assert bound_wait(0.25) == 0.25
    with pytest.raises(ValueError, match="nan"):
        bound_wait(math.nan)


# The host cuts integers down to a year before the guest gets them.
@each_case("seconds", ENORMOUS[:-1])
def test_the_clock_of_a_candidate_takes_enormous_limits(seconds: float) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    clock = Clock(os.getuid(), seconds, seconds)
    try:
        clock.start(first=True)
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= MOST_WAIT_SECONDS
    finally:
        clock.stop()
        signal.signal(signal.SIGALRM, handler)


@each_case("seconds", ENORMOUS)
def test_every_backstop_is_one_that_the_kernel_takes(seconds: float) -> None:
    assert 0 < processes.compute_backstop(seconds) <= MOST_PROCESSOR_SECONDS


def test_the_kernel_takes_the_largest_backstop() -> None:
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_PROCESSOR_SECONDS, MOST_PROCESSOR_SECONDS + 1))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_processor_seconds_are_rounded_up() -> None:
    assert [bound_processor_seconds(seconds) for seconds in (0.1, 1.0, 1.1)] == [1, 1, 2]


@each_case("seconds", [10**400, math.inf, 1e308])
def test_a_moment_that_no_clock_reaches_is_after_every_other(seconds: float) -> None:
    assert moment_after(1e9, seconds) > 1e300
    assert moment_after(5.0, -(10**400)) == 5.0


def test_the_guest_takes_every_time_that_the_host_sends() -> None:
    assert durations.bound_processor_seconds(MOST_SECONDS) == MOST_SECONDS


@each_case("seconds", [0, -1.0, math.inf, -math.inf, math.nan])
def test_an_invalid_time_is_refused_by_its_name(seconds: float) -> None:
    with pytest.raises(UsageError, match="timeout must be a positive and finite number of seconds"):
        bound_seconds("timeout", seconds)


@each_case("seconds", [1e9, 1e300, 10**400])
def test_a_finite_time_is_cut_down_to_a_year(seconds: float) -> None:
    assert bound_seconds("timeout", seconds) == MOST_SECONDS
    # The time of ten thousand attempts is unchanged.
    assert bound_seconds("deadline_seconds", 600.0 * 20_001) == 600.0 * 20_001
