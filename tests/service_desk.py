"""A service desk that tests open without a run, and a user who follows a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from contexts import no_context

from harness.core.types import Task
from harness.environments.tau2.conversation import ServiceTask
from harness.environments.tau2.environment import TURNS, ServiceDesk, open_environment
from harness.models.judge import ask_until_valid
from harness.models.messages import Message, ReplySchema, Role

TASK = Task("mock/x", "tau2", "tau2", "")


class ScriptedUser:
    """Says one text after the other, and keeps all requests."""

    def __init__(self, *texts: str) -> None:
        self._texts = iter(texts)
        self.asked: list[Sequence[Message]] = []

    async def ask(
        self, messages: Sequence[Message], schema: ReplySchema | None, read: Callable[[str], Any]
    ) -> Any:
        async def reply(asked: Sequence[Message]) -> Message:
            self.asked.append(tuple(asked))
            return Message(Role.ASSISTANT, next(self._texts))

        return await ask_until_valid(reply, messages, read, schema, name="scripted")


@asynccontextmanager
async def opened(target: ServiceTask, user: ScriptedUser | None = None) -> AsyncIterator[ServiceDesk]:
    context = replace(no_context(turns=TURNS, target=target), judge=user)
    async with open_environment(TASK, context) as environment:
        assert isinstance(environment, ServiceDesk)
        yield environment


async def talk(environment: ServiceDesk, *texts: str) -> list[str]:
    return [(await environment.call("respond", {"message": text})).text for text in texts]
