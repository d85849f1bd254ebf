"""What acting costs: the start of a world, and rounds of calls in it, beside the bare engine."""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractAsyncContextManager

from docker import APIClient

from harness.environments import environment
from harness.environments.db import DatabaseSetup, named_table
from harness.environments.opening import Opening
from harness.environments.os import OsSetup
from harness.environments.world import World
from harness.model import Task
from harness.sandbox.images import require_image
from harness.sandbox.spec import SandboxSpec, container_config

ROUNDS = 8
SETUPS = {"os": OsSetup(), "db": DatabaseSetup((named_table("one", ["number"], [["1"]]),))}
CALLS = {"os": ("bash", {"command": "true"}), "db": ("sql", {"sql": "SELECT 1"})}


async def medians(client: APIClient, name: str, times: int) -> tuple[float, float, float, float]:
    """Median seconds of an environment: bare start, our start, so many `docker exec`, as many of our calls.

    A start is the making of a container and its start, of the same image; ours ends when the agent may
    act. All four are measured in turn, since the machine is noisy.
    """
    bare, ours, execs, calls = [], [], [], []
    for _ in range(times):
        bare.append(_bare_start(client, name))
        started = time.monotonic()
        async with _opened(client, name) as world:
            ours.append(time.monotonic() - started)
            container = world.sandbox.container_id
            started = time.monotonic()
            for _round in range(ROUNDS):
                client.exec_start(client.exec_create(container, ["true"])["Id"])
            execs.append(time.monotonic() - started)
            tool, arguments = CALLS[name]
            started = time.monotonic()
            for _round in range(ROUNDS):
                await world.call(tool, arguments)
            calls.append(time.monotonic() - started)
    return tuple(statistics.median(each) for each in (bare, ours, execs, calls))  # type: ignore[return-value]


def _bare_start(client: APIClient, name: str) -> float:
    world = environment(name)
    spec = SandboxSpec(
        _image(client, name), world.limits, root_agent=name == "os", writable_root=name == "os"
    )
    config = container_config(client, spec) | {"entrypoint": ["/bin/sleep", "600"]}
    started = time.monotonic()
    container = client.create_container(**config)["Id"]
    try:
        client.start(container)
        return time.monotonic() - started
    finally:
        client.remove_container(container, force=True)


def _opened(client: APIClient, name: str) -> AbstractAsyncContextManager[World]:
    world = environment(name)
    assert world.open_world is not None
    opening = Opening(_image(client, name), world.limits, "runc", "bench", client)
    task = Task("one", "bench", name, "", setup=SETUPS[name])
    return world.open_world(opening, task, None, 300.0, lambda entry: None)


def _image(client: APIClient, name: str) -> str:
    image = environment(name).image
    assert image is not None
    return require_image(client, image)
