"""Grade the game that an agent has played."""

from __future__ import annotations

import math
from typing import Any

from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.card.duel import ALL_HEALTH, MOST_ILLEGAL, CardGame, Duel
from harness.environments.card.engine import Active, Fish, Game, Kind, Move
from harness.environments.grader import StateGrader
from harness.environments.host_environment import HostEnvironment

# Tenths, so that the score of integers is exact.
WIN_WEIGHT, DAMAGE_WEIGHT = 7, 3
WON, DAMAGE = "won", "damage"
"""The metrics that a category's score is computed from."""


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


_WIN = 1_000_000
# A living fish is worth more than its health, because it acts, counters and can be sacrificed to.
_FISH = 120
# The actions that look best alone are the ones whose replies are searched.
_SEARCHED = 2
# No reply turns a game around once a side is this far ahead, so none is searched.
_AHEAD = 600


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
