"""A service that is asked for four times of what it can do."""

from __future__ import annotations

import asyncio
import os
import statistics

import pytest
from e2e.command_line import Harness
from e2e.overload import CLIENT_SECONDS, Program, Seen, measure_capacity, overload
from e2e.served_process import start_service
from effort import THOROUGH

SECONDS = float(os.environ.get("HARNESS_OVERLOAD_SECONDS", "120" if THOROUGH else "2"))
CLIENTS = 256
LOAD = 4.0
COMPILE_TIMEOUT = 2.0
RUN_TIMEOUT = 6.0
# Some work, so that the programs and not the clients use up the processors.
WORK = "sum(i * i for i in range(200_000))\n"
PROGRAMS = [
    Program("right", f"{WORK}print(int(input()) * 2)", RUN_TIMEOUT),
    Program("wrong", f"{WORK}print(41)", RUN_TIMEOUT),
    Program("exception", f"{WORK}1/0", RUN_TIMEOUT),
    Program("syntax error", "print(", RUN_TIMEOUT),
    Program("killed", f"{WORK}import os; os.kill(os.getpid(), 9)", RUN_TIMEOUT),
    *[Program("right", f"{WORK}print(input())", RUN_TIMEOUT) for _ in range(14)],
    Program("slow", "while True: pass", 1.0),
]
# The requests that show how much the service can do.
MEASURED = (3 if THOROUGH else 1) * len(PROGRAMS)
# Above the memory of the quiet service: a connection, a request and a program for each client.
MOST_GROWTH_MB = 128.0


@pytest.mark.timeout(SECONDS + 240)
def test_a_service_with_four_times_its_load_stays_correct_and_answers_each_client_in_its_time(
    harness: Harness,
) -> None:
    # A fork would begin with the memory of its parent.
    with start_service(harness, by_script=True) as served:
        capacity, quiet = asyncio.run(
            measure_capacity(
                served.url,
                PROGRAMS,
                at_once=3,
                requests=MEASURED,
                compile_timeout=COMPILE_TIMEOUT,
            )
        )
        memory = served.read_peak_memory_mb()
        seen = asyncio.run(
            overload(
                served.url,
                PROGRAMS,
                clients=CLIENTS,
                requests_a_second=LOAD * capacity,
                seconds=SECONDS,
                compile_timeout=COMPILE_TIMEOUT,
            )
        )
        growth = served.read_peak_memory_mb() - memory
    expected = {each.program.code: each.verdict for each in quiet}
    accepted = [each for each in seen if each.status == 200]
    refused = [each for each in seen if each.status in (504, 429)]
    figures = {
        "capacity": round(capacity, 1),
        "offered": round(len(seen) / SECONDS, 1),
        "accepted": len(accepted),
        "refused": len(refused),
        "late_seconds_p99": _find_p99([_count_late(each) for each in accepted]),
        "growth_mb": round(growth, 1),
    }
    print(figures)
    assert [each for each in seen if each.status not in (200, 504, 429)] == []
    assert [each for each in accepted if each.verdict != expected[each.program.code]] == []
    assert accepted
    assert growth < MOST_GROWTH_MB
    if THOROUGH:  # on a machine that has nothing else to do
        assert refused == []
        assert figures["late_seconds_p99"] < CLIENT_SECONDS


def _find_p99(values: list[float]) -> float:
    return round(statistics.quantiles(values, n=100)[98], 2) if len(values) > 1 else 0.0


def _count_late(seen: Seen) -> float:
    """Return the seconds by which a reply came after both time limits of its request, negative if before."""
    return seen.seconds - COMPILE_TIMEOUT - seen.program.run_timeout
