"""AgentBench's `card`: games against two baselines. It needs no data, because a game is named by its row.

A row has `split`, `baseline` (`baseline1` or `baseline2`), `agent` (`first` or `second`) and `game`, a number
from 0. A folder `card_game` without `games.jsonl`, such as upstream's own, means all published games.
Source: the task `card_game` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.benchmarks.benchmark import CategoryFacts
from harness.benchmarks.category import Category, CategoryFiles, CategoryOptions, Outcome, solve_by_target
from harness.benchmarks.data.rows import Row, describe
from harness.benchmarks.options import Options
from harness.core.types import Reference, Task
from harness.environments.card.duel import BASELINES, MOST_ILLEGAL, CardGame
from harness.environments.card.engine import (
    AREA_DAMAGE,
    AREA_SHARE,
    COUNTER_DAMAGE,
    COUNTER_HEALTH,
    DEFLECT_KEPT,
    FIELDED,
    FIRST_PHASE,
    GUESS_DAMAGE,
    HEALTH,
    KINDS,
    LAST_PHASE,
    SACRIFICE_DAMAGE,
    SACRIFICE_GAIN,
    TEAM,
    WOUND_GAIN,
    WOUND_STEP,
)
from harness.environments.card.environment import DAMAGE, WON, card_score, solve

NAME = "card"
FILE = "games.jsonl"
SIDES = ("first", "second")
PUBLISHED: Mapping[str, int] = {"std": 5, "dev": 3}
"""The number of games in each pairing, by split."""

_SPLIT = re.compile(r"[A-Za-z0-9_-]{1,50}")
_ANSWER = "won"
_ATTACK = KINDS[FIELDED[0]].attack
_ORDERED = ", ".join(f"{position} {name}" for position, name in enumerate(FIELDED))

PROMPT = f"""\
You play a battle of {TEAM} fish against {TEAM} fish. Each side fields one {", one ".join(FIELDED)}. \
A fish has {HEALTH} health and {_ATTACK} attack at first. {{order}} The kinds of the enemy's fish are hidden \
from you, and the kinds of yours are hidden from the enemy.

A turn is a guess and then an action. You move {{side}}. You win when all fish of the enemy are dead.

The guess is optional. Name the kind of one living enemy fish that is still hidden. If you are right, it is \
exposed, and each enemy fish loses {GUESS_DAMAGE} health. A wrong guess costs nothing.

The action is a normal attack or the active skill of one of your living fish. A normal attack deals half of \
the attack to one enemy. The skills of the kinds are:

- spray: active: deals {AREA_DAMAGE} to each living enemy. passive: counters.
- flame: active: deals {SACRIFICE_DAMAGE} to one living teammate and gains {SACRIFICE_GAIN} attack. \
passive: counters.
- eel: active: deals {AREA_SHARE:.0%} of its attack to each living enemy. passive: deflects.
- sunfish: active: deals {SACRIFICE_DAMAGE} to one living teammate and gains {SACRIFICE_GAIN} attack. \
passive: deflects.

A passive skill works by itself. When an enemy hits a fish and leaves it below {COUNTER_HEALTH} health, each \
living teammate that counters deals {COUNTER_DAMAGE} to that enemy. A fish that deflects takes \
{DEFLECT_KEPT:.0%} of a hit, and its living teammates share the rest equally. Each time its wounds sum up to \
{WOUND_STEP}, its attack rises by {WOUND_GAIN}.

A game that lasts for {{turns}} turns of both sides together goes to the side with more living fish, then \
with more health in all. An illegal move changes nothing, but {MOST_ILLEGAL} of them without a legal one \
between them lose the game. The game ends by itself, so there is nothing to submit. If you submit before its \
end, you lose.

Begin with `look`, which shows the state. Each reply to an action shows its effects, the enemy's turn and \
the new state.
"""
_FIXED = f"The positions of your fish are {_ORDERED}."
_SHUFFLED = "The order of the fish is drawn for each side and each game."


class CardOptions(Options):
    """The options of `card`."""

    # Whether the order of each side's fish is drawn for each game. Upstream's order is always the same.
    shuffle: bool = False


def list_rows(files: CategoryFiles, _options: CategoryOptions) -> Iterator[Row]:
    """Yield the games of the folder's file, or all published ones without it. Raises DataError."""
    if FILE not in files.names:
        for split in PUBLISHED:
            yield from published_rows(split, str(files.path))
        return
    for row in files.parse(FILE):
        yield replace(row, values={**row.values, "task_id": name_task(row)})


def published_rows(split: str, path: str) -> list[Row]:
    """Return the rows of a published split. `path` is the place that errors name."""
    games = [
        (baseline, side, number)
        for baseline in BASELINES
        for side in SIDES
        for number in range(PUBLISHED[split])
    ]
    return [
        Row(
            {
                "task_id": f"{NAME}/{split}/{baseline}/{side}/{number}",
                "split": split,
                "baseline": baseline,
                "agent": side,
                "game": number,
            },
            path,
            item=place,
        )
        for place, (baseline, side, number) in enumerate(games, 1)
    ]


def name_task(row: Row) -> str:
    """Return the task id of a row, which its fields make up. Raises DataError."""
    split, number = row.text("split"), row.integer("game")
    if not _SPLIT.fullmatch(split):
        raise row.error(f"needs letters, digits, - or _, found {describe(split)}", field="split")
    if not 0 <= number < 1_000_000:
        raise row.error(f"needs a number from 0 to 999,999, found {describe(number)}", field="game")
    baseline, side = _choose(row, "baseline", [*BASELINES]), _choose(row, "agent", [*SIDES])
    return f"{NAME}/{split}/{baseline}/{side}/{number}"


def read_row(row: Row, options: CategoryOptions) -> tuple[Task, Reference]:
    """Return the task and the reference of a row. Raises DataError."""
    task_id, side = name_task(row), SIDES.index(row.text("agent"))
    game = CardGame(row.text("baseline"), side, options.own.shuffle)
    prompt = PROMPT.format(
        order=_SHUFFLED if game.shuffle else _FIXED,
        side=SIDES[side],
        turns=(LAST_PHASE - FIRST_PHASE + 1) // 2,
    )
    task = Task(task_id, "agentbench", NAME, prompt, category=NAME)
    return task, Reference(task_id, _ANSWER, game, _ANSWER)


def score_games(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return AgentBench's score of the games."""
    results = [outcome.result for outcome in outcomes]
    won = sum(result.metrics.get(WON, 0) for result in results)
    damage = sum(result.metrics.get(DAMAGE, 0) for result in results)
    return {"score": card_score(len(results), won, damage)}


def _choose(row: Row, field: str, known: Sequence[str]) -> str:
    value = row.text(field)
    if value not in known:
        raise row.error(f"needs one of {', '.join(known)}, found {describe(value)}", field=field)
    return value


CATEGORY = Category(
    name=NAME,
    place=5,
    weight=12.0,
    aliases=("cg", "dcg", "card game", "digital card game", "aquawar"),
    facts=CategoryFacts(
        task="win a card game against a baseline",
        bundled="the 12 games of dev",
        bring="nothing, because the game needs no data",
    ),
    folders=("card_game",),
    is_needed=lambda name: name == FILE,
    rows=list_rows,
    owns=lambda row: row.values.get("baseline") is not None and row.values.get("agent") is not None,
    read=read_row,
    solve=solve_by_target(solve),
    needs_no_folder=lambda _own, named: named,
    options=CardOptions,
    score=score_games,
    measure="0.7 win rate + 0.3 damage rate",
    score_metrics=(WON, DAMAGE),
)
