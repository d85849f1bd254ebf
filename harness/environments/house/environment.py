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
from harness.core.text import escape_text
from harness.core.tools import SUBMIT, Arguments, LastObservation, TextCall, TextFault, Tool
from harness.core.types import Phase, Status, Submission, Task, Verdict
from harness.environments.base import EnvironmentContext, HostEnvironment, open_without_world
from harness.environments.house.game import FLUENTS, PREDICATES, Game, find_nearest
from harness.environments.house.goal import Bindings, GoalError
from harness.environments.house.play import HouseGame, Play, load_game
from harness.environments.spec import StateGrader
from harness.environments.text_protocol import NO_ACTION, Published, TextForm, bound_text, make_tool
from harness.environments.written_actions import WrittenAction, WrittenReply

TURNS = 20
# The longest possible command has about 70 characters. A comparison by BLEU takes time by the length.
MOST_CHARACTERS = 400
# AgentBench ends a game at the third of equal replies, from the fourth turn on.
MOST_EQUAL, FIRST_CHECKED = 3, 4

WON = "won"
FORFEITED = "forfeited"
REPEATED = f"You sent the same action {MOST_EQUAL} times in a row, which ends the task."

_MARKS = " \t*_`\"'"
_INSTRUCTIONS = """\
In each reply, write your thoughts first, then exactly one action on its own line, and then stop. The next \
message shows its result. Write one of the available actions after `ACTION:`, exactly as it is listed:

THOUGHT: your thoughts
ACTION: your next action

To give up, write `ACTION: submit` instead."""
_IN_LINE = re.compile(r"\bACTION:([^\n]*)")
_ADVICE = "Write a line `ACTION:` with one of the available actions."

_TREATMENTS = {
    "isclean": ("clean", "sinkbasintype"),
    "ishot": ("heat", "microwavetype"),
    "iscool": ("cool", "fridgetype"),
}
# A game with many objects of the same type has thousands of plans, and almost always the first one wins.
_MOST_PLANS = 5000


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


async def grade_game(
    environment: HostEnvironment[Household], _target: HouseGame, _submission: Submission
) -> Verdict:
    """Return the verdict on the state of the game. The score is 1 if it is won, else 0.

    The submitted answer does not count.
    """
    household = environment.state
    if household.play.won:
        return Verdict(Status.PASSED, 1.0, phase=Phase.EVALUATOR)
    if household.forfeited:
        evidence = f"the agent sent the same action {MOST_EQUAL} times in a row"
        return Verdict(Status.AGENT_ERROR, 0.0, {"fault": "action"}, evidence, Phase.EVALUATOR)
    evidence = escape_text(f"the goal is not reached. {household.play.game.task}")
    return Verdict(Status.FAILED, 0.0, evidence=evidence, phase=Phase.EVALUATOR)


GRADERS = (StateGrader(HouseGame, grade_game),)


class NoPlan(Exception):
    """The goal cannot be reached by such a plan."""


def find_plan(game: Game) -> list[str]:
    """Return commands that win the game from its start. Raises NoPlan and GoalError."""
    static = PREDICATES - FLUENTS
    plans: list[list[str]] = []
    for number, bound in enumerate(game.goal.find(game.facts, static)):
        if number == _MOST_PLANS:
            break
        with contextlib.suppress(NoPlan):
            plans.append(_Plan(game, bound).commands)
    for plan in sorted(plans, key=lambda plan: (len(plan), plan)):
        play = Play(game)
        for command in plan:
            play.take(command)
        if play.won:
            return plan
    raise NoPlan("no plan of the oracle reaches the goal")


async def solve(environment: HostEnvironment[Household], _target: Any) -> str:
    """Win the game in its environment and return the answer. A game without a plan stays as it is."""
    try:
        plan = find_plan(environment.state.play.game)
    except (NoPlan, GoalError):
        return "no plan"
    for command in plan:
        if environment.submitted is None:
            await environment.call(TAKE_ACTION.name, {"action": command})
    return "done"


