"""An episode at a service, with the face of a local one, in the protocol of OpenEnv."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.client.connection import Address, ServiceBusyError, ServiceUnreachableError, open_socket
from harness.core.errors import HarnessError, SandboxError, UsageError
from harness.core.tools import Observation
from harness.core.types import Status, Verdict

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_MOST_BYTES = 16 << 20
_RETRY_SECONDS = 1.0
_BY_CODE: dict[str, type[HarnessError]] = {
    "VALIDATION_ERROR": UsageError,
    "UNKNOWN_TYPE": UsageError,
    "CAPACITY_REACHED": ServiceBusyError,
}


@dataclass(frozen=True, slots=True)
class RemoteEpisodeSnapshot:
    """The state of an episode. A service keeps it until ten minutes have passed without a fork."""

    name: str


class RemoteEpisode:
    """One attempt at one task at a service. Make it with `RemoteHost.environment`.

    It has the methods of `Episode`. The evidence of a verdict stays at the service, because it may quote
    the reference.
    """

    def __init__(self, socket: ClientConnection, name: str) -> None:
        self._socket = socket
        self._name = name
        self.verdict: Verdict | None = None
        self.prompt = ""
        # The description and the JSON schema of each tool, by name.
        self.tools: Mapping[str, Mapping[str, Any]] = {}
        self.turns: int | None = None
        self.instructions = ""

    async def begin(self, asked: Mapping[str, Any], *, wait_seconds: float = 0.0) -> None:
        """Begin the attempt with the data of a reset, once the service has room.

        Raises UsageError for an unknown task or snapshot, and ServiceBusyError without room in time.
        """
        ends = time.monotonic() + wait_seconds
        while True:
            try:
                start = (await self._ask("reset", dict(asked)))[0]
                break
            except ServiceBusyError:
                if time.monotonic() + _RETRY_SECONDS > ends:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
        self.prompt, self.turns = str(start["text"]), start["turns"]
        self.instructions = str(start["instructions"])
        self.tools = {str(tool["name"]): tool for tool in start["tools"]}

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Observation:
        """Call a tool and return its observation, as `Episode.call` does."""
        self._require_open()
        if not self.tools:
            raise UsageError("the task has no tools", hint="answer it with submit")
        return await self._step({"tool": tool, "arguments": dict(arguments)})

    async def reply(self, text: str) -> Observation:
        """Carry out the action in the reply of a model, as `Episode.reply` does."""
        self._require_open()
        return await self._step({"reply": text})

    async def snapshot(self) -> RemoteEpisodeSnapshot:
        """Return the state of the attempt, which the service keeps, as `Episode.snapshot` does."""
        self._require_open()
        observation, _data = await self._ask("step", {"snapshot": {}})
        return RemoteEpisodeSnapshot(str(observation["snapshot"]["name"]))

    async def submit(self, text: str, *, field: str = "solution") -> Verdict:
        """Submit an answer and return the verdict, as `Episode.submit` does."""
        self._require_open()
        answer = {"tool": "submit", "arguments": {"answer": text}}
        await self._step(answer if self.tools else {field: text})
        assert self.verdict is not None, "a submission ends an episode"  # noqa: S101
        return self.verdict

    def _require_open(self) -> None:
        if self.verdict is not None:
            raise UsageError("the episode has ended", hint="open another one")

    async def _step(self, action: dict[str, Any]) -> Observation:
        observation, data = await self._ask("step", action)
        if data["done"]:
            self.verdict = Verdict(Status(observation["status"]), float(data["reward"]))
        return Observation(str(observation["text"]))

    async def _ask(self, kind: str, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the observation in the reply to a message, and the data around it. Raises HarnessError."""
        from websockets.exceptions import ConnectionClosed

        try:
            await self._socket.send(json.dumps({"type": kind, "data": values}))
            reply = json.loads(await self._socket.recv())
            data = reply["data"]
            if reply["type"] == "observation":
                return data["observation"], data
            code, message = str(data["code"]), str(data["message"])
        except (ConnectionClosed, ValueError, LookupError, TypeError) as error:
            raise ServiceUnreachableError(
                f"the episode at the service {self._name} was lost: {type(error).__name__}"
            ) from None
        raise _BY_CODE.get(code, SandboxError)(message)


@contextlib.asynccontextmanager
async def open_remote_episode(
    address: Address, asked: Mapping[str, Any], *, wait_seconds: float = 0.0
) -> AsyncIterator[RemoteEpisode]:
    """Yield an episode at a service, which begins with the data of a reset. The end of the block ends it.

    Raises as `open_socket` and `begin` do.
    """
    async with open_socket(address, "/ws", most_bytes=_MOST_BYTES) as socket:
        episode = RemoteEpisode(socket, str(address))
        await episode.begin(asked, wait_seconds=wait_seconds)
        yield episode
