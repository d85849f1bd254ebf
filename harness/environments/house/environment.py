"""The environment of AgentBench's `house`: a household that an agent explores by commands in English."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pydantic import Field

from harness.core.errors import SandboxError
from harness.core.scoring.answers import drop_thoughts
from harness.core.tools import SUBMIT, Arguments, LastObservation, TextCall, TextFault, Tool
from harness.core.types import Task
from harness.environments.base import EnvironmentContext
from harness.environments.host_environment import HostEnvironment, open_without_world
from harness.environments.house.game import find_nearest
from harness.environments.house.goal import GoalError
from harness.environments.house.play import HouseGame, Play, load_game
from harness.environments.published import Published, bound_text, make_tool
from harness.environments.text_protocol import NO_ACTION, TextForm
from harness.environments.written_actions import WrittenAction, WrittenReply

TURNS = 20
# The longest possible command has about 70 characters. A comparison by BLEU takes time by the length.
MOST_CHARACTERS = 400
# AgentBench ends a game at the third of equal replies, from the fourth turn on.
MOST_EQUAL, FIRST_CHECKED = 3, 4

WON = "won"
FORFEITED = "forfeited"
REPEATED = f"You sent the same action {MOST_EQUAL} times in a row, which ends the task."


class Action(Arguments):
    """The arguments of `take_action`."""

    action: str = Field(
        description="one of the available actions, exactly as it is listed", max_length=MOST_CHARACTERS
    )


TAKE_ACTION = Tool(
    "take_action",
    "Take one action in the household and see the result, followed by the actions that are available then.",
    Action,
)


PUBLISHED_ACTION = make_tool(
    TAKE_ACTION.name,
    "Take an action.",
    action=(bound_text(0, MOST_CHARACTERS), "The action you would like to take"),
)


class Household:
    """The state of an attempt: the game, and the actions that the agent sent."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.forfeited = False
        self._turns = 0
        self._last = ""
        self._equal = 0

    def count(self, action: str) -> None:
        """Count an action as the agent sent it, and note whether it forfeits the game."""
        self._turns += 1
        self._equal = self._equal + 1 if action == self._last else 1
        self._last = action
        self.forfeited = self._equal >= MOST_EQUAL and self._turns >= FIRST_CHECKED


def show_commands(play: Play) -> str:
    """Return the possible commands as an agent sees them, one a line and in alphabetical order."""
    return "\n".join(["AVAILABLE ACTIONS:", *play.commands])


def show_start(play: Play) -> str:
    """Return the first message: the view of the room, the task, and the possible commands."""
    return f"{play.introduction}\n\n{show_commands(play)}"


def take_action(household: Household, action: str, *, nearest_command: bool) -> str | LastObservation:
    """Return the reply to an action of the agent."""
    play = household.play
    command = find_nearest(action, play.commands) if nearest_command else None
    reply = play.take(action if command is None else command)
    household.count(action)
    if play.won:
        return LastObservation(f"{reply}\n\nThe task is done.", WON)
    if household.forfeited:
        return LastObservation(f"{reply}\n\n{REPEATED}", FORFEITED)
    return f"{reply}\n\n{show_commands(play)}"


@contextlib.asynccontextmanager
async def open_environment(task: Task, context: EnvironmentContext) -> AsyncIterator[HostEnvironment[Any]]:
    """Open the household of a task. Raises DataError if its file has changed since it was loaded."""
    target = context.target
    if not isinstance(target, HouseGame):
        yield open_without_world(context)
        return
    # A load takes a few milliseconds, and no other attempt could run meanwhile.
    play, _ = await asyncio.to_thread(load_game, target.path, sha256=target.sha256)
    household = Household(play)

    async def handle(arguments: Action) -> str | LastObservation:
        try:
            return take_action(household, arguments.action, nearest_command=target.nearest_command)
        except GoalError as error:
            # The game's file is at fault, and not the agent.
            raise SandboxError(f"{target.path}: {error}", outside=True) from error

    environment = HostEnvironment(household, {TAKE_ACTION: handle}, context)
    environment.publish(task, Published(handlers={PUBLISHED_ACTION: handle}))
    yield environment


_MARKS = " \t*_`\"'"
_INSTRUCTIONS = """\
In each reply, write your thoughts first, then exactly one action on its own line, and then stop. The next \
message shows its result. Write one of the available actions after `ACTION:`, exactly as it is listed:

THOUGHT: your thoughts
ACTION: your next action

To give up, write `ACTION: submit` instead."""
_IN_LINE = re.compile(r"\bACTION:([^\n]*)")
_ADVICE = "Write a line `ACTION:` with one of the available actions."


def _read_written(_tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    action = reply.actions[0]
    text, is_complete = _read_text(action)
    if text.lower().startswith(SUBMIT.name):
        return TextCall(SUBMIT.name, {"answer": action.find_in_parentheses() or ""})
    if not text:
        return TextFault(NO_ACTION, f"The line `ACTION:` is empty. {_ADVICE}")
    return TextCall(TAKE_ACTION.name, {"action": text}, is_complete=is_complete)


def _read_in_line(reply: str, _introduction: WrittenAction) -> TextCall | None:
    found = _IN_LINE.search(drop_thoughts(reply))
    text = "" if found is None else found[1].strip(_MARKS)
    return TextCall(TAKE_ACTION.name, {"action": text}) if text else None


def _read_text(action: WrittenAction) -> tuple[str, bool]:
    """Return the text of an action, from its line or from the block after it, and whether it is complete."""
    line = f"{action.name}{action.rest}".split("\n")[0]
    if not line.strip(_MARKS) and action.blocks:
        block = action.blocks[0]
        return block.text.strip().split("\n")[0].strip(), block.is_closed
    # A line that the server cut off is the last one.
    return line.strip(_MARKS), bool(action.lines or action.blocks)


TEXT_FORM = TextForm(
    instructions=_INSTRUCTIONS,
    tools=(TAKE_ACTION,),
    advice=_ADVICE,
    otherwise=_read_written,
    # Upstream also accepts an action in the line of the thoughts.
    read_without_action=_read_in_line,
)
"""AgentBench's form: `THOUGHT: ...` and `ACTION: go to drawer 1`.

As upstream does, the form takes the first action of a reply, up to the end of its line.
Source: the task `alfworld` of AgentBench v0.2 (Liu et al. 2023, arXiv 2308.03688).
"""
