"""Build one image on the engine, and remove the layers of a build that failed."""

from __future__ import annotations

import re
import time
from collections import deque
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from harness.errors import SandboxError
from harness.sandbox.backends.docker.engine import engine_errors, image_details, is_going, is_gone

if TYPE_CHECKING:
    from docker import APIClient

LOG_TAIL_LINES = 30
LEFTOVER_SECONDS = 5.0


def run_build(client: APIClient, name: str, **arguments: Any) -> None:
    """Build image `name` with these arguments of `APIClient.build`.

    Raises SandboxError with the end of the log if the build fails. Nothing of such a build is left.
    """
    log: deque[str] = deque(maxlen=LOG_TAIL_LINES)
    layers: list[str] = []
    done = False
    try:
        with engine_errors(f"build image {name}"):
            events = client.build(rm=True, forcerm=True, decode=True, **arguments)
            # Ctrl-C closes the events too, and the engine ends a build whose client is gone.
            with closing(events):
                for event in events:
                    _read_event(name, event, log, layers)
        done = True
    finally:
        if not done:
            _remove_leftovers(client, layers)


def _read_event(name: str, event: dict[str, Any], log: deque[str], layers: list[str]) -> None:
    text = str(event.get("stream") or event.get("error") or "")
    log.extend(line for line in text.splitlines() if line.strip())
    layers.extend(re.findall(r"^ ---> ([0-9a-f]{12,64})$", text, re.MULTILINE))
    if "error" in event:
        raise SandboxError(
            f"cannot build image {name}; the end of the log:\n" + "\n".join(f"  {line}" for line in log),
            hint="fix the cause, then run: harness images build",
        )


def _remove_leftovers(client: APIClient, layers: list[str]) -> None:
    """Remove the untagged images of a failed build, from its last step to the first."""
    from docker.errors import APIError

    deadline = time.monotonic() + LEFTOVER_SECONDS
    # An error from here is suppressed, because it would hide the error of the build.
    with suppress(SandboxError), engine_errors("remove what the build left"):
        while layers:
            details = image_details(client, layers[-1])
            try:
                if details is not None and not details["RepoTags"]:
                    client.remove_image(layers[-1])
                layers.pop()
            except APIError as error:
                if is_gone(error):
                    layers.pop()
                    continue
                # The container of an interrupted step may still use the image.
                if not is_going(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
