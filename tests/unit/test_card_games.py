"""Games that the original engine played, event for event and state for state."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from world_replays import GameReplay, main, replay_games


@pytest.fixture(scope="module")
def files(shared_data: Path) -> list[Path]:
    """Return all files of recorded games."""
    folder = shared_data / "agentbench" / "worlds" / "card"
    found = sorted(folder.glob("*.jsonl"))
    if not found:
        pytest.skip(f"no recorded games in {folder}")
    return found


def test_every_recorded_game_is_reproduced(files: list[Path]) -> None:
    for path in files:
        results = replay_games(path)
        assert results
        assert {place: found for place, found in results.items() if found} == {}


def short_game() -> dict[str, Any]:
    """Return a game of one turn, and a guess against the rules by the second side."""
    fresh = [400, 200, 0, 0, 0]
    hurt = [[300, 200, 0, 0, 0], fresh, fresh, fresh]
    return {
        "teams": [[1, 2, 3, 4], [1, 2, 3, 4]],
        "steps": [
            {"guess": [3, 12], "right": False, "after": [[fresh] * 4, [fresh] * 4]},
            {
                "act": {"pos": 0, "skill": 0, "theirs": [0]},
                "events": [["hit", 1, 0, 100, True]],
                "after": [[fresh] * 4, hurt],
            },
            {"guess": [4, 1]},
        ],
        "winner": 0,
    }


def test_a_last_step_against_the_rules_gives_the_game_to_the_other_side() -> None:
    assert list(GameReplay(short_game()).differences()) == []
    lost = {**short_game(), "winner": 1}
    assert list(GameReplay(lost).differences()) == ["winner 0 instead of 1"]


@each_case(
    ("action", "message"),
    [
        ({"pos": 0, "skill": 1, "theirs": [0, 1]}, "not all living enemies"),
        ({"pos": 0, "skill": 0, "theirs": [0, 1]}, "one target"),
        ({"pos": 1, "skill": 1, "theirs": [0]}, "one target"),
        ({"pos": 1, "skill": 1, "mine": [1]}, "teammate"),
        ({"pos": 9, "skill": 0, "theirs": [0]}, "position 9"),
    ],
)
def test_a_step_against_the_rules_in_the_middle_is_a_difference(action: dict[str, Any], message: str) -> None:
    record = copy.deepcopy(short_game())
    record["steps"][1]["act"] = action
    (difference,) = GameReplay(record).differences()
    assert difference.startswith("step 1")
    assert message in difference


def test_the_command_names_each_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = short_game()
    wrong["steps"][1]["events"][0][3] = 99
    path = tmp_path / "games.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in (short_game(), wrong)))
    assert main(["card", str(path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "games.jsonl:2, seed None: step 1: [['hit', 1, 0, 100, True]] instead of [['hit', 1, 0, 99, True]]",
        "1 of 2 records are reproduced",
    ]
