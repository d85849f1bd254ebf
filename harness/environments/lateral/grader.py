"""Grade a game about a lateral thinking puzzle by the keys of the solution that were hit."""

from __future__ import annotations

from typing import Any

from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.grader import StateGrader
from harness.environments.host_environment import HostEnvironment
from harness.environments.lateral.environment import ASK, TURNS
from harness.environments.lateral.game import (
    MAX_QUESTION_CHARACTERS,
    Answer,
    LateralGame,
    LateralPuzzle,
    is_in_story,
)

# A sign of tampering, in the same words each time, so that reports can count it.
VOID_ROUNDS = "the host confirmed facts of other puzzles"


async def grade_game(
    environment: HostEnvironment[LateralGame], target: LateralPuzzle, submission: Submission
) -> Verdict:
    """Return the verdict on a game. The score is the share of the keys that were hit, from 0 to 1.

    The text that the agent submits does not count. An agent that has not asked about the story until the game
    was broken off ends with an error. Its keys count.
    """
    game = environment.state
    metrics = measure(game, environment.turns or TURNS)
    tampering = VOID_ROUNDS if game.voided else None
    if game.is_solved:
        return Verdict(Status.PASSED, 1.0, metrics, phase=Phase.EVALUATOR, tampering=tampering)
    found = f"{len(game.hit)} of {len(target.answer_keys)} keys of the solution were found"
    if game.is_aborted:
        evidence = f"the agent did not ask about the story, and {found}"
        return Verdict(
            Status.AGENT_ERROR,
            game.progress,
            {**metrics, "fault": "action"},
            evidence,
            Phase.AGENT,
            tampering=tampering,
        )
    return Verdict(Status.FAILED, game.progress, metrics, found, Phase.EVALUATOR, tampering=tampering)


def measure(game: LateralGame, turns: int) -> dict[str, Any]:
    """Return upstream's metrics of a game with a limit on its turns, and the counts behind them.

    `single_game_accuracy` (SGA) is the share of turns that were answered yes, `question_relevance` (QR) that
    of turns answered yes or no, and `round_efficiency` (RE) the share of turns that a solved game left over.
    """
    yes, no = game.answers[Answer.YES], game.answers[Answer.NO]
    used = game.rounds if game.is_solved else turns
    return {
        "host": game.puzzle.host,
        "game_progress": game.progress,
        "single_game_accuracy": yes / turns,
        "question_relevance": (yes + no) / turns,
        "round_efficiency": max(1 - used / turns, 0.0),
        "keys": len(game.puzzle.answer_keys),
        "keys_hit": len(game.hit),
        "questions": game.rounds,
        "void_rounds": game.voided,
    }


GRADERS = (StateGrader(LateralPuzzle, grade_game),)


DONE = "done"


async def solve(environment: HostEnvironment[LateralGame], puzzle: LateralPuzzle) -> str:
    """Ask for each key until all are hit, and return the answer to submit. Raises TurnLimitReached."""
    game = environment.state
    for number, key in enumerate(puzzle.answer_keys):
        question = phrase_question(key, puzzle)
        # An earlier key may be in the same question, and is hit first.
        for _ in puzzle.answer_keys:
            if number in game.hit or environment.submitted is not None:
                break
            hits = len(game.hit)
            await environment.call(ASK.name, {"question": question})
            if len(game.hit) == hits:
                break
    return DONE


def phrase_question(key: str, puzzle: LateralPuzzle) -> str:
    """Return a question that contains a key and does not repeat a fact of the story.

    Signs that the story lacks lower the share of the characters that both have.
    """
    if is_in_story(key[:MAX_QUESTION_CHARACTERS], puzzle.story_keys):
        key = f"{'?' * (len(key) // 4 + 2)} {key}"
    return key[:MAX_QUESTION_CHARACTERS]
