"""AgentBench's category `house`: ALFWorld's games, which a list names by their paths.

Upstream's file of a split is `{task type: [path of a game.tw-pddl, ...]}`. The paths begin with
`json_2.1.1/`, which is ALFWorld's own folder, and which a user brings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, Any

from pydantic import Field

from harness.benchmarks.benchmark import CategoryFacts
from harness.benchmarks.category import Category, CategoryFiles, CategoryOptions, solve_by_target
from harness.benchmarks.data.rows import Row
from harness.benchmarks.options import OptionEffect, Options
from harness.core.errors import DataError
from harness.core.types import Reference, Task
from harness.environments.house.environment import show_start, solve
from harness.environments.house.play import HouseGame, Play, load_game

_NAME = "house"
_FOLDER = "alfworld"
_GAMES = "json_2.1.1"
_LIST = re.compile(r"([^/]+)\.json", re.IGNORECASE)
_GAME_SUFFIX = ".tw-pddl"
# Upstream's name of the split that its paper calls std.
_SPLITS = {"standard": "std"}
_FIELDS = ("game", "game_sha256", "task_type", "goal", "start")

_PROMPT = """\
You are in a household, and you have a task there. The tool `take_action` takes one of the available \
actions, exactly as it is listed. Its result shows the actions that are available next. Any other text \
changes nothing, and its result is "Nothing happens.". The same action three times in a row ends the task. \
The task ends by itself as soon as it is done{end}.

{start}
"""
_GIVE_UP = ", so call `submit` only to give up"

_TURNS: Mapping[str, int] = {"v0.2": 35, "fc": 20}


class HouseOptions(Options):
    """The options of `house`."""

    # Whether an action that is not available counts as the nearest one by BLEU, as upstream does.
    nearest_command: bool = False
    # The folder that holds `json_2.1.1/`. None looks next to the list of games.
    games: Annotated[str | None, OptionEffect("read the games in the folder")] = Field(
        default=None, min_length=1
    )


def _rows(files: CategoryFiles, options: CategoryOptions) -> Iterator[Row]:
    """Yield a row for each game of each list, with the digest of its file and the first message.

    Nothing else of a game is kept, because a list may name thousands. Its environment reads it again.
    """
    for name in files.names:
        found = _LIST.fullmatch(name)
        if found is None:
            continue
        split = _SPLITS.get(found[1], found[1])
        games = list(_list_games(files, name))
        root = _find_games(files, name, [path for _, path, _ in games], options.own.games)
        if root is None:
            files.notify(
                f"{files.tree.places[name]}: left out, because the folder {_GAMES}/ with its games is not "
                f"next to it; name the folder that holds {_GAMES}/ by --option {_NAME}.games=PATH"
            )
            continue
        for number, (task_type, path, row) in enumerate(games):
            place = _join(root, path)
            play, digest = _load(place, options.own.games)
            files.note(path, digest)
            values = {
                "task_id": f"{_NAME}/{split}/{number}",
                "environment": _NAME,
                "task_type": task_type,
                "game": place,
                "game_sha256": digest,
                "goal": play.game.task,
                "start": show_start(play),
            }
            yield Row(values, row.path)


def _load(place: str, given: str | None) -> tuple[Play, str]:
    """Return the start of a game and the digest of its file. Raises DataError."""
    if not os.path.isfile(place):
        root = f"the option {_NAME}.games" if given is not None else f"the folder {_GAMES}/ next to the list"
        raise DataError(
            "is missing, and the list names it",
            path=place,
            hint=f"{root} lacks games of the list; download all with ALFWorld's command alfworld-download",
        )
    return load_game(place)


def _list_games(files: CategoryFiles, name: str) -> Iterator[tuple[str, str, Row]]:
    """Yield the task type, the path and the row of each game in a list. Raises DataError."""
    rows = files.parse(name)
    if len(rows) != 1 or rows[0].item is not None:
        raise DataError(
            "needs one object of lists, {task type: [path, ...]}", path=str(files.tree.places[name])
        )
    for task_type in rows[0].values:
        for path in rows[0].texts(task_type):
            parts = PurePosixPath(path).parts
            if not path.endswith(_GAME_SUFFIX) or path.startswith("/") or ".." in parts or "\0" in path:
                raise rows[0].error(
                    f"needs the relative path of a {_GAME_SUFFIX} file, found {path[:200]!r}", field=task_type
                )
            yield task_type, path, rows[0]


def _find_games(files: CategoryFiles, name: str, paths: list[str], given: str | None) -> str | None:
    """Return the folder that the paths of the games are relative to, None if it cannot be found.

    Raises DataError if the option names a folder without the games.
    """
    if given is not None:
        for folder in (Path(given), Path(given).parent):
            if (folder / _GAMES).is_dir() and (folder != Path(given).parent or Path(given).name == _GAMES):
                return os.path.abspath(folder)
        raise DataError(
            f"holds no folder {_GAMES}, which the option {_NAME}.games promises",
            path=given,
            hint="download ALFWorld's games with its command alfworld-download",
        )
    place: PurePath = files.tree.places[name]
    # In an archive the list has no folder on disk, so that the games are next to the archive.
    near = [*Path(place).parents][:3] if Path(place).is_file() else []
    for folder in [*near, files.path, files.path.parent]:
        if paths and os.path.isfile(_join(str(folder), paths[0])):
            return os.path.abspath(folder)
    return None


def _join(root: str, path: str) -> str:
    return os.path.join(root, *PurePosixPath(path).parts)


def _is_list(values: Mapping[str, Any]) -> bool:
    """Return whether an object names games by their task types, as upstream's lists do."""
    return bool(values) and all(
        isinstance(paths, list)
        and all(isinstance(path, str) and path.endswith(_GAME_SUFFIX) for path in paths)
        for paths in values.values()
    )


def _read(row: Row, options: CategoryOptions) -> tuple[Task, Reference]:
    """Return the task of a game with the first view of it, and the reference that names its file."""
    target = HouseGame(row.text("game"), row.text("game_sha256"), options.own.nearest_command)
    task_id, start = row.name("task_id"), row.text("start")
    task = Task(
        task_id,
        "agentbench",
        _NAME,
        _PROMPT.format(start=start, end="" if options.protocol == "fc" else _GIVE_UP),
        category=_NAME,
        labels={"type": row.text("task_type")},
        statement=start,
    )
    return task, Reference(task_id, "done", target, f"the task is done. {row.text('goal')}")


CATEGORY = Category(
    name=_NAME,
    place=7,
    weight=13.0,
    aliases=("hh", "household", "householding", "house holding", "alf", "af", "alfworld"),
    facts=CategoryFacts(
        task="do a household task by commands of a text game",
        bundled="12 made games",
        bring="data/alfworld/ and the games of ALFWorld (json_2.1.1) by house.games",
    ),
    folders=(_FOLDER,),
    is_needed=lambda name: _LIST.fullmatch(name) is not None,
    rows=_rows,
    owns=lambda row: all(row.values.get(name) is not None for name in _FIELDS),
    read=_read,
    solve=solve_by_target(solve),
    reads_file=lambda rows: len(rows) == 1 and rows[0].item is None and _is_list(rows[0].values),
    options=HouseOptions,
    turns=_TURNS,
    measure="success rate",
)
