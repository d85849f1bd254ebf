"""The ends of a service: SIGTERM lets requests end, and no end leaves a sandbox."""

from __future__ import annotations

import signal
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest
from docker import APIClient
from e2e.command_line import Harness, wait_until
from e2e.served_process import ServedProcess, start_service
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

# The containers of a dead service must be gone within this time.
GONE_SECONDS = 10.0


def request(served: ServedProcess, seconds: float, language: str = "python") -> httpx.Response:
    code = f"sleep {seconds}" if language == "bash" else f"import time; time.sleep({seconds})"
    values = {"code": code, "language": language, "run_timeout": 60}
    return httpx.post(f"{served.url}/run_code", json=values, timeout=120, trust_env=False)


def wait_for_work(served: ServedProcess, requests: int) -> None:
    """Wait until this many requests work in sandboxes that have started."""
    with httpx.Client(trust_env=False) as http:

        def is_working() -> bool:
            lines = http.get(f"{served.url}/metrics").text.splitlines()
            values = dict(line.split() for line in lines if not line.startswith("#"))
            return float(values["harness_working"]) == requests <= float(values["harness_sandboxes"])

        wait_until(is_working, f"{requests} requests at work")


def read_health(served: ServedProcess) -> str:
    reply = httpx.get(f"{served.url}/health", trust_env=False).json()
    return str(reply["status"])


def create(served: ServedProcess) -> str:
    """Open a sandbox, and return its URL."""
    values = {"limits": {"memory_mb": 128}, "terminals": True}
    response = httpx.post(f"{served.url}/v1/sandboxes", json=values, timeout=120, trust_env=False)
    assert response.status_code == 201, response.text
    return f"{served.url}/v1/sandboxes/{response.json()['id']}"


def run(sandbox: str, script: str) -> httpx.Response:
    values = {"argv": ["/bin/bash", "-c", script], "timeout_seconds": 100}
    return httpx.post(f"{sandbox}/exec", json=values, timeout=120, trust_env=False)


def read_to_end(terminal: ClientConnection) -> None:
    while True:
        terminal.recv(timeout=60)


def test_a_killed_service_leaves_no_container(harness: Harness, client: APIClient) -> None:
    with start_service(harness, "--max-concurrent", "2") as served, ThreadPoolExecutor(2) as threads:
        # One sandbox is kept for the programs of this client, and the other one is new.
        waiting = [threads.submit(request, served, 60, language) for language in ("python", "bash")]
        wait_for_work(served, 2)
        wait_until(lambda: len(served.list_containers(client)) >= 2, "two containers")
        served.end(signal.SIGKILL)
        wait_until(lambda: not served.list_containers(client), "no container", seconds=GONE_SECONDS)
        for each in waiting:
            with pytest.raises(httpx.TransportError):
                each.result()


def test_a_terminated_service_finishes_its_requests_and_takes_no_new_ones(
    harness: Harness, client: APIClient
) -> None:
    with start_service(harness, "-vv") as served, ThreadPoolExecutor(1) as threads:
        running: Future[httpx.Response] = threads.submit(request, served, 3)
        wait_for_work(served, 1)
        served.process.send_signal(signal.SIGTERM)
        wait_until(lambda: read_health(served) == "draining", "a service that drains")
        assert request(served, 0).status_code == 503
        assert running.result().json()["status"] == "Success"
        _, errors = served.process.communicate(timeout=60)
        assert served.process.returncode == 128 + signal.SIGTERM, errors
        assert served.list_containers(client) == []
        assert served.token not in errors


def test_a_service_that_is_killed_while_it_forks_leaves_no_sandbox(
    harness: Harness, client: APIClient
) -> None:
    with start_service(harness) as served, ThreadPoolExecutor(2) as threads:
        sandbox, busy, _idle = create(served), create(served), create(served)
        running = threads.submit(run, busy, "touch begun; sleep 100")
        wait_until(lambda: run(busy, "test -e begun").json()["exit_code"] == 0, "the command")
        taken = httpx.post(f"{sandbox}/snapshot", json={}, timeout=120, trust_env=False).json()
        before = len(served.list_containers(client))
        fork = f"{served.url}/v1/snapshots/{taken['name']}/fork"
        forking = threads.submit(httpx.post, fork, json={"count": 8}, timeout=120, trust_env=False)
        wait_until(lambda: len(served.list_containers(client)) > before, "the first fork")
        served.end(signal.SIGKILL)
        wait_until(lambda: not served.list_containers(client), "no container", seconds=GONE_SECONDS)
        for each in (running, forking):
            with pytest.raises(httpx.TransportError):
                each.result()


def test_a_terminated_service_closes_its_terminals_and_sandboxes(harness: Harness, client: APIClient) -> None:
    with start_service(harness) as served:
        sandbox = create(served)
        with connect(f"{sandbox.replace('http', 'ws', 1)}/terminal", proxy=None) as terminal:
            terminal.send(b"echo $((6 * 7))\n")
            seen = b""
            while b"\n42" not in seen:
                message = terminal.recv(timeout=60)
                assert isinstance(message, bytes)
                seen += message
            code, errors = served.end(signal.SIGTERM)
            with pytest.raises(ConnectionClosed):
                read_to_end(terminal)
        assert code == 128 + signal.SIGTERM, errors
        assert served.list_containers(client) == []
        assert "Traceback" not in errors
