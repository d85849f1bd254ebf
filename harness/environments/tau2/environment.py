"""The environment of a service desk: the tools of its domain, and `respond`, which talks to the user."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pydantic import Field

from harness.core.tools import Arguments, Observation, Tool
from harness.core.types import Task
from harness.environments.base import EnvironmentContext, Handler
from harness.environments.host_environment import HostEnvironment, open_without_world
from harness.environments.tau2.conversation import Conversation, ServiceTask, load_domain
from harness.environments.tau2.world import Call, Function, make_tool

# A call and its result, or a message and its answer, are two of the 200 steps.
TURNS = 100


class Reply(Arguments):
    """The arguments of `respond`."""

    message: str = Field(min_length=1, description="The message to the user")


RESPOND = Tool(
    "respond",
    "Send a message to the user and get the user's answer. The first call only opens the conversation: the "
    "user has your first message already, and you get the answer to it.",
    Reply,
)


class ServiceDesk(HostEnvironment[Conversation]):
    """The environment of one conversation, which ends by the user, by `submit`, or at a limit."""

    def __init__(self, conversation: Conversation, context: EnvironmentContext) -> None:
        async def respond(arguments: Reply) -> str:
            return await conversation.respond(arguments.message, context.judge)

        domain = load_domain(conversation.task.domain)
        handlers: dict[Tool, Handler] = {RESPOND: respond}
        handlers |= {make_tool(each): _make_handler(each, conversation) for each in domain.tools}
        super().__init__(conversation, handlers, context)

    async def _run_tool(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        observation = await super()._run_tool(name, arguments)
        if observation.refused and self.submitted is None:
            self.state.note_error()
            self.state.count_steps(2)
        if self.state.ended is not None and self.submitted is None:
            self.submitted = ""
        return observation


def _make_handler(function: Function, conversation: Conversation) -> Handler:
    async def handle(arguments: Arguments) -> str:
        given = arguments.model_dump(exclude_unset=True)
        return conversation.call(Call("assistant", function.__name__, given))

    return handle


@contextlib.asynccontextmanager
async def open_environment(
    task: Task, context: EnvironmentContext
) -> AsyncIterator[ServiceDesk | HostEnvironment[None]]:
    """Open a conversation about the request in the target. `context.judge` plays the user."""
    if not isinstance(context.target, ServiceTask):
        yield open_without_world(context)
        return
    yield ServiceDesk(Conversation.begin(context.target), context)


async def solve(environment: ServiceDesk, target: ServiceTask) -> None:
    """Make all calls of the reference, and say all texts that it asks for."""
    conversation = environment.state
    for action in target.actions:
        if action.requestor == "user":
            conversation.call(action)
        elif environment.submitted is None:
            await environment.call(action.name, action.arguments)
    for text in target.communicate:
        conversation.say("assistant", text)
