"""The environment of AgentBench's `card`: a game against a baseline, played with three tools."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from harness.core.scoring.answers import drop_thoughts
from harness.core.text import shorten
from harness.core.tools import SUBMIT, Arguments, LastObservation, Observation, TextCall, Tool
from harness.core.types import Phase, Status, Submission, Task, Verdict
from harness.environments.base import EnvironmentContext, HostEnvironment, open_without_world
from harness.environments.card.duel import ALL_HEALTH, MOST_ILLEGAL, CardGame, Duel, begin_duel
from harness.environments.card.engine import KINDS, Active, Fish, Game, Kind, Move
from harness.environments.spec import StateGrader
from harness.environments.text_protocol import HOW_TO_ACT, ONLY_FIRST, TextForm, add_advice, read_named

TURNS = 400
"""More than the longest game takes, with every illegal try that does not lose it."""
WON, LOST, FORFEITED = "won", "lost", "forfeited"
_REASON_CHARACTERS = 500

FishName = Literal["spray", "flame", "eel", "sunfish"]

# A move holds no other object. Every character is read once, because neither part of the class gives back.
_OBJECT = re.compile(r"\{[^{}]*+\}")
_INTEGER = re.compile(r"-?[0-9]{1,3}")

_ADVICE = (
    'Write one object: {"guess_type": "FISH", "target_position": POSITION} or '
    '{"pick_fish": "FISH", "action": "ACTION", "target_position": POSITION}.'
)

# Tenths, so that the score of integers is exact.
WIN_WEIGHT, DAMAGE_WEIGHT = 7, 3
DAMAGE = "damage"
"""The metrics that a category's score is computed from."""

_WIN = 1_000_000
# A living fish is worth more than its health, because it acts, counters and can be sacrificed to.
_FISH = 120
# The actions that look best alone are the ones whose replies are searched.
_SEARCHED = 2
# No reply turns a game around once a side is this far ahead, so none is searched.
_AHEAD = 600


class Look(Arguments):
    """The arguments of `look`."""


class Guess(Arguments):
    """The arguments of `guess`."""

    position: int = Field(ge=0, le=3, description="the position of a hidden enemy fish, 0 to 3")
    fish: FishName = Field(description="the kind that you guess")


class Act(Arguments):
    """The arguments of `act`."""

    fish: FishName = Field(description="your living fish that acts")
    action: Literal["normal", "active"] = Field(
        description="`normal` attacks one enemy; `active` uses the skill of the fish"
    )
    target: int | None = Field(
        default=None,
        ge=0,
        le=3,
        description="the position of the target, 0 to 3: of an enemy for `normal`, of a teammate for the "
        "active skill of flame and sunfish. The active skill of spray and eel needs none",
    )


LOOK = Tool("look", "See the state of the game, and the first turn of an enemy who moves first.", Look)
GUESS = Tool(
    "guess", "Guess the kind of one hidden enemy fish, at most once a turn and before you act.", Guess
)
ACT = Tool("act", "Act with one of your fish, which ends your turn. The enemy's turn follows.", Act)


