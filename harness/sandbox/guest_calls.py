"""The calls of a sandbox's guest, and the errors of those that fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.errors import SandboxError, UsageError
from harness.sandbox.backends.base import Backend, Cause
from harness.sandbox.connection import Connection, ConnectionClosed, ConnectionLost, Receiver
from harness.sandbox.disk_watch import DiskWatch
from harness.sandbox.failures import (
    SandboxClosed,
    SandboxOutOfDisk,
    SandboxOutOfMemory,
    SandboxUnresponsive,
    build_fault,
)
from harness.sandbox.guest.frames import FrameError
from harness.sandbox.time_factor import extend_wait

# The guest enforces limits itself. The host waits this much longer before it ends the sandbox from outside.
GRACE_SECONDS = 10.0
MAX_STDERR_CHARACTERS = 2000
# Code that reads an answer raises these if the answer does not have the expected form.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class GuestCaller:
    """Calls the guest of a container, and says why a call failed and who is responsible."""

    def __init__(self, backend: Backend, container_id: str, connection: Connection) -> None:
        self._backend = backend
        self.container_id = container_id
        self._connection = connection
        self._disk: DiskWatch | None = None
        # False once a process or a file of an ended job may be left.
        self.clean = True
        # Whether an agent has acted in this sandbox, or the sandbox holds files of an agent. From then on the
        # agent is responsible for the loss of the sandbox.
        self.agent_acted = False

    @property
    def is_lost(self) -> bool:
        """Whether the guest has ended, so that every further request fails."""
        return self._connection.is_lost

    async def call(
        self, procedure: str, request: Mapping[str, object], body: bytes = b"", *, timeout: float
    ) -> tuple[dict[str, Any], bytes]:
        """Call a procedure of the image's environment and return the header and the body of its reply.

        `timeout` is in seconds. The guest ends the procedure by then, and the host waits a little longer.
        Read the reply in a block of `catch_unreadable`. Raises UsageError for a request that is too large,
        and SandboxError.
        """
        header = {"verb": "call", "procedure": procedure, "request": request}
        return await self._request(header, body, seconds=timeout + extend_wait(GRACE_SECONDS))

    async def _request(
        self,
        header: Mapping[str, Any],
        body: bytes = b"",
        *,
        seconds: float,
        receiver: Receiver | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        try:
            answer, data = await self._connection.request(
                header,
                body,
                seconds=seconds,
                explain=lambda: self._explain_silence(_name_of(header), seconds),
                receiver=receiver,
            )
        except FrameError as error:
            raise UsageError(f"too much for one request: {error}") from error
        except asyncio.CancelledError:
            # The guest may still be working on the request, whose answer no call awaits any more.
            self.clean = False
            raise
        except SandboxUnresponsive:
            self.clean = False
            await self._destroy()
            raise
        except ConnectionLost as error:
            raise await self.diagnose(error) from error
        if "fault" in answer:
            self.clean = False
            raise build_fault(answer["fault"])
        if "error" in answer:
            raise self.build_failure(f"the guest failed at '{_name_of(header)}': {answer['error']!s:.500}")
        return answer, data

    async def _explain_silence(self, request: str, seconds: float) -> SandboxUnresponsive:
        """Return the error for a request that the sandbox has not answered in time.

        Its `outside` is set unless programs in the sandbox are measured to keep it from answering.
        """
        acted_in = self.agent_acted
        try:
            fate = await asyncio.to_thread(self._backend.find_fate, self.container_id, silent=True)
            outside = fate.cause is Cause.OUTSIDE
        except SandboxError as error:
            outside = error.outside
        message = f"the sandbox did not answer '{request}' in {seconds:.0f} s and was destroyed"
        return SandboxUnresponsive(message, outside=outside, acted_in=acted_in)

    async def destroy_silent(self, request: str, seconds: float) -> SandboxUnresponsive:
        """Destroy the sandbox, which has not answered a request in time, and return the error."""
        self.clean = False
        error = await self._explain_silence(request, seconds)
        await self._destroy()
        return error

    async def _destroy(self) -> None:
        """Destroy the sandbox, which has failed. The end of its block tries again and reports a failure."""
        with contextlib.suppress(SandboxError):
            await asyncio.to_thread(self._backend.destroy, self.container_id)

    def build_failure(self, message: str) -> SandboxError:
        """Return the error for a sandbox that failed by itself. An agent that acted in it is responsible."""
        self.clean = False
        return SandboxError(message, acted_in=self.agent_acted)

    @contextlib.contextmanager
    def catch_unreadable(self) -> Iterator[None]:
        """Raise SandboxError if the block cannot read an answer of the guest."""
        try:
            yield
        except SandboxError as error:
            raise self.build_failure(error.message) from error
        except UNREADABLE as error:
            problem = f"the guest's answer cannot be read: {type(error).__name__}"
            raise self.build_failure(problem) from error

    async def _look_at_disk(self, *, if_written: bool = False) -> None:
        """Raise SandboxError if the last request exceeded the disk limit. The watch may be a moment late.

        With `if_written`, this asks the engine only if the engine's disk shows that it may be exceeded.
        """
        if self._disk is not None:
            await (self._disk.look_if_written() if if_written else self._disk.look())
            if self._disk.over:
                self.clean = False
                raise self._build_disk_error(self._disk)

    @staticmethod
    def _build_disk_error(watch: DiskWatch) -> SandboxError:
        return SandboxOutOfDisk(watch.exceeded) if watch.exceeded else build_fault(watch.failure)

    async def diagnose(self, lost: ConnectionLost) -> SandboxError:
        """Return the error that names the cause of a lost stream. Raises SandboxError if it is unknown."""
        if isinstance(lost, ConnectionClosed):
            return SandboxClosed()
        self.clean = False
        if self._disk is not None and await self._disk.is_over():
            return self._build_disk_error(self._disk)
        stderr, acted_in = self._connection.stderr, self.agent_acted
        if lost.breach:
            return SandboxError(str(lost), acted_in=acted_in)
        fate = await asyncio.to_thread(self._backend.find_fate, self.container_id)
        if fate.cause is Cause.MEMORY:
            return SandboxOutOfMemory("the whole sandbox ran out of memory")
        detail = f"{lost}; exit code {fate.exit_code}"
        if fate.cause is Cause.OUTSIDE:
            return SandboxError(f"{detail}; the engine or one of its users ended it", outside=True)
        traceback = f"; {stderr[-MAX_STDERR_CHARACTERS:]}" if stderr else ""
        return SandboxError(f"{detail}{traceback}", acted_in=acted_in)


def _name_of(header: Mapping[str, Any]) -> str:
    return str(header.get("procedure", header["verb"]))
