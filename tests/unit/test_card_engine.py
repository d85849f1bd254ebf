"""The rules of the card game, one by one, and for random games as a whole."""

from __future__ import annotations

from random import Random

import pytest
from case_checks import each_case
from effort import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.environments.card.engine import (
    FIELDED,
    FIRST_PHASE,
    HEALTH,
    KINDS,
    LAST_PHASE,
    TEAM,
    Event,
    Fish,
    Game,
    IllegalMove,
    Kind,
    Move,
)
from harness.environments.card.environment import list_moves

ATTACK, ACTIVE = False, True


def game_of(first: str = "spray flame eel sunfish", second: str = "spray flame eel sunfish") -> Game:
    """Return a game of these kinds in which no fish dodges."""
    return Game([KINDS[name] for name in first.split()], [KINDS[name] for name in second.split()])


def act(game: Game, position: int, is_active: bool, target: int | None = None) -> list[Event]:
    """Act without a guess."""
    if game.is_guessing:
        game.skip_guess()
    return game.act(Move(position, is_active, target))


def health(game: Game, side: int) -> list[int]:
    return [fish.health for fish in game.teams[side]]


def kill(*fish: Fish) -> None:
    for each in fish:
        each.health, each.is_dead = 0, True


def test_a_normal_attack_deals_half_of_the_attack() -> None:
    game = game_of()
    game.teams[0][1].attack = 341
    assert act(game, 1, ATTACK, 0) == [Event("hit", 1, 0, 170, True)]
    assert health(game, 1) == [230, 400, 400, 400]


def test_spray_deals_70_to_all_whatever_its_attack() -> None:
    game = game_of(second="spray flame flame spray")
    game.teams[0][0].attack = 900
    act(game, 0, ACTIVE)
    assert health(game, 1) == [330] * 4


def test_eel_deals_a_share_of_its_attack_rounded_down() -> None:
    game = game_of(second="spray flame flame spray")
    game.teams[0][2].attack = 340
    act(game, 2, ACTIVE)
    assert health(game, 1) == [400 - 118] * 4


@each_case("position", [1, 3])
def test_a_sacrifice_hurts_a_teammate_and_raises_the_own_attack(position: int) -> None:
    game = game_of()
    assert act(game, position, ACTIVE, 2) == [Event("hit", 0, 2, 75, False)]
    assert health(game, 0) == [400, 400, 325, 400]
    assert game.teams[0][position].attack == 340


def test_a_sacrifice_of_a_deflector_is_not_shared_but_counts_as_wounds() -> None:
    game = game_of()
    act(game, 1, ACTIVE, 2)
    assert health(game, 0) == [400, 400, 325, 400]
    assert game.teams[0][2].wounds == 75


def test_a_deflector_shares_a_hit_with_its_teammates_in_order() -> None:
    game = game_of()
    assert act(game, 0, ATTACK, 2) == [
        Event("deflect", 1, 2, 70),
        Event("hit", 1, 0, 10, False),
        Event("hit", 1, 1, 10, False),
        Event("hit", 1, 3, 10, False),
        Event("hit", 1, 2, 70, True),
    ]
    assert health(game, 1) == [390, 390, 330, 390]


def test_a_deflector_without_living_teammates_takes_all() -> None:
    game = game_of()
    kill(*(fish for fish in game.teams[1] if fish.position != 2))
    assert act(game, 0, ATTACK, 2) == [Event("hit", 1, 2, 100, True)]


def test_the_wounds_of_a_deflector_raise_its_attack_and_the_rest_is_kept() -> None:
    game = game_of()
    game.teams[0][1].attack = 1200
    act(game, 1, ATTACK, 2)
    eel = game.teams[1][2]
    # 420 of 600 stay with the eel.
    assert (eel.attack, eel.wounds, eel.is_dead) == (280, 20, True)


def test_each_living_countering_teammate_avenges_a_fish_that_a_hit_leaves_weak() -> None:
    game = game_of()
    game.teams[1][2].health = 130
    events = act(game, 0, ATTACK, 2)
    assert [event for event in events if event.name == "counter"] == [Event("counter", 1, 2, 30)] * 2
    assert health(game, 0) == [340, 400, 400, 400]


@each_case(("before", "counters"), [(220, 0), (219, 1)])
def test_a_fish_is_weak_below_120_and_does_not_avenge_itself(before: int, counters: int) -> None:
    game = game_of(second="spray eel eel eel")
    game.teams[1][0].health = before
    act(game, 0, ATTACK, 0)
    assert health(game, 0)[0] == HEALTH
    game = game_of(second="spray barracuda eel eel")
    game.teams[1][1].health = before
    act(game, 0, ATTACK, 1)
    assert health(game, 0)[0] == HEALTH - 30 * counters


