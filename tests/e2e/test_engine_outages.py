"""An engine is killed and started again, stays away, or loses its image in the middle of a run.

The tests use a private engine, because they must not disturb anybody else's.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from docker import APIClient
from docker.errors import APIError
from e2e.command_line import Harness, RunFolder, RunningRun, wait_until
from private_engine import PrivateEngine, find_obstacle

from harness.core.errors import SandboxError
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.failures import SandboxUnresponsive
from harness.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.skipif(find_obstacle() is not None, reason=str(find_obstacle()))


@pytest.fixture(scope="module")
def shared_engine(client: APIClient) -> Iterator[PrivateEngine]:
    engine = PrivateEngine()
    try:
        engine.start()
        engine.take_image(client)
        yield engine
    finally:
        left = engine.close()
    assert left == [], "processes and mounts that the engine left"


@pytest.fixture
def engine(shared_engine: PrivateEngine) -> Iterator[PrivateEngine]:
    """Yield the engine, which runs before the test and again after it, without a container."""
    yield shared_engine
    if not shared_engine.is_up:
        shared_engine.start()
    assert shared_engine.containers() == [], "containers left behind"


def start_run(harness: Harness, engine: PrivateEngine, *, wait: int) -> RunningRun:
    """Start a run that waits `wait` seconds for its engine, and return once an attempt has ended."""
    surroundings = {"DOCKER_HOST": engine.address, "HARNESS_ENGINE_WAIT_SECONDS": str(wait)}
    return harness.start_run("-n", "7", "--max-concurrent", "2", env=surroundings)


def read_until(run: RunningRun, words: str) -> str:
    """Read the output of a run until it contains these words, and return all of it."""
    said = ""
    assert run.process.stderr is not None
    while words not in said:
        line = run.process.stderr.readline()
        assert line, said
        said += line
    return said


def finished_once(folder: RunFolder) -> set[tuple[str, str]]:
    """Return the verdicts of the run's tasks. Fail if a task has not exactly one verdict."""
    verdicts = [attempt for attempt in folder.attempts if attempt["status"] != "infra_error"]
    assert set(Counter(attempt["task_id"] for attempt in verdicts).values()) == {1}
    assert len(verdicts) == folder.summary["total"]
    return {(attempt["task_id"], attempt["status"]) for attempt in verdicts}


def test_a_run_goes_on_after_its_engine_crashed_and_was_started_again(
    harness: Harness, engine: PrivateEngine
) -> None:
    run = start_run(harness, engine, wait=60)
    engine.kill()
    told = read_until(run, "the Docker engine does not respond; waiting up to 60 s for it to come back")
    engine.start()
    stdout, stderr = run.process.communicate()
    assert run.process.returncode == 0, told + stdout + stderr
    assert "the Docker engine is back after" in stderr
    assert {status for _, status in finished_once(run.folder)} == {"passed"}


async def test_a_sandbox_that_ended_while_its_engine_was_away_is_removed_with_a_later_one(
    engine: PrivateEngine,
) -> None:
    with engine.client(60.0) as client:
        backend = DockerBackend(client)
        with pytest.raises(SandboxError, match="cannot remove a sandbox"):
            async with Sandbox.open("python", backend=backend) as lost:
                engine.kill()
        engine.start()
        assert lost.container_id in engine.containers()
        async with Sandbox.open("python", backend=backend):
            pass
        assert engine.containers() == []


def test_a_run_whose_engine_stays_away_stops_and_can_be_resumed(
    harness: Harness, engine: PrivateEngine
) -> None:
    run = start_run(harness, engine, wait=1)
    kept = run.folder.raw_attempts
    manifest = run.folder.manifest
    engine.stop()
    stdout, stderr = run.process.communicate()
    assert run.process.returncode == 3, stdout + stderr
    assert "error: the Docker engine stopped responding and did not come back within 1 s" in stderr
    assert f"harness run --resume {run.folder.path}" in stdout
    assert run.folder.raw_attempts.startswith(kept)
    assert run.folder.manifest == manifest
    assert run.folder.summary["statuses"]["infra_error"] >= 1

    engine.start()
    ended = harness("run", "--resume", run.folder.path, env={"DOCKER_HOST": engine.address})
    assert ended.returncode == 0, ended.stderr
    assert {status for _, status in finished_once(run.folder)} == {"passed"}


def test_an_interrupt_ends_a_run_that_waits_for_its_engine(harness: Harness, engine: PrivateEngine) -> None:
    run = start_run(harness, engine, wait=600)
    engine.stop()
    read_until(run, "waiting up to 600 s")
    run.end(signal.SIGINT)
    assert run.process.returncode == 130
    assert "infra_error" not in run.folder.summary["statuses"]
    # The run could not remove its containers, so the next command does.
    engine.start()
    assert harness("gc", env={"DOCKER_HOST": engine.address}).returncode == 0


