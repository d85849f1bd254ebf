"""`/v1/sandboxes`: open a sandbox, run commands and move files in it, keep it alive, and delete it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, Self

from fastapi import Body, Query, Response
from pydantic import BaseModel
from starlette.convertors import PathConvertor, register_url_convertor

from harness.core.errors import UsageError
from harness.core.logger import get_logger
from harness.sandbox.streaming import OutputChunk, OutputStream
from harness.service.errors import BusyError, InvalidRequestError, ServiceError, encode_error
from harness.service.operations import Call, Called, StreamedReply, encode_reply, make_router
from harness.service.sandboxes.models import (
    CreateSandboxRequest,
    Encoding,
    ExecChunk,
    ExecReply,
    ExecRequest,
    SandboxInfo,
    SandboxList,
    encode_output,
)
from harness.service.sandboxes.sessions import SandboxSession

EVENT_STREAM = "text/event-stream"
# Proxies close a connection that is silent for a minute.
_SILENT_SECONDS = 15.0
_COMMENT = b": the command runs\n\n"
_ONE = "/v1/sandboxes/{id}"
_DEFAULT_MODE = "644"
_MOST_MODE = 0o777
_PIECE_BYTES = 256 * 1024
_WAIT_SECONDS = 30.0
_LOGGER = get_logger(__name__)


router = make_router()


@router.post(
    f"{_ONE}/exec",
    summary="Run a command; with 'Accept: text/event-stream' its output comes as events.",
    name="exec",
    response_model=ExecReply,
    responses={200: {"content": {EVENT_STREAM: {}}}},
)
async def run_command(id: str, request: ExecRequest, call: Called) -> ExecReply | StreamedReply:
    """Run a command in a sandbox, and return its result or the stream of its output.

    The command ends when its client goes away. Raises ServiceError, and UsageError for a command that cannot
    be used.
    """
    stdin = request.read_stdin()
    session = call.service.sessions.find(id)
    running = session.sandbox.stream(
        request.argv,
        timeout=request.timeout_seconds,
        stdin=stdin,
        env=request.environment,
        cwd=request.folder,
        keep_bytes=request.keep_bytes,
    )
    if EVENT_STREAM in call.headers.get("accept", ""):
        return StreamedReply(_send_events(session, running, request.encoding, call), EVENT_STREAM)
    async with call.service.sessions.use(session.id), running as output:
        async for _chunk in output:
            pass
    return ExecReply.of(output.result, request.encoding)


async def _send_events(
    session: SandboxSession,
    running: contextlib.AbstractAsyncContextManager[OutputStream],
    encoding: Encoding,
    call: Call,
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a command. The last one is `result` or `error`."""
    decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
    try:
        async with call.service.sessions.use(session.id), running as output:
            while (chunk := await _read_soon(output)) is not None:
                if not chunk.data:
                    yield _COMMENT
                    continue
                if encoding == "base64":
                    text = encode_output(chunk.data, encoding)
                else:
                    # A chunk may end in the middle of a character.
                    text = decoders[chunk.stream].decode(chunk.data)
                if text:
                    yield _write_event(chunk.stream, ExecChunk(data=text))
        for name, decoder in decoders.items():
            if rest := decoder.decode(b"", final=True):
                yield _write_event(name, ExecChunk(data=rest))
        yield _write_event("result", ExecReply.of(output.result, encoding))
    except UsageError as error:
        yield _write_error(InvalidRequestError(error.message, status=422))
    except ServiceError as error:
        yield _write_error(error)


async def _read_soon(output: OutputStream) -> OutputChunk | None:
    """Return the next chunk, None after the last one, and an empty one if the command is silent."""
    try:
        async with asyncio.timeout(_SILENT_SECONDS):
            return await output.read()
    except TimeoutError:
        return OutputChunk("stdout", b"")


def _write_event(name: str, data: BaseModel) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode_reply(data))


def _write_error(error: ServiceError) -> bytes:
    return b"event: error\ndata: %s\n\n" % encode_error(error)


class _FileContent(Response):
    media_type = "application/octet-stream"


class _FilePathConvertor(PathConvertor):
    """The rest of a URL's path, whatever is in it.

    Starlette's own type stops at a newline, which the name of a file may have. It would even take `a` for the
    file `a` with a newline at its end.
    """

    regex = r"[\s\S]*"


register_url_convertor("file", _FilePathConvertor())


