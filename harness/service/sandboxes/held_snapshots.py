"""The snapshots that clients hold, in the memory of the service: their share, their use, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import dataclass

from harness.sandbox.snapshots import Snapshot
from harness.service.errors import InvalidRequestError
from harness.service.sandboxes.models import CreateSandboxRequest, SnapshotInfo
from harness.service.sandboxes.sessions import SandboxSessions


@dataclass(slots=True, eq=False)
class HeldSnapshot:
    """A snapshot that a client holds."""

    snapshot: Snapshot
    # The request of its sandbox, which its forks repeat.
    request: CreateSandboxRequest
    idle_seconds: float
    # Gives back its share of the client's memory.
    held: contextlib.ExitStack
    timer: asyncio.TimerHandle | None = None
    # The requests that fork it now.
    busy: int = 0


class HeldSnapshots:
    """The snapshots that clients hold, by their names."""

    def __init__(self, sessions: SandboxSessions) -> None:
        self._sessions = sessions
        self._live: dict[str, HeldSnapshot] = {}

    def add(
        self, client: str, snapshot: Snapshot, request: CreateSandboxRequest, idle_seconds: float
    ) -> SnapshotInfo:
        """Hold a snapshot for a client. Raises ServiceError if the client's share is used up."""
        name, held = secrets.token_urlsafe(24), contextlib.ExitStack()
        held.enter_context(self._sessions.budget.hold(client, (len(snapshot.archive) >> 20) + 1))
        self._live[name] = HeldSnapshot(snapshot, request, idle_seconds, held)
        self._wait(name)
        return SnapshotInfo(
            name=name, image=request.image, bytes=len(snapshot.archive), idle_seconds=idle_seconds
        )

    def find(self, name: str) -> HeldSnapshot:
        """Return a snapshot, whose idle time begins again. Raises ServiceError for an unknown name."""
        if name not in self._live:
            raise InvalidRequestError(
                f"there is no snapshot {name[:80]!r}, or it had no fork for its idle time",
                code="unknown_snapshot",
                status=404,
            )
        self._wait(name)
        return self._live[name]

    def delete(self, name: str) -> None:
        """Drop a snapshot. Sandboxes with its files live on. Raises ServiceError for an unknown name."""
        live = self.find(name)
        if live.timer is not None:
            live.timer.cancel()
        del self._live[name]
        live.held.close()

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
