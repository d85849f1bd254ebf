"""`/v1/snapshots`: the files of a sandbox that a client holds, and further sandboxes that start with them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from harness.core.errors import HarnessError, UsageError
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.snapshots import MAX_ARCHIVE_BYTES, MAX_FORKS, Snapshot, unpack_snapshot
from harness.service.errors import InvalidRequestError, ServiceError, explain_error
from harness.service.operations import Call, Called, make_router
from harness.service.sandboxes.models import CreateSandboxRequest, SandboxInfo, SnapshotInfo, SnapshotRequest
from harness.service.sandboxes.sessions import DELETED

_ONE = "/v1/snapshots/{name}"


@dataclass(frozen=True, slots=True)
class SandboxState:
    """The files of a sandbox, and the request that opened it, which its forks repeat."""

    snapshot: Snapshot
    request: CreateSandboxRequest

    @property
    def size_bytes(self) -> int:
        """The bytes of the archive."""
        return len(self.snapshot.archive)


class ForkRequest(BaseModel):
    """Sandboxes to open with the files of a snapshot."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    count: int = Field(default=1, ge=1, le=MAX_FORKS, strict=True)
    """The number of sandboxes."""
    wait_seconds: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    """The time that each sandbox can wait in the queue and for memory."""


class ForkError(BaseModel):
    """The reason why a sandbox could not be opened."""

    code: str
    """The reason for programs, as in an error of a request."""
    message: str
    """The reason for people."""


class Fork(BaseModel):
    """One sandbox with the files of a snapshot, or an error."""

    sandbox: SandboxInfo | None = None
    """The open sandbox, with the limits and times of the first one."""
    error: ForkError | None = None
    """Why there is no sandbox."""


class ForkReply(BaseModel):
    """The sandboxes with the files of a snapshot."""

    sandboxes: list[Fork]
    """One entry for each of `count`."""


router = make_router()


@router.post(
    "/v1/sandboxes/{id}/snapshot",
    summary="Keep the files of a sandbox, so that further sandboxes can start with them.",
    name="snapshot_sandbox",
    status_code=201,
)
async def take(id: str, request: SnapshotRequest, call: Called) -> SnapshotInfo:
    """Return a snapshot of a sandbox, which lives on. Raises ServiceError."""
    async with call.service.sessions.use(id) as session:
        name, state = await call.service.snapshots.keep(
            call.client,
            _take(session.sandbox, session.request),
            most_bytes=MAX_ARCHIVE_BYTES,
            idle_seconds=request.idle_seconds,
        )
    return SnapshotInfo(
        name=name, image=state.request.image, bytes=state.size_bytes, idle_seconds=request.idle_seconds
    )


async def _take(sandbox: Sandbox, request: CreateSandboxRequest) -> SandboxState:
    try:
        return SandboxState(await sandbox.snapshot(), request)
    except UsageError as error:
        raise InvalidRequestError(error.message, status=422) from error


@router.post(f"{_ONE}/fork", summary="Open sandboxes with the files of a snapshot.", name="fork_snapshot")
async def fork(name: str, request: ForkRequest, call: Called) -> ForkReply:
    """Return one open sandbox, or an error, for each that was asked for. Raises ServiceError."""
    with call.service.snapshots.use(name, SandboxState) as state:
        try:
            async with asyncio.TaskGroup() as tasks:
                opening = [tasks.create_task(_fork_one(state, request, call)) for _ in range(request.count)]
        except BaseException:
            # Nobody would learn the ids of those that are open.
            for each in opening:
                if each.done() and not each.cancelled() and each.exception() is None:
                    _drop(each.result(), call)
            raise
    return ForkReply(sandboxes=[each.result() for each in opening])


def _drop(fork: Fork, call: Call) -> None:
    if fork.sandbox is not None:
        # It may have ended by itself.
        with contextlib.suppress(ServiceError):
            call.service.sessions.find(fork.sandbox.id).finish(DELETED)


async def _fork_one(state: SandboxState, request: ForkRequest, call: Call) -> Fork:
    wanted = state.request.model_copy(update={"wait_seconds": request.wait_seconds})
    try:
        session = await call.service.open_sandbox(call.client, wanted)
        try:
            async with call.service.sessions.use(session.id), call.service.pool.gate:
                await unpack_snapshot(session.sandbox, state.snapshot)
        except BaseException:
            with contextlib.suppress(ServiceError):
                await call.service.sessions.delete(session.id)
            raise
    except (ServiceError, HarnessError) as error:
        shown = explain_error(error)
        return Fork(error=ForkError(code=shown.code, message=str(shown)))
    return Fork(sandbox=session.describe())


@router.delete(_ONE, summary="Drop a snapshot.", name="delete_snapshot", status_code=204)
async def delete(name: str, call: Called) -> None:
    """Drop a snapshot. The sandboxes that were forked live on. Raises ServiceError."""
    call.service.snapshots.delete(name)
