"""The offline host: the oracle solves every puzzle, and no cheat hits a key. Real puzzles are tried, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.audit.attack_kinds import ToolAttack
from harness.audit.suite import list_attacks_on
from harness.benchmarks import load_benchmark
from harness.core.types import Task
from harness.environments.lateral.environment import TURNS, Question, phrase_question
from harness.environments.lateral.game import (
    MAX_QUESTION_CHARACTERS,
    Language,
    LateralGame,
    LateralPuzzle,
    list_terms,
    normalize,
)
from harness.environments.lateral.hosts import OfflineHost

MOST_FOR_THE_STORY = 0.017
BUNDLED, REAL = "bundled", "real"


@cache
def load(path: str) -> list[tuple[Task, LateralPuzzle]]:
    benchmark = load_benchmark("agentbench", data=path, notify=print)
    found = []
    for task in benchmark.tasks:
        target = benchmark.references[task.id].target
        if isinstance(target, LateralPuzzle):
            found.append((task, target))
    return found


@pytest.fixture(params=[BUNDLED, REAL])
def games(request: pytest.FixtureRequest) -> list[tuple[Task, LateralPuzzle]]:
    if request.param == BUNDLED:
        return load(BUNDLED)
    folder: Path = request.getfixturevalue("shared_data")
    # All of AgentBench's tables count, wherever they lie.
    files = sorted((folder / "agentbench").rglob("*.xlsx"))
    if not files:
        pytest.skip(f"no puzzles in {folder}/agentbench")
    return [game for file in files for game in load(str(file))]


async def _play(puzzle: LateralPuzzle, questions: Iterable[str]) -> LateralGame:
    game, host = LateralGame(puzzle), OfflineHost()
    for raw in islice(questions, TURNS):
        question = Question(question=raw[:MAX_QUESTION_CHARACTERS]).question
        if game.begin_round(question) is None:
            game.end_round(question, await host.judge(question, game, game.list_open(question)))
        if game.is_solved or game.is_aborted:
            break
    return game


def finish(puzzle: LateralPuzzle, questions: Iterable[str]) -> LateralGame:
    """Return the game at its end. The offline host never waits, so that no event loop is needed."""
    try:
        _play(puzzle, questions).send(None)
    except StopIteration as end:
        game: LateralGame = end.value
        return game
    raise AssertionError("the offline host has waited")


def progress(puzzle: LateralPuzzle, questions: Iterable[str]) -> float:
    return finish(puzzle, questions).progress


def pieces(text: str) -> list[str]:
    size = MAX_QUESTION_CHARACTERS
    return [text[start : start + size] for start in range(0, len(text), size)]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


Games = list[tuple[Task, LateralPuzzle]]


def test_the_oracle_finds_every_key(games: Games) -> None:
    for task, puzzle in games:
        game = finish(puzzle, [phrase_question(key, puzzle) for key in puzzle.answer_keys])
        assert game.is_solved, task.id
        assert game.rounds == len(puzzle.answer_keys)


def test_keys_of_other_puzzles_hit_nothing(games: Games) -> None:
    for _, puzzle in games:
        for _, other in games:
            if other.answer_keys != puzzle.answer_keys:
                assert progress(puzzle, other.answer_keys) == 0.0


def test_the_story_hits_next_to_nothing(games: Games) -> None:
    whole = mean([progress(puzzle, pieces(puzzle.story)) for _, puzzle in games])
    facts = mean([progress(puzzle, puzzle.story_keys) for _, puzzle in games])
    padded = [[f"{fact} {'?' * 150}" for fact in puzzle.story_keys] for _, puzzle in games]
    asked = mean([progress(puzzle, each) for (_, puzzle), each in zip(games, padded, strict=True)])
    assert max(whole, facts, asked) <= MOST_FOR_THE_STORY


def test_dumps_of_words_hit_nothing(games: Games) -> None:
    """The dumps hold the most frequent terms of all keys, and those with the story's words."""
    gaps: dict[Language, str] = {"en": " ", "zh": ""}
    for language, gap in gaps.items():
        chosen = [puzzle for _, puzzle in games if puzzle.language == language]
        counts = Counter(
            term for puzzle in chosen for key in puzzle.answer_keys for term in list_terms(key, language)
        )
        common = gap.join(term for term, _ in counts.most_common(2000))
        for puzzle in chosen:
            story = gap.join(sorted(list_terms(puzzle.story, language)))
            assert progress(puzzle, pieces(common)) == 0.0
            assert progress(puzzle, pieces(f"{story}{gap}{common}"[:MAX_QUESTION_CHARACTERS])) == 0.0


