"""Grade household games: a game is won or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.core.text import escape_text
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.grader import StateGrader
from harness.environments.host_environment import HostEnvironment
from harness.environments.house.environment import MOST_EQUAL, TAKE_ACTION, Household
from harness.environments.house.game import FLUENTS, PREDICATES, Game
from harness.environments.house.goal import Bindings, GoalError
from harness.environments.house.play import HouseGame, Play


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


_TREATMENTS = {
    "isclean": ("clean", "sinkbasintype"),
    "ishot": ("heat", "microwavetype"),
    "iscool": ("cool", "fridgetype"),
}
# A game with many objects of the same type has thousands of plans, and almost always the first one wins.
_MOST_PLANS = 5000


class NoPlan(Exception):
    """The goal cannot be reached by such a plan."""


def find_plan(game: Game) -> list[str]:
    """Return commands that win the game from its start. Raises NoPlan and GoalError."""
    static = PREDICATES - FLUENTS
    plans: list[list[str]] = []
    for number, bound in enumerate(game.goal.find(game.facts, static)):
        if number == _MOST_PLANS:
            break
        plans.extend(_try_plan(game, bound))
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


def _try_plan(game: Game, bound: Bindings) -> Iterator[list[str]]:
    try:
        yield _Plan(game, bound).commands
    except NoPlan:
        return


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
