"""Files of a sandbox that a client holds: their content as the body of a request or a reply."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

from starlette.convertors import PathConvertor, register_url_convertor

from harness.errors import UsageError
from harness.service.errors import BusyError, InvalidRequestError
from harness.service.operations import Call, StreamedReply

_DEFAULT_MODE = "644"
_MOST_MODE = 0o777
_PIECE_BYTES = 256 * 1024
_WAIT_SECONDS = 30.0


class _FilePathConvertor(PathConvertor):
    """The rest of a URL's path, whatever is in it.

    Starlette's own type stops at a newline, which the name of a file may have. It would even take `a` for the
    file `a` with a newline at its end.
    """

    regex = r"[\s\S]*"


register_url_convertor("file", _FilePathConvertor())


async def write_file(content: bytes, call: Call) -> None:
    """Write the body of a request to a file. Raises ServiceError."""
    mode = _read_mode(call.query.get("mode", _DEFAULT_MODE))
    _require_path(call)
    async with call.service.sessions.use(call.path["id"]) as session:
        try:
            await session.sandbox.write_file(call.path["path"], content, mode=mode)
        except UsageError as error:
            raise InvalidRequestError(error.message, code="unwritable_file", status=422) from error


async def read_file(_request: None, call: Call) -> StreamedReply:
    """Return the content of a file. Raises ServiceError."""
    sessions, limits = call.service.sessions, call.service.settings.limits
    _require_path(call)
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(sessions.use(call.path["id"]))
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
            content = await session.sandbox.read_file(call.path["path"], limit=limits.body_bytes)
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


def _require_path(call: Call) -> None:
    if not call.path["path"]:
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
