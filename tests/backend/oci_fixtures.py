"""The backend `oci` for tests, on machines that can run it."""

from __future__ import annotations

import pytest

from harness.core.errors import EngineUnavailableError
from harness.sandbox.backends.oci.backend import OciBackend, connect
from harness.sandbox.machine.unpacked_images import provide_images


def connect_oci(images: tuple[str, ...] = ("python",)) -> OciBackend:
    """Return the backend with these images. Skips the test with the reason if this machine has none."""
    try:
        backend = connect()
    except EngineUnavailableError as error:
        pytest.skip(error.message)
    provide_images(images, notify=print)
    return backend
