"""The set-up of a task in `notes`, and the tool that an agent calls there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pydantic import Field

from harness.core.errors import DataError, SandboxError
from harness.core.tools import Arguments, Tool
from harness.core.types import Task
from harness.environments.base import EnvironmentContext, SandboxEnvironment

SEARCH_SECONDS = 10.0
SHOWN_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class NotesSetup:
    """The notes of a task: pairs of a file name and a text."""

    notes: tuple[tuple[str, str], ...]


class Search(Arguments):
    """The words to search for."""

    words: str = Field(description="Words that a line must contain, in any case.", max_length=200)


SEARCH = Tool("search", "Search all notes, and return the lines that contain the words.", Search)


@contextlib.asynccontextmanager
async def open_environment(task: Task, context: EnvironmentContext) -> AsyncIterator[SandboxEnvironment]:
    """Open a sandbox with the task's notes. Raises DataError for a task without notes, and SandboxError."""
    if not isinstance(task.setup, NotesSetup):
        raise DataError(f"task {task.id} has no notes")
    async with context.pool.lease(context.settings, seconds=context.seconds) as sandbox:
        for name, text in task.setup.notes:
            await sandbox.write_file(f"notes/{name}", text.encode())

        async def search(arguments: Search) -> str:
            # The words are an argument of grep and no part of a command, so an agent cannot run one.
            command = [
                "grep",
                "--recursive",
                "--ignore-case",
                "--fixed-strings",
                "-e",
                arguments.words,
                "notes",
            ]
            result = await sandbox.exec(command, timeout=SEARCH_SECONDS)
            return str(result.stdout)[:SHOWN_CHARACTERS] or "no line has these words"

        async def end() -> None:
            # Every search ends all of its processes and reports whether that can be shown.
            if not sandbox.clean:
                raise SandboxError("a process of a search could not be ended")

        yield SandboxEnvironment(sandbox, {SEARCH: search}, context, end=end)
