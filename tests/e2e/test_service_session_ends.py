"""Sandboxes that clients hold, when the service ends: none is left, however it ends."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from docker import APIClient
from e2e.command_line import Harness, wait_until
from e2e.served_process import ServedProcess, start_service
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

# The containers of a dead service must be gone within this time.
GONE_SECONDS = 10.0


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


def test_a_killed_service_leaves_no_sandbox(harness: Harness, client: APIClient) -> None:
    with start_service(harness) as served, ThreadPoolExecutor(1) as threads:
        sandbox, _idle = create(served), create(served)
        running = threads.submit(run, sandbox, "touch begun; sleep 100")
        wait_until(lambda: run(sandbox, "test -e begun").json()["exit_code"] == 0, "the command")
        assert len(served.list_containers(client)) >= 2, "a third one may be prepared"
        served.end(signal.SIGKILL)
        wait_until(lambda: not served.list_containers(client), "no container", seconds=GONE_SECONDS)
        with pytest.raises(httpx.TransportError):
            running.result()


def test_a_service_that_is_killed_while_it_forks_leaves_no_sandbox(
    harness: Harness, client: APIClient
) -> None:
    with start_service(harness) as served, ThreadPoolExecutor(1) as threads:
        sandbox = create(served)
        taken = httpx.post(f"{sandbox}/snapshot", json={}, timeout=120, trust_env=False).json()
        before = len(served.list_containers(client))
        fork = f"{served.url}/v1/snapshots/{taken['name']}/fork"
        forking = threads.submit(httpx.post, fork, json={"count": 8}, timeout=120, trust_env=False)
        wait_until(lambda: len(served.list_containers(client)) > before, "the first fork")
        served.end(signal.SIGKILL)
        wait_until(lambda: not served.list_containers(client), "no container", seconds=GONE_SECONDS)
        with pytest.raises(httpx.TransportError):
            forking.result()


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
