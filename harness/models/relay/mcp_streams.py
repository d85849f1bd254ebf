"""Messages of the Model Context Protocol as lines of a byte stream, each bounded.

The package has streams of this kind as well. They read lines of any length, and a thread of theirs that
waits for input cannot be cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from harness.core.inputs.json_text import count_values
from harness.models.relay.mcp_server import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES, THREAD_BYTES

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

READ_BYTES = 64 * 1024
# The most bytes that a file on standard input may hold, because all of it waits in memory.
MAX_FILE_BYTES = 16 * 1024 * 1024
CANCELLED = "notifications/cancelled"


class BrokenStreamError(Exception):
    """The other side breaks a bound of the stream."""


class MessageWriter(Protocol):
    """Takes bytes to the other side, as `asyncio.StreamWriter` does."""

    def write(self, data: bytes) -> Any:
        """Take bytes."""

    async def drain(self) -> None:
        """Wait until not too many bytes are waiting. Raises OSError if the other side reads no more."""


@dataclass(slots=True)
class MessageStreams:
    """The two streams that the package takes, and the state of the connection."""

    read: ReadStream[SessionMessage | Exception]
    write: WriteStream[SessionMessage]
    # The requests of the other side that have no response yet, by their ids.
    unanswered: set[str | int]
    # Set while `unanswered` is empty.
    answered: asyncio.Event
    # The requests of this side that have no response yet. Some servers return the number of an id as a text.
    asked: set[str]


@contextlib.asynccontextmanager
async def open_message_streams(
    reader: asyncio.StreamReader,
    writer: MessageWriter,
    *,
    accept: Callable[[Any, int, bool], bool] = lambda message, size, answers: True,
    answers_all: bool = False,
    on_fault: Callable[[str], None] = lambda reason: None,
) -> AsyncIterator[MessageStreams]:
    """Yield the streams of messages over a connection. They end with the block; the connection does not.

    Args:
        reader: the messages of the other side. Its limit bounds each of them.
        writer: takes the messages to the other side.
        accept: gets a message, or the exception of a line that is not one, its size in bytes, and whether it
            answers a request of this side. Returns whether the message is passed on. It raises
            BrokenStreamError to close the connection.
        answers_all: whether the package sees the end of the stream only after its last response, because a
            client may send its requests and close the stream at once.
        on_fault: gets the reason if the connection is closed because the other side breaks a bound.
    """
    import anyio
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    send_read, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, receive_write = anyio.create_memory_object_stream[SessionMessage](0)
    streams = MessageStreams(read, write, set(), asyncio.Event(), set())
    streams.answered.set()

    async def read_messages() -> None:
        try:
            while line := await _read_line(reader):
                is_large = len(line) > THREAD_BYTES
                message = await asyncio.to_thread(_parse_message, line) if is_large else _parse_message(line)
                answers = False
                if isinstance(message, SessionMessage):
                    _note_request(streams, message)
                    answers = _answers_request(streams, message)
                inner = message.message if isinstance(message, SessionMessage) else message
                if accept(inner, len(line), answers):
                    await send_read.send(message)
                else:
                    # A line that has arrived is read without a pause, so a flood would stop all other work.
                    await asyncio.sleep(0)
            if answers_all:
                await streams.answered.wait()
        except BrokenStreamError as error:
            on_fault(str(error))
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the other side, or the package on this one, has closed the connection
        finally:
            send_read.close()

    async def write_messages() -> None:
        try:
            async for message in receive_write:
                if isinstance(message.message, types.JSONRPCRequest):
                    streams.asked.add(str(message.message.id))
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                await writer.drain()
                _note_response(streams, message)
        except OSError:
            # The other side reads no more. Its requests must not wait for ever.
            send_read.close()
        finally:
            receive_write.close()

    tasks = [asyncio.create_task(read_messages()), asyncio.create_task(write_messages())]
    try:
        yield streams
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for stream in (read, write, send_read, receive_write):
            stream.close()


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line, empty at the end of the stream. Raises BrokenStreamError for a long one."""
    try:
        return await reader.readline()
    except ValueError:  # the reader's name for a line beyond its limit
        raise BrokenStreamError(f"a message is longer than {MAX_MESSAGE_BYTES:,} bytes") from None


def _parse_message(line: bytes) -> SessionMessage | Exception:
    """Return the message in a line, or an exception for a line that is not a message.

    Raises BrokenStreamError for a message with too many values, because the check of each takes memory.
    """
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    if count_values(line) > MAX_MESSAGE_VALUES:
        raise BrokenStreamError(f"a message has more than {MAX_MESSAGE_VALUES:,} values")
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        # The exception of the check quotes the line, in a text that may be far longer.
        return ValueError("a line is not a message of the protocol")


def _answers_request(streams: MessageStreams, message: SessionMessage) -> bool:
    """Return whether a message is the first response to a request of this side."""
    import mcp_types as types

    inner = message.message
    if not isinstance(inner, types.JSONRPCResponse | types.JSONRPCError):
        return False
    number = str(inner.id)
    is_first = number in streams.asked
    streams.asked.discard(number)
    return is_first


def _note_request(streams: MessageStreams, message: SessionMessage) -> None:
    import mcp_types as types

    inner = message.message
    if isinstance(inner, types.JSONRPCRequest):
        streams.unanswered.add(inner.id)
        streams.answered.clear()
    elif isinstance(inner, types.JSONRPCNotification) and inner.method == CANCELLED:
        # Nobody answers a request that was cancelled.
        _note_answer(streams, (inner.params or {}).get("requestId"))


def _note_response(streams: MessageStreams, message: SessionMessage) -> None:
    import mcp_types as types

    if isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError):
        _note_answer(streams, message.message.id)


def _note_answer(streams: MessageStreams, number: Any) -> None:
    if isinstance(number, str | int):
        streams.unanswered.discard(number)
    if not streams.unanswered:
        streams.answered.set()


@contextlib.asynccontextmanager
async def open_descriptors(
    input_: int, output: int
) -> AsyncIterator[tuple[asyncio.StreamReader, MessageWriter]]:
    """Yield a reader and a writer of two descriptors, which stay open after the block.

    Nothing in the block waits in a thread for a pipe or a socket, so that every wait can be cancelled.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
    async with contextlib.AsyncExitStack() as stack:
        if _is_pipe(input_):
            source = os.fdopen(os.dup(input_), "rb", buffering=0)
            reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
            stack.callback(reading.close)
        else:
            feeding = asyncio.create_task(_feed_file(input_, reader))
            stack.callback(feeding.cancel)
        target = os.fdopen(os.dup(output), "wb", buffering=0)
        if _is_pipe(output):
            writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
            stack.callback(writing.close)
            yield reader, asyncio.StreamWriter(writing, protocol, None, loop)
        else:
            stack.callback(target.close)
            yield reader, _FileWriter(target)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _feed_file(descriptor: int, reader: asyncio.StreamReader) -> None:
    """Feed a file, which no event loop can wait for. A read of it does not block."""
    left = MAX_FILE_BYTES
    while left and (data := await asyncio.to_thread(os.read, descriptor, min(left, READ_BYTES))):
        reader.feed_data(data)
        left -= len(data)
    reader.feed_eof()


class _FileWriter:
    """Writes to a file or a device, which takes everything at once."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(data)

    async def drain(self) -> None:
        """Do nothing, because nothing waits to be written."""
