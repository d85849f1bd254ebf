"""The card game as an agent plays it: its tools, its illegal moves, its end, and the verdict on it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from contexts import no_context

from harness.api import run
from harness.core.tools import TurnLimitReached
from harness.core.types import PlainData, Status, Submission, Task, Verdict
from harness.environments.base import HostEnvironment
from harness.environments.card.duel import ALL_HEALTH, CardGame, Duel, begin_duel
from harness.environments.card.engine import FIELDED
from harness.environments.card.environment import (
    ACT,
    GUESS,
    LOOK,
    TURNS,
    CardEnvironment,
    card_score,
    grade_game,
    open_environment,
    solve,
)
from harness.runs.agents import AttemptContext

FIRST, SECOND = CardGame("baseline1", 0), CardGame("baseline2", 1)
TASK = Task("card/dev/baseline1/first/0", "agentbench", "card", "")
AREA = {"fish": "spray", "action": "active"}
ILLEGAL = {"fish": "flame", "action": "active", "target": 1}


@asynccontextmanager
async def opened(
    target: PlainData = FIRST, *, seed: int = 0, turns: int | None = TURNS
) -> AsyncIterator[HostEnvironment[Any]]:
    async with open_environment(TASK, no_context(turns=turns, target=target, seed=seed)) as environment:
        yield environment


async def judge(environment: HostEnvironment[Duel], answer: str = "") -> Verdict:
    return await grade_game(environment, FIRST, Submission(answer, agent_output=answer))


async def text_of(environment: HostEnvironment[Any], tool: str, arguments: Mapping[str, Any]) -> str:
    return (await environment.call(tool, arguments)).text


async def test_a_turn_is_a_guess_and_an_action_and_the_reply_has_the_turn_of_the_enemy() -> None:
    async with opened() as environment:
        guessed = await text_of(environment, "guess", {"position": 2, "fish": "eel"})
        assert "Right: it is exposed" in guessed
        assert "2: eel, health 350" in guessed
        assert "It is your turn: act." in guessed
        acted = await text_of(environment, "act", AREA)
        assert acted.startswith("Your spray at position 0 uses its active skill")
        assert "- the enemy's fish at position 2 deflects: it takes 49" in acted
        assert "The enemy guesses that your fish at position" in acted
        assert "It is your turn: guess or act." in acted
        assert environment.state.turns == 2


async def test_the_first_turn_of_the_enemy_is_seen_by_looking() -> None:
    async with opened(SECOND) as environment:
        first = await text_of(environment, "look", {})
        assert first.startswith("The enemy guesses")
        assert environment.state.turns == 1
        await environment.call("act", AREA)
        assert (await text_of(environment, "look", {})).startswith("Your fish:")


async def test_hidden_kinds_and_the_enemy_s_attack_are_in_no_text() -> None:
    for seed in range(5):
        async with opened(CardGame("baseline1", 1, shuffle=True), seed=seed) as environment:
            texts = [await text_of(environment, "look", {})]
            while environment.submitted is None and len(texts) < 6:
                texts.append(await text_of(environment, "act", AREA))
            for text in texts:
                enemies = text.rpartition("The enemy's fish:")[2]
                assert "attack" not in enemies
                assert not any(f": {name}" in enemies for name in FIELDED)


async def test_an_agent_that_acts_at_once_leaves_out_its_guess() -> None:
    async with opened() as environment:
        await environment.call("act", AREA)
        observation = await environment.call("guess", {"position": 0, "fish": "spray"})
        assert "You guess" in observation.text


@each_case(
    ("tool", "arguments"),
    [
        ("guess", {"position": True, "fish": "flame"}),
        ("guess", {"position": "1", "fish": "flame"}),
        ("guess", {"position": -1, "fish": "sunfish"}),
        ("guess", {"position": 1.0, "fish": "flame"}),
        ("guess", {"position": 4, "fish": "flame"}),
        ("guess", {"position": 10**400, "fish": "flame"}),
        ("guess", {"position": 1, "fish": "Flame"}),
        ("guess", {"position": 1, "fish": "whiteshark"}),
        ("guess", {"position": 1}),
        ("act", {**AREA, "target": -1}),
        ("act", {"fish": ["spray", "eel"], "action": "active"}),
        ("act", {**AREA, "winner": 0}),
        ("act", {"fish": "spray", "action": "normal"}),
        ("act", {"fish": "sunfish", "action": "active", "target": 3}),
        ("act", {"fish": "spray", "action": "win"}),
        ("act", {"fish": "f" * 5000, "action": "active"}),
        ("act", {"x" * 100_000: 1}),
        ("x" * 100_000, {}),
        ("look", {"side": 1}),
    ],
)
async def test_an_illegal_call_changes_nothing_and_is_counted(
    tool: str, arguments: Mapping[str, Any]
) -> None:
    async with opened() as environment:
        before = environment.state.look()
        observation = await environment.call(tool, arguments)
        assert environment.state.look() == before
        assert "Illegal moves in a row: 1 of 5" in observation.text
        assert len(observation.text) < 1000


async def test_five_illegal_moves_in_a_row_forfeit_the_game_with_all_its_damage() -> None:
    async with opened() as environment:
        await environment.call("act", AREA)
        for tool in ("act", "win", "act", "guess"):
            await environment.call(tool, ILLEGAL)
        assert environment.submitted is None
        last = await environment.call("act", ILLEGAL)
        assert "You lose the game" in last.text
        assert environment.submitted == "forfeited"
        after = await environment.call("act", AREA)
        assert after.refused
        verdict = await judge(environment, "won")
        assert (verdict.status, verdict.score) == (Status.AGENT_ERROR, 0.0)
        assert verdict.metrics == {"won": 0, "damage": 0, "game_turns": 2, "fault": "action"}


async def test_refused_calls_alone_forfeit_the_game() -> None:
    async with opened() as environment:
        for _ in range(5):
            await environment.call("act", {"fish": "whale"})
        assert environment.submitted == "forfeited"
        assert environment.agent_acted


async def test_a_legal_move_resets_the_count_and_looking_does_not() -> None:
    async with opened() as environment:
        legal_calls: list[tuple[str, dict[str, Any]]] = [
            ("guess", {"position": 0, "fish": "eel"}),
            ("act", AREA),
        ]
        for legal in legal_calls:
            for _ in range(4):
                await environment.call("act", ILLEGAL)
            await environment.call("look", {})
            assert environment.state.illegal == 4
            await environment.call(*legal)
            assert environment.state.illegal == 0


async def test_a_dead_or_exposed_fish_cannot_be_guessed_and_a_dead_one_cannot_act() -> None:
    async with opened() as environment:
        enemies, own = environment.state.game.teams[1], environment.state.game.teams[0]
        enemies[0].is_dead = own[0].is_dead = True
        enemies[1].is_exposed = True
        calls: list[tuple[str, dict[str, Any], str]] = [
            ("guess", {"position": 0, "fish": "spray"}, "is dead"),
            ("guess", {"position": 1, "fish": "flame"}, "is exposed"),
            ("act", AREA, "is dead"),
            ("act", {"fish": "eel", "action": "normal", "target": 0}, "is dead"),
        ]
        for tool, arguments, words in calls:
            assert words in await text_of(environment, tool, arguments)


async def test_a_submission_before_the_end_loses_and_counts_no_damage() -> None:
    async with opened() as environment:
        await environment.call("act", AREA)
        await environment.submit("won")
        verdict = await judge(environment, "won")
        assert (verdict.status, verdict.score, verdict.metrics["damage"]) == (Status.FAILED, 0.0, 0)


async def test_looking_uses_up_the_turns() -> None:
    async with opened(turns=3) as environment:
        for _ in range(3):
            await environment.call("look", {})
        with pytest.raises(TurnLimitReached):
            await environment.call("look", {})
        assert (await judge(environment)).score == 0.0


@each_case("opponent", ["baseline1", "baseline2"])
@each_case("side", [0, 1])
@each_case("shuffle", [False, True])
async def test_the_oracle_wins_through_the_tools(opponent: str, side: int, shuffle: bool) -> None:
    target = CardGame(opponent, side, shuffle)
    for seed in range(4):
        async with opened(target, seed=seed) as environment:
            assert isinstance(environment, CardEnvironment)
            assert await solve(environment, target) == "won"
            verdict = await judge(environment, "won")
            assert (verdict.status, verdict.score) == (Status.PASSED, 1.0)
            assert environment.turns_used < 40


async def test_a_lost_game_keeps_the_score_of_its_damage() -> None:
    async with opened(SECOND) as environment:
        enemies = environment.state.game.teams[0]
        for fish in environment.state.game.teams[1]:
            fish.health, fish.is_dead = (1, False) if fish.position == 0 else (0, True)
        enemies[1].health, enemies[1].is_dead = 0, True
        observation = await environment.call("act", {"fish": "spray", "action": "normal", "target": 0})
        assert "The game is over. You have lost." in observation.text
        assert environment.submitted == "lost"
        verdict = await judge(environment)
        assert verdict.status is Status.FAILED
        damage = ALL_HEALTH - sum(fish.health for fish in enemies)
        assert damage > 400
        assert verdict.score == pytest.approx(0.3 * damage / 1600)


async def test_a_game_repeats_with_its_seed_and_differs_with_another() -> None:
    async def play(seed: int) -> list[str]:
        async with opened(seed=seed) as environment:
            texts: list[str] = []
            while environment.submitted is None and len(texts) < 8:
                texts.append(await text_of(environment, "act", {**AREA, "fish": "eel"}))
            return texts

    assert await play(1) == await play(1)
    assert len({tuple(await play(seed)) for seed in range(6)}) == 6


def test_shuffling_draws_the_order_of_both_sides() -> None:
    def orders(shuffle: bool) -> set[tuple[str, ...]]:
        duels = [begin_duel(CardGame("baseline1", 0, shuffle), f"seed {number}") for number in range(60)]
        return {tuple(fish.kind.name for fish in team) for duel in duels for team in duel.game.teams}

    assert orders(False) == {FIELDED}
    assert len(orders(True)) > 15
    assert {tuple(sorted(order)) for order in orders(True)} == {tuple(sorted(FIELDED))}


def test_the_score_is_seven_tenths_for_wins_and_at_most_three_for_damage() -> None:
    assert card_score(10, 10, 16_000) == 1.0
    assert card_score(10, 5, 8000) == pytest.approx(0.35 + 0.15)
    assert card_score(2, 0, 99_999) == pytest.approx(0.3)
    assert card_score(4, 0, 0) == 0.0


def test_the_tools_name_their_values_to_models() -> None:
    tools = {tool.name: tool.parameters for tool in (LOOK, GUESS, ACT)}
    assert tools["guess"]["properties"]["position"]["maximum"] == 3
    assert tools["guess"]["properties"]["fish"]["enum"] == list(FIELDED)
    assert tools["act"]["required"] == ["fish", "action"]
    json.dumps(tools)


async def test_an_agent_cannot_compute_the_game_from_what_it_is_given(tmp_path: Path) -> None:
    predicted: list[bool] = []

    async def peek(context: AttemptContext) -> str:
        assert context.environment is not None
        baseline, side = context.task.id.split("/")[2:4]
        game = CardGame(baseline, int(side == "second"), shuffle=True)
        duel = begin_duel(game, f"{context.task.id}/{context.seed}")
        observation = await context.environment.call("look", {})
        predicted.append(observation.text == duel.look())
        return ""

    await run(
        "agentbench",
        agent=peek,
        data="bundled",
        filter_category=["card"],
        options={"card": {"shuffle": True}},
        output_dir=str(tmp_path),
    )
    # Each side has 24 orders, so that few games are alike by chance.
    assert len(predicted) > 5
    assert sum(predicted) <= len(predicted) / 3
