"""A client whose service is away, wrong, busy or gone: clear errors, without the token."""

from __future__ import annotations

import asyncio
import logging
import socket
import traceback
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from service_fixtures import TOKEN, Served, serve

from harness import SandboxError, UsageError
from harness.client import Remote, ServiceBusyError, ServiceUnreachableError, connect
from harness.client import connection as client_connection
from harness.core.errors import HarnessError
from harness.sandbox.limits import Limits

SMALL = Limits(memory_mb=64)
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serve(sessions=2, client_sessions=1) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote(served: Served) -> Remote:
    return connect(f"{served.url}/{TOKEN}")


async def fail_to_open(remote: Remote) -> HarnessError:
    """Return the error of a sandbox that does not open."""
    with pytest.raises(HarnessError) as raised:
        async with remote.open(limits=SMALL):
            pytest.fail("the sandbox was opened")
    return raised.value


async def test_a_service_that_is_away_is_named() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    error = await fail_to_open(connect(f"http://127.0.0.1:{port}/{TOKEN}"))
    assert isinstance(error, ServiceUnreachableError)
    assert error.message.startswith(f"no service answers at http://127.0.0.1:{port}: ")
    assert error.hint is not None
    assert "harness serve" in error.hint


async def test_a_wrong_token_is_refused(served: Served) -> None:
    error = await fail_to_open(connect(served.url, token="another-token-of-somebody"))
    assert isinstance(error, UsageError)
    assert "does not accept the token" in error.message


async def test_a_service_of_another_version_is_refused(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "__version__", "99.1.0")
    error = await fail_to_open(remote)
    assert isinstance(error, UsageError)
    assert "this client has 99.1.0" in error.message


async def test_another_server_is_recognized() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await fail_to_open(connect(f"http://127.0.0.1:{port}/{TOKEN}"))
    assert isinstance(error, UsageError)
    assert "is not harness serve" in error.message


async def test_a_service_without_room_is_busy_until_the_wait_is_over(served: Served, remote: Remote) -> None:
    impatient = connect(f"{served.url}/{TOKEN}", wait_seconds=0)
    async with remote.open(limits=SMALL):
        error = await fail_to_open(impatient)
    assert isinstance(error, ServiceBusyError)
    assert "delete one" in error.message


async def test_a_call_waits_for_room(remote: Remote) -> None:
    async def use() -> None:
        async with remote.open(limits=SMALL) as sandbox:
            assert (await sandbox.exec(["true"])).exit_code == 0

    await asyncio.gather(use(), use())


async def test_an_image_and_a_limit_that_a_service_lacks_are_named(remote: Remote) -> None:
    with pytest.raises(UsageError, match="unknown image 'no-image'"):
        async with remote.open("no-image"):
            pass
    with pytest.raises(UsageError, match="inodes"):
        async with remote.open(limits=Limits(inodes=64)):
            pass


async def test_a_sandbox_that_ended_at_its_deadline_is_lost(remote: Remote) -> None:
    async with remote.open(limits=SMALL, deadline_seconds=1) as sandbox:
        with pytest.raises(SandboxError, match=r"deadline of 1 s|was deleted|failed"):
            await sandbox.exec(["sleep", "20"])
        with pytest.raises(SandboxError, match="deadline of 1 s"):
            await sandbox.exec(["true"])


async def test_a_service_that_ends_during_a_command_is_lost() -> None:
    async with serve(drain_seconds=0.1) as served:
        opening = connect(f"{served.url}/{TOKEN}").open(limits=SMALL)
        sandbox = await opening.__aenter__()
        running = asyncio.create_task(sandbox.exec(["sh", "-c", "echo > begun; exec sleep 60"], timeout=60))
        await sandbox.exec(["sh", "-c", "until test -e begun; do sleep 0.02; done"])
    with pytest.raises((ServiceUnreachableError, SandboxError)):
        await running
    with pytest.raises(ServiceUnreachableError):
        await sandbox.exec(["true"])
    await opening.__aexit__(None, None, None)


async def test_a_service_that_ends_loses_its_terminals() -> None:
    async with serve(drain_seconds=0.1) as served:
        opening = connect(f"{served.url}/{TOKEN}").open(limits=SMALL, terminals=True)
        sandbox = await opening.__aenter__()
        running = sandbox.terminal(("/bin/sleep", "60"), rows=24, columns=80, timeout=60)
        terminal = await running.__aenter__()
    with pytest.raises((ServiceUnreachableError, SandboxError)):
        await terminal.end()
    assert await terminal.read() == b""
    terminal.type(b"keys that nobody takes")
    await terminal.drain()
    await running.__aexit__(None, None, None)
    with pytest.raises(ServiceUnreachableError):
        async with sandbox.terminal(rows=24, columns=80, timeout=10):
            pass
    await opening.__aexit__(None, None, None)


@pytest.mark.parametrize("url", ["{url}/{token}", "{url}/wrong-{token}", "http://127.0.0.1:1/{token}"])
async def test_no_error_log_or_repr_has_the_token(
    served: Served, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    remote = connect(url.format(url=served.url, token=TOKEN), wait_seconds=0)
    shown = [repr(remote), str(remote)]
    try:
        opening = remote.open(limits=SMALL, terminals=True)
        async with opening as sandbox, remote.open_grader() as grader:
            shown += [repr(sandbox), repr(grader), repr(vars(sandbox))]
            async with sandbox.terminal(("/bin/true",), rows=24, columns=80, timeout=10) as terminal:
                shown += [repr(terminal), repr(vars(terminal)), repr(await terminal.end())]
            with pytest.raises(UsageError) as refused:
                async with sandbox.terminal(("true",), rows=24, columns=80, timeout=10):
                    pass
            shown += traceback.TracebackException.from_exception(refused.value, capture_locals=True).format()
            await sandbox.exec(["true"], timeout=-1)
    except HarnessError as error:
        lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
        shown += [str(error), repr(error), repr(error.__cause__), *lines]
    # The values of the test itself have the token.
    ours = [text for text in shown if __file__ not in text]
    # The service of this process logs through uvicorn. `harness serve` masks its token there.
    logged = [record.getMessage() for record in caplog.records if not record.name.startswith("uvicorn")]
    assert logged
    assert [text for text in (*ours, *logged) if TOKEN in text] == []
