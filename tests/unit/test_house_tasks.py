"""Household tasks: their files, the environment, the verdict, and the text protocol."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from contexts import no_context
from effort import THOROUGH
from house_games import FACTS, IN_THE_FRIDGE, make_file
from samples.households import GRAMMARS, KINDS, generate_game

from harness.audit.attack_kinds import ToolAttack
from harness.audit.suite import list_attacks_on
from harness.benchmarks import Benchmark, load_benchmark
from harness.core.errors import DataError, UsageError
from harness.core.tools import SUBMIT, TextCall, TextFault
from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.base import HostEnvironment
from harness.environments.house import SPEC
from harness.environments.house.environment import (
    MOST_CHARACTERS,
    TAKE_ACTION,
    Household,
    find_plan,
    grade_game,
    show_start,
    solve,
)
from harness.environments.house.environment import TEXT_FORM as HOUSE_FORM
from harness.environments.house.game import read_game
from harness.environments.house.play import NOTHING_HAPPENS, HouseGame, Play

IN_THE_ROOM = "(exists (?o - object ?r - receptacle) (inReceptacle ?o ?r))"
SECRET = "take secretmark 7 from walkthrough 1"
NOTHING = Submission("", agent_output="")
PROTOCOL = HOUSE_FORM({tool.name: tool for tool in (TAKE_ACTION, SUBMIT)})


def write_game(path: Path, data: bytes) -> HouseGame:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return HouseGame(str(path), hashlib.sha256(data).hexdigest())


@pytest.fixture
def target(tmp_path: Path) -> HouseGame:
    return write_game(tmp_path / "game.tw-pddl", make_file(FACTS, walkthrough=[SECRET]))


def open_game(target: HouseGame, task: Task | None = None) -> Any:
    """Open a live environment with a game."""
    assert SPEC.open_environment is not None
    task = task or Task("t", "agentbench", "house", "")
    return SPEC.open_environment(task, no_context(target=target))


async def act(target: HouseGame, *actions: str) -> tuple[list[str], Verdict, HostEnvironment[Household]]:
    """Return the observations of actions, and the verdict on the game that they leave."""
    async with open_game(target) as environment:
        seen = [(await environment.call("take_action", {"action": each})).text for each in actions]
        return seen, await grade_game(environment, target, Submission("won", agent_output="")), environment


WIN = (
    *("go to countertop 1", "take apple 1 from countertop 1"),
    *("go to fridge 1", "open fridge 1", "put apple 1 in/on fridge 1"),
)


async def test_a_won_game_passes_and_ends_the_task(target: HouseGame) -> None:
    seen, verdict, environment = await act(target, *WIN, "look")
    assert (verdict.status, verdict.score) == (Status.PASSED, 1.0)
    assert seen[-2].startswith("You put the apple 1 in/on the fridge 1.")
    assert "the task has ended" in seen[-1]
    assert environment.submitted == "won"


async def test_a_reply_shows_the_commands_that_are_possible_next(target: HouseGame) -> None:
    seen, _, environment = await act(target, "go to fridge 1")
    reply, commands = seen[0].split("\n\nAVAILABLE ACTIONS:\n")
    assert reply == "You arrive at loc 4. The fridge 1 is closed."
    assert commands.split("\n") == environment.state.play.commands == sorted(environment.state.play.commands)


async def test_an_answer_wins_nothing(target: HouseGame) -> None:
    _, verdict, _ = await act(target, *WIN[:-1])
    assert (verdict.status, verdict.score) == (Status.FAILED, 0.0)
    assert "the goal is not reached" in (verdict.evidence or "")


async def test_the_same_action_three_times_in_a_row_forfeits_from_the_fourth_turn_on(
    target: HouseGame,
) -> None:
    _, verdict, environment = await act(target, "look", "look", "look")
    assert (verdict.status, environment.submitted) == (Status.FAILED, None)
    _, verdict, environment = await act(target, "inventory", "look", "look", "look", *WIN)
    assert (verdict.status, verdict.metrics["fault"]) == (Status.AGENT_ERROR, "action")
    assert environment.submitted == "forfeited"
    _, verdict, environment = await act(target, "inventory", "look", "look", "inventory", "look")
    assert environment.submitted is None


async def test_an_action_is_bounded_before_it_is_compared(target: HouseGame) -> None:
    seen, _, environment = await act(target, "a" * (MOST_CHARACTERS + 1), "a" * MOST_CHARACTERS)
    assert "wrong arguments" in seen[0]
    assert seen[1].startswith(NOTHING_HAPPENS)
    assert environment.turns_used == 2


async def test_an_action_in_other_letters_counts_only_with_the_option(target: HouseGame) -> None:
    upper = [each.upper() for each in WIN]
    _, verdict, _ = await act(target, *upper)
    assert verdict.status is Status.FAILED
    nearest = HouseGame(target.path, target.sha256, nearest_command=True)
    _, verdict, _ = await act(nearest, *upper)
    assert verdict.status is Status.PASSED


@each_case("between", ["\n", "; ", ", then ", "\r\n", " ", "\u2028", " && "])
@each_case("nearest", [False, True])
async def test_all_commands_in_one_action_do_not_win(target: HouseGame, between: str, nearest: bool) -> None:
    both = HouseGame(target.path, target.sha256, nearest)
    _, verdict, _ = await act(both, between.join(WIN), between.join(WIN[1:]))
    assert verdict.status is Status.FAILED


@each_case("nearest", [False, True])
async def test_no_attack_wins_a_household(nearest: bool) -> None:
    attacks = [attack for attack in list_attacks_on("HouseGame") if isinstance(attack, ToolAttack)]
    assert len(attacks) >= 8
    benchmark = load_benchmark("agentbench", data="bundled", house={"nearest_command": nearest})
    tasks = [task for task in benchmark.tasks if task.environment == "house"]
    for task in tasks[: 4 if THOROUGH else 2]:
        target = benchmark.references[task.id].target
        assert isinstance(target, HouseGame)
        for attack in attacks:
            async with open_game(target, task) as household:
                await attack.hand_in(benchmark, task, 0, household)
                assert not household.state.play.won, (attack.name, task.id)


async def test_neither_the_prompt_nor_a_reply_has_the_walkthrough(tmp_path: Path) -> None:
    benchmark = _load(tmp_path, {"pick_and_place": [make_file(FACTS, walkthrough=[SECRET])]})
    [task], [reference] = benchmark.tasks, benchmark.references.values()
    shown = [task.prompt, repr(task), repr(reference), json.dumps(dict(benchmark.rows[task.id]))]
    target = reference.target
    assert isinstance(target, HouseGame)
    seen, _, environment = await act(target, "look", "help", "walkthrough", *WIN)
    assert not [text for text in (*shown, *seen, repr(environment.state.play.game)) if "secretmark" in text]


def test_the_prompt_is_the_first_message_with_the_commands(tmp_path: Path) -> None:
    data = make_file()
    [task] = _load(tmp_path, {"pick_and_place": [data]}).tasks
    start = show_start(Play(read_game(data)))
    assert start in task.prompt
    assert start.index("Your task is to") < start.index("AVAILABLE ACTIONS:\ngo to countertop 1\n")
    assert "TextWorld" not in task.prompt
    assert (task.turns, task.labels) == (20, {"type": "pick_and_place", "split": "std"})


def _load(folder: Path, games: dict[str, list[bytes]], **options: Any) -> Benchmark:
    """Load a folder with upstream's layout that has one list, and the games next to it."""
    names: dict[str, list[str]] = {}
    for kind, files in games.items():
        for number, data in enumerate(files):
            name = f"json_2.1.1/valid/{kind}-{number}/trial_1/game.tw-pddl"
            path = folder / "alfworld" / name
            path.parent.mkdir(parents=True)
            path.write_bytes(data)
            names.setdefault(kind, []).append(name)
    (folder / "alfworld" / "standard.json").write_text(json.dumps(names))
    return load_benchmark("agentbench", data=str(folder), **options)


