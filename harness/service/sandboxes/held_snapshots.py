"""The snapshots that clients hold, in the memory of the service: their share, their use, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from harness.service.errors import InvalidRequestError
from harness.service.sandboxes.sessions import SessionBudget


class Kept(Protocol):
    """A state that a client holds: the one of a sandbox, or of an episode."""

    @property
    def size_bytes(self) -> int: ...


Content = TypeVar("Content", bound=Kept)


@dataclass(slots=True, eq=False)
class _Held:
    content: Any
    idle_seconds: float
    # Gives back its share of the client's memory.
    share: contextlib.ExitStack
    timer: asyncio.TimerHandle | None = None
    # The requests that fork it now.
    busy: int = 0


class HeldSnapshots:
    """The snapshots that clients hold, by their names, which cannot be guessed."""

    def __init__(self, budget: SessionBudget) -> None:
        self._budget = budget
        self._live: dict[str, _Held] = {}

    async def keep(
        self, client: str, taking: Awaitable[Content], *, most_bytes: int, idle_seconds: float
    ) -> tuple[str, Content]:
        """Hold what `taking` returns for a client, and return its name with it.

        It counts as `most_bytes` while it is taken. Raises ServiceError if the client's share is used up, and
        as `taking` does.
        """
        try:
            with self._budget.hold(client, _count_mb(most_bytes)):
                content = await taking
        finally:
            # Without room it was never awaited.
            if asyncio.iscoroutine(taking):
                taking.close()
        name, share = secrets.token_urlsafe(24), contextlib.ExitStack()
        share.enter_context(self._budget.hold(client, _count_mb(content.size_bytes)))
        self._live[name] = _Held(content, idle_seconds, share)
        self._wait(name)
        return name, content

    @contextlib.contextmanager
    def use(self, name: str, kind: type[Content]) -> Iterator[Content]:
        """Yield the content of a snapshot, whose idle time begins again.

        Raises ServiceError for an unknown name, and for a snapshot of another kind.
        """
        live = self._find(name)
        if not isinstance(live.content, kind):
            raise InvalidRequestError(
                "the snapshot is of the other kind: sandboxes are forked by a request, episodes by a reset",
                code="wrong_snapshot",
                status=422,
            )
        live.busy += 1
        try:
            yield live.content
        finally:
            live.busy -= 1

    def delete(self, name: str) -> None:
        """Drop a snapshot. What was forked lives on. Raises ServiceError for an unknown name."""
        live = self._find(name)
        if live.timer is not None:
            live.timer.cancel()
        del self._live[name]
        live.share.close()

    def _find(self, name: str) -> _Held:
        if name not in self._live:
            raise InvalidRequestError(
                f"there is no snapshot {name[:80]!r}, or it had no fork for its idle time",
                code="unknown_snapshot",
                status=404,
            )
        self._wait(name)
        return self._live[name]

    def _wait(self, name: str) -> None:
        live = self._live[name]
        if live.timer is not None:
            live.timer.cancel()
        live.timer = asyncio.get_running_loop().call_later(live.idle_seconds, self._lapse, name)

    def _lapse(self, name: str) -> None:
        if self._live[name].busy:
            self._wait(name)
        else:
            self.delete(name)


def _count_mb(size_bytes: int) -> int:
    return (size_bytes >> 20) + 1
