"""Measure the start of an environment, and calls of tools in it, beside the bare engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from bare_engine import SLEEP, start_one
from docker import APIClient
from figure import Figure, Measurement, Reading
from session import Session

from harness import Sandbox
from harness.core.types import Task
from harness.environments import environment_spec
from harness.environments.base import EnvironmentContext, NoTranscript
from harness.environments.db.environment import DatabaseSetup, make_table
from harness.environments.os.environment import OsSetup
from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.backends.docker.spec import container_config
from harness.sandbox.pool import SandboxPool, SandboxSettings

SETUPS: dict[str, OsSetup | DatabaseSetup] = {
    "os": OsSetup(),
    "db": DatabaseSetup((make_table("one", ["number"], [["1"]]),)),
}
CALLS = {"os": ("bash", {"command": "true"}), "db": ("sql", {"sql": "SELECT 1"})}
STARTS = {
    name: Figure(f"{name}: start until the agent may act", "s", "bare create and start", mark=1.5)
    for name in SETUPS
}
TOOLS = {
    name: Figure(
        f"{name}: a call of the tool {tool}, p50", "ms", "docker exec true", mark=2, goal=1, judged="ours"
    )
    for name, (tool, _) in CALLS.items()
}
EXEC = Figure("Sandbox.exec true, p50", "ms", "docker exec true", mark=0.2)


@dataclass(slots=True)
class _Times:
    bare: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    execs: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)


def take_environment(name: str) -> Callable[[Session], Iterator[Reading]]:
    """Return a function that yields the readings of starts and calls, each in turn with its peer."""

    def take(session: Session) -> Iterator[Reading]:
        times = asyncio.run(_time_environment(session, name))
        yield Reading(STARTS[name], times.starts, times.bare)
        yield Reading(TOOLS[name], _milliseconds(times.calls), _milliseconds(times.execs))

    return take


def take_commands(session: Session) -> Iterator[Reading]:
    """Yield the reading of a command in a sandbox."""
    times = asyncio.run(_time_commands(session))
    yield Reading(EXEC, _milliseconds(times.calls), _milliseconds(times.execs))


async def _time_environment(session: Session, name: str) -> _Times:
    client, times = session.client, _Times()
    starts = session.size.starts
    tool, arguments = CALLS[name]
    for _start in range(starts):
        times.bare.append(start_one(client, _bare_config(session, name)))
        started = time.monotonic()
        async with _opened(client, name) as environment:
            times.starts.append(time.monotonic() - started)
            container = environment.sandbox.container_id
            # The first call of a tool may start a process that stays.
            await environment.call(tool, arguments)
            for _exec in range(max(session.size.execs // starts, 1)):
                times.execs.append(_docker_exec(client, container))
            for _call in range(session.size.calls // starts):
                started = time.monotonic()
                await environment.call(tool, arguments)
                times.calls.append(time.monotonic() - started)
    return times


async def _time_commands(session: Session) -> _Times:
    times = _Times()
    async with Sandbox.open("python", backend=DockerBackend(session.client)) as sandbox:
        await sandbox.exec(["true"])
        for _exec in range(session.size.execs):
            started = time.monotonic()
            await sandbox.exec(["true"])
            times.calls.append(time.monotonic() - started)
            times.execs.append(await asyncio.to_thread(_docker_exec, session.client, sandbox.container_id))
    return times


def _docker_exec(client: APIClient, container: str) -> float:
    started = time.monotonic()
    client.exec_start(client.exec_create(container, ["true"])["Id"])
    return time.monotonic() - started


def _milliseconds(seconds: list[float]) -> list[float]:
    return [1000 * each for each in seconds]


def _bare_config(session: Session, name: str) -> dict[str, Any]:
    limits = environment_spec(name).limits
    spec = SandboxSpec(
        _image(session.client, name), limits, root_agent=name == "os", writable_root=name == "os"
    )
    return container_config(session.client, spec) | SLEEP | {"labels": session.labels}


def _opened(client: APIClient, name: str) -> AbstractAsyncContextManager[Any]:
    spec = environment_spec(name)
    assert spec.open_environment is not None
    task = Task("one", "bench", name, "", setup=SETUPS[name])
    context = EnvironmentContext(
        SandboxPool(DockerBackend(client)),
        SandboxSettings(_image(client, name), spec.limits),
        300.0,
        NoTranscript(),
    )
    return spec.open_environment(task, context)


def _image(client: APIClient, name: str) -> str:
    image = environment_spec(name).image
    assert image is not None
    return require_image(client, image)


MEASUREMENTS = (
    *(Measurement(name, (STARTS[name], TOOLS[name]), take_environment(name)) for name in SETUPS),
    Measurement("exec", (EXEC,), take_commands),
)