def test_tasks_are_numbered_over_all_types_and_have_the_turns_of_the_protocol(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        {"pick_and_place": [make_file(), make_file()], "look_at_obj": [make_file()]},
        protocol="v0.2",
    )
    assert [(task.id, task.labels["type"], task.turns) for task in loaded.tasks] == [
        ("house/std/0", "pick_and_place", 35),
        ("house/std/1", "pick_and_place", 35),
        ("house/std/2", "look_at_obj", 35),
    ]


def test_the_digest_of_the_data_covers_the_games(tmp_path: Path) -> None:
    first = _load(tmp_path / "a", {"pick_and_place": [make_file()]}).source.sha256
    same = _load(tmp_path / "b", {"pick_and_place": [make_file()]}).source.sha256
    other = _load(tmp_path / "c", {"pick_and_place": [make_file(walkthrough=["look"])]}).source.sha256
    assert first == same != other


def test_the_games_may_be_elsewhere(tmp_path: Path) -> None:
    _load(tmp_path, {"pick_and_place": [make_file()]})
    (tmp_path / "alfworld" / "json_2.1.1").rename(tmp_path / "json_2.1.1")
    (tmp_path / "data").mkdir()
    (tmp_path / "alfworld").rename(tmp_path / "data" / "alfworld")
    (tmp_path / "json_2.1.1").rename(tmp_path / "data" / "json_2.1.1")
    places: list[dict[str, str]] = [
        {},
        {"games": str(tmp_path / "data")},
        {"games": str(tmp_path / "data" / "json_2.1.1")},
    ]
    for options in places:
        loaded = load_benchmark("agentbench", data=str(tmp_path), house=options)
        assert [task.id for task in loaded.tasks] == ["house/std/0"]


