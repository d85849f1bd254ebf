"""A run that is interrupted, or loses its disk or engine, keeps finished attempts and leaves nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import APIClient
from docker.errors import APIError
from e2e.command_line import Harness, RunFolder, wait_until
from effort import THOROUGH

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
RUN = ("run", "-b", "mbpp", "--data", "bundled")
# The sandboxes that all compute when a signal ends their run.
BUSY = 8 if THOROUGH else 4


# Tests below send the other signals to other runs.
@pytest.mark.parametrize(
    ("number", "exit_code"),
    [
        pytest.param(*each, marks=() if each[0] == signal.SIGHUP else pytest.mark.thorough)
        for each in SIGNALS.items()
    ],
    ids=str,
)
def test_signal_ends_a_run_cleanly(
    harness: Harness, client: APIClient, number: signal.Signals, exit_code: int
) -> None:
    run = harness.start_run("--max-concurrent", "2", finished=2)
    kept = run.folder.raw_attempts
    stdout, stderr = run.end(number)
    assert run.process.returncode == exit_code, stderr
    assert run.folder.containers(client) == []
    assert run.folder.raw_attempts.startswith(kept)
    assert "Traceback" not in stdout + stderr


@pytest.fixture(scope="module")
def interrupted(module_harness: Harness) -> tuple[RunFolder, str]:
    """Make a run of six tasks that Ctrl-C ends after at least one, and return it with its output."""
    run = module_harness.start_run("-n", "6", "--max-concurrent", "1")
    stdout, stderr = run.end(signal.SIGINT)
    assert run.process.returncode == SIGNALS[signal.SIGINT], stderr
    assert "Traceback" not in stdout + stderr
    return run.folder, stdout


def test_interrupted_run_is_recorded(interrupted: tuple[RunFolder, str], client: APIClient) -> None:
    folder, _ = interrupted
    assert folder.containers(client) == []
    done = len(folder.attempts)
    assert folder.summary["statuses"] == {"passed": done, "cancelled": 6 - done}
    assert (folder.path / "report.html").stat().st_size > 0


def test_interrupted_run_prints_no_rate_but_the_command_that_resumes_it(
    interrupted: tuple[RunFolder, str],
) -> None:
    folder, stdout = interrupted
    done = len(folder.attempts)
    assert f"stopped after {done} of 6: {done} passed so far" in stdout
    assert f"harness run --resume {folder.path}" in stdout
    assert "rate" not in {line.split()[0] for line in stdout.splitlines() if line.strip()}


def test_interrupted_run_can_be_resumed(harness: Harness, interrupted: tuple[RunFolder, str]) -> None:
    folder = interrupted[0].copy_to(harness.folder / "copy")
    harness.succeed("run", "--resume", folder.path)
    assert folder.summary["statuses"] == {"passed": 6}


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.thorough), signal.SIGTERM],
    ids=lambda value: str(value),
)
def test_further_signals_change_nothing(harness: Harness, client: APIClient, number: signal.Signals) -> None:
    run = harness.start_run("--max-concurrent", "3")
    # Signals without a pause meet the tear-down, the report and the end of the process.
    while run.process.poll() is None:
        run.process.send_signal(number)
        time.sleep(0.002)
    stdout, stderr = run.process.communicate()
    assert run.process.returncode == SIGNALS[number], stderr
    assert "run folder:" in stdout
    assert run.folder.containers(client) == []


def test_busy_sandboxes_are_gone_in_time(harness: Harness, client: APIClient) -> None:
    samples = [{"task_id": number, "solution": "while True: pass"} for number in range(9001, 9001 + BUSY)]
    (harness.folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in samples))
    (harness.folder / "config.yaml").write_text(
        "benchmark: mbpp\nsamples: samples.jsonl\n"
        "limits: {memory_mb: 128, cpu_seconds: 600, wall_seconds: 600}\n"
    )
    run = harness.start_run("-c", "config.yaml", "--max-concurrent", str(BUSY), finished=0)

    def busy() -> bool:
        running = run.folder.containers(client, running=True)
        return len(running) == BUSY and all(is_computing(client, container) for container in running)

    wait_until(busy, "busy sandboxes")
    stdout, stderr = run.end(signal.SIGTERM)
    assert run.process.returncode == 143, stdout + stderr
    assert run.folder.containers(client) == []


def is_computing(client: APIClient, container: str) -> bool:
    """Return whether a process of a sandbox other than the guest wants to run."""
    with contextlib.suppress(APIError):
        processes = client.top(container, "-o uid,stat,pid")["Processes"]
        return any(int(uid) >= 10_000 and state.startswith("R") for uid, state, _ in processes)
    return False


# tests/e2e/test_killed_runs.py kills a run twice by default.
@pytest.mark.thorough
def test_kills_at_any_moment_lose_and_leave_nothing(harness: Harness, client: APIClient) -> None:
    moments = random.Random(20)
    kills, tasks, samples = 20, 22, 8
    chosen = ("-n", str(tasks), "--n-samples", str(samples), "--max-concurrent", "3")
    run = harness.start_run(*chosen)
    folder, process, kept = run.folder, run.process, b""
    for kill in range(kills):
        time.sleep(moments.uniform(0, 0.5))
        process.kill()
        process.communicate()
        assert folder.raw_attempts.startswith(kept)
        kept = folder.raw_attempts
        process = harness.start("run", "--resume", folder.path, "--max-concurrent", "3")
        # Every third is killed while it starts.
        while kill % 3 and process.poll() is None and folder.raw_attempts == kept:
            time.sleep(0.01)
    process.kill()
    process.communicate()
    wait_until(
        lambda: not folder.containers(client, running=True), "the guests ended by themselves", seconds=10
    )
    harness.succeed("gc")
    assert folder.containers(client) == []

    harness.succeed("run", "--resume", folder.path)
    assert folder.raw_attempts.startswith(kept)
    verdicts = Counter((attempt["task_id"], attempt["attempt"]) for attempt in folder.attempts)
    assert set(verdicts.values()) == {1}
    assert folder.summary["statuses"] == {"passed": len(verdicts)} == {"passed": tasks * samples}
    assert [path for path in folder.path.iterdir() if path.name.startswith(".")] == []


def test_signal_that_was_ignored_stays_so(harness: Harness) -> None:
    # `nohup` does this.
    run = harness.start_run("-n", "2", "--max-concurrent", "1", ignoring=(signal.SIGHUP,))
    run.end(signal.SIGHUP)
    assert run.process.returncode == 0
    assert run.folder.summary["statuses"] == {"passed": 2}


def test_interrupt_before_the_run_starts_leaves_nothing(harness: Harness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # This hub does not answer.
        hub = f"http://127.0.0.1:{mute.getsockname()[1]}"
        process = harness.start("run", "-b", "mbpp", env={"HF_ENDPOINT": hub})
        connection, _ = mute.accept()
        process.send_signal(signal.SIGINT)
        process.communicate()
        connection.close()
    assert process.returncode == 130
    assert list(harness.folder.iterdir()) == []


# --- a full disk


@pytest.fixture(scope="module")
def disk_filled_up(module_harness: Harness) -> tuple[RunFolder, int, str]:
    """Make a run whose disk is full after a few attempts, and return it with its exit code and stderr."""
    runs = module_harness.folder / "filled"
    ended = module_harness(*RUN, "-n", "8", "--max-concurrent", "2", "--output-dir", runs, file_bytes=6000)
    (run,) = runs.iterdir()
    return RunFolder(run), ended.returncode, ended.stderr


def test_full_disk_ends_a_run_with_a_remedy(disk_filled_up: tuple[RunFolder, int, str]) -> None:
    folder, exit_code, stderr = disk_filled_up
    assert exit_code == 3
    assert f"error: {folder.path}/attempts.jsonl: cannot be written: File too large" in stderr
    assert f"harness run --resume {folder.path}" in stderr


def test_full_disk_leaves_whole_lines_and_no_container(
    disk_filled_up: tuple[RunFolder, int, str], client: APIClient
) -> None:
    folder, _, _ = disk_filled_up
    assert (folder.path / "attempts.jsonl").read_bytes() == folder.raw_attempts
    assert {attempt["status"] for attempt in folder.attempts} == {"passed"}
    assert folder.containers(client) == []


def test_run_goes_on_once_there_is_room(harness: Harness, disk_filled_up: tuple[RunFolder, int, str]) -> None:
    folder = disk_filled_up[0].copy_to(harness.folder / "copy")
    kept = folder.raw_attempts
    harness.succeed("run", "--resume", folder.path)
    assert folder.raw_attempts.startswith(kept)
    assert folder.summary["statuses"] == {"passed": 8}


# --- an engine that goes away


class Road:
    """A way to the real engine that can be closed."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._entrance = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._admit, daemon=True).start()

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self._entrance.getsockname()[1]}"

    def close(self) -> None:
        # Shut down first, because a thread that waits in accept() or recv() would keep a closed socket open.
        for end in [self._entrance, *self._ends]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _admit(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._entrance.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._engine)
                self._ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def road() -> Iterator[Road]:
    engine = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    if not Path(engine).is_socket():
        pytest.skip("the engine is not behind a local socket")
    road = Road(engine)
    yield road
    road.close()


