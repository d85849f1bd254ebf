"""AgentBench's web shopping (WebShop): the goals in its published files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import field_validator

from harness.benchmarks.benchmark import CategoryFacts
from harness.benchmarks.category import Category, CategoryFiles, CategoryOptions, solve_by_target
from harness.benchmarks.data.rows import Row
from harness.benchmarks.options import OptionEffect, Options
from harness.core.errors import DataError, UsageError
from harness.core.types import Reference, Task
from harness.environments.web.environment import TURNS, solve
from harness.environments.web.grader import ShopGoal, TaggerChoice, load_tagger
from harness.environments.web.products import Goal, PublishedShop
from harness.environments.web.session import search_page, show_page

FOLDER = "webshop"
SMALL = "catalogue.json"
"""A file beside the files of a small catalogue, with the number of tasks of each split."""
SPLITS: Mapping[str, range] = {"std": range(200), "dev": range(200, 280), "train": range(1000, 12000)}
"""The places of each split's goals among all goals."""
_INSTRUCTIONS = "items_human_ins.json"
# The files of the products with the files of their attributes, the whole catalogue first.
_PUBLISHED = {"items_shuffle.json": "items_ins_v2.json", "items_shuffle_1000.json": "items_ins_v2_1000.json"}
_GOAL, _SHOP = "goal", "shop"

_PROMPT = """\
You shop for a customer, whose instruction is on the first page. Find the product that fits it best, choose \
its options, and buy it. Each reply of the shop is a page, followed by the actions that are available on it.

The tool `search_action` searches for keywords. The tool `click_action` clicks one of the clickables, in the \
exact words of the list. An action that is not available changes nothing. The task ends when you click \
`buy now`, and you can buy only once. A product fits if it has the attributes that the instruction asks for, \
the options are chosen, and the price is below the limit.

{page}
"""


class WebOptions(Options):
    """The options of web shopping."""

    # The folder with the published files, or the file of the products in it.
    catalogue: Annotated[Path | None, OptionEffect("read the products at")] = None
    # The folder for search indexes, None for the one in the cache folder.
    index: Annotated[Path | None, OptionEffect("write search indexes into the folder")] = None
    # Whether the 11,000 goals of the split `train` are tasks as well.
    train: bool = False
    # The tagger of the nouns in titles: spaCy, the offline word lists, or spaCy if it is installed.
    tagger: TaggerChoice = "auto"

    @field_validator("tagger")
    @classmethod
    def _require_installed(cls, tagger: TaggerChoice) -> TaggerChoice:
        if tagger == "spacy":
            try:
                load_tagger(tagger)
            except ImportError as error:
                raise UsageError(
                    f"option 'web.tagger': {error}", hint="install them, or use --option web.tagger=offline"
                ) from error
        return tagger


def rows(files: CategoryFiles, options: CategoryOptions) -> Iterator[Row]:
    """Yield a row for each goal of the splits. Raises DataError."""
    # The catalogue's arrays need a library that takes a while to import.
    from harness.environments.web.catalogue import load_catalogue

    own: WebOptions = options.own
    found = _find_published(files) if own.catalogue is None else find_catalogue(own.catalogue)
    if found is None:
        files.notify(f"{files.folder}: left out, because it has none of {', '.join(_PUBLISHED)}")
        return
    is_small = own.catalogue is None and SMALL in files.names
    source = PublishedShop.at(*found, index=own.index, in_memory=is_small)
    if is_small:
        sizes = files.parse(SMALL)[0]
        splits = {split: SPLITS[split][: max(sizes.integer(split), 0)] for split in ("std", "dev")}
    else:
        splits = {name: places for name, places in SPLITS.items() if name != "train" or own.train}
    path = str(source.instructions)
    catalogue = load_catalogue(source, files.notify)
    for name, digest in catalogue.digests.items():
        files.note(name, digest)
    for split, places in splits.items():
        for number, place in enumerate(places):
            if place < len(catalogue.goals):
                goal = catalogue.goals[place]
                yield Row({"task_id": f"web/{split}/{number}", _GOAL: goal, _SHOP: source}, path)


def find_catalogue(path: Path) -> tuple[Path, Path, Path]:
    """Return the files of products, attributes and instructions. `path` is the first, or their folder.

    Raises DataError.
    """
    path = Path(os.path.expanduser(path)).absolute()
    if path.is_dir():
        names = [name for name in _PUBLISHED if (path / name).is_file()]
        folder, name = path, names[0] if names else next(iter(_PUBLISHED))
    else:
        folder, name = path.parent, path.name
    if name not in _PUBLISHED:
        raise DataError("is not one of WebShop's files", path=path, hint=f"name {' or '.join(_PUBLISHED)}")
    found = (folder / name, folder / _PUBLISHED[name], folder / _INSTRUCTIONS)
    for each in found:
        if not each.is_file():
            raise DataError(
                "is missing", path=each, hint=f"a catalogue is {name}, {_PUBLISHED[name]} and {_INSTRUCTIONS}"
            )
    return found


def _find_published(files: CategoryFiles) -> tuple[Path, Path, Path] | None:
    """Return the published files in upstream's folder, None if it has no file of products."""
    name = next((name for name in _PUBLISHED if name in files.names), None)
    if name is None:
        return None
    place = files.tree.places[name]
    if not isinstance(place, Path) or not place.is_file():
        raise DataError(
            "is in an archive, but its index needs it as a file", path=place, hint="unpack the archive"
        )
    return find_catalogue(place)


def read(row: Row, options: CategoryOptions) -> tuple[Task, Reference]:
    """Return the task and the reference of a goal."""
    goal: Goal = row.values[_GOAL]
    own: WebOptions = options.own
    target = ShopGoal(row.values[_SHOP], goal, own.tagger)
    task_id = row.text("task_id")
    page = show_page(search_page(goal.instruction))
    task = Task(task_id, "agentbench", "web", _PROMPT.format(page=page), category="web")
    wanted = ", ".join((goal.asin, *goal.options))
    return task, Reference(task_id, wanted, target, wanted)


CATEGORY = Category(
    name="web",
    place=4,
    weight=30.7,
    aliases=("ws", "web shop", "web shopping"),
    facts=CategoryFacts(
        task="buy the product that an instruction describes",
        bundled="60 instructions for 1,000 made products",
        bring="the product and instruction files of WebShop, in data/webshop/ or by web.catalogue",
    ),
    folders=(FOLDER,),
    # The published files have up to gigabytes, and are read from their paths.
    is_needed=lambda name: name == SMALL,
    rows=rows,
    suffixes=tuple({name: None for pair in _PUBLISHED.items() for name in (*pair, _INSTRUCTIONS)}),
    needs_no_folder=lambda own, _named: own.catalogue is not None,
    owns=lambda row: isinstance(row.values.get(_GOAL), Goal),
    read=read,
    solve=solve_by_target(solve),
    options=WebOptions,
    turns={"fc": TURNS, "v0.2": 10},
    measure="mean reward",
)
