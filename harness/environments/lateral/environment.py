"""The environment of a lateral thinking puzzle: a host that answers questions with yes, no or irrelevant."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from pydantic import Field, field_validator

from harness.core.errors import UsageError
from harness.core.tools import Arguments, LastObservation, Tool
from harness.core.types import Task
from harness.environments.base import EnvironmentContext
from harness.environments.host_environment import HostEnvironment, open_without_world
from harness.environments.lateral.game import LateralGame, Reply
from harness.environments.lateral.hosts import OFFLINE, Host, ModelHost, OfflineHost
from harness.environments.lateral.puzzle import MAX_QUESTION_CHARACTERS, LateralPuzzle, normalize

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
