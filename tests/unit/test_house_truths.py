"""Household games as TextWorld plays them, step for step: replies, possible commands, and the end.

The recorded games are not part of the project. `text_world_replays` describes their files.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from text_world_replays import find_walks, replay_walks

from harness.environments.house.environment import find_plan
from harness.environments.house.game import read_game
from harness.environments.house.play import Play


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> Path:
    folder = shared_data / "agentbench" / "worlds" / "house"
    if not folder.is_dir():
        pytest.skip(f"no recorded games in {folder}")
    return folder


def test_every_step_is_that_of_textworld(recorded: Path) -> None:
    lists = find_walks(recorded)
    assert lists
    for path in lists:
        results = replay_walks(path)
        assert {place: found for place, found in results.items() if found} == {}


def test_the_oracle_wins_every_recorded_game(recorded: Path) -> None:
    games = sorted(recorded.rglob("game.tw-pddl"))
    assert games
    for path in games:
        game = read_game(path.read_bytes())
        play = Play(game)
        plan = find_plan(game)
        for command in plan:
            assert command in play.commands
            play.take(command)
        assert play.won
        assert len(plan) <= 20
