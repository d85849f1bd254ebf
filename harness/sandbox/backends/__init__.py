"""The backends, and the choice of one for sandboxes whose caller passes none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Literal, get_args

from harness.core.errors import EngineUnavailableError, UsageError
from harness.sandbox.backends.base import Backend

if TYPE_CHECKING:
    from harness.sandbox.backends.docker.backend import DockerBackend
    from harness.sandbox.backends.oci.backend import OciBackend

BackendName = Literal["auto", "docker", "oci"]
# Chooses the backend of every command, unless the command has another one.
VARIABLE = "HARNESS_BACKEND"


def connect_backend(
    name: str = "auto", *, allow_weaker: bool = False, notify: Callable[[str], None] = lambda line: None
) -> DockerBackend | OciBackend:
    """Return a backend by its name.

    With `auto`, the variable HARNESS_BACKEND names it. Without that variable, this takes the Docker engine of
    the environment if it answers, else Podman behind its socket, else the OCI runtime of this machine. It
    does not replace an engine that the user has chosen (DOCKER_HOST, a docker context).

    Args:
        name: the name of a backend, or `auto`.
        allow_weaker: start sandboxes of `oci` also without limits that this machine cannot enforce.
        notify: gets a line with the reason if the choice is not Docker.

    Raises:
        EngineUnavailableError: if the backend is not there.
        UsageError: for an unknown name.
    """
    from harness.sandbox.backends.docker.engine import find_chosen_endpoint, find_podman_socket

    name = read_name(name)
    if name == "oci":
        return _connect_oci(allow_weaker=allow_weaker)
    from harness.sandbox.backends.docker.backend import connect

    try:
        engine = connect()
        if find_chosen_endpoint() is None and (socket := find_podman_socket(engine.client)):
            notify(f"sandboxes: Podman at {socket}, because no Docker engine answers")
        return engine
    except EngineUnavailableError as error:
        if name == "docker" or find_chosen_endpoint() is not None:
            raise
        try:
            backend = _connect_oci(allow_weaker=allow_weaker)
        except EngineUnavailableError:
            # Docker is what most people install.
            raise error from None
        user = "as root" if os.geteuid() == 0 else "without root"
        notify(f"sandboxes: backend oci {user}, because {error.message}, and no Podman does")
        return backend


def _connect_oci(*, allow_weaker: bool = False) -> OciBackend:
    from harness.sandbox.backends.oci.backend import connect

    return connect(allow_weaker=allow_weaker)


def connect_backends() -> list[DockerBackend | OciBackend]:
    """Return all backends that may have containers of harness. Raises as `connect_backend` does."""
    from harness.sandbox.backends.oci.backend import has_containers

    first = connect_backend()
    also = has_containers() and first.name != "oci"
    return [first, _connect_oci()] if also else [first]


def read_name(name: str) -> str:
    """Return the name of a backend, for `auto` that of the variable. Raises UsageError for an unknown one."""
    chosen = os.environ.get(VARIABLE) or name if name == "auto" else name
    if chosen not in get_args(BackendName):
        known = ", ".join(get_args(BackendName))
        raise UsageError(f"there is no backend '{chosen}'", hint=f"known: {known}   (--backend, {VARIABLE})")
    return chosen


@contextlib.asynccontextmanager
async def open_default_backend(
    name: BackendName = "auto",
    *,
    allow_weaker: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> AsyncIterator[Backend]:
    """Yield the backend that `connect_backend` returns, with its arguments and errors."""
    # The settings of a run import this module, and the help of a command must not load asyncio.
    import asyncio

    backend = await asyncio.to_thread(connect_backend, name, allow_weaker=allow_weaker, notify=notify)
    try:
        yield backend
    finally:
        await asyncio.to_thread(backend.close)
