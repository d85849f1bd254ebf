"""Sandboxes that clients hold from one request to the next: their start, their use, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self
from weakref import WeakValueDictionary

from harness.core.errors import HarnessError, SandboxError, unknown_name
from harness.core.logger import get_logger
from harness.core.shield import complete_all
from harness.environments import environment_spec, list_folders
from harness.sandbox.failures import SandboxLimitReached
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.sandbox import Sandbox
from harness.service.errors import (
    BusyError,
    DrainingError,
    InvalidRequestError,
    ServiceError,
    ShareUsedError,
    explain,
)
from harness.service.sandboxes.models import CreateSandboxRequest, SandboxInfo
from harness.service.sandboxes.shares import SessionBudget, read_most_processes
from harness.service.settings import ServiceLimits

_LOGGER = get_logger(__name__)
# The ended sandboxes whose reason the service can still report.
_REMEMBERED = 4096
_LOST_TO = {"memory_mb": "sandbox_out_of_memory", "disk_mb": "sandbox_out_of_disk"}


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The reason for the end of a sandbox: a code for programs, and a message."""

    code: str
    message: str

    def build_error(self) -> ServiceError:
        """Return the error of a request for a sandbox that has ended."""
        return ServiceError(410, self.code, self.message)


DELETED = SessionEnd("sandbox_deleted", "the sandbox was deleted")
CLOSED = SessionEnd("sandbox_closed", "the service ends, and its sandboxes end with it")


@dataclass(slots=True, eq=False)
class SandboxSession:
    """A live sandbox that a client holds."""

    id: str
    client: str
    request: CreateSandboxRequest
    # When the sandbox ends, and when it was used last, by the monotonic clock.
    deadline: float
    last_used: float
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    # The requests that use it now.
    busy: int = 0
    # None until the sandbox is open.
    opened: Sandbox | None = None
    end: SessionEnd | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def sandbox(self) -> Sandbox:
        """The open sandbox."""
        assert self.opened is not None  # noqa: S101  because clients get the id of an open sandbox only
        return self.opened

    def finish(self, end: SessionEnd) -> None:
        """Let the sandbox end. The first reason counts."""
        if self.end is None:
            self.end = end
            self._over.set()

    def explain(self, error: SandboxError) -> ServiceError:
        """Return the error of a request that the sandbox could not carry out, and let the sandbox end."""
        if isinstance(error, SandboxLimitReached):
            self.finish(SessionEnd(_LOST_TO[error.limit], error.message))
        else:
            self.finish(SessionEnd("sandbox_failed", f"the sandbox failed: {error.message}"))
        assert self.end is not None  # noqa: S101  because it was set above
        return self.end.build_error()

    async def wait_until_over(self) -> None:
        """Wait for the end that a request asks for, for the deadline, or for the idle time."""
        while self.end is None:
            now = time.monotonic()
            # A request that is under way now ends later, so that the idle time cannot be over before this.
            idle = self.request.idle_seconds - (0.0 if self.busy else now - self.last_used)
            rest = min(self.deadline - now, idle)
            if rest <= 0:
                self.finish(self._describe_lapse(now))
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._over.wait()

    def _describe_lapse(self, now: float) -> SessionEnd:
        if now >= self.deadline:
            seconds = self.request.deadline_seconds
            return SessionEnd("sandbox_expired", f"the sandbox reached its deadline of {seconds:g} s")
        seconds = self.request.idle_seconds
        return SessionEnd("sandbox_idle", f"the sandbox had no request for {seconds:g} s and was deleted")

    def describe(self) -> SandboxInfo:
        """Return the sandbox as clients see it."""
        now = time.monotonic()
        idle = self.request.idle_seconds
        return SandboxInfo(
            id=self.id,
            image=self.request.image,
            limits=self.request.limits,
            terminals=self.request.terminals,
            created_at=self.created_at.isoformat(timespec="milliseconds"),
            seconds_left=round(max(0.0, self.deadline - now), 3),
            idle_seconds=idle,
            idle_seconds_left=round(idle if self.busy else max(0.0, idle - (now - self.last_used)), 3),
            busy=self.busy,
        )