def test_a_list_without_its_games_is_left_out_with_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "alfworld"
    folder.mkdir()
    (folder / "dev.json").write_text(json.dumps({"pick_and_place": ["json_2.1.1/a/game.tw-pddl"]}))
    notes: list[str] = []
    with pytest.raises(DataError, match="holds no records"):
        load_benchmark("agentbench", data=str(tmp_path), notify=notes.append)
    assert [note for note in notes if "house.games=PATH" in note]


def test_a_folder_without_games_is_an_error(tmp_path: Path) -> None:
    _load(tmp_path / "a", {"pick_and_place": [make_file()]})
    with pytest.raises(DataError, match=r"holds no folder json_2\.1\.1"):
        load_benchmark("agentbench", data=str(tmp_path / "a"), house={"games": str(tmp_path)})
    with pytest.raises(UsageError, match=r"house\.games"):
        load_benchmark("agentbench", data=str(tmp_path / "a"), house={"games": ""})


@each_case("path", ["/etc/game.tw-pddl", "../game.tw-pddl", "json_2.1.1/a/game.json", "a/../../x.tw-pddl", 7])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: object) -> None:
    (tmp_path / "alfworld").mkdir()
    (tmp_path / "alfworld" / "dev.json").write_text(json.dumps({"pick_and_place": [path]}))
    with pytest.raises(DataError, match=r"dev\.json: field 'pick_and_place"):
        load_benchmark("agentbench", data=str(tmp_path))


@each_case(
    ("data", "words"),
    [
        (make_file(FACTS, IN_THE_ROOM), "is won at its start"),
        (b"{broken", "is not JSON"),
        (b'{"pddl_domain": "", "grammar": "", "pddl_problem": ""}', "domain is not ALFWorld's"),
    ],
)
def test_a_bad_game_is_an_error_with_its_path(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=rf"pick-0/trial_1/game.tw-pddl: .*{words}"):
        _load(tmp_path, {"pick": [data]})