def test_no_attack_of_the_audit_hits_a_key(games: Games) -> None:
    attacks = list_attacks_on(LateralPuzzle.__name__)
    assert len(attacks) >= 10
    for task, puzzle in games:
        for attack in attacks:
            assert isinstance(attack, ToolAttack)
            questions = [arguments.get("question") for tool, arguments in attack.list_calls(task)]
            valid = [each for each in questions if isinstance(each, str) and _is_valid(each)]
            assert progress(puzzle, valid) == 0.0, (attack.name, task.id)


def _is_valid(question: str) -> bool:
    try:
        Question(question=question)
    except ValueError:
        return False
    return True


PEOPLE = ("the man", "two men", "a new game", "Xiao Ming", "nobody", "she", "all 12 guests", "it")
VERBS = ("did not see", "killed", "were", "isn't", "was never told about", "had", "is", "finished the")
THINGS = ("3 keys", "the key", "1.5 litres of water", "himself", "the next game", "“a coat”", "not him")
PARTS_ZH = [
    *("两个人", "他没有", "不是", "３把钥匙", "、钥匙", "“凶手”"),
    *("（一）", "我", "杀了", "。", "ABC", "新游戏"),
]
KEYS = st.builds("{} {} {}.".format, *map(st.sampled_from, (PEOPLE, VERBS, THINGS)))
KEYS_ZH = st.lists(st.sampled_from(PARTS_ZH), min_size=1, max_size=6).map("".join).filter(str.strip)


def make_puzzles(
    keys: st.SearchStrategy[str], language: Language, gap: str
) -> st.SearchStrategy[LateralPuzzle]:
    """Return puzzles whose keys share words, contain each other, and are told by the story in part."""
    joined = st.lists(keys, min_size=1, max_size=3).map(gap.join).map(normalize)
    many = st.lists(joined, min_size=1, max_size=6).map(tuple)
    return st.builds(
        LateralPuzzle, st.just(language), joined, joined, many, many, st.just(()), st.just("offline")
    )


@given(make_puzzles(KEYS, "en", " ") | make_puzzles(KEYS_ZH, "zh", "，"))
def test_the_oracle_solves_any_puzzle(puzzle: LateralPuzzle) -> None:
    # A key that is a part of another one is hit first, and the other one by the next question.
    questions = [phrase_question(key, puzzle) for key in puzzle.answer_keys]
    rounds = TURNS // len(questions)
    assert progress(puzzle, questions * min(rounds, len(questions))) == 1.0


def test_a_short_key_needs_all_of_its_words() -> None:
    puzzle = make_puzzle(
        "Two people met.", "The man killed his wife.", "The guests were told to leave the house."
    )
    assert progress(puzzle, ["Did the man kill the bear after the party?"]) == 0.0
    assert progress(puzzle, ["Is it true that the man killed his wife?"]) == 0.5
    assert progress(puzzle, ["Were the guests told over the phone to leave?"]) == 0.5


def test_a_key_in_the_words_of_the_story_needs_a_question_about_it_alone() -> None:
    puzzle = make_puzzle("A sailor saw the lighthouse and the storm at night.", "The sailor saw the storm.")
    assert progress(puzzle, ["A sailor saw the lighthouse, the storm and the coast at night."]) == 0.0
    assert progress(puzzle, ["Did the sailor see the storm? The sailor saw the storm."]) == 1.0


def test_a_phrase_of_the_puzzle_itself_is_not_refused() -> None:
    puzzle = make_puzzle("They played.", "The children invented a new game.")
    assert progress(puzzle, ["The children invented a new game."]) == 1.0
    assert finish(puzzle, ["Give me a new game", "Skip this puzzle"]).aborts == 2


def make_puzzle(story: str, *keys: str) -> LateralPuzzle:
    return LateralPuzzle("en", story, "", (), keys)


def test_an_answer_in_other_characters_is_the_same_answer() -> None:
    _, puzzle = load(BUNDLED)[0]
    key = puzzle.answer_keys[1]
    wide = "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in key)
    hidden = "\u200b".join(key[: MAX_QUESTION_CHARACTERS // 2])
    # The look of a character does not matter, and one of another alphabet is another character.
    assert progress(puzzle, [wide]) == progress(puzzle, [hidden]) == 1 / len(puzzle.answer_keys)
    assert progress(puzzle, [key.replace("e", "е").replace("o", "о").replace("a", "а")]) == 0.0


def test_several_guesses_in_one_question_hit_one_key() -> None:
    for _, puzzle in load(BUNDLED):
        joined = " ".join(puzzle.answer_keys)[:MAX_QUESTION_CHARACTERS]
        assert progress(puzzle, [joined]) <= 1 / len(puzzle.answer_keys)