class SandboxSessions:
    """The sandboxes that clients hold. The end of its block ends all of them.

    A client is an address. It sees its own sandboxes in the list. The id of a sandbox is what gives access to
    it, so that a job may move to another machine.

    Args:
        pool: lends out the sandboxes.
        limits: the limits of the service.
        on_fault: called for each sandbox that is lost by no fault of the programs in it.
    """

    def __init__(
        self, pool: SandboxPool, limits: ServiceLimits, on_fault: Callable[[], None] = lambda: None
    ) -> None:
        self.budget = SessionBudget(limits, pool.memory_mb, read_most_processes())
        # A reply holds its file in memory until the client has taken it.
        self._file_replies = asyncio.Semaphore(limits.file_replies)
        # Each client has a separate line, so that a client that reads slowly delays no other.
        self._client_replies: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._pool = pool
        self._limits = limits
        self._on_fault = on_fault
        self._live: dict[str, SandboxSession] = {}
        self._holders: dict[str, asyncio.Task[None]] = {}
        self._ended: OrderedDict[str, SessionEnd] = OrderedDict()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._is_closed = True
        holders = list(self._holders.values())
        for session in self._live.values():
            session.finish(CLOSED)
            if session.opened is None:
                self._holders[session.id].cancel()
        await complete_all(holders)

    def require_room(self, client: str, request: CreateSandboxRequest) -> None:
        """Raise ServiceError if a sandbox cannot be opened now, at once and before any wait."""
        if self._is_closed:
            raise DrainingError
        _require_image(request.image)
        cores = os.cpu_count() or 1
        if request.limits.cpus > cores:
            raise InvalidRequestError(
                f"'limits.cpus' must be at most {cores}, the processors of this machine, not "
                f"{request.limits.cpus:g}",
                status=422,
            )
        if request.deadline_seconds > self._limits.session_seconds:
            raise InvalidRequestError(
                f"'deadline_seconds' must be at most {self._limits.session_seconds:g}, not "
                f"{request.deadline_seconds:g}",
                status=422,
            )
        self.budget.require_room(client, request.limits.memory_mb, request.limits.processes)

    async def open(self, client: str, request: CreateSandboxRequest) -> SandboxSession:
        """Open a sandbox and return it, within `wait_seconds` of the request.

        The cancellation of this call ends the sandbox. Raises ServiceError, and HarnessError for a fault of
        the engine.
        """
        self.require_room(client, request)
        now = time.monotonic()
        session = SandboxSession(
            secrets.token_urlsafe(24), client, request, deadline=now + request.deadline_seconds, last_used=now
        )
        opened = asyncio.Event()
        holder = asyncio.create_task(self._hold(session, opened))
        self._live[session.id], self._holders[session.id] = session, holder
        holder.add_done_callback(lambda _holder: self._forget(session))
        opening = asyncio.create_task(opened.wait())
        try:
            await asyncio.wait(
                (opening, holder), timeout=request.wait_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if opened.is_set():
                return session
            if not holder.done():
                raise BusyError(
                    f"no sandbox could be started within {request.wait_seconds:g} s", retry_seconds=5.0
                )
            if not holder.cancelled():
                holder.result()
            raise CLOSED.build_error()
        except BaseException:
            holder.cancel()
            await complete_all([holder])
            raise
        finally:
            opening.cancel()

    async def _hold(self, session: SandboxSession, opened: asyncio.Event) -> None:
        """Hold a sandbox open until its end."""
        request = session.request
        settings = SandboxSettings(request.image, request.limits.build(), terminals=request.terminals)
        try:
            wanted = request.limits
            with self.budget.hold(session.client, wanted.memory_mb, wanted.processes):
                async with self._pool.lease(settings, seconds=request.deadline_seconds) as sandbox:
                    # From now on a loss of the sandbox is the fault of the programs in it.
                    sandbox.agent_acted = True
                    session.opened = sandbox
                    session.last_used = time.monotonic()
                    opened.set()
                    await session.wait_until_over()
        except HarnessError as error:
            if not opened.is_set():
                raise
            # The end of the service removes the container if it could not be removed now.
            _LOGGER.warning("the end of a sandbox failed: %s", error.message)

    def _forget(self, session: SandboxSession) -> None:
        del self._live[session.id], self._holders[session.id]
        if session.opened is not None:
            self._ended[session.id] = session.end or CLOSED
            if len(self._ended) > _REMEMBERED:
                self._ended.popitem(last=False)

    def find(self, session_id: str) -> SandboxSession:
        """Return a live sandbox. Raises ServiceError, 404 for an unknown id and 410 for an ended sandbox."""
        session = self._live.get(session_id)
        end = self._ended.get(session_id) if session is None else session.end
        if end is not None:
            raise end.build_error()
        if session is None or session.opened is None:
            raise InvalidRequestError(
                f"there is no sandbox {session_id[:80]!r}", code="unknown_sandbox", status=404
            )
        return session

    @contextlib.asynccontextmanager
    async def send_file(self, client: str) -> AsyncIterator[None]:
        """Hold a place for a file on its way to a client. Waits for one."""
        places = asyncio.Semaphore(self._limits.client_file_replies)
        async with self._client_replies.setdefault(client, places), self._file_replies:
            yield

    def list_sessions(self, client: str) -> list[SandboxSession]:
        """Return the live sandboxes that a client has opened, the oldest first."""
        return [
            each
            for each in self._live.values()
            if each.client == client and each.opened is not None and each.end is None
        ]

    @contextlib.asynccontextmanager
    async def use(self, session_id: str) -> AsyncIterator[SandboxSession]:
        """Yield a live sandbox, which cannot become idle during the block.

        Raises ServiceError as `find` does, 429 for too many requests at once, and 410 if the sandbox fails in
        the block.
        """
        session = self.find(session_id)
        if session.busy >= self._limits.session_requests:
            raise ShareUsedError(
                f"{session.busy} requests of this sandbox are under way, which is the limit",
                retry_seconds=1.0,
            )
        session.busy += 1
        try:
            yield session
        except SandboxError as error:
            if session.end is None and error.outside:
                self._on_fault()
            raise session.explain(error) from error
        finally:
            session.busy -= 1
            session.last_used = time.monotonic()

    async def delete(self, session_id: str) -> None:
        """End a sandbox, with everything that runs in it. Returns when its container is gone.

        Raises ServiceError as `find` does.
        """
        session = self.find(session_id)
        session.finish(DELETED)
        holder = self._holders.get(session_id)
        if holder is not None:
            await asyncio.wait([holder])


def _require_image(name: str) -> None:
    if name in list_folders() and environment_spec(name).image is not None:
        return
    # An id of a build, or an image of the engine that is not ours, is not for clients.
    images = [each for each in list_folders() if environment_spec(each).image is not None]
    error = unknown_name("image", name[:100], images)
    raise InvalidRequestError(f"'image': {explain(error)}", status=422)
