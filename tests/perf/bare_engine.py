"""Start and remove containers with our settings and without our work: the least that a sandbox can cost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from docker import APIClient
from session import Session

from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.backends.docker.spec import container_config
from harness.sandbox.limits import Limits

# The engine sets the network up, as it does for everybody's containers.
SLEEP: dict[str, Any] = {"entrypoint": ["/bin/sleep", "600"], "network_disabled": False}


@contextlib.contextmanager
def hold_namespace(session: Session) -> Iterator[str]:
    """Yield the network mode of containers that join the empty network namespace of a sleeping container."""
    holder = _create(session, _config(session, "none"))
    try:
        session.client.start(holder)
        yield f"container:{holder}"
    finally:
        session.client.remove_container(holder, force=True)


def start_many(session: Session, count: int, network_mode: str) -> float:
    """Return the seconds for `count` containers that sleep, each created, started and removed."""
    config = _config(session, network_mode)

    def one(_number: int) -> None:
        container = _create(session, config)
        session.client.start(container)
        session.client.remove_container(container, force=True)

    started = time.monotonic()
    pool = ThreadPoolExecutor(session.workers)
    try:
        for _done in pool.map(one, range(count)):
            pass
    finally:
        # After Ctrl-C nothing more may start.
        pool.shutdown(cancel_futures=True)
    return time.monotonic() - started


def start_one(client: APIClient, config: dict[str, Any]) -> float:
    """Return the seconds until one container of this configuration has started. It is removed after that."""
    started = time.monotonic()
    container = client.create_container(**config)["Id"]
    try:
        client.start(container)
        return time.monotonic() - started
    finally:
        client.remove_container(container, force=True)


def _create(session: Session, config: dict[str, Any]) -> str:
    container: str = session.client.create_container(**config)["Id"]
    return container


def _config(session: Session, network_mode: str) -> dict[str, Any]:
    spec = SandboxSpec(require_image(session.client, "python"), Limits(), seccomp="strict")
    config = container_config(session.client, spec) | SLEEP | {"labels": session.labels}
    config["host_config"] = config["host_config"] | {"NetworkMode": network_mode}
    if network_mode.startswith("container:"):
        # The engine refuses a host name of its own for a container that joins another's network.
        config.pop("hostname", None)
        config["host_config"].pop("ExtraHosts", None)
    return config
