"""The players of the card game: both baselines, the oracle, and a random one that must not do well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from case_checks import each_case
from effort import THOROUGH

from harness.environments.card.duel import BASELINES, Baseline
from harness.environments.card.engine import FIELDED, KINDS, Game, Kind, Move
from harness.environments.card.environment import choose_guess, choose_move

PAIRINGS = [(name, side) for name in BASELINES for side in (0, 1)]
Guess = Callable[[Game, Random], tuple[int, Kind] | None]


def guess_a_fielded_kind(game: Game, random: Random) -> tuple[int, Kind] | None:
    """Guess a kind that is not exposed yet, at a position that is not exposed yet."""
    enemies = game.teams[1 - game.mover]
    hidden = [fish.position for fish in enemies if not fish.is_dead and not fish.is_exposed]
    known = [fish.kind.name for fish in enemies if fish.is_exposed]
    if not hidden:
        return None
    return random.choice(hidden), KINDS[random.choice([name for name in FIELDED if name not in known])]


def attack_at_random(game: Game, random: Random, _last: int | None) -> Move:
    mine, enemies = game.living(game.mover), game.living(1 - game.mover)
    return Move(random.choice(mine).position, is_active=False, target=random.choice(enemies).position)


RANDOM = Baseline(guess_a_fielded_kind, attack_at_random)
ORACLE = Baseline(lambda game, _random: choose_guess(game), lambda game, _random, _last: choose_move(game))


def winner_of(first: Baseline, second: Baseline, random: Random, *, shuffled: bool = False) -> int:
    """Return the side that wins a game of two players."""
    teams = [KINDS[name] for name in FIELDED], [KINDS[name] for name in FIELDED]
    if shuffled:
        for team in teams:
            random.shuffle(team)
    game = Game(*teams)
    last: list[int | None] = [None, None]
    while game.winner is None:
        side = game.mover
        player = (first, second)[side]
        guessed = player.guess(game, random)
        if guessed is None:
            game.skip_guess()
        else:
            game.guess(*guessed)
        if game.winner is None:
            move = player.act(game, random, last[1 - side])
            game.act(move)
            last[side] = move.position
    return game.winner


def win_rate(player: Baseline, opponent: str, side: int, games: int, *, shuffled: bool = False) -> float:
    """Return the part of the games that a player wins on a side."""
    players = (player, BASELINES[opponent]) if side == 0 else (BASELINES[opponent], player)
    won = [
        winner_of(*players, Random(f"{opponent}/{side}/{number}"), shuffled=shuffled) == side
        for number in range(games)
    ]
    return sum(won) / games


@each_case(("opponent", "side"), PAIRINGS)
def test_the_oracle_wins_every_game(opponent: str, side: int) -> None:
    games = 20 if THOROUGH else 8
    assert win_rate(ORACLE, opponent, side, games) == 1.0
    assert win_rate(ORACLE, opponent, side, games, shuffled=True) == 1.0


def test_random_attacks_win_too_few_games() -> None:
    rates = [win_rate(RANDOM, opponent, side, 100) for opponent, side in PAIRINGS]
    assert sum(rates) / 4 < 0.6
    assert max(rates) < 0.75 + 0.1  # the noise of 100 games


def test_the_second_baseline_is_the_better_player() -> None:
    better = BASELINES["baseline2"]
    assert 0.85 < win_rate(better, "baseline1", 0, 150) < 0.99
    assert 0.7 < win_rate(better, "baseline1", 1, 150) < 0.95
    assert win_rate(BASELINES["baseline1"], "baseline2", 0, 100) < 0.35


def test_the_second_baseline_gains_by_guesses_among_the_fielded_kinds() -> None:
    agent = Baseline(guess_a_fielded_kind, BASELINES["baseline2"].act)
    # An agent can guess the fielded kinds alone, unlike the enemy. It wins most games as the second side too.
    assert 0.5 < win_rate(agent, "baseline2", 1, 150) < 0.8
    assert 0.75 < win_rate(agent, "baseline2", 0, 150) < 0.97


def test_the_seed_decides_the_moves_of_a_baseline() -> None:
    game = Game([KINDS[name] for name in FIELDED], [KINDS[name] for name in FIELDED])
    game.skip_guess()
    for baseline in BASELINES.values():
        moves = [baseline.act(game, Random(seed), None) for seed in (1, 1, 1)]
        assert len(set(moves)) == 1


def test_the_first_baseline_attacks_in_three_of_ten_actions() -> None:
    game = Game([KINDS[name] for name in FIELDED], [KINDS[name] for name in FIELDED])
    random = Random(0)
    moves = [BASELINES["baseline1"].act(game, random, None) for _ in range(2000)]
    assert sum(not move.is_active for move in moves) / 2000 == pytest.approx(0.3, abs=0.04)
    assert {move.position for move in moves} == {0, 1, 2, 3}
    for move in moves:
        game.check_move(move)


def test_the_first_baseline_guesses_the_fielded_kinds_and_no_exposed_fish() -> None:
    game = Game([KINDS[name] for name in FIELDED], [KINDS[name] for name in FIELDED])
    game.teams[1][2].is_exposed = True
    guesses = [BASELINES["baseline1"].guess(game, Random(seed)) for seed in range(400)]
    made = [guess for guess in guesses if guess is not None]
    assert {position for position, _ in made} == {0, 1, 3}
    assert {kind.name for _, kind in made} == {*FIELDED}
    assert (len(guesses) - len(made)) / 400 == pytest.approx(0.25, abs=0.08)


def test_the_second_baseline_guesses_among_all_kinds_that_are_not_exposed() -> None:
    game = Game([KINDS[name] for name in FIELDED], [KINDS[name] for name in FIELDED])
    game.teams[1][2].is_exposed = True
    guesses = [BASELINES["baseline2"].guess(game, Random(seed)) for seed in range(400)]
    made = Counter((guess[0], guess[1].name) for guess in guesses if guess is not None)
    assert {position for position, _ in made} == {0, 1, 3}
    assert {name for _, name in made} == {*KINDS} - {"eel"}


def test_the_second_baseline_kills_then_hits_all_then_hits_back() -> None:
    act = BASELINES["baseline2"].act
    game = Game([KINDS[name] for name in FIELDED], [KINDS[name] for name in FIELDED])
    game.skip_guess()
    assert act(game, Random(0), 1) == Move(0, is_active=True)
    game.teams[1][3].health = 100
    killing = act(game, Random(0), 1)
    assert (killing.is_active, killing.target) == (False, 3)
    game.teams[1][3].health = 101
    game.teams[0][0].is_dead = True
    assert act(game, Random(0), 1) == Move(2, is_active=True)
    game.teams[0][2].is_dead = True
    game.teams[0][1].attack = 340
    game.teams[1][3].health = 400
    assert act(game, Random(0), 2) == Move(1, is_active=False, target=2)
