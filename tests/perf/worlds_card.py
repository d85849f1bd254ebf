"""Measure the card game: a call of a tool, a thousand games, and a thousand games of the oracle."""

from __future__ import annotations

import asyncio
import statistics
import time
from random import Random
from typing import Any

from harness.core.types import Task
from harness.environments.base import EnvironmentContext, NoTranscript
from harness.environments.card.duel import BASELINES, CardGame, begin_duel
from harness.environments.card.engine import FIELDED
from harness.environments.card.environment import GUESS, choose_guess, choose_move, open_environment
from harness.sandbox.pool import SandboxSettings

GAMES = 1000
ORACLE_GAMES = 100
CALLS = 1000


def measure() -> list[tuple[str, float, str]]:
    """Return the label, the value and the unit of each measurement."""
    calls = asyncio.run(_time_calls())
    return [
        ("card: a call of a tool, p50", statistics.median(calls) * 1000, "ms"),
        (f"card: {GAMES:,} games of baseline2 against both baselines", _play_games(by_oracle=False), "s"),
        (
            f"card: {GAMES:,} games of the oracle, from {ORACLE_GAMES}",
            _play_games(by_oracle=True) * GAMES / ORACLE_GAMES,
            "s",
        ),
    ]


async def _time_calls() -> list[float]:
    """Return the seconds of guesses and actions, each with the turn of the enemy that follows."""
    seconds: list[float] = []
    random = Random(0)
    nothing: Any = None
    for number in range(CALLS):
        target = CardGame("baseline2", number % 2)
        context = EnvironmentContext(
            nothing, SandboxSettings("none"), 1.0, NoTranscript(), target=target, seed=number
        )
        async with open_environment(Task(f"card/perf/{number}", "agentbench", "card", ""), context) as opened:
            while opened.submitted is None and len(seconds) < CALLS:
                game = opened.state.game
                guess = choose_guess(game) if game.is_guessing else None
                actor = random.choice(game.living(game.mover))
                enemy = random.choice(game.living(1 - game.mover))
                call = ("act", {"fish": actor.kind.name, "action": "normal", "target": enemy.position})
                if guess is not None:
                    call = (GUESS.name, {"position": guess[0], "fish": random.choice(FIELDED)})
                started = time.perf_counter()
                await opened.call(*call)
                seconds.append(time.perf_counter() - started)
        if len(seconds) >= CALLS:
            break
    return seconds


def _play_games(*, by_oracle: bool) -> float:
    """Return the seconds of games in all four pairings, with the texts that an agent would see."""
    player = BASELINES["baseline2"]
    started = time.perf_counter()
    for number in range(ORACLE_GAMES if by_oracle else GAMES):
        target = CardGame(("baseline1", "baseline2")[number % 2], number // 2 % 2)
        duel, random = begin_duel(target, f"perf/{number}"), Random(number)
        while not duel.is_over:
            game = duel.game
            guess = choose_guess(game) if by_oracle else player.guess(game, random)
            if guess is not None:
                duel.guess(*guess)
            if not duel.is_over:
                move = choose_move(game) if by_oracle else player.act(game, random, None)
                kind = game.teams[game.mover][move.position].kind
                duel.act(kind, is_active=move.is_active, target=move.target)
    return time.perf_counter() - started


if __name__ == "__main__":
    for label, value, unit in measure():
        print(f"{label}: {value:.3f} {unit}")
