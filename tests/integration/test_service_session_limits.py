"""The bounds on sandboxes that clients hold, and the sandboxes of a client that is too many."""

from __future__ import annotations

import asyncio
import os
import time

import httpx
import pytest
from docker import APIClient
from service_fixtures import Served, serve

from harness.sandbox import reaper

SMALL = {"limits": {"memory_mb": 128}}


def read_error(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def create(served: Served) -> str:
    response = await served.post("/v1/sandboxes", **SMALL)
    assert response.status_code == 201, response.text
    return f"/v1/sandboxes/{response.json()['id']}"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("client_sessions", (429, "too_many_requests")), ("sessions", (504, "busy"))],
    ids=["of a client", "of all"],
)
async def test_one_sandbox_too_many_is_refused_at_once_until_one_ends(
    limit: str, expected: tuple[int, str]
) -> None:
    async with serve(**{limit: 1}) as served:  # type: ignore[arg-type]
        first = await create(served)
        refused = await served.post("/v1/sandboxes", **SMALL)
        assert read_error(refused) == expected
        assert int(refused.headers["retry-after"]) >= 1
        await served.http.delete(first)
        await create(served)


async def test_sandboxes_that_clients_hold_leave_memory_for_programs() -> None:
    async with serve(session_memory_share=0.0001) as served:
        response = await served.post("/v1/sandboxes", **SMALL)
        assert response.status_code == 422
        assert "memory_mb" in response.json()["error"]["message"]
        program = await served.post("/run_code", code="print(1)", language="python")
        assert program.json()["status"] == "Success"


async def test_too_many_commands_in_one_sandbox_are_refused() -> None:
    async with serve(session_requests=1) as served:
        path = await create(served)
        values = {"argv": ["/bin/bash", "-c", "sleep 100"], "timeout_seconds": 100}
        running = asyncio.create_task(served.post(f"{path}/exec", **values))
        while not (await served.http.get(path)).json()["busy"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert read_error(await served.post(f"{path}/exec", argv=["true"])) == (429, "too_many_requests")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_client_that_leaves_while_its_sandbox_starts_leaves_none() -> None:
    async with serve() as served:
        starting = asyncio.create_task(served.post("/v1/sandboxes", **SMALL))
        while not await served.read_metric("harness_sessions"):  # noqa: ASYNC110
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        listed = {"sandboxes": [None]}
        deadline = time.monotonic() + 60
        while listed["sandboxes"] or await served.read_metric("harness_sandboxes"):
            assert time.monotonic() < deadline, listed
            listed = (await served.http.get("/v1/sandboxes")).json()
            # It may have been open already, when the client left.
            for each in listed["sandboxes"]:
                await served.http.delete(f"/v1/sandboxes/{each['id']}")
            await asyncio.sleep(0.02)


async def test_a_sandbox_that_the_engine_loses_is_gone_and_counts_as_a_fault(client: APIClient) -> None:
    async with serve() as served:
        path = await create(served)
        label = {"label": f"{reaper.PID}={os.getpid()}"}
        # A prepared sandbox may be there already, next to the one that the client holds.
        for container in await asyncio.to_thread(client.containers, filters=label):
            await asyncio.to_thread(client.kill, container["Id"])
        response = await served.post(f"{path}/exec", argv=["true"])
        assert read_error(response) == (410, "sandbox_failed")
        assert await served.read_metric("harness_faults_total") == 1
        while await served.read_metric("harness_sessions"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
