"""Start, remove and list containers on a Docker engine."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any

from harness.errors import ImageMissingError
from harness.sandbox.backends.base import FoundContainer, SandboxSpec, StartedContainer
from harness.sandbox.backends.docker.engine import (
    INTERNAL_ERROR,
    engine_answers,
    engine_errors,
    is_going,
    is_gone,
)
from harness.sandbox.backends.docker.owner_watch import expect_removal, note_removal
from harness.sandbox.backends.docker.pieces import PieceSplitter
from harness.sandbox.backends.docker.runtimes import WATCHED_BY_GUEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docker import APIClient

# A mount of a container may be busy for a moment.
REMOVE_TRIES = 10
# A busy engine may need this long for a removal that somebody has asked for already.
REMOVAL_SECONDS = 120.0
LONGEST_PAUSE_SECONDS = 0.5
# The engine's states of a container whose PID 1 is alive.
RUNNING = frozenset(("running", "paused", "restarting"))


def start_container(client: APIClient, spec: SandboxSpec, config: Mapping[str, Any]) -> StartedContainer:
    """Create a container, attach to it and start it; return it with its stream.

    `config` holds the arguments of `APIClient.create_container` for `spec`. Raises SandboxError if the engine
    cannot create or start the container, ImageMissingError if it has no such image.
    """
    from docker.errors import ImageNotFound

    if spec.name and not config["host_config"].get("AutoRemove"):
        expect_removal(spec.name)
    with engine_errors("start a sandbox"):
        try:
            container_id: str = client.create_container(name=spec.name or None, **config)["Id"]
        except ImageNotFound as error:
            raise ImageMissingError(
                f"image {spec.image} is not on the engine", hint="run: harness setup"
            ) from error
        stream = _attach(client, container_id)
        try:
            client.start(container_id)
        except BaseException:
            stream.close()
            raise
    return StartedContainer(
        container_id, stream, split=PieceSplitter().split, guest_counts=spec.runtime in WATCHED_BY_GUEST
    )


def _attach(client: APIClient, container_id: str) -> socket.socket:
    """Return a socket to the streams of a container that has not started, so that no byte is missed."""
    params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    attached = client.attach_socket(container_id, params=params)
    try:
        descriptor = os.dup(attached.fileno())
    finally:
        # docker-py ties socket and response into a reference cycle, so that closing the socket alone would
        # take effect only at the next garbage collection.
        getattr(attached, "_response", attached).close()
    stream = socket.socket(fileno=descriptor)
    stream.setblocking(False)
    return stream


def remove(client: APIClient, name: str) -> bool:
    """Kill and remove a container, by its name or id; return whether this call removed it.

    If the engine is already removing it, for whomever, this waits until it is gone. Raises SandboxError if
    the container stays.
    """
    from docker.errors import APIError
    from requests import Timeout

    deadline = time.monotonic() + REMOVAL_SECONDS
    failed, pause = 0, 0.0
    while True:
        with engine_errors("remove a sandbox"):
            try:
                client.remove_container(name, force=True, v=True)
            except Timeout:
                # The engine goes on with the removal, unless it has stopped.
                if time.monotonic() > deadline or not engine_answers(client):
                    raise
            except APIError as error:
                if is_gone(error):
                    note_removal(name)
                    return False
                if is_going(error):
                    if time.monotonic() > deadline:
                        raise
                else:
                    failed += 1
                    if error.status_code != INTERNAL_ERROR or failed == REMOVE_TRIES:
                        raise
            else:
                note_removal(name)
                return True
        pause = min(pause + 0.1, LONGEST_PAUSE_SECONDS)
        time.sleep(pause)


def list_containers(client: APIClient, labels: Mapping[str, str | None]) -> list[FoundContainer]:
    """Return the containers, running or not, that have these labels; None stands for any value."""
    wanted = [name if value is None else f"{name}={value}" for name, value in labels.items()]
    with engine_errors("list containers"):
        listed = client.containers(all=True, filters={"label": wanted})
    return [
        FoundContainer(container["Id"], container["Labels"] or {}, container["State"] in RUNNING)
        for container in listed
    ]
