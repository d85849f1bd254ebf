"""The rules of household games: commands, replies and goals."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest
from case_checks import each_case
from house_games import FACTS, IN_THE_FRIDGE, make_file, make_game, play_commands
from hypothesis import given
from hypothesis import strategies as st
from samples.households import GRAMMARS, KINDS, generate_game

from harness.core.errors import DataError
from harness.environments.house.game import GameError, find_nearest, name_objects, read_game, score
from harness.environments.house.goal import GoalError, read_goal
from harness.environments.house.play import NOTHING_HAPPENS, Play, load_game


def play_after(*commands: str) -> Play:
    """Return the game of FACTS after some commands."""
    play = Play(make_game())
    play_commands(commands, play)
    return play


def test_objects_are_numbered_from_the_last_id_down() -> None:
    ids = ["apple_bar_a", "apple_bar_b", "applepie_bar_a", "sink_bar_a_bar_sinkbasin", "sink_bar_b", "agent1"]
    assert name_objects(ids) == {
        "apple_bar_a": "apple 2",
        "apple_bar_b": "apple 1",
        "applepie_bar_a": "applepie 1",
        "sink_bar_a_bar_sinkbasin": "sinkbasin 1",
        "sink_bar_b": "sink 1",
        "agent1": "agent1",
    }


def test_a_game_is_won_as_soon_as_its_goal_is_reached() -> None:
    carry = ("go to countertop 1", "take apple 1 from countertop 1")
    play = play_after(*carry, "go to fridge 1", "open fridge 1")
    assert not play.won
    assert play.take("put apple 1 in/on fridge 1") == "You put the apple 1 in/on the fridge 1."
    assert play.won


def test_the_grammar_of_the_file_decides_the_words() -> None:
    old, new = Play(make_game()), Play(make_game(verb="move"))
    assert old.take("go to fridge 1") == "You arrive at loc 4. The fridge 1 is closed."
    assert new.take("go to fridge 1") == "You arrive at fridge 1. The fridge 1 is closed."
    assert old.take("help") == NOTHING_HAPPENS
    assert new.take("help").startswith("Commands: look")
    for play in (old, new):
        play_commands(["go to countertop 1", "take knife 1 from countertop 1"], play)
    assert "put knife 1 in/on countertop 1" in old.commands
    assert new.take("move knife 1 to countertop 1") == "You move the knife 1 to the countertop 1."


def test_the_room_is_seen_at_the_start_and_not_by_a_look() -> None:
    play = Play(make_game())
    view, task = play.introduction.split("\n\n")
    assert view.endswith("you see a countertop 1, a fridge 1, a microwave 1, and a sinkbasin 1.")
    assert task.startswith("Your task is to: ")
    assert play.take("look").endswith("you see nothing.")
    play.take("go to fridge 1")
    assert play.take("look") == "You are facing the fridge 1. Next to it, you see nothing."


def test_a_closed_receptacle_shows_and_takes_nothing() -> None:
    play = Play(
        make_game(FACTS.replace("Apple_bar_1 CounterTop_bar_1", "Apple_bar_1 Fridge_bar_1"), "(holds a b)")
    )
    play.take("go to fridge 1")
    assert play.take("examine fridge 1") == "The fridge 1 is closed."
    assert play.take("take apple 1 from fridge 1") == NOTHING_HAPPENS
    assert play.take("open fridge 1").endswith("In it, you see a apple 1.")
    play_commands(["take apple 1 from fridge 1", "close fridge 1"], play)
    assert play.take("put apple 1 in/on fridge 1") == NOTHING_HAPPENS


@each_case(
    ("commands", "state"),
    [
        ([], "There's nothing special about apple 1."),
        (["clean"], "This is a clean apple 1."),
        (["heat"], "This is a hot apple 1."),
        (["cool"], "This is a cold apple 1."),
        (["heat", "cool"], "This is a cold apple 1."),
        (["cool", "heat", "clean"], "This is a hot and clean apple 1."),
        (["clean", "cool"], "This is a cool and clean apple 1."),
    ],
)
def test_the_state_of_an_object_shows_in_its_description(commands: list[str], state: str) -> None:
    places = {"clean": "sinkbasin 1", "heat": "microwave 1", "cool": "fridge 1"}
    play = play_after("go to countertop 1", "take apple 1 from countertop 1")
    for verb in commands:
        # Neither the microwave nor the fridge needs to be open.
        play.take(f"go to {places[verb]}")
        assert play.take(f"{verb} apple 1 with {places[verb]}") == (
            f"You {verb} the apple 1 using the {places[verb]}."
        )
    assert play.take("examine apple 1") == state


def test_a_knife_slices_what_lies_near() -> None:
    play = play_after("go to countertop 1", "take knife 1 from countertop 1")
    assert play.take("slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."
    play_commands(["put knife 1 in/on countertop 1", "take apple 1 from countertop 1"], play)
    assert play.take("examine apple 1") == "This is a sliced apple 1."


def test_a_lamp_stays_on() -> None:
    play = play_after("go to countertop 1")
    assert play_commands(["use desklamp 1", "use desklamp 1"], play) == ["You turn on the desklamp 1."] * 2


def test_a_lamp_in_the_hand_is_on_or_without_a_state() -> None:
    play = Play(make_game(f"{FACTS} (pickupable DeskLamp_bar_1) (canContain CounterTopType DeskLampType)"))
    play_commands(["go to countertop 1", "take desklamp 1 from countertop 1"], play)
    assert play.take("examine desklamp 1") == "There's nothing special about desklamp 1."
    play_commands(["put desklamp 1 in/on countertop 1", "use desklamp 1"], play)
    play.take("take desklamp 1 from countertop 1")
    assert play.take("examine desklamp 1") == "This desklamp 1 is on."


def test_an_agent_carries_one_object() -> None:
    play = Play(make_game())
    assert play.take("inventory") == "You are not carrying anything."
    play_commands(["go to countertop 1", "take apple 1 from countertop 1"], play)
    assert play.take("inventory") == "You are carrying: a apple 1."
    assert not [command for command in play.commands if command.startswith("take")]
    assert play.take("take knife 1 from countertop 1") == NOTHING_HAPPENS


def test_two_receptacles_may_share_a_location() -> None:
    play = Play(make_game(FACTS.replace("Fridge_bar_1 loc_bar_1", "Fridge_bar_1 loc_bar_4")))
    play.take("go to countertop 1")
    assert "go to fridge 1" not in play.commands
    assert play.take("look") == "You are facing the countertop 1, and fridge 1. Next to it, you see nothing."
    play_commands(["open fridge 1", "take apple 1 from countertop 1", "put apple 1 in/on fridge 1"], play)
    assert play.take("look").endswith("Next to it, you see a apple 1.")


@each_case(
    "command",
    [
        *("", "GO TO FRIDGE 1", "Go to fridge 1", "go  to fridge 1", "go to fridge 1.", "go to fridge"),
        *("go to fridge 1\nopen fridge 1", "go to fridge 1; look", "go to fridge 1 then look", "look look"),
        *("go to fridge \u0661", "g\u043e to fridge 1", "go to\u00a0fridge 1", "go to loc 1", "(look)"),
    ],
)
def test_a_command_that_is_not_listed_changes_nothing(command: str) -> None:
    play = Play(make_game())
    before = play.commands
    assert play.take(command) == NOTHING_HAPPENS
    assert play.commands == before


def test_blanks_around_a_command_do_not_count() -> None:
    assert play_commands([" look \n"]) == play_commands(["look"])


@given(st.text())
def test_any_text_is_a_command_or_changes_nothing(text: str) -> None:
    play = Play(make_game())
    before = play.commands
    if text.strip() not in before:
        assert play.take(text) == NOTHING_HAPPENS
        assert play.commands == before


@given(st.data(), st.sampled_from(KINDS), st.sampled_from(GRAMMARS), st.integers(0, 5))
def test_a_listed_command_always_does_something(
    data: st.DataObject, kind: object, grammar: object, seed: int
) -> None:
    play = Play(read_game(generate_game(kind, grammar, seed).content))  # type: ignore[arg-type]
    for _ in range(8):
        command = data.draw(st.sampled_from(play.commands))
        assert play.take(command) != NOTHING_HAPPENS
        held = [each for each in play.commands if each.startswith("examine") and "inventory" not in each]
        assert held == sorted(held)


def test_a_goal_may_ask_for_the_absence_of_a_fact() -> None:
    goal = read_goal(
        "(and (exists (?o - object) (inreceptacle ?o r)) (forall (?re - receptacle) (not (opened ?re))))"
    )
    assert goal.is_reached({"inreceptacle": {("x", "r")}})
    assert not goal.is_reached({"inreceptacle": {("x", "r")}, "opened": {("s",)}})
    own = read_goal(
        "(exists (?o - object) (and (isclean ?o) (forall (?r - receptacle) (not (inreceptacle ?o ?r)))))"
    )
    assert not own.is_reached({"isclean": {("x",)}, "inreceptacle": {("x", "r")}})
    assert own.is_reached({"isclean": {("x",), ("y",)}, "inreceptacle": {("x", "r")}})


def test_the_goal_of_two_objects_needs_two() -> None:
    goal = read_goal(
        "(and (exists (?r - receptacle) (exists (?o - object) (and (objecttype ?o a) "
        "(inreceptacle ?o ?r) (exists (?o - object ?p - object) (and (not (= ?o ?p)) (inreceptacle ?o ?r) "
        "(inreceptacle ?p ?r)))))))"
    )
    one = {"objecttype": {("x", "a")}, "inreceptacle": {("x", "r")}}
    assert not goal.is_reached(one)
    assert goal.is_reached({**one, "inreceptacle": {("x", "r"), ("y", "r")}})
    assert not goal.is_reached({**one, "inreceptacle": {("x", "r"), ("y", "s")}})


@each_case(
    ("formula", "words"),
    [
        ("(forall (?o) (isclean ?o))", "`forall`"),
        ("(or (isclean a) (ishot a))", "`or`"),
        ("(not (isclean a))", "`not`"),
        ("(isclean ?o)", "outside of its `exists`"),
        ("(and)", "no condition"),
        ("isclean", "not a condition"),
        ("(and (isclean a)", "not one formula"),
        ("", "not one formula"),
        ("(exists ?o (isclean ?o))", "`exists`"),
        ("(isclean (a))", "where an object is needed"),
        ("(" * 100 + ")" * 100, "nested deeper"),
        (f"(and {'(isclean a)' * 100})", "100 conditions"),
    ],
)
def test_a_goal_that_is_not_understood_names_its_fault(formula: str, words: str) -> None:
    with pytest.raises(GoalError, match=words.replace("(", r"\(")):
        read_goal(formula)


@each_case(
    ("data", "words"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"{}", "has no text 'pddl_domain'"),
        (make_file(pddl_problem=None), "has no text 'pddl_problem'"),
        (
            make_file(pddl_domain="(define (domain logistics) (:action drive))"),
            "its domain is not ALFWorld's",
        ),
        (make_file(grammar="{}"), 'no text for "task"'),
        (make_file(grammar='"task": [{"rhs": "Win."}]'), "neither of ALFWorld's two"),
        (make_file(grammar='"task": [{"rhs": "\\q"}]'), "broken text"),
        (make_file(pddl_problem="(define (problem p))"), "no `\\(:init`"),
        (make_file(FACTS.replace("(atLocation agent1 loc_bar_0)", "")), "one `atLocation`"),
        (make_file("(atLocation agent1 loc_bar_0)"), "no `receptacleAtLocation`"),
        (make_file(FACTS + "(inReceptacle x)"), "`inreceptacle` with 1 arguments"),
        (make_file(goal="(exists (?o - object) (isClean ?o ?o))"), "goal has `isclean` with 2 arguments"),
        (make_file(goal="(and (winning agent1))"), "the unknown predicate `winning`"),
        (make_file(goal="(forall (?o) (isClean ?o))"), "its goal cannot be read"),
        (make_file(FACTS + "".join(f"(isClean o{n})" for n in range(5000))), "facts; the limit"),
        (
            make_file(FACTS + "".join(f"(receptacleAtLocation r{n} l)" for n in range(500))),
            "receptacles; the",
        ),
        (make_file(FACTS + "".join(f"(holds agent1 o{n})" for n in range(50))), "held objects; the limit"),
        (make_file(FACTS + f"(isClean {'o' * 5000})"), "characters in an id; the limit"),
    ],
)
def test_a_file_that_is_no_game_names_its_fault(data: bytes, words: str) -> None:
    with pytest.raises(GameError, match=words):
        read_game(data)


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: json.dumps({"grammar": text}).encode())
)
def test_no_content_of_a_file_raises_anything_else(data: bytes) -> None:
    with pytest.raises(GameError):
        read_game(data)


def test_a_goal_of_two_of_many_objects_is_decided() -> None:
    goal = """\
