"""A sandbox lost after an agent acted is the agent's failure, unless the engine reports another cause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from case_checks import check_together
from docker import APIClient
from effort import one_in_four
from security.acting import attempted, bash

from harness.audit.attack import Attack, Kind
from harness.audit.attack_kinds import ShellAttack
from harness.audit.suite import list_attacks
from harness.core.types import Status
from harness.environments.base import SandboxEnvironment
from harness.host import retries
from harness.host.retries import LOST_SANDBOX
from harness.sandbox import sandbox as sandbox_module
from harness.sandbox.backends.docker import fate
from harness.sandbox.connection import Connection

pytestmark = pytest.mark.timeout(120)
# Another file has the effects of all that steer process 1.
STEERING = [attack for attack in list_attacks() if attack.kind is Kind.STEERING]
ATTACKS = [*one_in_four(STEERING, 0), *(attack for attack in list_attacks() if attack.kind is Kind.LOSING)]
# An attack may hide the files of its sandbox from being counted. Then room that others take on the engine's
# disk counts as the sandbox's until its end. So the limit is above everything that tests write meanwhile.
ROOM_MB = 2048
End = Callable[[APIClient, str], object]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "BACKOFF_SECONDS", 0.0)


async def use(environment: SandboxEnvironment) -> None:
    """Call a tool in an environment."""
    if "bash" in environment.tools:
        await bash(environment, "true")
    else:
        await environment.call("sql", {"sql": "SELECT 1"})


def after_acting(
    step: Callable[[SandboxEnvironment], Awaitable[object]],
) -> tuple[Callable[[SandboxEnvironment], Awaitable[None]], list[str]]:
    """Return an agent's function that acts and then takes this step, and the list of its attempts."""
    attempts: list[str] = []

    async def act(environment: SandboxEnvironment) -> None:
        attempts.append(environment.sandbox.container_id)
        await use(environment)
        await step(environment)

    return act, attempts


async def fail_in_guest(environment: SandboxEnvironment) -> None:
    """Cause an error in the guest, as an agent may that finds a fault in it."""
    await environment.sandbox._request({"verb": "no such verb"}, seconds=10)


async def break_frames(environment: SandboxEnvironment) -> None:
    """Pretend that PID 1 has sent a malformed frame."""
    connection: Connection = environment.sandbox._connection
    connection.data_received(b"\x01\0\0\0\0\0\0\x08" + b"\xff" * 8)
    await use(environment)


@pytest.mark.parametrize(("environment_name", "lose"), [("os", fail_in_guest), ("db", break_frames)])
async def test_a_guest_that_fails_after_the_agent_acted_is_the_agents_failure(
    client: APIClient,
    tmp_path: Path,
    lose: Callable[[SandboxEnvironment], Awaitable[object]],
    environment_name: str,
) -> None:
    act, attempts = after_acting(lose)
    record = await attempted(client, tmp_path, act, environment_name=environment_name)
    assert (record.status, record.score, len(attempts)) == (Status.CRASHED, 0.0, 1)
    assert record.metrics["integrity"] == LOST_SANDBOX
    assert record.metrics["phase"] == "agent"
    assert record.error


async def test_silence_after_the_agent_acted_is_the_agents_timeout(
    client: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_for_a_late_answer(environment: SandboxEnvironment) -> None:
        """Stand in for an agent that delays PID 1: the host waits half a second, and the answer takes 60."""
        with monkeypatch.context() as patched:
            patched.setattr(sandbox_module, "GRACE_SECONDS", -59.5)
            # Other tests may keep the machine busy.
            patched.setattr(fate, "BUSY_SHARE", 0.02)
            await environment.sandbox.exec(["sh", "-c", "while :; do :; done"], timeout=60)

    act, attempts = after_acting(wait_for_a_late_answer)
    record = await attempted(client, tmp_path, act)
    assert (record.status, len(attempts)) == (Status.TIMEOUT, 1)
    assert record.metrics["integrity"] == LOST_SANDBOX
    assert record.metrics["limit"] == "timeout_seconds"


async def test_an_attempt_whose_guest_fails_before_the_agent_acted_is_retried(
    client: APIClient, tmp_path: Path
) -> None:
    attempts: list[str] = []

    async def act(environment: SandboxEnvironment) -> None:
        attempts.append(environment.sandbox.container_id)
        if len(attempts) == 1:
            await fail_in_guest(environment)

    record = await attempted(client, tmp_path, act)
    assert (record.status, len(attempts)) == (Status.FAILED, 2)
    assert "integrity" not in record.metrics


def kill(client: APIClient, container_id: str) -> None:
    client.kill(container_id)


def remove(client: APIClient, container_id: str) -> None:
    client.remove_container(container_id, force=True)


def stop(client: APIClient, container_id: str) -> None:
    client.stop(container_id, timeout=20)


@pytest.mark.parametrize("end", [kill, remove, pytest.param(stop, marks=pytest.mark.thorough)])
async def test_an_attempt_whose_sandbox_is_ended_from_outside_is_retried(
    client: APIClient, tmp_path: Path, end: End
) -> None:
    attempts: list[str] = []

    async def act(environment: SandboxEnvironment) -> None:
        attempts.append(environment.sandbox.container_id)
        await use(environment)
        if len(attempts) == 1:
            await asyncio.to_thread(end, client, environment.sandbox.container_id)
            await use(environment)

    record = await attempted(client, tmp_path, act)
    assert (record.status, len(attempts)) == (Status.FAILED, 2)
    assert "integrity" not in record.metrics


async def test_an_attempt_whose_sandbox_is_paused_from_outside_is_retried(
    client: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    async def act(environment: SandboxEnvironment) -> None:
        attempts.append(environment.sandbox.container_id)
        await use(environment)
        if len(attempts) == 1:
            await asyncio.to_thread(client.pause, environment.sandbox.container_id)
            await environment.sandbox._request({"verb": "end"}, seconds=0.2)

    record = await attempted(client, tmp_path, act)
    assert (record.status, len(attempts)) == (Status.FAILED, 2)


async def require_one_attempt(client: APIClient, tmp_path: Path, attack: Attack) -> None:
    """Require that an agent's attack on the guest leads to a verdict, and to no further attempt."""
    assert isinstance(attack, ShellAttack)
    attempts: list[str] = []

    async def act(environment: SandboxEnvironment) -> None:
        attempts.append(environment.sandbox.container_id)
        for command in attack.commands:
            await environment.call("bash", {"command": command, "timeout_seconds": attack.seconds})

    folder = tmp_path / attack.name
    folder.mkdir()
    record = await attempted(client, folder, act, memory_mb=256, disk_mb=ROOM_MB)
    assert record.status.has_score, record.error
    assert not record.resolved
    assert "tries" not in record.metrics
    assert len(attempts) == 1


@pytest.mark.timeout(900)
async def test_no_attempt_that_attacks_the_guest_is_retried(client: APIClient, tmp_path: Path) -> None:
    # They wait for the ends of commands most of the time.
    await check_together(ATTACKS, lambda attack: require_one_attempt(client, tmp_path, attack), at_once=3)