def test_a_missing_game_is_an_error_with_its_path(tmp_path: Path) -> None:
    _load(tmp_path, {"pick": [make_file(), make_file()]})
    (tmp_path / "alfworld/json_2.1.1/valid/pick-1/trial_1/game.tw-pddl").unlink()
    with pytest.raises(DataError, match=r"pick-1/trial_1/game\.tw-pddl: is missing"):
        load_benchmark("agentbench", data=str(tmp_path))


async def test_a_game_that_changed_after_the_start_is_an_error(tmp_path: Path) -> None:
    target = write_game(tmp_path / "game.tw-pddl", make_file())
    write_game(tmp_path / "game.tw-pddl", make_file(walkthrough=["look"]))
    with pytest.raises(DataError, match="has changed since it was loaded"):
        await act(target, "look")


@each_case("kind", KINDS, ids=[kind.key for kind in KINDS])
@each_case("grammar", GRAMMARS)
def test_the_oracle_wins_generated_games_of_every_type(kind: Any, grammar: Any) -> None:
    for seed in range(5):
        game = generate_game(kind, grammar, seed)
        assert game == generate_game(kind, grammar, seed)
        play = Play(read_game(game.content))
        assert not play.won
        plan = find_plan(play.game)
        for command in plan:
            assert command in play.commands
            play.take(command)
        assert play.won
        assert len(plan) <= 14


def test_the_oracle_closes_receptacles_if_the_goal_asks_for_it() -> None:
    goal = f"(and {IN_THE_FRIDGE} (forall (?re - receptacle) (not (opened ?re))))"
    play = Play(read_game(make_file(FACTS, goal)))
    plan = find_plan(play.game)
    for command in plan[:-1]:
        play.take(command)
    assert not play.won
    assert plan[-1] == "close fridge 1"
    play.take(plan[-1])
    assert play.won


async def test_the_oracle_leaves_a_game_that_cannot_be_won(tmp_path: Path) -> None:
    facts = FACTS.replace("(canContain FridgeType AppleType)", "")
    target = write_game(tmp_path / "game.tw-pddl", make_file(facts))
    async with open_game(target) as environment:
        assert await solve(environment, target) == "no plan"
        assert (await grade_game(environment, target, NOTHING)).status is Status.FAILED


@each_case(
    ("reply", "action"),
    [
        ("THOUGHT: I look.\nACTION: go to drawer 1", "go to drawer 1"),
        ("ACTION:look\n", "look"),
        ("THOUGHT: a\n ACTION: put apple 1 in/on fridge 1\nACTION: look", "put apple 1 in/on fridge 1"),
        ("**ACTION:** `open fridge 1`", "open fridge 1"),
        ("Action: Go To drawer 1", "Go To drawer 1"),
        ("ACTION:\n```\ntake apple 1 from fridge 1\n```", "take apple 1 from fridge 1"),
        ("THOUGHT: I look. ACTION: look", "look"),
        ("<think>ACTION: look</think>ACTION: inventory", "inventory"),
    ],
)
def test_the_action_of_a_reply_is_the_rest_of_its_line(reply: str, action: str) -> None:
    call = PROTOCOL.read(reply)
    assert isinstance(call, TextCall)
    assert (call.tool, call.arguments) == ("take_action", {"action": action})


def test_a_second_action_is_ignored_with_advice() -> None:
    call = PROTOCOL.read("ACTION: look\nACTION: inventory")
    assert isinstance(call, TextCall)
    assert call.arguments == {"action": "look"}
    assert "Only the first action" in PROTOCOL.show(call, "Seen.")


@each_case("reply", ["I think.", "", "ACTION:", "THOUGHT: go to drawer 1"])
def test_a_reply_without_an_action_gets_advice(reply: str) -> None:
    fault = PROTOCOL.read(reply)
    assert isinstance(fault, TextFault)
    assert "ACTION:" in fault.advice


def test_a_model_can_give_up_in_text() -> None:
    call = PROTOCOL.read("THOUGHT: too hard\nACTION: submit")
    assert call == TextCall("submit", {"answer": ""})