(exists (?r - receptacle) (exists (?o1 - object) (and
 (objectType ?o1 PenType) (receptacleType ?r DrawerType) (inReceptacle ?o1 ?r)
 (exists (?o2 - object) (and (not (= ?o1 ?o2))
  (objectType ?o2 PenType) (receptacleType ?r DrawerType) (inReceptacle ?o2 ?r))))))"""
    facts = FACTS
    for number in range(40):
        drawer, pen = f"Drawer_bar_{number}", f"Pen_bar_{number}"
        facts += f"(receptacleType {drawer} DrawerType) (receptacleAtLocation {drawer} loc_bar_{number})"
        facts += f"(objectType {pen} PenType) (pickupable {pen}) (inReceptacle {pen} {drawer})"
    play = Play(make_game(f"{facts} (canContain DrawerType PenType)", goal))
    play_commands(["go to drawer 1", "take pen 1 from drawer 1", "go to drawer 2"], play)
    assert not play.won
    play.take("put pen 1 in/on drawer 2")
    assert play.won


def test_a_goal_that_no_search_could_decide_is_refused(tmp_path: Path) -> None:
    # Nine different apples of eight: only all permutations show that there are none.
    names = [f"?o{number}" for number in range(9)]
    apples = "".join(f"(objectType {name} AppleType)" for name in names)
    different = "".join(f"(not (= {one} {other}))" for one, other in combinations(names, 2))
    goal = f"(exists ({' '.join(names)}) (and {apples} {different}))"
    path = tmp_path / "game.tw-pddl"
    facts = FACTS + "".join(f"(objectType apple_bar_x{number} AppleType)" for number in range(7))
    path.write_bytes(make_file(facts, goal=goal))
    with pytest.raises(DataError, match="too many comparisons"):
        load_game(str(path))


def test_comments_and_distances_in_a_problem_are_left_out() -> None:
    facts = FACTS + "; (isHot Apple_bar_1)\n(= (total-cost) 0)\n(= (distance loc_bar_7 loc_bar_8) 3)\n"
    play = Play(read_game(make_file(facts, IN_THE_FRIDGE)))
    assert play.game.names == make_game().names
    play_commands(["go to countertop 1", "take apple 1 from countertop 1"], play)
    assert play.take("examine apple 1") == "There's nothing special about apple 1."


def test_bleu_has_known_values() -> None:
    # From NLTK 3.10: sentence_bleu with the smoothing method4.
    command = ["go", "to", "drawer", "1"]
    assert score(command, command) == pytest.approx(1.0)
    assert score(["open"], command) == 0.0
    assert score(["drawer"], command) == pytest.approx(0.0497870683678639)
    assert score(["go", "to", "the", "drawer", "1"], command) == pytest.approx(0.17141814854755813)


def test_the_nearest_command_is_the_first_of_the_best() -> None:
    commands = ["go to drawer 1", "go to drawer 2", "look", "open drawer 1"]
    assert find_nearest("Go To drawer 2\nlook", commands) == "go to drawer 2"
    assert find_nearest("go to drawer 3", commands) == "go to drawer 1"
    assert find_nearest("open the drawer 1", commands) == "open drawer 1"
    assert find_nearest("dance", commands) is None
    assert find_nearest(" ", commands) is None
    assert find_nearest("look", []) is None
