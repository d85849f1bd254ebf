"""Replay recorded results of upstream's worlds `house` and `web`, for `world_replays`.

A list of walks is a JSON file of objects with `game`, the path of a game's file from the folder of the list,
and `steps`. A step has `obs`, `admissible` and `won`, and each but the first has the command `cmd`.

The records of a shop are `goals.json`, `purchases.json`, `sessions.json` and `search.json` in one folder. All
but the first may be missing. Names may go on before their end: `purchases_2.json` belongs to `goals_2.json`,
or to `goals.json` if there is no such file. The catalogue is next to them or in a folder below, with the
names of the published files. If there are several, the first with all products of the goals counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isclose
from pathlib import Path
from typing import Any

from harness.environments.house.game import GameError, read_game
from harness.environments.house.play import HEADER, Play
from harness.environments.web.catalogue import Catalogue, load_catalogue
from harness.environments.web.grader import Reward, offline_nouns, reward_purchase
from harness.environments.web.products import Goal, Product, PublishedShop
from harness.environments.web.session import Session

Pairs = Iterator[tuple[str, Any, Any]]
"""The name of each compared value, our value, and the recorded one."""
GOALS, PURCHASES, SESSIONS, SEARCHES = "goals", "purchases", "sessions", "search"
_RESULTS = 50


def replay_walks(path: Path) -> dict[str, list[str]]:
    """Return the differences of each walk of a list, by its number from 0 and its game."""
    return {
        f"{path.name}[{number}], {walk['game']}": _differences(_play_walk(path.parent / walk["game"], walk))
        for number, walk in enumerate(json.loads(path.read_bytes()))
    }


def find_walks(folder: Path) -> list[Path]:
    """Return the lists of walks below a folder."""
    return [path for path in sorted(folder.rglob("*.json")) if _is_list_of_walks(path)]


def _is_list_of_walks(path: Path) -> bool:
    content = json.loads(path.read_bytes())
    return isinstance(content, list) and bool(content) and {"game", "steps"} <= set(content[0])


def _play_walk(game: Path, walk: Mapping[str, Any]) -> Pairs:
    try:
        play = Play(read_game(game.read_bytes()))
    except GameError as error:
        yield "game", str(error), "a game"
        return
    for number, step in enumerate(walk["steps"]):
        reply = play.take(step["cmd"]) if "cmd" in step else f"{HEADER}\n\n{play.introduction}"
        place = f"step {number} {step.get('cmd', '')!r}"
        yield f"{place}: reply", reply, step["obs"]
        yield f"{place}: commands", play.commands, step["admissible"]
        yield f"{place}: won", play.won, step["won"]


def _differences(pairs: Pairs) -> list[str]:
    """Return the first difference, because a record that has left its way has others."""
    for name, ours, theirs in pairs:
        if ours != theirs:
            return [f"{name}: {ours!r} instead of {theirs!r}"]
    return []


@dataclass(frozen=True)
class ShopRecords:
    """The recorded files that belong together, by their kinds, and their catalogue."""

    files: Mapping[str, Path]
    catalogue: Catalogue

    def read(self, kind: str) -> Any:
        """Return the content of a file, an empty list if there is none."""
        return json.loads(self.files[kind].read_bytes()) if kind in self.files else []

    @cached_property
    def prices(self) -> Mapping[str, float]:
        """The recorded price of each product. Upstream draws prices without a seed."""
        prices: dict[str, float] = self.read(GOALS)["prices"]
        return prices

    @cached_property
    def products(self) -> Mapping[str, Product]:
        """The products by their ids."""
        products = map(self.catalogue.product, range(self.catalogue.size))
        return {product.asin: product for product in products}

    @cached_property
    def goals(self) -> Sequence[Goal]:
        """The recorded goals, whose limits upstream draws without a seed."""
        return [
            Goal(
                asin=goal["asin"],
                name=goal["name"],
                product_category=goal["product_category"],
                category=goal["category"],
                query=goal["query"],
                instruction=goal["instruction_text"],
                attributes=tuple(goal["attributes"]),
                options=tuple(goal["goal_options"]),
                price_upper=goal["price_upper"],
            )
            for goal in self.read(GOALS)["goals"]
        ]

    def reward(self, goal: Goal, asin: str, options: Sequence[str]) -> Reward:
        """Return our reward for a purchase at its recorded price."""
        return reward_purchase(self.products[asin], options, self.prices[asin], goal, offline_nouns)


def replay_shop(folder: Path, index: Path) -> dict[str, list[str]]:
    """Return the differences of each record of a shop below a folder, by its file and number from 0.

    `index` is the folder for search indexes.
    """
    results: dict[str, list[str]] = {}
    for files in find_shop_records(folder):
        records = ShopRecords(files, load_catalogue(find_shop(files[GOALS], index)))
        results[f"{files[GOALS].name}, all goals in order"] = _differences(_compare_goals(records))
        kinds: dict[str, Callable[[ShopRecords, Any], Pairs]] = {
            PURCHASES: _compare_purchase,
            SESSIONS: _compare_session,
            SEARCHES: _compare_search,
        }
        for kind, compare in kinds.items():
            for number, record in enumerate(records.read(kind)):
                results[f"{files[kind].name}[{number}]"] = _differences(compare(records, record))
    return results


def find_shop_records(folder: Path) -> list[dict[str, Path]]:
    """Return the files of records below a folder that belong together, by their kinds."""
    found: dict[tuple[Path, str], dict[str, Path]] = {}
    for kind in (GOALS, PURCHASES, SESSIONS, SEARCHES):
        for path in sorted(folder.rglob(f"{kind}*.json")):
            found.setdefault((path.parent, path.stem.removeprefix(kind)), {})[kind] = path
    return [{GOALS: parent / f"{GOALS}.json", **files} for (parent, _), files in found.items()]


def find_shop(goals: Path, index: Path) -> PublishedShop:
    """Return the shop of recorded goals. Raises FileNotFoundError if no catalogue beside them is theirs."""
    wanted = {goal["asin"] for goal in json.loads(goals.read_bytes())["goals"]}
    for products in sorted(goals.parent.rglob("items_shuffle*.json")):
        if wanted <= {each["asin"] for each in json.loads(products.read_bytes())}:
            ending = products.stem.removeprefix("items_shuffle")
            attributes = products.with_name(f"items_ins_v2{ending}.json")
            instructions = products.with_name("items_human_ins.json")
            return PublishedShop.at(products, attributes, instructions, index=index)
    raise FileNotFoundError(f"no catalogue next to {goals} has all products of the goals")


def _compare_goals(records: ShopRecords) -> Pairs:
    ours_of_all, theirs_of_all = records.catalogue.goals, records.goals
    yield "number of goals", len(ours_of_all), len(theirs_of_all)
    for number, (ours, theirs) in enumerate(zip(ours_of_all, theirs_of_all, strict=True)):
        for name in ("asin", "name", "product_category", "category", "query", "attributes", "options"):
            yield f"goal {number}: {name}", getattr(ours, name), getattr(theirs, name)
        # The limits were drawn, so that their texts may differ.
        wish, expected = (goal.instruction.partition(", and price")[0] for goal in (ours, theirs))
        yield f"goal {number}: instruction", wish, expected
    yield "products", sorted(records.products), sorted(records.prices)
    for asin, price in records.prices.items():
        lowest, *_, highest = (records.products[asin].pricing * 2)[:2]
        yield f"price {price} of {asin} is in its range", lowest <= price <= highest, True


def _compare_purchase(records: ShopRecords, purchase: Mapping[str, Any]) -> Pairs:
    goal, info = records.goals[purchase["goal"]], purchase["info"]
    found = records.reward(goal, purchase["asin"], list(purchase["options"].values()))
    fit = found.type_fit
    ours = {
        "r_type": fit.factor,
        "title_score": fit.shared_nouns,
        "query_match": fit.same_query,
        "category_match": fit.same_category,
        "r_att": found.attributes / found.attributes_wanted,
        "r_option": found.options / found.options_wanted if found.options_wanted else None,
        "r_price": found.price_fits,
    }
    yield "reward", *_rounded(found.value, purchase["reward"])
    for name, value in ours.items():
        yield name, *_rounded(value, info.get(name))
    for name, title in (("goal", goal.name), ("product", records.products[purchase["asin"]].name)):
        nouns = purchase.get(f"{name}_nouns")
        yield f"{name}_nouns", list(offline_nouns(title)) if nouns is not None else None, nouns


def _rounded(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """Return two values, as one if they are numbers that differ by the rounding of a sum."""
    if isinstance(ours, float) and isinstance(theirs, float) and isclose(ours, theirs, abs_tol=1e-9):
        return theirs, theirs
    return ours, theirs


def _compare_session(records: ShopRecords, recorded: Mapping[str, Any]) -> Pairs:
    goal = records.goals[recorded["goal"]]
    session = Session(records.catalogue, goal.instruction)
    for number, step in enumerate(recorded["steps"]):
        verb, _, text = step.get("action", "").partition("[")
        if verb == "search":
            session.search(text.removesuffix("]"))
        elif verb == "click":
            session.click(text.removesuffix("]"))
        # Upstream's last page goes on with the score.
        page = step["obs"].partition(" [SEP] Reward [SEP]")[0]
        place = f"step {number} {step.get('action', '')!r}"
        yield f"{place}: page", session.page.observation, page
        yield f"{place}: actions", session.page.actions, step["actions"]
        yield f"{place}: end", session.purchase is not None, step.get("done", False)
    if session.purchase is not None:
        bought = session.purchase
        found = records.reward(goal, bought.product.asin, list(bought.options.values()))
        yield "reward", *_rounded(found.value, recorded["reward"])


def _compare_search(records: ShopRecords, query: Mapping[str, Any]) -> Pairs:
    found = records.catalogue.search(query["query"], _RESULTS)
    asins = [records.catalogue.product(number).asin for number in found]
    yield f"first {_RESULTS} of {query['query']!r}", asins, query["top50"]
