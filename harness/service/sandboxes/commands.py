"""A command in a sandbox of a client: its whole result, or its output as server-sent events.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from collections.abc import AsyncGenerator

from pydantic import BaseModel

from harness.errors import UsageError
from harness.sandbox.streaming import OutputChunk, OutputStream
from harness.service.encoding import encode_reply
from harness.service.errors import InvalidRequestError, ServiceError, encode_error
from harness.service.operations import Call, StreamedReply
from harness.service.sandboxes.models import (
    Encoding,
    ExecChunk,
    ExecReply,
    ExecRequest,
    encode_output,
)

EVENT_STREAM = "text/event-stream"
# Proxies close a connection on which nothing comes for a minute.
_SILENT_SECONDS = 15.0
_COMMENT = b": the command runs\n\n"


async def run_command(request: ExecRequest, call: Call) -> ExecReply | StreamedReply:
    """Run a command in a sandbox, and return its result or the stream of its output.

    The command ends when its client goes away. Raises ServiceError, and UsageError for a command that cannot
    be used.
    """
    stdin = request.read_stdin()
    session = call.service.sessions.find(call.path["id"])
    running = session.sandbox.stream(
        request.argv,
        timeout=request.timeout_seconds,
        stdin=stdin,
        env=request.environment,
        cwd=request.folder,
        keep_bytes=request.keep_bytes,
    )
    if EVENT_STREAM in call.headers.get("accept", ""):
        return StreamedReply(_send_events(running, request.encoding, call), EVENT_STREAM)
    async with call.service.sessions.use(session.id), running as output:
        async for _chunk in output:
            pass
    return ExecReply.of(output.result, request.encoding)


async def _send_events(
    running: contextlib.AbstractAsyncContextManager[OutputStream], encoding: Encoding, call: Call
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a command. The last one is `result` or `error`."""
    decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
    try:
        async with call.service.sessions.use(call.path["id"]), running as output:
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
