"""The files of a sandbox, and further sandboxes that start with them, here and at a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from service_fixtures import TOKEN, Served, serve

import harness
from harness.core.errors import UsageError

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

MAKE = "mkdir a; echo one > a/b; chmod 750 a/b; ln -s a/b link; echo two > /tmp/t; sleep 100 &"
SHOW = "cat link /tmp/t; stat -c %a a/b; ps ax | grep -c '[s]leep 100'"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve(client_sessions=4) as running:
        yield running


async def check_forks(host: Any) -> None:
    async with host.sandbox("python") as sandbox:
        await sandbox.exec(["sh", "-c", MAKE])
        snapshot = await sandbox.snapshot()
        await sandbox.exec(["sh", "-c", "echo later > a/b"])
    async with host.fork(snapshot, 2) as forks:
        for number, fork in enumerate(forks):
            shown = await fork.exec(["sh", "-c", f"{SHOW}; echo {number} > a/b"])
            assert str(shown.stdout) == "one\ntwo\n750\n0\n"
        assert [str((await fork.exec(["cat", "a/b"])).stdout) for fork in forks] == ["0\n", "1\n"]


async def test_forks_of_this_machine_have_the_files_and_share_nothing() -> None:
    async with harness.open_host() as host:
        await check_forks(host)


async def test_forks_of_a_service_have_the_files_and_share_nothing(served: Served) -> None:
    async with harness.connect(f"{served.url}/{TOKEN}") as host:
        await check_forks(host)


async def test_files_that_do_not_fit_into_a_request_are_refused() -> None:
    async with harness.open_host() as host, host.sandbox("python") as sandbox:
        await sandbox.exec(["sh", "-c", "head -c 40000000 /dev/zero | tee x > /tmp/y"])
        with pytest.raises(UsageError, match="more than 63 MiB"):
            await sandbox.snapshot()


async def test_forks_beyond_the_share_of_a_client_are_errors_and_no_name_outlives_its_snapshot(
    served: Served,
) -> None:
    opened = (await served.post("/v1/sandboxes", image="python")).json()
    path = f"/v1/sandboxes/{opened['id']}/snapshot"
    taken = (await served.post(path, idle_seconds=600)).json()
    fork = f"/v1/snapshots/{taken['name']}/fork"
    assert (await served.post(fork, count=0)).status_code == 422
    # The quota refuses a part of the forks, each with its reason.
    reply = (await served.post(fork, count=40)).json()["sandboxes"]
    ids = [each["sandbox"]["id"] for each in reply if each["sandbox"] is not None]
    assert len(reply) == 40
    assert {each["error"]["code"] for each in reply if each["error"] is not None} == {"too_many_requests"}
    assert 0 < len(ids) < 40
    for each in (*ids, opened["id"]):
        await served.http.delete(f"/v1/sandboxes/{each}")
    await served.http.delete(f"/v1/snapshots/{taken['name']}")
    refused = await served.post(fork, count=1)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_snapshot")


async def test_a_snapshot_that_nobody_forks_ends_and_gives_its_share_back(served: Served) -> None:
    opened = (await served.post("/v1/sandboxes", image="python")).json()
    held = await served.read_metric("harness_sessions")
    await served.post(f"/v1/sandboxes/{opened['id']}/snapshot", idle_seconds=1)
    assert await served.read_metric("harness_sessions") == held + 1
    async with asyncio.timeout(60):
        while await served.read_metric("harness_sessions") > held:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await served.http.delete(f"/v1/sandboxes/{opened['id']}")