def test_lost_engine_is_an_infra_error(harness: Harness, client: APIClient, road: Road) -> None:
    gone = {"DOCKER_HOST": road.address, "HARNESS_ENGINE_WAIT_SECONDS": "1"}
    run = harness.start_run("-n", "8", "--max-concurrent", "3", env=gone)
    road.close()
    _, stderr = run.process.communicate()
    assert run.process.returncode == 3, stderr
    assert "Traceback" not in stderr
    assert "the Docker engine does not respond; waiting up to 1 s for it to come back" in stderr
    assert "error: the Docker engine stopped responding and did not come back within 1 s" in stderr
    # These attempts were under way. The others had not begun.
    assert set(run.folder.summary["statuses"]) == {"passed", "infra_error", "cancelled"}
    assert run.folder.summary["statuses"]["infra_error"] <= 3
    lost = [attempt for attempt in run.folder.attempts if attempt["status"] == "infra_error"]
    assert {attempt["score"] for attempt in lost} == {None}
    # A container that could not be removed is an orphan now.
    wait_until(lambda: not run.folder.containers(client, running=True), "the guests ended by themselves")
    harness.succeed("gc")
    assert run.folder.containers(client) == []
    # The lost attempts are retried.
    harness.succeed("run", "--resume", run.folder.path, "-o", "results.json")
    results = harness.read_json()
    assert results["summary"]["statuses"] == {"passed": 8}
    assert len(results["attempts"]) == 8
