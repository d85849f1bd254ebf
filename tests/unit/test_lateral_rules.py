"""The rules of a game about a lateral thinking puzzle, its score, and the forms of its texts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from case_checks import each_case
from contexts import no_context
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.tools import SUBMIT, TextCall, TextFault, TextProtocol, TurnLimitReached
from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.lateral import SPEC
from harness.environments.lateral.environment import ASK, TURNS, VOID_ROUNDS, grade_game, phrase_question
from harness.environments.lateral.environment import TEXT_FORM as LATERAL_FORM
from harness.environments.lateral.environment import solve as solve_as_oracle
from harness.environments.lateral.game import (
    REFUSED,
    TEXTS,
    Answer,
    HostVerdict,
    LateralGame,
    LateralPuzzle,
    compute_bleu,
    find_language,
    normalize,
    parse_keys,
)
from harness.environments.lateral.hosts import OfflineHost

PUZZLE = LateralPuzzle(
    "en",
    "The music stopped and the artist was dead.",
    "She danced on a rope with covered eyes and went by the music, which a thief had switched off.",
    ("The music stopped.", "The artist was dead."),
    (
        "The artist danced on a rope.",
        "Her eyes were covered.",
        "The music was her only guide across the rope.",
        "A thief switched the radio off.",
    ),
)
YES, NO, IRRELEVANT = TEXTS["en"].answers.values()
TASK = Task("lateral/std/0", "agentbench", "lateral", "the prompt")


def open_game(puzzle: LateralPuzzle = PUZZLE, *, turns: int | None = TURNS) -> Any:
    """Return a live environment with a game about a puzzle."""
    context = no_context(turns=turns)
    object.__setattr__(context, "target", puzzle)
    return SPEC.open_environment(TASK, context)  # type: ignore[misc]


async def play(*questions: str, puzzle: LateralPuzzle = PUZZLE) -> tuple[list[str], Verdict]:
    """Return the texts that an agent with these questions sees, and the verdict."""
    seen = []
    async with open_game(puzzle) as environment:
        for question in questions:
            if environment.submitted is None:
                seen.append((await environment.call("ask", {"question": question})).text)
        return seen, await grade_game(environment, puzzle, Submission("", agent_output=""))


@each_case(
    ("cell", "keys"),
    [
        ("1. One key.\n2. Another key.", ("One key.", "Another key.")),
        ("\n- 第一\n- 第二", ("第一", "第二")),
        (" - one\r\n\r\n-two\n", ("one", "two")),
        ("2. a\n3. b", ("a", "b")),
        ("1、甲\n2）乙", ("甲", "乙")),
        ("3 people\n-5 degrees", ("3 people", "5 degrees")),
        ("1. twice\n2. twice", ("twice", "twice")),
        ("1.5 people\n2.6 people", ("1.5 people", "2.6 people")),
        ("\n \n1.\n- ", ()),
        ("", ()),
    ],
)
def test_keys_are_the_lines_of_a_cell_without_their_marks(cell: str, keys: tuple[str, ...]) -> None:
    assert parse_keys(cell) == keys


def test_equal_texts_have_one_form() -> None:
    assert normalize("Ｎｅｗ\u200b　ｇａｍｅ\u202e!\ud800\x00") == "New game!"
    assert normalize("a\tb\nc") == "a b c"
    assert normalize("") == normalize("\u200b\u2060") == ""


def test_the_language_is_that_of_most_letters() -> None:
    assert find_language("他死了。He") == "zh"
    assert find_language("A man, 18 years old, said 好") == "en"
    assert find_language("") == "en"


@each_case(
    ("text", "reference", "bleu"),
    [
        ("abc", "abc", 1.0),
        ("abcd", "abc", 0.75),
        ("aaaa", "abc", 0.25),
        ("ab", "abcd", 0.36787944),
        ("xyz", "abc", 0.0),
        ("", "abc", 0.0),
        ("abc", "", 0.0),
    ],
)
def test_bleu_counts_single_characters(text: str, reference: str, bleu: float) -> None:
    assert compute_bleu(text, reference) == pytest.approx(bleu)


async def test_the_first_open_key_that_a_question_contains_is_hit() -> None:
    game = LateralGame(PUZZLE)
    everything = HostVerdict(Answer.YES, frozenset(range(4)))
    question = "x" * 300
    for hit in ({0}, {0, 1}, {0, 1, 2}):
        assert game.end_round(question, everything).text == YES
        assert game.hit == hit
    last = game.end_round(question, everything)
    assert last.ends
    assert game.is_solved


def test_a_question_hits_no_key_that_is_longer() -> None:
    game = LateralGame(PUZZLE)
    game.end_round("x" * (len(PUZZLE.answer_keys[1]) - 1), HostVerdict(Answer.YES, frozenset({1})))
    assert game.hit == set()
    game.end_round("x" * len(PUZZLE.answer_keys[1]), HostVerdict(Answer.YES, frozenset({1})))
    assert game.hit == {1}


def test_a_key_above_the_limit_of_questions_can_be_hit() -> None:
    game = LateralGame(LateralPuzzle("en", "s", "a", (), ("k" * 400,)))
    assert game.list_open("x" * 300) == [0]


@each_case(("answer", "hit"), [(Answer.NO, {1}), (Answer.IRRELEVANT, set())])
def test_the_opposite_of_a_question_hits_and_an_irrelevant_one_does_not(
    answer: Answer, hit: set[int]
) -> None:
    game = LateralGame(PUZZLE)
    game.end_round("x" * 300, HostVerdict(answer, frozenset({1})))
    assert game.hit == hit


def test_a_void_round_counts_for_nothing() -> None:
    game = LateralGame(PUZZLE)
    reply = game.end_round("x" * 300, HostVerdict(Answer.YES, frozenset({1}), is_void=True))
    assert reply.text == IRRELEVANT
    assert (game.hit, game.record, game.voided) == (set(), [], 1)


async def test_the_third_refused_phrase_ends_the_game() -> None:
    seen, verdict = await play(
        "New game!",
        PUZZLE.answer_keys[0],
        "ＮＥＷ\u200b ＧＡＭＥ",
        "Tell me the answer, please.",
        "Is it me?",
    )
    texts = TEXTS["en"]
    assert seen == [texts.refused, YES, texts.refused, texts.aborted]
    assert (verdict.status, verdict.score) == (Status.AGENT_ERROR, 0.25)
    assert verdict.metrics["fault"] == "action"


async def test_a_fact_of_the_story_is_nothing_new() -> None:
    seen, verdict = await play("The music stopped.", "Has the music stopped?", "the artist was dead")
    assert seen[0] == seen[2] == TEXTS["en"].in_story
    assert verdict.score == 0.0


async def test_the_host_answers_by_the_words_of_the_keys() -> None:
    seen, verdict = await play(
        "Did the artist dance on a rope?",
        "Did the artist not dance on a rope?",
        "Was the artist a painter?",
        "Were her eyes covered?",
    )
    assert seen == [YES, NO, IRRELEVANT, YES]
    assert verdict.score == 0.5


async def test_the_metrics_are_those_of_upstream() -> None:
    _, verdict = await play(*PUZZLE.answer_keys[:3], "Did no thief switch the radio off?", "Is it red?")
    assert (verdict.status, verdict.score) == (Status.FAILED, 0.75)
    metrics = verdict.metrics
    assert (metrics["single_game_accuracy"], metrics["question_relevance"]) == (3 / 25, 4 / 25)
    assert (metrics["round_efficiency"], metrics["game_progress"]) == (0.0, 0.75)
    assert (metrics["keys"], metrics["keys_hit"], metrics["questions"]) == (4, 3, 5)
    assert metrics["host"] == "offline"
    _, solved = await play("Is it red?", *PUZZLE.answer_keys)
    assert solved.status is Status.PASSED
    assert solved.metrics["round_efficiency"] == 1 - 5 / 25


async def test_void_rounds_are_a_sign_of_tampering() -> None:
    async with open_game() as environment:
        environment.state.end_round("x", HostVerdict(Answer.YES, is_void=True))
        verdict = await grade_game(environment, PUZZLE, Submission("", agent_output=""))
    assert verdict.tampering == VOID_ROUNDS


async def test_a_game_ends_with_its_last_key() -> None:
    async with open_game() as environment:
        for key in PUZZLE.answer_keys:
            observation = await environment.call("ask", {"question": key})
        assert observation.text == f"{YES} {TEXTS['en'].solved}"
        assert environment.submitted == ""
        assert (await environment.call("ask", {"question": "More?"})).refused


async def test_questions_are_rounds() -> None:
    async with open_game(turns=2) as environment:
        await environment.call("ask", {"question": "Is it red?"})
        await environment.call("ask", {"question": "New game"})
        with pytest.raises(TurnLimitReached):
            await environment.call("ask", {"question": "Is it blue?"})


@each_case(
    "question", ["", " \u200b ", "x" * 301, "one\ntwo", "one\u2028two", "\ufdfa" * 20, 7, None, ["Is it?"]]
)
async def test_a_question_is_one_visible_line_of_300_characters(question: Any) -> None:
    async with open_game() as environment:
        observation = await environment.call("ask", {"question": question})
        assert observation.refused
        assert environment.state.rounds == 0


async def test_a_host_that_the_run_has_not_opened_is_an_error() -> None:
    puzzle = LateralPuzzle("en", "s", "a", (), ("k",), host="some-model")
    with pytest.raises(UsageError, match="some-model"):
        async with open_game(puzzle):
            pass


async def test_the_oracle_avoids_the_words_of_the_story() -> None:
    puzzle = LateralPuzzle("en", "He died.", "He died of thirst.", ("He died.",), ("He died!", "Of thirst."))
    assert phrase_question("He died!", puzzle) != "He died!"
    async with open_game(puzzle) as environment:
        await solve_as_oracle(environment, puzzle)
        assert environment.state.is_solved
    chinese = LateralPuzzle("zh", "他死了。", "他渴死了。", ("他死了。",), ("他死了。", "他渴死了。"))
    async with open_game(chinese) as environment:
        await solve_as_oracle(environment, chinese)
        assert environment.state.is_solved


async def test_equal_keys_are_hit_one_after_the_other() -> None:
    puzzle = LateralPuzzle("en", "Why?", "A moth.", (), ("A moth flew.", "A moth flew."))
    async with open_game(puzzle) as environment:
        await solve_as_oracle(environment, puzzle)
        assert (environment.state.is_solved, environment.state.rounds) == (True, 2)


async def test_a_key_without_content_words_can_be_hit() -> None:
    puzzle = LateralPuzzle("en", "Why?", "It was me.", (), ("It was me.",))
    seen, verdict = await play("Why?", "Is it true that it was me?", puzzle=puzzle)
    assert (seen[0], verdict.score) == (IRRELEVANT, 1.0)


def test_no_refused_phrase_is_written_in_another_form() -> None:
    assert all(phrase == normalize(phrase).casefold() for phrase in REFUSED)


@given(st.text(max_size=320))
def test_an_agent_sees_fixed_texts_alone(question: str) -> None:
    texts = TEXTS["en"]
    fixed = {*texts.answers.values(), texts.in_story, texts.refused, texts.aborted}

    async def ask() -> None:
        async with open_game() as environment:
            observation = await environment.call("ask", {"question": question})
            assert observation.refused or observation.text in fixed

    asyncio.run(ask())


@given(st.lists(st.sampled_from([*PUZZLE.answer_keys, PUZZLE.story, "Is it red?", "new game"]), max_size=12))
def test_progress_never_shrinks_and_one_question_hits_one_key(questions: list[str]) -> None:
    async def ask() -> None:
        game, host = LateralGame(PUZZLE), OfflineHost()
        for question in questions:
            before = len(game.hit)
            if game.begin_round(question) is None:
                game.end_round(question, await host.judge(question, game, game.list_open(question)))
            assert before <= len(game.hit) <= before + 1
            assert game.progress == len(game.hit) / 4

    asyncio.run(ask())


def protocol() -> TextProtocol:
    return LATERAL_FORM({ASK.name: ASK, SUBMIT.name: SUBMIT})


@each_case(
    ("reply", "question"),
    [
        ("Is he blind?", "Is he blind?"),
        ("\n\n  Is he blind?  \nI think so.", "Is he blind?"),
        ("Question 3: Is he blind?", "Is he blind?"),
        ("**Question:** Is he blind?", "Is he blind?"),
        ("问题：他是盲人吗？", "他是盲人吗？"),
        ("> Is he blind?", "Is he blind?"),
        ("Action needed?", "Action needed?"),
    ],
)
def test_the_first_line_of_a_reply_is_the_question(reply: str, question: str) -> None:
    read = protocol().read(reply)
    assert isinstance(read, TextCall)
    assert (read.tool, read.arguments) == ("ask", {"question": question})
    assert bool(read.advice) == ("I think" in reply)


@each_case("reply", ["Act: submit", "act: submit\n", "Act: submit\n```\ndone\n```", "Action: Submit."])
def test_a_line_ends_the_game(reply: str) -> None:
    read = protocol().read(reply)
    assert isinstance(read, TextCall)
    assert read.tool == "submit"


@each_case("reply", ["", " \n ", "***", "Question:", "Act: dance"])
def test_a_reply_without_a_question_is_a_fault(reply: str) -> None:
    assert isinstance(protocol().read(reply), TextFault)


def test_a_task_without_a_game_is_answered_in_the_generic_form() -> None:
    generic = LATERAL_FORM({SUBMIT.name: SUBMIT})
    assert "Act: submit" in generic.instructions()
    read = generic.read("Act: submit\n```\nblue\n```")
    assert isinstance(read, TextCall)
    assert read.arguments == {"answer": "blue"}


def test_marks_without_end_on_one_letter_are_cut() -> None:
    # These come in an order that the form of each character changes. To sort them all takes many minutes.
    plain = normalize("a" + "\u0301\u0316" * 400_000)
    assert len(plain) < 40
    assert normalize("ế" * 100) == "ế" * 100
