"""The files of household games on disk, which are read when they are needed.

Three thousand games have 60 KB each, so that a run keeps only their paths and digests.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from harness.core.errors import DataError
from harness.core.inputs.files import read_input
from harness.environments.house.game import GameError, read_game
from harness.environments.house.goal import GoalError
from harness.environments.house.play import Play

# Published games have 60 KB.
MAX_GAME_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HouseGame:
    """The game that an agent must win. Its file holds the hidden state, and a walkthrough."""

    path: str
    # The SHA-256 (hex) of the file when the benchmark was loaded.
    sha256: str
    # Whether a command that is not possible stands for the nearest possible one.
    nearest_command: bool = False


def load_game(path: str, *, sha256: str | None = None) -> tuple[Play, str]:
    """Return the game in a file at its start, and the SHA-256 (hex) of the file.

    Raises DataError, with the path, if the file cannot be read, is not a game of ALFWorld, holds a game that
    is won before the first command, or has another digest than `sha256`.
    """
    try:
        data = read_input(path, max_bytes=MAX_GAME_BYTES)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    digest = hashlib.sha256(data).hexdigest()
    if sha256 is not None and digest != sha256:
        raise DataError("has changed since it was loaded", path=path, hint="start the run again")
    try:
        play = Play(read_game(data))
    except (GameError, GoalError) as error:
        raise DataError(
            f"{error}", path=path, hint="a game of ALFWorld is the file game.tw-pddl of its json_2.1.1 folder"
        ) from error
    if play.won:
        raise DataError(
            "is a game that is won at its start, so that it measures nothing",
            path=path,
            hint="remove it from the list of games",
        )
    return play, digest
