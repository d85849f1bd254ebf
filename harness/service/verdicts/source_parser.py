"""Builds hidden tests whose source is not small, in another process.

Python's parser does not release the interpreter's lock, so that a thread would not help: the worst source of
64 KiB would keep the service from all other clients for a third of a second. A source that crashes the parser
ends that process alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

from pydantic import TypeAdapter

from harness.benchmarks.hidden_tests import AssertSuite, FunctionSuite, HiddenTarget, StdinSuite
from harness.core.errors import SandboxError, UsageError
from harness.core.shield import complete
from harness.core.types import ProgramTests
from harness.sandbox.guest.frames import FrameDecoder, encode_frame

HiddenSuite = StdinSuite | FunctionSuite | AssertSuite
# Source of this size, in so many texts, is parsed within 5 ms, and most tests have less.
SMALL_BYTES = 1024
_SMALL_TEXTS = 16
# The time to parse one source. The worst takes a third of a second, and the start of the process half of one.
PARSE_SECONDS = 10.0
_READ_BYTES = 1 << 16
_COMMAND = (sys.executable, "-I", "-m", "harness.service.verdicts.source_process")
_TARGET = TypeAdapter(ProgramTests)


class SourceParser:
    """Builds one suite of hidden tests at a time. `open_source_parser` makes it.

    Its process starts with the first source that needs it.
    """

    def __init__(self, *, seconds: float = PARSE_SECONDS) -> None:
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        # The exchange of the source that is parsed now, or of the last one.
        self._exchange: asyncio.Task[dict[str, Any]] | None = None

    async def build(self, suite: HiddenSuite) -> HiddenTarget:
        """Return the target of a suite.

        Raises UsageError for a suite that cannot judge, or whose source cannot be parsed within the limits of
        time and memory, and SandboxError if the process cannot start.
        """
        sources = list_sources(suite)
        size = sum(len(source.encode("utf-8", "surrogatepass")) for source in sources)
        if size <= SMALL_BYTES and len(sources) <= _SMALL_TEXTS:
            return await asyncio.to_thread(suite.build)
        if isinstance(suite, AssertSuite):
            reply = await self._ask({"asserts": suite.model_dump()})
            return _TARGET.validate_python(reply["target"])
        await self._ask({"preamble": suite.preamble})
        bare = suite.model_copy(update={"preamble": ""})
        target: Any = await asyncio.to_thread(bare.build)
        return cast(HiddenTarget, replace(target, preamble=suite.preamble))

    async def close(self) -> None:
        """End the process, and with it the exchange under way."""
        await self._end_process()
        if self._exchange is not None:
            await asyncio.wait([self._exchange])

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the reply of the process.

        A cancellation lets the exchange end and drops its reply, because another process would take longer to
        start than this one to parse the worst source.
        """
        await self._turn.acquire()
        exchange = asyncio.create_task(self._exchange_in_time(request))
        exchange.add_done_callback(self._end_turn)
        self._exchange = exchange
        await asyncio.wait([exchange])
        reply = exchange.result()
        if "refused" in reply:
            raise UsageError(reply["refused"], hint=reply["hint"])
        return reply

    def _end_turn(self, exchange: asyncio.Task[dict[str, Any]]) -> None:
        self._turn.release()
        if not exchange.cancelled():
            # A caller that was cancelled does not read the error, which asyncio would log.
            exchange.exception()

    async def _exchange_in_time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the reply of the process. Any other end of the exchange ends the process."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._exchange_frames(request)
        except BaseException as error:
            await complete(self._end_process())
            if isinstance(error, TimeoutError):
                message = f"the source of the tests was not parsed within {self._seconds:g} s"
            elif isinstance(error, (asyncio.IncompleteReadError, ConnectionError)):
                message = "the source of the tests crashes Python's parser"
            else:
                raise
            raise UsageError(message, hint="test with less or simpler source") from None

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _exchange_frames(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._process is None:
            try:
                # Without the environment, which has the token. A signal to the service's group, such as
                # Ctrl-C, must not end it before the service.
                self._process = await asyncio.create_subprocess_exec(
                    *_COMMAND, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, start_new_session=True
                )
            except OSError as error:
                message = f"the process that parses source cannot start: {error.strerror}"
                raise SandboxError(message, outside=True) from error
        process = self._process
        assert process.stdin is not None  # noqa: S101  because of PIPE
        assert process.stdout is not None  # noqa: S101  because of PIPE
        process.stdin.write(encode_frame(request))
        await process.stdin.drain()
        decoder = FrameDecoder()
        while data := await process.stdout.read(_READ_BYTES):
            for reply, _ in decoder.feed(data):
                return reply
        raise asyncio.IncompleteReadError(b"", None)


def list_sources(suite: HiddenSuite) -> list[str]:
    """Return the Python source in hidden tests."""
    match suite:
        case AssertSuite():
            return [suite.setup, suite.solution or "", *suite.tests]
        case _:
            return [suite.preamble]


@contextlib.asynccontextmanager
async def open_source_parser() -> AsyncIterator[SourceParser]:
    """Yield a parser, and end its process at the end of the block."""
    parser = SourceParser()
    try:
        yield parser
    finally:
        await complete(parser.close())