class CardEnvironment(HostEnvironment[Duel]):
    """A live game. A call that is refused is an illegal try, as a move against the rules is."""

    async def _run_tool(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        observation = await super()._run_tool(name, arguments)
        if not observation.refused or name == SUBMIT.name or self.submitted is not None:
            return observation
        self.note_acting()
        text = self.state.count_illegal(shorten(observation.text, _REASON_CHARACTERS))
        if self.state.is_forfeited:
            self.submitted = FORFEITED
        return Observation(text, refused=True)


@contextlib.asynccontextmanager
async def open_environment(task: Task, context: EnvironmentContext) -> AsyncIterator[HostEnvironment[Any]]:
    """Open a game. The task's id and the attempt's seed decide all that is drawn in it.

    A task with another kind of target has no game, and its environment has `submit` alone.
    """
    target = context.target
    if not isinstance(target, CardGame):
        yield open_without_world(context)
        return
    duel = begin_duel(target, f"{task.id}/{context.seed}")

    async def look(_arguments: Look) -> str:
        return duel.look()

    async def guess(arguments: Guess) -> str | LastObservation:
        return _end_if_over(duel, duel.guess(arguments.position, KINDS[arguments.fish]))

    async def act(arguments: Act) -> str | LastObservation:
        text = duel.act(
            KINDS[arguments.fish], is_active=arguments.action == "active", target=arguments.target
        )
        return _end_if_over(duel, text)

    yield CardEnvironment(duel, {LOOK: look, GUESS: guess, ACT: act}, context)


def _end_if_over(duel: Duel, text: str) -> str | LastObservation:
    if not duel.is_over:
        return text
    if duel.is_forfeited:
        return LastObservation(text, FORFEITED)
    return LastObservation(text, WON if duel.is_won else LOST)


async def solve(environment: CardEnvironment, _target: CardGame) -> str:
    """Play the game as the oracle, which sees the hidden state, and return the outcome."""
    game = environment.state.game
    while environment.submitted is None:
        guessed = choose_guess(game) if game.is_guessing else None
        if guessed is not None:
            await environment.call(GUESS.name, {"position": guessed[0], "fish": guessed[1].name})
            continue
        move = choose_move(game)
        actor = game.teams[game.mover][move.position]
        await environment.call(
            ACT.name,
            {
                "fish": actor.kind.name,
                "action": "active" if move.is_active else "normal",
                "target": move.target,
            },
        )
    return environment.submitted


_INSTRUCTIONS = f"""\
{HOW_TO_ACT}

`{GUESS.name}`: {GUESS.description}

{{"guess_type": "FISH", "target_position": POSITION}}

`{ACT.name}`: {ACT.description} ACTION is `normal` or `active`. Leave out the target of an active skill that \
hits all enemies.

{{"pick_fish": "FISH", "action": "ACTION", "target_position": POSITION}}

`{LOOK.name}`: {LOOK.description}

Act: look"""


def _read_move(reply: str) -> TextCall | None:
    """Return the first move in a reply, which is an object anywhere in it."""
    moves = _find_moves(drop_thoughts(reply))
    first = next(moves, None)
    if first is None or next(moves, None) is None:
        return first
    return add_advice(first, ONLY_FIRST)


def _find_moves(text: str) -> Iterator[TextCall]:
    for found in _OBJECT.finditer(text):
        written = found.group()
        values = _parse(written) or _parse(written.replace("'", '"'))
        if values is None:
            continue
        if "guess_type" in values:
            given = {"position": values.get("target_position"), "fish": values["guess_type"]}
            yield TextCall(GUESS.name, {name: _clean(value) for name, value in given.items()})
        elif "pick_fish" in values:
            given = {
                "fish": values["pick_fish"],
                "action": values.get("action"),
                "target": values.get("target_position"),
            }
            yield TextCall(ACT.name, {name: _clean(value) for name, value in given.items()})


def _parse(written: str) -> dict[str, Any] | None:
    try:
        values = json.loads(written, strict=False)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _clean(value: Any) -> Any:
    """Return an argument as the tools take it: a text in lower case, and a position as a number."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    return int(text) if _INTEGER.fullmatch(text) else text


TEXT_FORM = TextForm(
    instructions=_INSTRUCTIONS,
    tools=(GUESS, ACT, LOOK),
    advice=_ADVICE,
    result="The game:",
    otherwise=read_named,
    read_whole=_read_move,
)
"""AgentBench's form: a JSON object for a guess, and one for an action, anywhere in a reply.

As upstream does, it takes positions as texts and single quotes as well. The first move is carried out, where
upstream takes the first legal one.
"""


def card_score(games: int, won: float, damage: float) -> float:
    """Return AgentBench's score of some games: 0.7 for the wins, and up to 0.3 for the damage.

    `damage` is the health that all opponents together have lost.
    """
    most = ALL_HEALTH * games
    return (WIN_WEIGHT * won * ALL_HEALTH + DAMAGE_WEIGHT * min(damage, most)) / (10 * most)


async def grade_game(environment: HostEnvironment[Duel], target: CardGame, submission: Submission) -> Verdict:
    """Return the verdict on a game, whose state is on the host. A won game passes.

    The score is for one game. A game that was forfeited or not played to its end counts no damage.
    """
    duel = environment.state
    metrics: dict[str, Any] = {WON: int(duel.is_won), DAMAGE: duel.damage, "game_turns": duel.turns}
    score = card_score(1, duel.is_won, duel.damage)
    if duel.is_forfeited:
        message = f"forfeited by {MOST_ILLEGAL} illegal moves in a row"
        return Verdict(Status.AGENT_ERROR, score, {**metrics, "fault": "action"}, message, Phase.AGENT)
    if duel.is_won:
        return Verdict(Status.PASSED, score, metrics, phase=Phase.EVALUATOR)
    message = f"lost to {target.opponent}" if duel.is_over else "the game was not played to its end"
    return Verdict(Status.FAILED, score, metrics, message, Phase.EVALUATOR)


GRADERS = (StateGrader(CardGame, grade_game),)


def choose_guess(game: Game) -> tuple[int, Kind] | None:
    """Return a right guess for the side that moves, None if every living enemy is exposed.

    The weakest enemy comes first, because a dead fish can no longer be guessed.
    """
    hidden = [fish for fish in game.living(1 - game.mover) if not fish.is_exposed]
    if not hidden:
        return None
    weakest = min(hidden, key=lambda fish: fish.health)
    return weakest.position, weakest.kind


def choose_move(game: Game) -> Move:
    """Return the best action, if the enemy then replies with the action that is worst for this side.

    A guess that is still due is left out.
    """
    side = game.mover
    if game.is_guessing:
        game = game.copy()
        game.skip_guess()
    tried = [(move, _play(game, move)) for move in list_moves(game)]
    tried.sort(key=lambda pair: _value(pair[1], side), reverse=True)
    best, worth = tried[0][0], -math.inf
    if _value(tried[0][1], side) > _AHEAD:
        return best
    for move, after in tried[:_SEARCHED]:
        value = _value_after_reply(after, side, worth)
        if value > worth:
            best, worth = move, value
    return best


def list_moves(game: Game) -> list[Move]:
    """Return all actions that the rules allow, in whichever phase the game is."""
    mine, enemies = game.living(game.mover), game.living(1 - game.mover)
    moves = []
    for fish in mine:
        moves += [Move(fish.position, is_active=False, target=enemy.position) for enemy in enemies]
        moves += [Move(fish.position, is_active=True, target=each) for each in _targets(fish, mine, enemies)]
    return moves


def _targets(fish: Fish, mine: list[Fish], enemies: list[Fish]) -> list[int | None]:
    """Return the positions that the active skill of a fish may aim at, None for all enemies."""
    match fish.kind.active:
        case Active.FIXED_AREA | Active.AREA:
            return [None]
        case Active.SACRIFICE:
            return [each.position for each in mine if each is not fish]
        case Active.SHIELD:
            return [each.position for each in mine]
        case Active.HUNT:
            least = min(enemy.health for enemy in enemies)
            return [enemy.position for enemy in enemies if enemy.health == least]
    return [enemy.position for enemy in enemies]


def _play(game: Game, move: Move) -> Game:
    after = game.copy()
    after.act(move)
    return after


def _value_after_reply(game: Game, side: int, floor: float) -> float:
    """Return the worth after the enemy's best reply, or any value up to `floor` if it is that low."""
    if game.winner is not None:
        return _value(game, side)
    game.skip_guess()
    lowest = math.inf
    # Active skills come last in the list, and are mostly the best replies.
    for move in reversed(list_moves(game)):
        lowest = min(lowest, _value(_play(game, move), side))
        if lowest <= floor:
            break
    return lowest


def _value(game: Game, side: int) -> float:
    """Return the worth of a game for a side: its fish and their health, less the enemy's."""
    if game.winner is not None:
        return _WIN if game.winner == side else -_WIN
    mine, enemies = game.teams[side], game.teams[1 - side]
    return _strength(mine) - _strength(enemies)


def _strength(team: tuple[Fish, ...]) -> float:
    living = [fish for fish in team if not fish.is_dead]
    attack = max((fish.attack for fish in living), default=0)
    return sum(fish.health + _FISH for fish in living) + attack / 4
