"""The output of a remote command as it comes, in server-sent events.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

from harness.client.connection import Connection, Refusal, ServiceUnreachableError, build_error
from harness.core.errors import UsageError
from harness.sandbox.results import ExecResult, Stream
from harness.sandbox.streaming import OutputChunk


class RemoteOutputStream:
    """The output of a remote command under way. Iterate over it, and then read `result`.

    The command waits if the caller takes no more, and its limit on wall time goes on.
    """

    def __init__(self, lines: AsyncIterator[str], connection: Connection) -> None:
        self._lines = lines
        self._connection = connection
        self._result: ExecResult | None = None
        self._is_left = False

    @property
    def result(self) -> ExecResult:
        """The result of the command, once the stream has ended.

        Raises UsageError before that, and for a command that the early end of the block has ended.
        """
        if self._result is None:
            raise UsageError(
                "the command has not ended, so it has no result", hint="iterate over the stream to its end"
            )
        return self._result

    async def read(self) -> OutputChunk | None:
        """Return the next chunk, or None after the last one. Raises SandboxError if the sandbox failed."""
        if self._result is not None or self._is_left:
            return None
        name = ""
        with self._connection.catch_lost():
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    chunk = self._take(name, json.loads(value))
                    if chunk is not None:
                        return chunk
        if self._result is None:
            raise ServiceUnreachableError(
                f"the service at {self._connection.address} ended the output before the command ended"
            )
        return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> OutputChunk:
        chunk = await self.read()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    def leave(self) -> None:
        """Return no output from now on."""
        self._is_left = True

    def _take(self, name: str, data: dict[str, Any]) -> OutputChunk | None:
        match name:
            case "stdout" | "stderr":
                return OutputChunk(name, base64.b64decode(data["data"]))
            case "result":
                self._result = read_result(data)
            case "error":
                error = data["error"]
                refusal = Refusal(410, str(error["code"]), str(error["message"]))
                raise build_error(refusal, str(self._connection.address))
        return None


@contextlib.asynccontextmanager
async def open_remote_output(
    connection: Connection, path: str, request: Mapping[str, Any], *, seconds: float
) -> AsyncIterator[RemoteOutputStream]:
    """Yield the output of a command that begins now. The end of the block ends the command.

    Raises HarnessError, unless the block raises an error itself.
    """
    replying = connection.stream(
        "POST", path, seconds=seconds, json=request, headers={"accept": "text/event-stream"}
    )
    async with replying as response:
        stream = RemoteOutputStream(response.aiter_lines(), connection)
        try:
            yield stream
        finally:
            stream.leave()


def read_result(values: Mapping[str, Any]) -> ExecResult:
    """Return the result of a command from the service's JSON, whose streams are in base64."""
    return ExecResult(
        exit_code=values["exit_code"],
        limit=values["limit"],
        stdout=_read_stream(values["stdout"]),
        stderr=_read_stream(values["stderr"]),
        cpu_seconds=values["cpu_seconds"],
        duration_seconds=values["duration_seconds"],
        clean=values["clean"],
    )


def _read_stream(values: Mapping[str, Any]) -> Stream:
    return Stream(base64.b64decode(values["head"]), base64.b64decode(values["tail"]), values["total"])
