"""An agent that uses up its environment's resources has made its attempt, which is not retried."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from docker import APIClient
from docker.errors import NotFound
from security.acting import attempted, bash

from harness.core.types import Status
from harness.environments.base import SandboxEnvironment

pytestmark = pytest.mark.timeout(120)


async def test_a_full_disk_ends_as_output_limit(client: APIClient, tmp_path: Path) -> None:
    record = await attempted(
        client, tmp_path, lambda environment: bash(environment, "dd if=/dev/zero of=/root/x bs=1M")
    )
    assert record.status is Status.OUTPUT_LIMIT
    assert record.metrics["limit"] == "disk_mb"
    assert record.metrics["phase"] == "agent"
    assert "tries" not in record.metrics


async def test_a_job_left_behind_that_fills_the_disk_gets_no_pass(client: APIClient, tmp_path: Path) -> None:
    async def leave(environment: SandboxEnvironment) -> None:
        await bash(environment, "(sleep 1; dd if=/dev/zero of=/root/x bs=1M) >/dev/null 2>&1 &")
        with contextlib.suppress(NotFound):
            await asyncio.to_thread(client.wait, environment.sandbox.container_id)

    record = await attempted(client, tmp_path, leave)
    assert record.status is Status.OUTPUT_LIMIT
    assert record.metrics["limit"] == "disk_mb"


async def test_a_program_that_takes_all_memory_costs_the_agent_only_that_command(
    client: APIClient, tmp_path: Path
) -> None:
    told = []

    async def take(environment: SandboxEnvironment) -> None:
        told.append(await bash(environment, "python3 -c 'x = bytearray(10 ** 9)'"))
        told.append(await bash(environment, "echo alive"))

    record = await attempted(client, tmp_path, take)
    assert "[exit code 137]" in told[0]
    assert told[1] == "alive\n[exit code 0]"
    assert record.status is Status.FAILED


async def test_an_attempt_whose_files_take_all_memory_is_not_retried(
    client: APIClient, tmp_path: Path
) -> None:
    """The kernel may kill PID 1, or find enough memory without it. In both cases the attempt counts."""

    async def fill(environment: SandboxEnvironment) -> None:
        for folder in ("/tmp", "/dev/shm"):
            await bash(environment, f"cat /dev/zero > {folder}/x")
        # Every action of PID 1 needs memory, and the kernel can kill only PID 1 for it.
        for _ in range(100):
            await bash(environment, "true")

    record = await attempted(client, tmp_path, fill, memory_mb=64, disk_mb=256)
    assert record.status in (Status.MEMORY_LIMIT, Status.FAILED, Status.LIMIT_REACHED)
    assert "tries" not in record.metrics


@pytest.mark.parametrize(("environment_name", "rounds"), [("os", 8), ("db", 15)])
async def test_used_up_turns_end_as_limit_reached(
    client: APIClient, tmp_path: Path, environment_name: str, rounds: int
) -> None:
    async def go_on(environment: SandboxEnvironment) -> None:
        while True:
            await environment.call("no such tool", {})

    record = await attempted(client, tmp_path, go_on, environment_name=environment_name)
    assert record.status is Status.LIMIT_REACHED
    assert (record.metrics["limit"], record.metrics["rounds"]) == ("rounds", rounds)


async def test_a_command_beyond_the_tasks_limit_is_a_timeout_of_the_agent(
    client: APIClient, tmp_path: Path
) -> None:
    record = await attempted(client, tmp_path, lambda environment: bash(environment, "sleep 25"), seconds=2.0)
    assert record.status is Status.TIMEOUT
    assert (record.metrics["phase"], record.metrics["limit"]) == ("agent", "timeout_seconds")
