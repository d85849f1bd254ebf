"""The environment of a lateral thinking puzzle: a host that answers questions with yes, no or irrelevant."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pydantic import Field, field_validator

from harness.core.errors import UsageError
from harness.core.tools import SUBMIT, Arguments, LastObservation, TextCall, TextFault, Tool
from harness.core.types import Phase, Status, Submission, Task, Verdict
from harness.environments.base import EnvironmentContext, HostEnvironment, open_without_world
from harness.environments.lateral.game import (
    MAX_QUESTION_CHARACTERS,
    Answer,
    LateralGame,
    LateralPuzzle,
    is_in_story,
    normalize,
)
from harness.environments.lateral.hosts import OFFLINE, Host, ModelHost, OfflineHost
from harness.environments.spec import StateGrader
from harness.environments.text_protocol import TextForm, add_advice, read_named
from harness.environments.written_actions import WrittenReply

TURNS = 25

_ACT = re.compile(r"[\s>*_#`-]*act(?:ion)?[\s*_`]*[:：]", re.IGNORECASE)
# Labels that models write before their question.
_LABEL = re.compile(r"(?:question(?: \d+)?|q\d*|问题|提问)\s*[:：]\s*", re.IGNORECASE)
_MARKS = " \t>*_#`"
_INSTRUCTIONS = """\
Write one question in each reply, and nothing else. Only the first line of a reply is read, and it is the \
question for the host. The next message shows the host's answer.

To end the game before all is found, write the line `Act: submit`."""
_ADVICE = "Write your question for the host on the first line."
_ONLY_FIRST_LINE = "[Only the first line of your reply was read as the question.]"

# A sign of tampering, in the same words each time, so that reports can count it.
VOID_ROUNDS = "the host confirmed facts of other puzzles"

DONE = "done"


class Question(Arguments):
    """The arguments of `ask`."""

    question: str = Field(
        min_length=1,
        max_length=MAX_QUESTION_CHARACTERS,
        description="One question or guess, which yes, no or irrelevant can answer, on one line",
    )

    @field_validator("question")
    @classmethod
    def _require_one_line(cls, question: str) -> str:
        if len(question.strip().splitlines()) > 1:
            raise ValueError("must be one line")
        plain = normalize(question)
        if not plain:
            raise ValueError("must hold at least one visible character")
        if len(plain) > MAX_QUESTION_CHARACTERS:
            raise ValueError(
                f"has {len(plain)} characters when each is written out; the limit is "
                f"{MAX_QUESTION_CHARACTERS}"
            )
        return plain


ASK = Tool(
    "ask", "Ask the host one question about the story. The host answers yes, no or irrelevant.", Question
)


@contextlib.asynccontextmanager
async def open_environment(
    task: Task, context: EnvironmentContext
) -> AsyncIterator[HostEnvironment[LateralGame] | HostEnvironment[None]]:
    """Open a game about the puzzle in the target.

    Raises UsageError for a host that the run has not opened.
    """
    puzzle = context.target
    if not isinstance(puzzle, LateralPuzzle):
        yield open_without_world(context)
        return
    game, host = LateralGame(puzzle), _choose_host(puzzle, context)

    async def ask(arguments: Question) -> str | LastObservation:
        question = arguments.question
        reply = game.begin_round(question)
        if reply is None:
            reply = game.end_round(question, await host.judge(question, game, game.list_open(question)))
        return LastObservation(reply.text) if reply.ends else reply.text

    yield HostEnvironment(game, {ASK: ask}, context)


def _choose_host(puzzle: LateralPuzzle, context: EnvironmentContext) -> Host:
    if puzzle.host == OFFLINE:
        return OfflineHost()
    if context.judge is None:
        raise UsageError(
            f"the host '{puzzle.host}' of lateral thinking puzzles is a model that this run has not opened",
            hint="name it with --option lateral.host=NAME, or leave the option out for the offline host",
        )
    return ModelHost(context.judge, context.seed)


def _read_question(reply: str) -> TextCall | TextFault | None:
    """Return the question in the first line, None if the line is an action."""
    lines = [line.strip() for line in reply.strip().splitlines() if line.strip(_MARKS)]
    if not lines:
        return TextFault("no action", f"Your reply is empty. {_ADVICE}")
    if _ACT.match(lines[0]):
        return None
    question = _LABEL.sub("", lines[0].strip(_MARKS), count=1).strip(_MARKS)
    if not question:
        return TextFault("no action", f"The first line of your reply has no question. {_ADVICE}")
    # The server may have cut off the only line, and no later one.
    call = TextCall(ASK.name, {"question": question}, is_complete=len(lines) > 1)
    return add_advice(call, _ONLY_FIRST_LINE) if len(lines) > 1 else call


def _read_submit(tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    read = read_named(tools, reply)
    # An answer does not count here, so none is needed.
    return read if isinstance(read, TextCall) else TextCall(SUBMIT.name, {"answer": ""})


TEXT_FORM = TextForm(
    instructions=_INSTRUCTIONS,
    tools=(ASK,),
    advice=_ADVICE,
    result="The host's answer:",
    words={SUBMIT.name: _read_submit},
    otherwise=read_named,
    read_whole=_read_question,
)
"""The form of AgentBench v0.2: the first line of a reply is the question.

Source: the task `lateralthinkingpuzzle` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""


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
