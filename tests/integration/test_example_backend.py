"""The backend in examples/ passes the self-check of the package, runs a benchmark, and explains its losses.

The folder is imported from where it lies, as a user's own backend is.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from docker import APIClient
from docker.errors import APIError
from docker_command import backend as module
from docker_command.backend import connect

from harness import Sandbox, run
from harness.core.errors import EngineUnavailableError, ImageMissingError, SandboxError, UsageError
from harness.sandbox import reaper
from harness.sandbox.backends.base import Backend, Cause, Fate, SandboxSpec
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.guest.frames import DEADLINE_CODE
from harness.sandbox.limits import Limits
from harness.sandbox.selfcheck import Level, check_backend

EXAMPLES = Path(__file__).parents[2] / "examples" / "backend"
OPEN = """
import asyncio, sys
from harness import Sandbox
from docker_command.backend import connect

async def main():
    async with Sandbox.open(run_id=sys.argv[1], backend=connect()) as sandbox:
        print("docker" in sys.modules, flush=True)
        await sandbox.exec(["sleep", "600"], timeout=600)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def own() -> Backend:
    """Return the backend of the example over the client of Docker."""
    return connect("docker")


@pytest.fixture
def name(own: Backend) -> Iterator[str]:
    """Yield a name for a container, and remove the container."""
    name = f"harness-test-{secrets.token_hex(6)}"
    yield name
    own.destroy(name)


def spec(name: str, image: str = "python") -> SandboxSpec:
    labels = reaper.make_labels("test", role="sandbox", deadline_seconds=60)
    return SandboxSpec(image, Limits(), name=name, labels=labels)


def test_the_backend_has_every_method_of_the_protocol_as_it_is_declared(own: Backend) -> None:
    declared = {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(Backend, inspect.isfunction)
        if not name.startswith("_")
    }
    assert {name: inspect.signature(getattr(type(own), name)) for name in declared} == declared


@pytest.mark.thorough
async def test_every_check_of_the_self_check_holds(own: Backend) -> None:
    checks = await check_backend(own)
    assert [f"{check.name}: {check.found}" for check in checks if check.level is Level.FAIL] == []


async def test_a_run_grades_programs_in_its_sandboxes(own: Backend, tmp_path: Path) -> None:
    result = await run("humaneval", data="bundled", sample_size=2, backend=own, output_dir=str(tmp_path))
    assert [record.status for record in result.attempts] == ["passed", "passed"]
    assert '"client": "docker"' in (result.folder / "manifest.json").read_text()


async def test_an_end_from_outside_is_no_fault_of_the_agent(own: Backend, client: APIClient) -> None:
    async with Sandbox.open(backend=own) as sandbox:
        sandbox.agent_acted = True
        await asyncio.to_thread(client.kill, sandbox.container_id)
        with pytest.raises(SandboxError) as lost:
            await sandbox.exec(["true"])
    assert lost.value.outside


async def test_an_end_that_the_guest_causes_is_from_inside(own: Backend) -> None:
    async with Sandbox.open(backend=own) as sandbox:
        sandbox.agent_acted = True
        transport = sandbox._connection._transport
        assert transport is not None
        # PID 1 fails at a frame that is broken.
        transport.write(b"\xff" * 16)
        with pytest.raises(SandboxError) as lost:
            await sandbox.exec(["sleep", "600"])
        assert (lost.value.outside, lost.value.acted_in) == (False, True)
        assert await asyncio.to_thread(own.find_fate, sandbox.container_id) == Fate(Cause.INSIDE, 1)


async def test_the_deadline_of_a_sandbox_is_no_limit_of_an_agent(own: Backend) -> None:
    async with Sandbox.open(backend=own, deadline_seconds=0.1) as sandbox:
        sandbox.agent_acted = True
        with pytest.raises(SandboxError) as lost:
            await sandbox.exec(["sleep", "600"])
        assert lost.value.outside
        assert await asyncio.to_thread(own.find_fate, sandbox.container_id) == Fate(
            Cause.OUTSIDE, DEADLINE_CODE
        )


