"""The ends of a service: SIGTERM lets requests end, and SIGKILL leaves nothing behind."""

from __future__ import annotations

import signal
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest
from docker import APIClient
from e2e.command_line import Harness, wait_until
from e2e.served_process import ServedProcess, start_service

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


def read_health(served: ServedProcess) -> str:
    reply = httpx.get(f"{served.url}/health", trust_env=False).json()
    return str(reply["status"])
