"""The notice that a model server is down, once for each outage, while the requests go on trying."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator

from harness.core.logger import get_logger
from harness.core.text import escape_terminal
from harness.models.addresses import describe_proxy
from harness.models.endpoint import Endpoint

# A fault of one moment is not an outage.
SHORT_FAULT_SECONDS = 1.5
# A server that drops packets gives no error before the time of the connection is over.
SILENT_SECONDS = 2.5

_LOGGER = get_logger(__name__)


class Outage:
    """The time since a server has answered its last request, if all requests since then have failed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._began: float | None = None
        self._is_told = False
        self._has_begun_watch = False

    def note(self, reason: str, *, at_once: bool) -> None:
        """Report a failed try on the screen, unless that was done or the failure may be one of a moment."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._is_told or not (at_once or now - self._began >= SHORT_FAULT_SECONDS):
            return
        self._is_told = True
        proxy = describe_proxy(self._endpoint.base_url)
        _LOGGER.warning(
            "model '%s': the server at %s does not answer: %s%s; start it, or press Ctrl-C and check "
            "--base-url; harness goes on trying",
            self._endpoint.model,
            self._endpoint.base_url,
            # The text of the failure comes from a server.
            escape_terminal(reason),
            "" if proxy is None else f"; {proxy}",
        )

    def end(self) -> None:
        """Report that the server answers again, if an outage was reported."""
        if self._is_told:
            _LOGGER.warning("model '%s': the server answers again", self._endpoint.model)
        self._began, self._is_told = None, False

    @contextlib.contextmanager
    def watch(self, find_obstacle: Callable[[], Awaitable[str | None]]) -> Iterator[None]:
        """Report in the block of the first try if no connection can be made, before the try itself fails."""
        if self._has_begun_watch:
            yield
            return
        self._has_begun_watch = True

        async def look() -> None:
            await asyncio.sleep(SILENT_SECONDS)
            if (obstacle := await find_obstacle()) is not None:
                self.note(obstacle, at_once=True)

        task = asyncio.create_task(look())
        try:
            yield
        finally:
            task.cancel()