def test_a_fish_without_health_is_hit_and_counters_until_the_action_is_over() -> None:
    game = game_of(second="spray flame sunfish eel")
    spray, flame, sunfish, _ = game.teams[1]
    spray.health, flame.health, sunfish.health = 1, 1, 1
    events = act(game, 0, ACTIVE)
    # The spray has died first, and is hit by the shares of both deflectors, and avenges the flame.
    assert events.count(Event("hit", 1, 0, 7, False)) == 2
    assert Event("counter", 1, 1, 30) in events
    assert [fish.is_dead for fish in game.teams[1]] == [True, True, True, False]
    assert health(game, 1)[:3] == [0, 0, 0]


def test_a_right_guess_exposes_a_fish_and_hurts_all() -> None:
    game = game_of()
    game.teams[1][3].health = 50
    assert game.guess(0, KINDS["spray"])
    assert health(game, 1) == [350, 350, 350, 0]
    assert [fish.is_exposed for fish in game.teams[1]] == [True, False, False, False]
    assert game.teams[1][3].is_dead


def test_a_wrong_guess_changes_nothing_but_the_phase() -> None:
    game = game_of()
    assert not game.guess(0, KINDS["eel"])
    assert health(game, 1) == [400] * 4
    assert (game.mover, game.is_guessing, game.phase) == (0, False, FIRST_PHASE + 1)


def test_a_guess_may_win_the_game() -> None:
    game = game_of()
    for fish in game.teams[1]:
        fish.health = 50
    game.guess(0, KINDS["spray"])
    assert game.winner == 0
    with pytest.raises(IllegalMove, match="over"):
        game.act(Move(0, ATTACK, 0))


def test_the_side_that_moves_wins_if_both_die() -> None:
    game = game_of(first="spray", second="spray flame")
    game.teams[0][0].health = 30
    for fish in game.teams[1]:
        fish.health = 10
    act(game, 0, ACTIVE)
    assert health(game, 0) == [0]
    assert game.winner == 0


@each_case(
    ("first", "second", "winner"),
    [
        ([100, 100], [400, 0], 0),
        ([100, 100], [100, 101], 1),
        ([150, 50], [100, 100], 0),
        ([100, 100], [100, 100], 1),
    ],
)
def test_a_long_game_goes_to_more_fish_then_health_then_the_healthiest_then_the_second(
    first: list[int], second: list[int], winner: int
) -> None:
    game = game_of(first="mobula mobula", second="mobula mobula")
    for team, left in zip(game.teams, (first, second), strict=True):
        for fish, each in zip(team, left, strict=True):
            fish.health, fish.is_dead = each, each == 0
    phases = 0
    while game.winner is None:
        mine = game.living(game.mover)[0]
        act(game, mine.position, ACTIVE, mine.position)
        phases += 2
    assert phases == LAST_PHASE - FIRST_PHASE + 1
    assert game.winner == winner


def test_a_shield_reduces_one_hit_with_a_source() -> None:
    game = game_of(first="octopus spray flame spray", second="spray flame flame spray")
    act(game, 0, ACTIVE, 1)
    assert game.teams[0][0].attack == 120
    assert act(game, 0, ATTACK, 1) == [Event("reduce", 0, 1, 0.3), Event("hit", 0, 1, 30, True)]
    assert not game.teams[0][1].is_shielded


def test_a_healer_regains_health_after_a_hit_but_not_after_death() -> None:
    game = game_of(second="octopus flame flame spray")
    assert act(game, 0, ACTIVE)[:2] == [Event("hit", 1, 0, 70, True), Event("heal", 1, 0, 20)]
    game = game_of(second="octopus flame flame spray")
    game.teams[1][0].health = 70
    assert [event.name for event in act(game, 0, ACTIVE)][:2] == ["hit", "counter"]


def test_a_hunter_may_only_strike_the_weakest_and_strikes_the_weak_harder() -> None:
    game = game_of(first="hammerhead", second="spray flame")
    game.teams[1][0].health = 160
    game.skip_guess()
    with pytest.raises(IllegalMove, match="least health"):
        game.act(Move(0, ACTIVE, 1))
    assert game.act(Move(0, ACTIVE, 0))[0].value == 120
    game = game_of(first="hammerhead", second="spray flame")
    game.teams[1][0].health = 159
    game.teams[0][0].health = 79
    assert act(game, 0, ACTIVE, 0)[0].value == 161


def test_a_hammerhead_explodes_when_a_hit_with_a_source_kills_it() -> None:
    game = game_of(second="hammerhead eel eel eel")
    game.teams[1][0].health = 10
    assert act(game, 0, ATTACK, 0)[1] == Event("explode", 1, 0, 40)
    assert health(game, 0)[0] == 360


