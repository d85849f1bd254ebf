"""The seal level of a task is the first at which its reference passes and an empty agent does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from docker import APIClient
from sealed_tasks import build_image, describe, judge, write_task

from harness.core.types import Status
from harness.environments.container import calibration
from harness.environments.container.calibration import Calibration, find_calibration, open_sealed
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.pool import SandboxPool

SCRIPT = "#!/bin/sh\n{check} && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
CONNECT = (
    "for _ in $(seq {tries}); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8100))' "
    "2> /dev/null && break; sleep 0.1; false; done"
)
# The solution, the check of the tests, and the level that they prove.
CASES = {
    "work": ("echo 42 > /app/answer.txt", "grep -q 42 /app/answer.txt", "work"),
    "tools": ("mkdir /usr/share/new; touch /usr/share/new/part", "test -f /usr/share/new/part", "tools"),
    "all": ("echo 42 >> /usr/bin/pytest", "grep -q 42 /usr/bin/pytest", "all"),
    "attached": (
        "(python3 -m http.server 8100 > /dev/null 2>&1 &)\n" + CONNECT.format(tries=100),
        CONNECT.format(tries=1),
        "attached",
    ),
    "live": ("(sleep 600 &) ; sleep 0.1", "pgrep -f 'sleep 600'", "live"),
    "no change": ("true", "true", None),
    "no level": ("true", "false", None),
}


@pytest.fixture
async def pool(client: APIClient) -> AsyncIterator[SandboxPool]:
    async with SandboxPool(DockerBackend(client), nested_sandboxes=1) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write_case(folder: Path, client: APIClient, name: str) -> Path:
    solution, check, _level = CASES[name]
    return write_task(
        folder / "task",
        build_image(client),
        script=SCRIPT.format(check=check),
        tests={"x": ""},
        solution=f"#!/bin/sh\n{solution}\n",
    )


@pytest.mark.parametrize(
    "name", ["tools", "attached", *(pytest.param(n, marks=pytest.mark.thorough) for n in CASES)]
)
async def test_the_reference_proves_a_level(
    client: APIClient, pool: SandboxPool, tmp_path: Path, name: str
) -> None:
    found = await find_calibration(*describe(pool, write_case(tmp_path, client, name)))
    assert found.level == CASES[name][2], found


async def test_a_level_is_found_once(
    client: APIClient, pool: SandboxPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, context = describe(pool, write_case(tmp_path, client, "work"))
    first = Calibration("tools", "proven by the reference", {"work": "no", "tools": "reward 1"})

    async def calibrate(*_arguments: object) -> Calibration:
        return first

    async def refuse(*_arguments: object) -> Calibration:
        raise AssertionError("the level is known")

    monkeypatch.setattr(calibration, "calibrate", calibrate)
    assert await find_calibration(task, context) == first
    monkeypatch.setattr(calibration, "calibrate", refuse)
    assert await find_calibration(task, context) == first


async def test_an_agent_that_leaves_nothing_to_import_has_failed(
    pool: SandboxPool, client: APIClient, tmp_path: Path
) -> None:
    folder = write_task(
        tmp_path / "task",
        build_image(client),
        script=SCRIPT.format(check="python3 -c 'import sys; sys.path[0] = \"/app\"; import solution'"),
        tests={"x": ""},
        solution="#!/bin/sh\ntouch /app/solution.py\n",
    )
    async with open_sealed(*describe(pool, folder)) as environment:
        await environment.end_acting()
        assert environment.seal_level == "work"
        verdict = await judge(pool, environment, environment.seal_level)
    assert verdict.status is Status.FAILED, verdict
