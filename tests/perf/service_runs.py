"""Measure the service: programs a second, and its own processor time for each of them.

Every program is a reference solution of HumanEval with its published tests, which reads a number and prints
the next one. Its three hidden tests are three such numbers. The peer is the documented way of SandboxFusion
without isolation: a process of Python in a fresh folder for each test, on this machine, two at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
from docker import APIClient
from figure import CannotMeasure, Figure, Measurement, Reading
from processor_time import read_processor_seconds
from served_requests import batches, send_all
from session import PEER_WORKERS, Session

from harness.benchmarks import load_benchmark
from harness.sandbox import reaper

PEER = "a process a test, no isolation (SandboxFusion's method)"
RUN_CODE = Figure(
    "the service: /run_code, HumanEval with 3 tests", "programs/s", PEER, mark=2.0, goal=3.0, better="higher"
)
GRADE = Figure(
    "the service: /v1/grade, HumanEval with 3 tests", "programs/s", PEER, mark=2.0, goal=3.0, better="higher"
)
HOST_RUN_CODE = Figure(
    "the service: processor time of its process, /run_code", "ms a program", "its sandboxes", mark=0.1
)
HOST_GRADE = Figure(
    "the service: processor time of its process, /v1/grade", "ms a program", "its sandboxes", mark=0.1
)
INPUTS = (1, 20, 300)
CONNECTIONS = 64
BATCH = 64
ROUNDS = 3


@contextlib.contextmanager
def _start(session: Session) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the URL of a service with its token, and its process."""
    command = [str(Path(sys.executable).with_name("harness")), "serve", "--port", "0"]
    command += ["--max-concurrent", str(session.workers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=session.folder)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise CannotMeasure("harness serve did not start")
        yield url, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def list_programs(session: Session) -> list[str]:
    """Return the programs."""
    rows = load_benchmark("humaneval", data=str(session.humaneval)).rows.values()
    return [
        f"{row['prompt']}{row['canonical_solution']}\n{row['test']}\ncheck({row['entry_point']})\n"
        "print(int(input()) + 1)\n"
        for row in rows
    ]


def take(session: Session) -> Iterator[Reading]:
    """Yield the readings. The peer runs before and after each round of ours."""
    programs = list_programs(session)
    rates: dict[Figure, list[float]] = {RUN_CODE: [], GRADE: []}
    spent: dict[Figure, list[tuple[float, float]]] = {HOST_RUN_CODE: [], HOST_GRADE: []}
    with _start(session) as (url, process):
        # The sandboxes of this client start, and stay.
        _measure(partial(_run_code, url, programs[:CONNECTIONS]), session.client, process)
        _measure(partial(_grade, url, programs[:CONNECTIONS]), session.client, process)
        peers = [_run_plain(programs, session.folder)]
        for _ in range(1 if session.size.is_quick else ROUNDS):
            for send, rate, host in ((_run_code, RUN_CODE, HOST_RUN_CODE), (_grade, GRADE, HOST_GRADE)):
                work = partial(send, url, programs)
                seconds, own, guests = _measure(work, session.client, process)
                rates[rate].append(len(programs) / seconds)
                spent[host].append((1000 * own / len(programs), 1000 * guests / len(programs)))
            peers.append(_run_plain(programs, session.folder))
    note = f"{len(programs)} programs, {PEER_WORKERS} workers of the peer, {CONNECTIONS} connections"
    for figure, samples in rates.items():
        yield Reading(figure, samples, [len(programs) / seconds for seconds in peers], note)
    for figure, pairs in spent.items():
        own_samples, guest_samples = zip(*pairs, strict=True)
        yield Reading(figure, own_samples, guest_samples)


def _run_code(url: str, programs: list[str]) -> None:
    """Send a request for each test, and compare the output as clients do."""
    requests = [
        {"code": program, "language": "python", "stdin": f"{given}\n", "compile_timeout": 600}
        for program in programs
        for given in INPUTS
    ]
    replies = asyncio.run(send_all(url, "/run_code", requests, connections=CONNECTIONS))
    for reply, request in zip(replies, requests, strict=True):
        if reply["run_result"]["stdout"] != f"{int(str(request['stdin'])) + 1}\n":
            raise CannotMeasure(f"a reference failed: {reply}")


def _grade(url: str, programs: list[str]) -> None:
    """Send batches of programs with their hidden tests."""
    tests = [{"input": f"{given}\n", "output": f"{given + 1}\n"} for given in INPUTS]
    samples = [{"solution": program, "tests": {"kind": "stdin", "tests": tests}} for program in programs]
    requests = [{"samples": list(batch)} for batch in batches(samples, BATCH)]
    replies = asyncio.run(send_all(url, "/v1/grade", requests, connections=len(requests)))
    statuses = [verdict["status"] for reply in replies for verdict in reply["verdicts"]]
    if statuses != ["passed"] * len(programs):
        raise CannotMeasure(f"not every reference passed: {sorted(set(statuses))}")


def _run_plain(programs: list[str], folder: Path) -> float:
    """Return the seconds of a process for each test, in a fresh folder each."""

    def run(test: tuple[str, int]) -> bool:
        program, given = test
        with tempfile.TemporaryDirectory(dir=folder) as place:
            path = Path(place, "main.py")
            path.write_text(program)
            ended = subprocess.run(
                [sys.executable, path],
                input=f"{given}\n",
                cwd=place,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        return ended.stdout == f"{given + 1}\n"

    started = time.monotonic()
    with ThreadPoolExecutor(PEER_WORKERS) as pool:
        passed = [*pool.map(run, [(program, given) for program in programs for given in INPUTS])]
    if not all(passed):
        raise CannotMeasure("a reference failed without isolation")
    return time.monotonic() - started


def _measure(
    work: Callable[[], None], client: APIClient, process: psutil.Process
) -> tuple[float, float, float]:
    """Return the seconds of the work, and the processor seconds of the service and of its sandboxes."""
    before, guests, started = _read_own(process), _read_guests(client, process), time.monotonic()
    work()
    seconds, own = time.monotonic() - started, _read_own(process) - before
    return seconds, own, sum(_read_guests(client, process).values()) - sum(guests.values())


def _read_own(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _read_guests(client: APIClient, process: psutil.Process) -> dict[str, float]:
    """Return the processor seconds of each sandbox of the service."""
    label = f"{reaper.PID}={process.pid}"
    listed = client.containers(filters={"label": [label, f"{reaper.ROLE}=sandbox"]})
    return {each["Id"]: read_processor_seconds(client, each["Id"]) for each in listed}


MEASUREMENTS = (Measurement("service", (RUN_CODE, GRADE, HOST_RUN_CODE, HOST_GRADE), take),)
