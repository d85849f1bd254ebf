"""An environment in a sandbox, where an agent runs programs."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from harness.core.tools import Tool
from harness.environments.base import Environment, EnvironmentContext, Handler
from harness.sandbox.failures import SandboxClosed
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.streaming import Terminal

OpenTerminal = Callable[..., AbstractAsyncContextManager[Terminal]]


class SandboxEnvironment(Environment):
    """A live environment in a sandbox.

    `end` ends every process of the agent, or raises SandboxError. `terminal` takes rows, columns and a
    timeout in seconds and opens a terminal for a person. It is None if the environment has no terminals.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        handlers: Mapping[Tool, Handler],
        context: EnvironmentContext,
        *,
        end: Callable[[], Awaitable[None]],
        terminal: OpenTerminal | None = None,
    ) -> None:
        super().__init__(handlers, context)
        self.sandbox = sandbox
        self.terminal = None if terminal is None else functools.partial(self._open_terminal, terminal)
        self._end = end
        self._ends = time.monotonic() + context.seconds

    @property
    def seconds_left(self) -> float:
        """How long the sandbox still lives."""
        return self._ends - time.monotonic()

    @property
    def agent_acted(self) -> bool:
        return self.sandbox.agent_acted

    def note_acting(self) -> None:
        self.sandbox.agent_acted = True

    async def end_processes(self) -> None:
        await self._end()

    def _open_terminal(
        self, open_terminal: OpenTerminal, **arguments: Any
    ) -> AbstractAsyncContextManager[Terminal]:
        if self._is_over:
            raise SandboxClosed()
        self.note_acting()
        # No transcript has the keys that a person presses, so a replay must know of them.
        self.context.transcript.write({"kind": "terminal"})
        return open_terminal(**arguments)