class _Plan:
    """The commands for one choice of the objects and receptacles in the goal."""

    def __init__(self, game: Game, bound: Bindings) -> None:
        self.commands: list[str] = []
        self._game = game
        self._here = next(iter(game.facts["atlocation"]))[1]
        self._location_of: dict[str, str] = dict(game.places)
        self._opened = {receptacle for (receptacle,) in game.facts.get("opened", ())}
        self._must_close = any(each.predicate == "opened" for each in game.goal.absences)
        self._receptacle_of: dict[str, str] = {}
        for object_, receptacle in sorted(game.facts.get("inreceptacle", ())):
            self._receptacle_of[object_] = receptacle
        wanted = [
            (each.predicate, tuple(bound.get(name, name) for name in each.arguments))
            for each in game.goal.conditions
            if each.predicate in FLUENTS
        ]
        treated = {(arguments[0], predicate) for predicate, arguments in wanted if predicate in _TREATMENTS}
        for predicate, arguments in wanted:
            if predicate == "inreceptacle" and not arguments[0].startswith("?"):
                object_, receptacle = arguments
                if game.has("pickupable", object_) and not receptacle.startswith("?"):
                    self._bring(
                        object_, receptacle, [verb for verb in _TREATMENTS if (object_, verb) in treated]
                    )
        for predicate, arguments in wanted:
            if predicate == "holds":
                self._fetch(arguments[1])
        for predicate, arguments in wanted:
            if predicate == "istoggled":
                self._go(self._find_receptacle(arguments[0]))
                self._add(f"use {self._name(arguments[0])}")

    def _bring(self, object_: str, receptacle: str, treatments: list[str]) -> None:
        if self._receptacle_of.get(object_) == receptacle and not treatments:
            return
        if not self._game.fits(object_, receptacle):
            raise NoPlan(f"{receptacle} cannot hold {object_}")
        self._fetch(object_)
        for state in treatments:
            verb, kind = _TREATMENTS[state]
            self._go(self._find_nearest(kind))
            self._add(f"{verb} {self._name(object_)} with {self._name(self._find_nearest(kind))}")
        self._go(receptacle)
        self._open(receptacle)
        words = self._game.words
        self._add(f"{words.put} {self._name(object_)} {words.into} {self._name(receptacle)}")
        self._close(receptacle)
        self._receptacle_of[object_] = receptacle

    def _fetch(self, object_: str) -> None:
        receptacle = self._find_receptacle(object_)
        self._go(receptacle)
        self._open(receptacle)
        self._add(f"take {self._name(object_)} from {self._name(receptacle)}")
        self._close(receptacle)
        del self._receptacle_of[object_]

    def _go(self, receptacle: str) -> None:
        if receptacle not in self._location_of:
            raise NoPlan(f"{receptacle} has no location")
        if self._location_of[receptacle] != self._here:
            self._add(f"go to {self._name(receptacle)}")
            self._here = self._location_of[receptacle]

    def _open(self, receptacle: str) -> None:
        if self._game.has("openable", receptacle) and receptacle not in self._opened:
            self._add(f"open {self._name(receptacle)}")
            self._opened.add(receptacle)

    def _close(self, receptacle: str) -> None:
        """Close a receptacle if the goal asks for it."""
        if self._must_close and receptacle in self._opened:
            self._add(f"close {self._name(receptacle)}")
            self._opened.discard(receptacle)

    def _find_receptacle(self, object_: str) -> str:
        if object_ not in self._receptacle_of:
            raise NoPlan(f"{object_} is in no receptacle")
        return self._receptacle_of[object_]

    def _find_nearest(self, kind: str) -> str:
        """Return a receptacle of a type, the one where the agent is if there is one."""
        found = [
            receptacle
            for receptacle, _ in self._game.places
            if kind in self._game.types.get(receptacle, frozenset())
        ]
        if not found:
            raise NoPlan(f"the house has no receptacle of the type {kind}")
        here = [receptacle for receptacle in found if self._location_of[receptacle] == self._here]
        return (here or found)[0]

    def _add(self, command: str) -> None:
        self.commands.append(command)

    def _name(self, id_: str) -> str:
        return self._game.names[id_]