@pytest.mark.thorough
def test_a_run_whose_image_was_removed_stops_at_once(
    harness: Harness, engine: PrivateEngine, client: APIClient
) -> None:
    run = start_run(harness, engine, wait=60)
    (image,) = run.folder.manifest["images"].values()

    def removed() -> bool:
        with engine.client() as its_client:
            # The engine keeps an image for as long as a container of it runs.
            for container in run.folder.containers(its_client):
                try:
                    its_client.remove_container(container, force=True)
                except APIError:
                    continue
            try:
                its_client.remove_image(image, force=True)
            except APIError as error:
                return error.status_code == 404
            return True

    wait_until(removed, "the image removed")
    try:
        stdout, stderr = run.process.communicate()
        assert run.process.returncode == 3, stdout + stderr
        assert "error: the sandbox image was removed from the Docker engine during the run" in stderr
        assert "harness setup" in stderr
        assert set(run.folder.summary["statuses"]) == {"passed", "infra_error", "cancelled"}
    finally:
        engine.take_image(client)
    # The same image is back, so the run may go on.
    ended = harness("run", "--resume", run.folder.path, env={"DOCKER_HOST": engine.address})
    assert ended.returncode == 0, ended.stderr
    assert {status for _, status in finished_once(run.folder)} == {"passed"}


def test_a_run_uses_its_image_even_if_the_tag_moves(harness: Harness, engine: PrivateEngine) -> None:
    run = start_run(harness, engine, wait=60)
    (image,) = run.folder.manifest["images"].values()
    with engine.client() as its_client:
        tags = its_client.inspect_image(image)["RepoTags"]  # type: ignore[no-untyped-call]
        container = its_client.create_container(image, command=["true"])["Id"]
        other = its_client.commit(container, changes="LABEL other=1")["Id"]
        its_client.remove_container(container)
        for tag in tags:
            name, label = tag.rsplit(":", 1)
            its_client.tag(other, name, label, force=True)
        try:
            used = set()
            while run.process.poll() is None:
                used |= {c["ImageID"] for c in its_client.containers(all=True)}
            run.process.communicate()
        finally:
            for tag in tags:
                name, label = tag.rsplit(":", 1)
                its_client.tag(image, name, label, force=True)
            its_client.remove_image(other, force=True)
    assert run.process.returncode == 0
    assert used == {image}


def crash(engine: PrivateEngine) -> None:
    engine.kill()
    engine.start()


def restart(engine: PrivateEngine) -> None:
    engine.stop()
    engine.start()


@pytest.mark.parametrize("end", [crash, pytest.param(restart, marks=pytest.mark.thorough)])
async def test_a_sandbox_lost_in_an_outage_that_is_over_was_ended_from_outside(
    engine: PrivateEngine, end: Callable[[PrivateEngine], None]
) -> None:
    """The agent that had acted there is not to blame, although the engine answers again."""
    with contextlib.suppress(SandboxError), engine.client(60.0) as client:
        async with Sandbox.open("python", backend=DockerBackend(client)) as sandbox:
            sandbox.agent_acted = True
            await asyncio.to_thread(end, engine)
            with pytest.raises(SandboxError) as raised:
                await sandbox.exec(["true"])
            assert raised.value.outside, raised.value.message


async def test_a_sandbox_lost_in_a_lasting_outage_was_ended_from_outside(
    engine: PrivateEngine,
) -> None:
    with contextlib.suppress(SandboxError), engine.client() as client:
        async with Sandbox.open("python", backend=DockerBackend(client)) as sandbox:
            sandbox.agent_acted = True
            await asyncio.to_thread(engine.stop)
            with pytest.raises(SandboxError) as raised:
                await sandbox.exec(["true"])
            # Started again, so that the sandbox can be removed.
            await asyncio.to_thread(engine.start)
            assert raised.value.outside, raised.value.message


@pytest.mark.thorough
async def test_a_silent_sandbox_of_an_engine_that_hangs_is_kept_silent_from_outside(
    engine: PrivateEngine,
) -> None:
    with engine.client(3.0) as client:
        async with Sandbox.open("python", backend=DockerBackend(client)) as sandbox:
            sandbox.agent_acted = True
            engine.signal(signal.SIGSTOP)
            try:
                with pytest.raises(SandboxUnresponsive) as raised:
                    await sandbox._request({"verb": "kill", "job": 0}, seconds=0.2)
                assert raised.value.outside
            finally:
                engine.signal(signal.SIGCONT)
