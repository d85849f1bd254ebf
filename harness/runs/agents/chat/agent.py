"""The chat agent, which asks the model of the run: once for an answer, in a loop where it acts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from harness.core.tools import AgentEnvironment
from harness.core.types import Submission
from harness.models.messages import Choice, Finish, Message, Role, ToolSchema
from harness.models.server_errors import ContextTooLongError, InvalidRequestError
from harness.runs.agents.agent import (
    AgentError,
    AgentModel,
    AgentSettings,
    AttemptContext,
    submit_answer,
    write_prompt,
)
from harness.runs.agents.chat.actions import (
    ActionFormat,
    FormatError,
    NativeCalls,
    TextCalls,
    explain_missing_answer,
    show_observation,
)

# An observation of fewer characters is not worth a removal.
SHORT_OBSERVATION = 200
REMOVED = "[This output of {length:,} characters was removed, because the conversation became too long.]"
T = TypeVar("T")
# The time to read a reply grows with its length: 2 million characters take up to some seconds.
LONG_REPLY = 50_000
# An attempt ends after this many replies in a row without a usable action.
MOST_FORMAT_ERRORS = 3


class Conversation:
    """The messages so far. `messages` is what the next request holds."""

    def __init__(self, prompt: str, *, system_prompt: str | None = None) -> None:
        system = () if system_prompt is None else (Message(Role.SYSTEM, system_prompt),)
        self._messages: list[Message] = [*system, Message(Role.USER, prompt)]
        # The places of observations that still have their whole text, the oldest first.
        self._observations: list[int] = []

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    def add_reply(self, message: Message) -> None:
        """Add a reply of the model. An empty one is left out, because some servers refuse it."""
        if message.text.strip() or message.tool_calls:
            self._messages.append(message)

    def add_observation(self, message: Message) -> None:
        """Add the result of a tool call, or advice after a reply without a usable call."""
        if len(message.text) > SHORT_OBSERVATION:
            self._observations.append(len(self._messages))
        self._messages.append(message)

    def shorten(self) -> int:
        """Remove the older half of the long observations, and return the number of characters removed.

        The model reads in their place that they were removed. The result is 0 if none is left.
        """
        count = (len(self._observations) + 1) // 2
        removed = 0
        for place in self._observations[:count]:
            message = self._messages[place]
            text = REMOVED.format(length=len(message.text))
            removed += len(message.text) - len(text)
            self._messages[place] = replace(message, text=text)
        del self._observations[:count]
        return removed


class Chat:
    """Answers with one reply of the model, or calls tools until it submits."""

    reads = frozenset({"model", "n_samples", "agent_prompt", "system_prompt", "extract", "mcp_servers"})
    needs_model = True

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings

    async def attempt(self, context: AttemptContext) -> Submission:
        """Return the submission of one attempt.

        Raises AgentError after MOST_FORMAT_ERRORS replies in a row without a usable action, and for a
        conversation that does not fit into the model's context.
        """
        if context.model is None:
            raise AgentError("the chat agent needs a model")
        if context.environment is None:
            return await self._answer(context, context.model)
        is_native = await context.model.find_tool_mode() == "native"
        actions: ActionFormat = NativeCalls() if is_native else TextCalls()
        return await self._call_tools(context, context.model, context.environment, actions)

    async def _answer(self, context: AttemptContext, model: AgentModel) -> Submission:
        task = context.task
        prompt = f"{task.instruction}\n\n{task.prompt}" if task.instruction else task.prompt
        conversation = Conversation(prompt, system_prompt=self._settings.system_prompt)
        faults: list[FormatError] = []
        while True:
            choice = await _ask(context, model, conversation)
            fault = explain_missing_answer(choice)
            if fault is None:
                text = choice.message.text
                submission = await _read(text, partial(self._settings.submit, task, "reply", text))
                return _remark_on_cut(submission) if choice.finish is Finish.LENGTH else submission
            faults.append(fault)
            _require_progress(faults)
            conversation.add_reply(choice.message)
            _advise(context, conversation, fault, Message(Role.USER, fault.advice))

    async def _call_tools(
        self,
        context: AttemptContext,
        model: AgentModel,
        environment: AgentEnvironment,
        actions: ActionFormat,
    ) -> Submission:
        """Call tools until an answer is submitted."""
        instructions, tools = actions.describe_tools(environment)
        prompt = write_prompt(context.task)
        if instructions:
            prompt = f"{prompt.rstrip()}\n\n{instructions}"
        conversation = Conversation(prompt, system_prompt=self._settings.system_prompt)
        faults: list[FormatError] = []
        while environment.submitted is None:
            choice = await _ask(context, model, conversation, tools)
            conversation.add_reply(choice.message)
            found = await _carry_out(context, environment, actions, choice, conversation)
            faults = [*faults, *found[:1]] if found else []
            _require_progress(faults)
        answer = environment.submitted
        return await _read(answer, partial(submit_answer, self._settings, context.task, answer))


async def _carry_out(
    context: AttemptContext,
    environment: AgentEnvironment,
    actions: ActionFormat,
    choice: Choice,
    conversation: Conversation,
) -> list[FormatError]:
    """Carry out the actions of a reply in order. Return its faults, or [] if one action succeeded."""
    faults: list[FormatError] = []
    succeeded = False
    for item in await _read(choice.message.text, partial(actions.read, choice, environment)):
        if environment.submitted is not None:
            break
        if isinstance(item, FormatError):
            faults.append(item)
            _advise(context, conversation, item, actions.observe(item, item.advice, environment))
            continue
        observation = await environment.call(item.tool, item.arguments)
        if observation.refused:
            faults.append(FormatError("refused call", observation.text))
        else:
            succeeded = True
        conversation.add_observation(actions.observe(item, show_observation(observation), environment))
    return [] if succeeded else faults


def _remark_on_cut(submission: Submission) -> Submission:
    """Return the submission with the remark that its reply is not whole, which explains most failures."""
    remarks = ("the reply was cut off at the token limit", submission.remark)
    return replace(submission, remark="; ".join(filter(None, remarks)))


async def _read(text: str, read: Callable[[], T]) -> T:
    """Return the result of `read`, made on a thread if the text is so long that other attempts would wait."""
    return read() if len(text) <= LONG_REPLY else await asyncio.to_thread(read)


async def _ask(
    context: AttemptContext,
    model: AgentModel,
    conversation: Conversation,
    tools: tuple[ToolSchema, ...] = (),
) -> Choice:
    """Return the first choice of the model's reply, and shorten a conversation that is too long."""
    while True:
        try:
            reply = await model.ask(conversation.messages, tools=tools)
        except InvalidRequestError as error:
            raise AgentError(f"the server refuses the request: {error}") from error
        except ContextTooLongError as error:
            removed = conversation.shorten()
            if removed <= 0:
                raise AgentError(
                    f"the conversation does not fit into the model's context: {error}"
                ) from error
            text = f"removed {removed:,} characters of old outputs, because the context was full"
            context.transcript.write({"kind": "context", "text": text})
        else:
            return reply.choices[0]


def _advise(
    context: AttemptContext, conversation: Conversation, fault: FormatError, message: Message
) -> None:
    context.transcript.write({"kind": "format_error", "name": fault.name, "advice": fault.advice})
    conversation.add_observation(message)


def _require_progress(faults: list[FormatError]) -> None:
    """Raise AgentError if MOST_FORMAT_ERRORS replies in a row were of no use."""
    if len(faults) >= MOST_FORMAT_ERRORS:
        names = ", ".join(dict.fromkeys(fault.name for fault in faults))
        raise AgentError(f"{len(faults)} replies in a row without a usable action: {names}")
