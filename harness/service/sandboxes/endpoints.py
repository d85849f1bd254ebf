"""`/v1/sandboxes`: open a sandbox, run commands and move files in it, keep it alive, and delete it."""

from __future__ import annotations

from harness.logger import get_logger
from harness.service.operations import Call, Operation
from harness.service.sandboxes.commands import EVENT_STREAM, run_command
from harness.service.sandboxes.files import read_file, write_file
from harness.service.sandboxes.models import (
    CreateSandboxRequest,
    ExecReply,
    ExecRequest,
    SandboxInfo,
    SandboxList,
)
from harness.service.sandboxes.sessions import SandboxSession
from harness.service.service import Service

_LOGGER = get_logger(__name__)
_ONE = "/v1/sandboxes/{id}"


async def open_session(service: Service, client: str, request: CreateSandboxRequest) -> SandboxSession:
    """Open a sandbox for a client and return it. Its start takes a place in the queue.

    Raises ServiceError, at once if there is no room, and HarnessError for a fault of the engine.
    """
    service.sessions.require_room(client, request)
    async with service.work(client, wait_seconds=request.wait_seconds):
        return await service.sessions.open(client, request)


async def _create(request: CreateSandboxRequest, call: Call) -> SandboxInfo:
    session = await open_session(call.service, call.client, request)
    _LOGGER.info("a sandbox was opened", extra={"image": request.image, "client": call.client})
    return session.describe()


async def _list(_request: None, call: Call) -> SandboxList:
    found = call.service.sessions.list_sessions(call.client)
    return SandboxList(sandboxes=[session.describe() for session in found])


async def _show(_request: None, call: Call) -> SandboxInfo:
    return call.service.sessions.find(call.path["id"]).describe()


async def _keep_alive(_request: None, call: Call) -> SandboxInfo:
    async with call.service.sessions.use(call.path["id"]) as session:
        pass
    return session.describe()


async def _delete(_request: None, call: Call) -> None:
    await call.service.sessions.delete(call.path["id"])


OPERATIONS = (
    Operation(
        "POST",
        "/v1/sandboxes",
        "Open a sandbox, which lives until it is deleted, idle for too long, or at its deadline.",
        _create,
        request=CreateSandboxRequest,
        reply=SandboxInfo,
        name="create_sandbox",
        status=201,
    ),
    Operation(
        "GET",
        "/v1/sandboxes",
        "List the sandboxes that this client has opened.",
        _list,
        reply=SandboxList,
        name="list_sandboxes",
    ),
    Operation("GET", _ONE, "Show a sandbox.", _show, reply=SandboxInfo, name="show_sandbox"),
    Operation(
        "POST",
        f"{_ONE}/keepalive",
        "Start the idle time of a sandbox again. Its deadline stays.",
        _keep_alive,
        reply=SandboxInfo,
        name="keep_sandbox_alive",
    ),
    Operation(
        "DELETE",
        _ONE,
        "End a sandbox with everything that runs in it.",
        _delete,
        name="delete_sandbox",
        status=204,
    ),
    Operation(
        "POST",
        f"{_ONE}/exec",
        "Run a command; with 'Accept: text/event-stream' its output comes as events.",
        run_command,
        request=ExecRequest,
        reply=ExecReply,
        name="exec",
        stream_type=EVENT_STREAM,
    ),
    Operation(
        "PUT",
        f"{_ONE}/files/{{path:file}}",
        "Write a file. The body is its content, and the parameter 'mode' its mode in octal.",
        write_file,
        name="write_file",
        query={"mode": "the mode of the file in octal, from 0 to 777"},
        takes_bytes=True,
        status=204,
    ),
    Operation(
        "GET",
        f"{_ONE}/files/{{path:file}}",
        "Read a file. The reply is its content.",
        read_file,
        name="read_file",
        media_type="application/octet-stream",
    ),
)
