"""The card games of AgentBench: their rows, options and scores, and the moves that models write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import load_benchmark
from harness.benchmarks.agentbench.layout import read_layout
from harness.benchmarks.agentbench.tasks import scores
from harness.benchmarks.benchmark import TaskResult
from harness.benchmarks.category import Outcome
from harness.core.errors import DataError, UsageError
from harness.core.tools import SUBMIT, TextCall, TextFault
from harness.environments import environment_spec
from harness.environments.card.duel import CardGame
from harness.environments.card.environment import ACT, GUESS, LOOK
from harness.environments.card.environment import TEXT_FORM as CARD_FORM
from harness.environments.text_protocol import ONLY_FIRST

GAME = {"split": "mine", "baseline": "baseline2", "agent": "second", "game": 7}
PROTOCOL = CARD_FORM({tool.name: tool for tool in (LOOK, GUESS, ACT, SUBMIT)})


def ids_of(path: Path) -> list[str]:
    rows, _ = read_layout(path, pytest.fail)
    return [row.values["task_id"] for row in rows]


def write_games(folder: Path, *games: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "games.jsonl"
    path.write_text("".join(json.dumps(game) + "\n" for game in games))
    return path


def test_a_folder_without_our_file_stands_for_all_published_games(tmp_path: Path) -> None:
    folder = tmp_path / "AgentBench" / "src" / "server" / "tasks" / "card_game"
    folder.mkdir(parents=True)
    (folder / "task.py").write_text("")
    (folder / "other.json").write_text("broken")
    ids = ids_of(tmp_path / "AgentBench")
    assert len([each for each in ids if each.startswith("card/std/")]) == 20
    assert len([each for each in ids if each.startswith("card/dev/")]) == 12
    assert ids[0] == "card/std/baseline1/first/0"
    assert len(set(ids)) == 32
    assert ids_of(folder) == ids


def test_a_file_of_games_names_its_own(tmp_path: Path) -> None:
    write_games(tmp_path / "data" / "card_game", GAME, {**GAME, "game": 8})
    assert ids_of(tmp_path) == ["card/mine/baseline2/second/7", "card/mine/baseline2/second/8"]


def test_a_single_file_of_games_is_loaded(tmp_path: Path) -> None:
    benchmark = load_benchmark("agentbench", data=str(write_games(tmp_path, GAME)))
    (task,) = benchmark.tasks
    assert (task.id, task.category, task.environment) == ("card/mine/baseline2/second/7", "card", "card")
    assert benchmark.references[task.id].target == CardGame("baseline2", 1)


@each_case(
    ("change", "field"),
    [
        ({"baseline": "baseline3"}, "baseline"),
        ({"baseline": 1}, "baseline"),
        ({"agent": "third"}, "agent"),
        ({"game": -1}, "game"),
        ({"game": True}, "game"),
        ({"game": 10**9}, "game"),
        ({"split": "../x"}, "split"),
        ({"split": ""}, "split"),
    ],
)
def test_a_broken_row_is_an_error_with_its_line_and_field(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    path = write_games(tmp_path / "card_game", GAME, {**GAME, **change})
    with pytest.raises(DataError) as caught:
        load_benchmark("agentbench", data=str(path.parent))
    assert (caught.value.line, caught.value.field) == (2, field)


def test_the_bundled_sample_has_the_games_of_dev() -> None:
    benchmark = load_benchmark("agentbench", data="bundled")
    ids = [task.id for task in benchmark.tasks if task.category == "card"]
    sides = [f"card/dev/{name}/{side}" for name in ("baseline1", "baseline2") for side in ("first", "second")]
    assert ids == [f"{pairing}/{number}" for pairing in sides for number in range(3)]


def test_the_option_shuffles_every_game_and_the_prompt_mentions_it() -> None:
    fixed = load_benchmark("agentbench", data="bundled")
    shuffled = load_benchmark("agentbench", data="bundled", card={"shuffle": True})
    task_id = "card/dev/baseline1/first/0"
    assert fixed.references[task_id].target == CardGame("baseline1", 0)
    assert shuffled.references[task_id].target == CardGame("baseline1", 0, shuffle=True)
    prompts = [
        next(task.prompt for task in benchmark.tasks if task.id == task_id) for benchmark in (fixed, shuffled)
    ]
    assert "0 spray, 1 flame, 2 eel, 3 sunfish" in prompts[0]
    assert "0 spray" not in prompts[1]
    with pytest.raises(UsageError):
        load_benchmark("agentbench", data="bundled", card={"shuffel": True})


def test_the_prompt_names_the_rules_and_the_side() -> None:
    benchmark = load_benchmark("agentbench", data="bundled")
    for task in benchmark.tasks:
        if task.category == "card":
            assert f"You move {task.id.split('/')[3]}." in task.prompt
            assert "63 turns" in task.prompt
            assert "{" not in task.prompt
            assert "takes 70% of a hit" in task.prompt


def test_the_category_is_scored_by_wins_and_damage() -> None:
    def played(won: bool, damage: float) -> Outcome:
        score = 0.7 * won + 0.3 * damage / 1600
        return Outcome("card", TaskResult(won, score, {"won": float(won), "damage": damage}))

    lost = Outcome("card", TaskResult(False, 0.0))
    found = scores([played(True, 1600), played(False, 800), lost, lost])["categories"]["card"]
    assert found["score"] == pytest.approx(0.7 / 4 + 0.3 * 2400 / 6400)
    assert found["measure"] == "0.7 win rate + 0.3 damage rate"


def call_of(reply: str) -> TextCall:
    read = PROTOCOL.read(reply)
    assert isinstance(read, TextCall), read
    return read


@each_case(
    ("reply", "tool", "arguments"),
    [
        (
            'I think.\n{"guess_type": "eel", "target_position": "2"}',
            "guess",
            {"position": 2, "fish": "eel"},
        ),
        ("{'guess_type': 'Eel ', 'target_position': 2}", "guess", {"position": 2, "fish": "eel"}),
        (
            'Action: {"pick_fish": "spray", "action": "normal", "target_position": "0"}',
            "act",
            {"fish": "spray", "action": "normal", "target": 0},
        ),
        (
            '```json\n{"pick_fish": "eel",\n "action": "active"}\n```',
            "act",
            {"fish": "eel", "action": "active", "target": None},
        ),
        (
            '{"thought": "x"} {broken} {"pick_fish": "eel", "action": "active"}',
            "act",
            {"fish": "eel", "action": "active", "target": None},
        ),
        (
            '{"guess_type": ["eel"], "target_position": "first"}',
            "guess",
            {"position": "first", "fish": ["eel"]},
        ),
        ("Act: look", "look", {}),
        ("Act: submit(done)", "submit", {"answer": "done"}),
        (
            'Act: guess\n```json\n{"position": 1, "fish": "eel"}\n```',
            "guess",
            {"position": 1, "fish": "eel"},
        ),
    ],
)
def test_moves_are_read_as_upstream_writes_them(reply: str, tool: str, arguments: dict[str, Any]) -> None:
    call = call_of(reply)
    assert (call.tool, call.arguments, call.advice) == (tool, arguments, "")


def test_only_the_first_of_several_moves_is_carried_out() -> None:
    call = call_of('{"guess_type": "eel", "target_position": 1}\n{"pick_fish": "eel", "action": "active"}')
    assert (call.tool, call.advice) == ("guess", ONLY_FIRST)


def test_moves_in_thoughts_are_ignored() -> None:
    reply = (
        '<think>{"guess_type": "eel", "target_position": 1}</think>{"pick_fish": "eel", "action": "active"}'
    )
    assert call_of(reply).tool == "act"


@each_case("reply", ["", "I pass.", "{}", "{" * 100_000, "{[" * 100_000 + "}", "{" * 99 + "}" * 99])
def test_a_reply_without_a_move_gets_advice(reply: str) -> None:
    read = PROTOCOL.read(reply)
    assert isinstance(read, TextFault)
    assert "pick_fish" in read.advice


def test_the_instructions_show_both_objects_and_the_spec_has_the_protocol() -> None:
    text = PROTOCOL.instructions()
    for words in ('{"guess_type"', '{"pick_fish"', "Act: look", GUESS.description, ACT.description):
        assert words in text
    assert environment_spec("card").text_protocol is CARD_FORM