async def test_a_sandbox_is_silent_from_inside_only_while_its_programs_keep_it_busy(
    own: Backend, client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests may keep the machine busy.
    monkeypatch.setattr(module, "BUSY_PERCENT", 2.0)
    async with Sandbox.open(backend=own) as sandbox:

        async def wait_for(cause: Cause) -> None:
            """Wait until the last moments of the sandbox have this cause. The test's limit ends the wait."""
            found = None
            while found != Fate(cause):
                found = await asyncio.to_thread(own.find_fate, sandbox.container_id, silent=True)

        await wait_for(Cause.OUTSIDE)
        job = asyncio.create_task(sandbox.exec(["sh", "-c", "while :; do :; done"], timeout=60))
        await wait_for(Cause.INSIDE)
        while not await asyncio.to_thread(pause, client, sandbox.container_id):
            pass  # The test's limit ends the wait.
        await wait_for(Cause.OUTSIDE)
        await asyncio.to_thread(client.unpause, sandbox.container_id)
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)


def pause(client: APIClient, container_id: str) -> bool:
    """Freeze a container, and tell whether the kernel managed it: busy processes may take several tries."""
    try:
        client.pause(container_id)
    except APIError as error:
        if "unable to freeze" not in str(error):
            raise
        return False
    return True


def test_a_sandbox_whose_owner_is_killed_stops_and_is_an_orphan(own: Backend, client: APIClient) -> None:
    run_id = f"test-{secrets.token_hex(6)}"
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
    owner = subprocess.Popen(
        [sys.executable, "-c", OPEN, run_id], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert owner.stdout is not None
    with owner.stdout:
        assert owner.stdout.readline() == "False\n", "the example needs no library of Docker"
        owner.kill()
        owner.wait()
    (left,) = reaper.find_run_containers(own, run_id)
    assert client.wait(left, timeout=10)["StatusCode"] == 0
    assert left in [orphan.container_id for orphan in reaper.remove_orphans(own)]
    assert reaper.find_run_containers(own, run_id) == []


def test_a_container_is_destroyed_once(own: Backend, name: str) -> None:
    with closing(own.start(spec(name))) as started:
        assert own.destroy(started.id)
        assert not own.destroy(started.id)
    assert own.measure_disk(started.id).written_bytes is None
    assert own.find_fate(started.id).cause is Cause.OUTSIDE


def test_a_missing_image_is_named(own: Backend, name: str) -> None:
    with pytest.raises(ImageMissingError, match="0000 is not on the engine"):
        own.start(spec(name, "sha256:" + 64 * "0"))
    with pytest.raises(UsageError, match="pyhton"):
        own.start(spec(name, "pyhton"))


def test_a_container_that_cannot_start_raises_the_words_of_the_client(
    own: Backend, client: APIClient, name: str
) -> None:
    # This image has no guest, and no program at all.
    created = client.import_image_from_data(bytes(1024), repository=name)
    try:
        with pytest.raises(SandboxError, match=r"cannot start a sandbox: .*/usr/bin/python3"):
            own.start(spec(name, str(json.loads(created)["status"])))
    finally:
        own.destroy(name)
        client.remove_image(name)


def test_a_client_that_is_not_installed_is_named() -> None:
    with pytest.raises(EngineUnavailableError, match="no-such-client"):
        connect("no-such-client").describe()


async def test_a_lack_of_memory_is_named(own: Backend) -> None:
    program = "data = []\nwhile True: data.append(b'x' * (1 << 20))"
    async with Sandbox.open(backend=own, limits=Limits(memory_mb=64)) as sandbox:
        try:
            limit = (await sandbox.exec(["python3", "-c", program])).limit
        except SandboxOutOfMemory as reached:
            limit = reached.limit
    assert limit == "memory_mb"
