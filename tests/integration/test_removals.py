"""A container that the engine is removing already is gone at the end, however long the engine takes."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from docker import APIClient
from docker.errors import APIError, NotFound

from harness.sandbox import reaper
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.machine.images import build_images

SLOW_SECONDS = 1.0


@contextlib.contextmanager
def slow_engine(client: APIClient, container: str, seconds: float) -> Iterator[None]:
    """Stop the process of the engine that manages this container, for so many seconds."""
    pid = client.inspect_container(container)["State"]["Pid"]
    try:
        shim = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(shim, signal.SIGSTOP)
    except (OSError, ValueError):
        pytest.skip("the engine's processes are out of reach")
    with ThreadPoolExecutor(1) as pool:
        waking = pool.submit(wake, shim, seconds)
        try:
            yield
        finally:
            waking.result()


def wake(process: int, seconds: float) -> None:
    time.sleep(seconds)
    os.kill(process, signal.SIGCONT)


def test_a_removal_waits_for_the_one_that_is_in_progress(client: APIClient) -> None:
    build_images(client, ["python"], notify=print)
    labels = reaper.make_labels(f"test-{secrets.token_hex(6)}", role="sandbox", deadline_seconds=60)
    container = client.create_container(
        require_image(client, "python"), entrypoint=[], command=["sleep", "60"], labels=labels
    )["Id"]
    client.start(container)
    with slow_engine(client, container, SLOW_SECONDS), ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.remove_container, container, force=True)
        wait_until_removing(client, container)
        assert DockerBackend(client).destroy(container) is False
        first.result()
        with pytest.raises(NotFound):
            client.inspect_container(container)


def wait_until_removing(client: APIClient, container: str) -> None:
    """Wait until the engine answers that it is removing the container."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            client.remove_container(container)
        except APIError as error:
            if "already in progress" in str(error):
                return
        time.sleep(0.02)
    pytest.fail("the engine does not remove the container")
