"""The environment of a lateral thinking puzzle: a host that answers questions with yes, no or irrelevant."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping

from pydantic import Field, field_validator

from harness.core.errors import UsageError
from harness.core.tools import SUBMIT, Arguments, LastObservation, TextCall, TextFault, Tool
from harness.core.types import Task
from harness.environments.base import EnvironmentContext
from harness.environments.host_environment import HostEnvironment, open_without_world
from harness.environments.lateral.game import (
    MAX_QUESTION_CHARACTERS,
    LateralGame,
    LateralPuzzle,
    Reply,
    normalize,
)
from harness.environments.lateral.hosts import OFFLINE, Host, ModelHost, OfflineHost
from harness.environments.text_protocol import TextForm, add_advice, read_named
from harness.environments.written_actions import WrittenReply

TURNS = 25


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
    "ask",
    "Ask the host one question about the story. The host answers yes, no or irrelevant.",
    Question,
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
        reply = await _answer(arguments.question, game, host)
        return LastObservation(reply.text) if reply.ends else reply.text

    yield HostEnvironment(game, {ASK: ask}, context)


async def _answer(question: str, game: LateralGame, host: Host) -> Reply:
    reply = game.begin_round(question)
    if reply is None:
        reply = game.end_round(question, await host.judge(question, game, game.list_open(question)))
    return reply


def _choose_host(puzzle: LateralPuzzle, context: EnvironmentContext) -> Host:
    if puzzle.host == OFFLINE:
        return OfflineHost()
    if context.judge is None:
        raise UsageError(
            f"the host '{puzzle.host}' of lateral thinking puzzles is a model that this run has not opened",
            hint="name it with --option lateral.host=NAME, or leave the option out for the offline host",
        )
    return ModelHost(context.judge, context.seed)


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
