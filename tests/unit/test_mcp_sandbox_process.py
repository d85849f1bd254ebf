"""The connections of a server in a sandbox: those with the token become its streams."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from case_checks import each_case

from harness.models.relay.mcp_servers.sandbox_process import _Doors

TOKEN = "0" * 64
HANG_SECONDS = 5.0
STDIN, STDOUT = f"0{TOKEN}\n".encode(), f"1{TOKEN}\n".encode()


async def knock(doors: _Doors, first: bytes) -> socket.socket:
    """Return the program's end of a connection that begins with these bytes."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    ours.send(first)
    doors.accept(theirs)
    return ours


async def read_end(end: socket.socket) -> bytes:
    with end:
        async with asyncio.timeout(HANG_SECONDS):
            return await asyncio.get_running_loop().sock_recv(end, 1)


@each_case(
    "first",
    [f"0{'1' * 64}\n".encode(), f"2{TOKEN}\n".encode(), f"0{TOKEN} ".encode(), b"{" * 100],
    ids=["other token", "other stream", "no line", "message"],
)
async def test_a_connection_without_the_token_is_closed_before_the_program_comes(first: bytes) -> None:
    doors = _Doors(TOKEN)
    # A close with unread bytes is a reset.
    with contextlib.suppress(ConnectionResetError):
        assert await read_end(await knock(doors, first)) == b""
    stdin, stdout = await knock(doors, STDIN), await knock(doors, STDOUT + b"hello\n")
    writer, reader = await doors.opened
    assert await reader.readline() == b"hello\n"
    writer.write(b"t")
    assert await asyncio.get_running_loop().sock_recv(stdin, 1) == b"t"
    await doors.close()
    assert await read_end(stdin) == await read_end(stdout) == b""


async def test_a_stream_is_connected_once() -> None:
    doors = _Doors(TOKEN)
    with await knock(doors, STDIN):
        assert await read_end(await knock(doors, STDIN)) == b""
        assert not doors.opened.done()
        await doors.close()


async def test_the_end_closes_connections_that_have_not_shown_the_token() -> None:
    doors = _Doors(TOKEN)
    waiting = await knock(doors, b"0")
    await asyncio.sleep(0)
    await doors.close()
    assert await read_end(waiting) == b""
