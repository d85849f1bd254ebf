"""The life of a sandbox from start to destruction. In every case no container is left."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
import pytest_asyncio
from docker import APIClient
from effort import one_in_four

from harness import Sandbox
from harness.core.errors import HarnessError, SandboxError, UsageError
from harness.environments.python import client as python_client
from harness.environments.python.client import run_tests
from harness.sandbox import guest_calls, reaper
from harness.sandbox import sandbox as sandbox_module
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.failures import SandboxUnresponsive
from harness.sandbox.limits import Limits
from harness.sandbox.machine.images import build_images

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]


@pytest.fixture(scope="module", autouse=True)
def image(client: APIClient) -> str:
    build_images(client, ["python"], notify=print)
    return require_image(client, "python")


@pytest.fixture
def run_id(backend: DockerBackend) -> Iterator[str]:
    """Yield the id of a new run, by which the test finds its containers."""
    run_id = f"test-{secrets.token_hex(6)}"
    yield run_id
    reaper.remove_run(backend, run_id)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def neighbours(backend: DockerBackend) -> AsyncIterator[tuple[Sandbox, Sandbox]]:
    async with (
        Sandbox.open("python", backend=backend) as one,
        Sandbox.open("python", backend=backend) as other,
    ):
        yield one, other


def containers(backend: DockerBackend, run_id: str) -> list[str]:
    return reaper.find_run_containers(backend, run_id)


async def exit_code(backend: DockerBackend, container_id: str) -> int | None:
    """Wait until a container has stopped, and return its exit code."""
    return (await asyncio.to_thread(backend.find_fate, container_id)).exit_code


# The end of the block.


async def test_a_sandbox_makes_its_own_connection_and_leaving_the_block_leaves_no_container(
    backend: DockerBackend, run_id: str
) -> None:
    async with Sandbox.open("python", run_id=run_id) as sandbox:
        assert len(containers(backend, run_id)) == 1
        assert (await sandbox.exec(["true"])).exit_code == 0
    assert containers(backend, run_id) == []


async def test_an_exception_in_the_block_leaves_no_container(backend: DockerBackend, run_id: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Sandbox.open("python", backend=backend, run_id=run_id):
            raise ZeroDivisionError
    assert containers(backend, run_id) == []


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("sleep 600", id="sleep", marks=pytest.mark.thorough),
        pytest.param("while :; do :; done", id="busy", marks=pytest.mark.thorough),
        pytest.param("yes", id="flood"),
        # The shell must not need a process for `sleep`, because it would end if it got none.
        pytest.param("bomb() { bomb | bomb & }; bomb & exec sleep 600", id="fork bomb"),
    ],
)
async def test_a_cancellation_in_a_command_leaves_no_container(
    backend: DockerBackend, run_id: str, script: str
) -> None:
    running = asyncio.Event()

    async def work() -> None:
        async with Sandbox.open(
            "python", backend=backend, run_id=run_id, limits=Limits(output_mb=4096, processes=64)
        ) as sandbox:
            running.set()
            await sandbox.exec(["sh", "-c", script])

    task = asyncio.create_task(work())
    await running.wait()
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert containers(backend, run_id) == []


async def opened(backend: DockerBackend, run_id: str) -> None:
    async with Sandbox.open("python", backend=backend, run_id=run_id):
        await asyncio.sleep(30)


@pytest.mark.parametrize("delay", one_in_four([0.0, 0.001, 0.03, 0.01, 0.1, 0.06, 0.3, 0.15, 0.5, 0.2], 0))
async def test_a_cancellation_during_the_start_leaves_no_container(
    backend: DockerBackend, run_id: str, delay: float
) -> None:
    task = asyncio.create_task(opened(backend, run_id))
    await asyncio.sleep(delay)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert containers(backend, run_id) == []


async def test_a_cancellation_right_after_the_creation_leaves_no_container(
    backend: DockerBackend, run_id: str
) -> None:
    task = asyncio.create_task(opened(backend, run_id))
    while not await asyncio.to_thread(containers, backend, run_id):
        pass
    task.cancel()
    await asyncio.wait([task])
    assert containers(backend, run_id) == []


async def test_repeated_cancellations_leave_no_container(backend: DockerBackend, run_id: str) -> None:
    task = asyncio.create_task(opened(backend, run_id))
    await asyncio.sleep(0.05)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.005)
    assert task.cancelled()
    assert containers(backend, run_id) == []


async def test_a_timeout_around_the_block_leaves_no_container(backend: DockerBackend, run_id: str) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.8):
            await opened(backend, run_id)
    assert containers(backend, run_id) == []


async def test_a_failed_neighbour_in_a_task_group_leaves_no_container(
    backend: DockerBackend, run_id: str
) -> None:
    async def fail() -> None:
        await asyncio.sleep(0.2)
        raise ZeroDivisionError

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(opened(backend, run_id))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await work()
    assert containers(backend, run_id) == []


# Sandboxes without a host.


@pytest.mark.usefixtures("docker_only")
async def test_a_sandbox_ends_when_the_engine_stops_it(
    client: APIClient, backend: DockerBackend, image: str
) -> None:
    async with Sandbox.open("python", backend=backend) as sandbox:
        await asyncio.to_thread(client.kill, sandbox.container_id, "SIGTERM")
        ended = await asyncio.to_thread(client.wait, sandbox.container_id, timeout=10)
        assert ended["StatusCode"] == 0


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("sleep 600", id="sleep", marks=pytest.mark.thorough),
        pytest.param("trap '' TERM HUP INT; while :; do :; done", id="busy"),
        pytest.param("while :; do (sleep 600 &); done", id="fork bomb"),
        pytest.param("yes", id="flood", marks=pytest.mark.thorough),
    ],
)
async def test_a_sandbox_ends_itself_at_its_deadline_and_a_later_call_names_it(
    backend: DockerBackend, run_id: str, script: str
) -> None:
    limits = Limits(processes=64, output_mb=4096)
    async with Sandbox.open(
        "python", backend=backend, run_id=run_id, limits=limits, deadline_seconds=0.7
    ) as sandbox:
        job = asyncio.create_task(sandbox.exec(["sh", "-c", script]))
        assert await exit_code(backend, sandbox.container_id) == 3
        with contextlib.suppress(SandboxError):
            await job
        with pytest.raises(SandboxError, match="exit code 3"):
            await sandbox.exec(["true"])


# Guests that do not answer.


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda sandbox: sandbox.exec(["true"], timeout=0.1), id="exec"),
        pytest.param(lambda sandbox: sandbox.read_file("file"), id="read"),
        pytest.param(
            lambda sandbox: sandbox.write_file("file", b"x"), id="write", marks=pytest.mark.thorough
        ),
        pytest.param(
            lambda sandbox: run_tests(sandbox, program="", statements=["pass"], exports={}), id="tests"
        ),
    ],
)
@pytest.mark.usefixtures("docker_only")
async def test_a_guest_that_does_not_answer_is_destroyed(
    client: APIClient,
    backend: DockerBackend,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Sandbox], Awaitable[object]],
) -> None:
    for module in (sandbox_module, guest_calls):
        monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(sandbox_module, "FILE_SECONDS", 0.2)
    monkeypatch.setattr(python_client, "find_longest", lambda wall_seconds: wall_seconds)
    async with Sandbox.open(
        "python", backend=backend, run_id=run_id, limits=Limits(wall_seconds=0.1)
    ) as sandbox:
        client.pause(sandbox.container_id)
        with pytest.raises(SandboxUnresponsive, match="did not answer"):
            await ask(sandbox)
        assert containers(backend, run_id) == []


async def test_a_container_that_someone_else_removes_is_a_sandbox_error(
    backend: DockerBackend, run_id: str
) -> None:
    async with Sandbox.open("python", backend=backend, run_id=run_id) as sandbox:
        job = asyncio.create_task(sandbox.exec(["sleep", "600"]))
        await sandbox.exec(["true"])
        backend.destroy(sandbox.container_id)
        with pytest.raises(SandboxError):
            await job


# Sandboxes that cannot start.


async def test_an_unknown_image_is_named_with_the_nearest_known_one(backend: DockerBackend) -> None:
    with pytest.raises(UsageError, match="pyton") as caught:
        async with Sandbox.open("pyton", backend=backend):
            pass
    assert "did you mean 'python'" in str(caught.value.hint)


async def test_an_unknown_runtime_is_named_and_leaves_no_container(
    backend: DockerBackend, run_id: str
) -> None:
    with pytest.raises(HarnessError, match="no-such-runtime"):
        async with Sandbox.open("python", backend=backend, run_id=run_id, runtime="no-such-runtime"):
            pass
    assert containers(backend, run_id) == []


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), float("inf")])
async def test_an_invalid_deadline_is_refused(backend: DockerBackend, run_id: str, deadline: float) -> None:
    with pytest.raises(UsageError, match="deadline_seconds"):
        async with Sandbox.open("python", backend=backend, run_id=run_id, deadline_seconds=deadline):
            pass


# Sandboxes side by side.


async def test_sandboxes_do_not_see_each_others_files(neighbours: tuple[Sandbox, Sandbox]) -> None:
    one, other = neighbours
    await one.exec(["sh", "-c", "touch /tmp/mine /dev/shm/mine mine"])
    result = await other.exec(["sh", "-c", "ls -A /tmp /dev/shm ."])
    assert b"mine" not in result.stdout.data


async def test_sandboxes_do_not_see_each_others_processes(neighbours: tuple[Sandbox, Sandbox]) -> None:
    one, other = neighbours
    sleeper = asyncio.create_task(one.exec(["sleep", "1"]))
    while (await one.exec(["sh", "-c", "grep -l sleep /proc/[0-9]*/comm"])).exit_code != 0:
        pass
    result = await other.exec(["sh", "-c", "grep -l sleep /proc/[0-9]*/comm"])
    await sleeper
    assert result.stdout.data == b""


async def test_the_death_of_one_sandbox_leaves_the_other_alone(
    backend: DockerBackend, neighbours: tuple[Sandbox, Sandbox]
) -> None:
    async with Sandbox.open("python", backend=backend, deadline_seconds=0.2) as short:
        job = asyncio.create_task(neighbours[0].exec(["sh", "-c", "sleep 0.5; echo done"]))
        await exit_code(backend, short.container_id)
        assert (await job).stdout.data == b"done\n"


async def test_sandboxes_can_be_opened_side_by_side(backend: DockerBackend, run_id: str) -> None:
    async def answer(number: int) -> str:
        async with Sandbox.open("python", backend=backend, run_id=run_id) as sandbox:
            return str((await sandbox.exec(["echo", str(number)])).stdout)

    assert await asyncio.gather(*map(answer, range(2))) == ["0\n", "1\n"]
    assert containers(backend, run_id) == []
