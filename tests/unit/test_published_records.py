"""Recorded sessions and walks go the same way through AgentBench's published tools.

The records are not part of the project. `text_world_replays` describes their files.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from contexts import no_context
from text_world_replays import GOALS, SESSIONS, ShopRecords, find_shop, find_shop_records, find_walks

from harness.core.types import PlainData, Status, Submission, Task
from harness.environments.house import environment as house
from harness.environments.house.environment import grade_game
from harness.environments.house.play import HouseGame
from harness.environments.web import environment as web
from harness.environments.web.catalogue import load_catalogue
from harness.environments.web.grader import ShopGoal, grade_purchase

Step = tuple[str, dict[str, str], str]
"""The tool, its arguments, and a text that the result must hold."""


async def play(module: Any, grade: Any, target: PlainData, steps: list[Step]) -> tuple[Status, list[str]]:
    """Return the verdict after the steps, and the steps with another result. The end of a world ends them."""
    task = Task("t", "agentbench", "", "", protocol="fc")
    wrong = []
    async with module.open_environment(task, no_context(target=target)) as environment:
        for tool, arguments, text in steps:
            shown = (await environment.call(tool, arguments)).text
            if text not in shown:
                wrong.append(f"{tool} {arguments}: {shown!r} without {text!r}")
            if environment.submitted is not None:
                break
        return (await grade(environment, target, Submission("", ""))).status, wrong


def read_session(step: dict[str, Any]) -> Step:
    verb, _, text = step["action"].removesuffix("]").partition("[")
    page = step["obs"].partition(" [SEP] Reward [SEP]")[0][:1000]
    return f"{verb}_action", {"keywords" if verb == "search" else "value": text}, page


async def test_recorded_sessions_end_the_same_through_the_published_tools(
    shared_data: Path, tmp_path: Path
) -> None:
    found = {}
    for files in find_shop_records(shared_data / "agentbench" / "worlds" / "web"):
        shop = find_shop(files[GOALS], tmp_path)
        records = ShopRecords(files, load_catalogue(shop))
        for number, session in enumerate(records.read(SESSIONS)):
            # Upstream's text protocol ignored other words, which are not tools.
            acts = [step for step in session["steps"][1:] if step["action"].startswith(("search[", "click["))]
            steps = [read_session(step) for step in acts]
            target = ShopGoal(shop, records.goals[session["goal"]], "offline")
            status, wrong = await play(web, grade_purchase, target, steps)
            right = Status.PASSED if session["reward"] == 1 else Status.FAILED
            found[files[GOALS], number] = wrong or (status if status is not right else None)
    if not found:
        pytest.skip("no recorded sessions")
    assert {place: each for place, each in found.items() if each} == {}


async def test_recorded_walks_end_the_same_through_the_published_tool(shared_data: Path) -> None:
    found = {}
    for path in find_walks(shared_data / "agentbench" / "worlds" / "house"):
        for number, walk in enumerate(json.loads(path.read_bytes())):
            game = path.parent / walk["game"]
            target = HouseGame(str(game), hashlib.sha256(game.read_bytes()).hexdigest())
            steps: list[Step] = [
                ("take_action", {"action": step["cmd"]}, step["obs"].strip()) for step in walk["steps"][1:]
            ]
            status, wrong = await play(house, grade_game, target, steps)
            right = Status.PASSED if walk["steps"][-1]["won"] else Status.FAILED
            found[path.name, number] = wrong or (status if status is not right else None)
    if not found:
        pytest.skip("no recorded walks")
    assert {place: each for place, each in found.items() if each} == {}
