"""Copy images between engines, and compare what is in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from harness.errors import SandboxError
from harness.sandbox.backends.base import FoundImage
from harness.sandbox.backends.docker.engine import connect, engine_errors, image_details

if TYPE_CHECKING:
    from docker import APIClient

PART_BYTES = 4 * 1024 * 1024
# A slow disk needs this long for the layers of an image.
LOAD_SECONDS = 600
# The settings of an image that decide how its processes start.
_SETTINGS = ("Entrypoint", "Cmd", "Env", "User", "WorkingDir", "Labels")


def find_content(client: APIClient, tag: str) -> FoundImage | None:
    """Return the image with a tag, None if the engine has none. Raises SandboxError."""
    details = image_details(client, tag)
    if details is None:
        return None
    settings = {name: details["Config"].get(name) or None for name in _SETTINGS}
    content = [details["Architecture"], details["RootFS"]["Layers"], settings]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    return FoundImage(details["Id"], digest.hexdigest())


def save_archive(client: APIClient, tag: str) -> Iterator[bytes]:
    """Yield the parts of an archive with an image and its tag. Raises SandboxError."""
    with engine_errors(f"save image {tag}"):
        yield from client.get_image(tag, chunk_size=PART_BYTES)


def load_archive(archive: BinaryIO) -> None:
    """Add the image of an archive to the engine of the environment. Raises SandboxError."""
    # The timeout of a client holds for all threads that use it.
    client = connect()
    client.timeout = LOAD_SECONDS
    try:
        with engine_errors("load an image"):
            for line in client.load_image(archive, quiet=True):  # type: ignore[no-untyped-call]
                if "error" in line:
                    raise SandboxError(f"cannot load an image: {line['error']}", outside=True)
    finally:
        client.close()