@router.put(
    f"{_ONE}/files/{{path:file}}",
    summary="Write a file. The body is its content, and the parameter 'mode' its mode in octal.",
    status_code=204,
)
async def write_file(
    id: str,
    path: str,
    content: Annotated[bytes, Body(media_type="application/octet-stream")],
    call: Called,
    mode: Annotated[str, Query(description="the mode of the file in octal, from 0 to 777")] = _DEFAULT_MODE,
) -> None:
    """Write the body of a request to a file. Raises ServiceError."""
    bits = _read_mode(mode)
    _require_path(path)
    async with call.service.sessions.use(id) as session:
        try:
            await session.sandbox.write_file(path, content, mode=bits)
        except UsageError as error:
            raise InvalidRequestError(error.message, code="unwritable_file", status=422) from error


@router.get(
    f"{_ONE}/files/{{path:file}}",
    summary="Read a file. The reply is its content.",
    response_model=None,
    response_class=_FileContent,
)
async def read_file(id: str, path: str, call: Called) -> StreamedReply:
    """Return the content of a file. Raises ServiceError."""
    sessions, limits = call.service.sessions, call.service.settings.limits
    _require_path(path)
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(sessions.use(id))
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await stack.enter_async_context(sessions.send_file(call.client))
        except TimeoutError:
            raise BusyError(
                f"a client may be sent {limits.client_file_replies} files at once, and all clients "
                f"{limits.file_replies}; none ended within {_WAIT_SECONDS:g} s",
                retry_seconds=1.0,
            ) from None
        try:
            content = await session.sandbox.read_file(path, limit=limits.body_bytes)
        except UsageError as error:
            raise InvalidRequestError(error.message, code="unreadable_file", status=404) from error
        return StreamedReply(_Pieces(content, stack.pop_all()), "application/octet-stream")
    raise AssertionError("unreachable: the stack swallows no error")


class _Pieces:
    """The content of a file, piece by piece. `aclose` releases everything that the reply holds."""

    def __init__(self, content: bytes, held: contextlib.AsyncExitStack) -> None:
        self._content = content
        self._held = held
        self._position = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = self._content[self._position : self._position + _PIECE_BYTES]
        if not piece:
            raise StopAsyncIteration
        self._position += len(piece)
        return piece

    async def aclose(self) -> None:
        """Release the place of the reply. The file counts as a request of its sandbox until then."""
        await self._held.aclose()


def _require_path(path: str) -> None:
    if not path:
        raise InvalidRequestError("the path of the file is missing, as in files/data.csv", status=422)


def _read_mode(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= _MOST_MODE:
        raise InvalidRequestError(
            f"'mode' must be octal, from 0 to {_MOST_MODE:o}, not {text[:40]!r}", status=422
        )
    return mode


@router.post(
    "/v1/sandboxes",
    summary="Open a sandbox, which lives until it is deleted, idle for too long, or at its deadline.",
    name="create_sandbox",
    status_code=201,
)
async def create(request: CreateSandboxRequest, call: Called) -> SandboxInfo:
    session = await call.service.open_sandbox(call.client, request)
    _LOGGER.info("a sandbox was opened", extra={"image": request.image, "client": call.client})
    return session.describe()


@router.get("/v1/sandboxes", summary="List the sandboxes that this client has opened.", name="list_sandboxes")
async def list_own(call: Called) -> SandboxList:
    found = call.service.sessions.list_sessions(call.client)
    return SandboxList(sandboxes=[session.describe() for session in found])


@router.get(_ONE, summary="Show a sandbox.", name="show_sandbox")
async def show(id: str, call: Called) -> SandboxInfo:
    """Return the facts about a sandbox. Raises ServiceError."""
    return call.service.sessions.find(id).describe()


@router.post(
    f"{_ONE}/keepalive",
    summary="Start the idle time of a sandbox again. Its deadline stays.",
    name="keep_sandbox_alive",
)
async def keep_alive(id: str, call: Called) -> SandboxInfo:
    """Return the facts about a sandbox, whose idle time begins again. Raises ServiceError."""
    async with call.service.sessions.use(id) as session:
        pass
    return session.describe()


@router.delete(
    _ONE, summary="End a sandbox with everything that runs in it.", name="delete_sandbox", status_code=204
)
async def delete(id: str, call: Called) -> None:
    """Destroy a sandbox. Raises ServiceError."""
    await call.service.sessions.delete(id)