def test_a_dodged_hit_does_nothing_but_is_a_hit() -> None:
    team = [KINDS["barracuda"]] * 4
    game = Game(team, team, dodge=lambda: True)
    assert act(game, 0, ACTIVE, 2) == [Event("reduce", 1, 2, 0), Event("hit", 1, 2, 0, True)]


@each_case(
    ("move", "words"),
    [
        (Move(0, ATTACK, 4), "0 to 3"),
        (Move(0, ATTACK, -1), "0 to 3"),
        (Move(-1, ATTACK, 0), "0 to 3"),
        (Move(10**30, ATTACK, 0), "0 to 3"),
        (Move(0, ATTACK, None), "needs a target"),
        (Move(1, ACTIVE, None), "needs a target"),
        (Move(1, ACTIVE, 1), "teammate"),
        (Move(1, ACTIVE, 3), "dead"),
        (Move(0, ATTACK, 2), "dead"),
        (Move(3, ACTIVE, 0), "dead"),
    ],
)
def test_an_illegal_action_names_its_rule_and_changes_nothing(move: Move, words: str) -> None:
    game = game_of()
    kill(game.teams[0][3], game.teams[1][2])
    game.skip_guess()
    before = snapshot(game)
    with pytest.raises(IllegalMove, match=words):
        game.act(move)
    assert snapshot(game) == before


def test_a_guess_at_a_dead_or_exposed_fish_or_out_of_turn_is_illegal() -> None:
    game = game_of()
    kill(game.teams[1][1])
    game.teams[1][2].is_exposed = True
    for position, words in [(1, "dead"), (2, "exposed"), (4, "0 to 3"), (-4, "0 to 3")]:
        with pytest.raises(IllegalMove, match=words):
            game.guess(position, KINDS["spray"])
    game.guess(0, KINDS["eel"])
    with pytest.raises(IllegalMove, match="one guess"):
        game.guess(0, KINDS["spray"])
    with pytest.raises(IllegalMove, match="one guess"):
        game.skip_guess()


def snapshot(game: Game) -> object:
    """Return all that a move may change."""
    fish = [[getattr(each, name) for name in Fish.__slots__] for team in game.teams for each in team]
    return fish, game.mover, game.is_guessing, game.phase, game.winner


teams = st.lists(st.sampled_from([*KINDS.values()]), min_size=TEAM, max_size=TEAM, unique=True)


@settings(max_examples=max(EXAMPLES // 4, 10), deadline=None)
@given(first=teams, second=teams, seed=st.integers(0, 2**32))
def test_random_games_end_in_time_and_health_stays_in_its_bounds(
    first: list[Kind], second: list[Kind], seed: int
) -> None:
    random = Random(seed)
    game = Game(first, second, dodge=lambda: random.random() < 0.3)
    while game.winner is None:
        if game.is_guessing:
            hidden = [fish for fish in game.living(1 - game.mover) if not fish.is_exposed]
            if hidden and random.random() < 0.5:
                game.guess(random.choice(hidden).position, KINDS[random.choice(FIELDED)])
            else:
                game.skip_guess()
            continue
        moves = list_moves(game)
        copied, before = game.copy(), snapshot(game)
        copied.act(random.choice(moves))
        assert snapshot(game) == before
        game.act(random.choice(moves))
        for team in game.teams:
            for fish in team:
                assert 0 <= fish.health <= HEALTH
                assert fish.is_dead == (fish.health == 0)
    assert game.phase <= LAST_PHASE + 1
    assert game.living(game.winner) or not game.living(1 - game.winner)


@settings(max_examples=max(EXAMPLES // 4, 10), deadline=None)
@given(first=teams, second=teams, seed=st.integers(0, 2**32))
def test_the_listed_moves_are_exactly_the_legal_ones(
    first: list[Kind], second: list[Kind], seed: int
) -> None:
    random = Random(seed)
    game = Game(first, second)
    for fish in (*game.teams[0], *game.teams[1]):
        fish.health = random.choice([0, 50, 50, 100, 400])
        fish.is_dead = fish.health == 0
    if not game.living(0) or not game.living(1):
        return
    every = {
        Move(position, is_active, target)
        for position in range(TEAM)
        for is_active in (False, True)
        for target in (*range(TEAM), None)
    }
    legal = {move for move in every if is_legal(game, move)}
    listed = set(list_moves(game))
    # A skill on all enemies ignores its target.
    assert {plain(game, move) for move in legal} == {plain(game, move) for move in listed}
    assert listed <= legal


def is_legal(game: Game, move: Move) -> bool:
    try:
        game.check_move(move)
    except IllegalMove:
        return False
    return True


def plain(game: Game, move: Move) -> Move:
    """Return a move without the target that it ignores."""
    needs_target = not move.is_active or game.teams[0][move.position].kind.needs_target
    return move if needs_target else move._replace(target=None)
