"""The tools of the shop, the oracle, the verdicts, and the text protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import samples
from case_checks import each_case
from contexts import no_context

from harness.core.tools import SUBMIT, TextCall, TextFault, TextProtocol
from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.web.catalogue import load_catalogue
from harness.environments.web.category import find_catalogue
from harness.environments.web.environment import (
    CLICK,
    MAX_KEYWORDS_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    SEARCH,
    open_environment,
    solve,
)
from harness.environments.web.environment import TEXT_FORM as SHOP_FORM
from harness.environments.web.grader import NOTHING_BOUGHT, OFFLINE, ShopGoal, grade_purchase
from harness.environments.web.products import PublishedShop

SHOP = PublishedShop.at(*find_catalogue(samples.BUNDLED / "webshop"), in_memory=True)
TARGET = ShopGoal(SHOP, load_catalogue(SHOP).goals[0], "offline")
TASK = Task("web/std/0", "agentbench", "web", "shop")
NO_ANSWER = Submission("", agent_output="")


def context(target: Any = TARGET) -> Any:
    return no_context(turns=20, target=target)


async def act(*calls: tuple[str, Mapping[str, Any]]) -> tuple[Any, list[str]]:
    async with open_environment(TASK, context()) as environment:
        seen = [(await environment.call(name, arguments)).text for name, arguments in calls]
    return environment, seen


def search(keywords: str) -> tuple[str, dict[str, str]]:
    return SEARCH.name, {"keywords": keywords}


def click(value: str) -> tuple[str, dict[str, str]]:
    return CLICK.name, {"value": value}


async def test_the_oracle_buys_the_wanted_product() -> None:
    for goal in load_catalogue(SHOP).goals[:25]:
        target = replace(TARGET, goal=goal)
        async with open_environment(TASK, context(target)) as environment:
            answer = await solve(environment, target)
        verdict = await grade_purchase(environment, target, NO_ANSWER)
        assert (verdict.status, verdict.score) == (Status.PASSED, 1.0)
        assert environment.turns_used <= 10
        assert goal.asin in answer


async def test_a_purchase_ends_the_task_and_shows_no_score() -> None:
    goal = TARGET.goal
    environment, seen = await act(
        search(goal.name), click(goal.asin), click("buy now"), click("back to search"), search("lamp")
    )
    assert f'"asin": "{goal.asin}"' in environment.submitted
    assert "Thank you for shopping" in seen[2]
    assert "score" not in "".join(seen).lower()
    assert seen[3] == seen[4] == "the task has ended, so that nothing more can be done"


async def test_the_verdict_names_the_parts_of_the_reward() -> None:
    goal = TARGET.goal
    environment, _ = await act(search(goal.name), click(goal.asin), click("buy now"))
    verdict = await grade_purchase(environment, TARGET, NO_ANSWER)
    wanted = len(goal.attributes) + len(goal.options) + 1
    assert verdict.status is Status.FAILED
    assert verdict.score == pytest.approx((wanted - len(goal.options)) / wanted)
    assert verdict.metrics["tagger"] == OFFLINE
    assert (verdict.metrics["r_option"], verdict.metrics["r_att"]) == (0.0, 1.0)
    assert verdict.evidence is not None
    assert goal.asin in verdict.evidence


async def test_an_answer_without_a_purchase_earns_nothing() -> None:
    claim = f'{{"asin": "{TARGET.goal.asin}", "options": {{}}, "reward": 1.0}}'
    environment, _ = await act(
        search(TARGET.goal.name), click(TARGET.goal.asin), ("submit", {"answer": claim})
    )
    verdict: Verdict = await grade_purchase(environment, TARGET, Submission(claim, agent_output=claim))
    assert (verdict.status, verdict.score, verdict.evidence) == (Status.FAILED, 0.0, NOTHING_BOUGHT)


async def test_an_invalid_action_shows_the_same_page() -> None:
    _, seen = await act(search("lamp"), click("buy now"), click("b000000000"))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0].startswith("Observation:\nInstruction: [SEP] ")
    assert '\n\nAvailable Actions:\n{"has_search_bar": false, "clickables": ["back to search"' in seen[0]


@each_case(
    ("tool", "arguments"),
    [
        (SEARCH, {"keywords": "x" * (MAX_KEYWORDS_CHARACTERS + 1)}),
        (SEARCH, {"keywords": ""}),
        (SEARCH, {"keywords": ["lamp"]}),
        (CLICK, {"value": "x" * (MAX_VALUE_CHARACTERS + 1)}),
        (CLICK, {"value": "search", "reward": 1}),
        (CLICK, {"value": True}),
    ],
)
async def test_wrong_arguments_are_refused(tool: Any, arguments: Mapping[str, Any]) -> None:
    async with open_environment(TASK, context()) as environment:
        assert (await environment.call(tool.name, arguments)).refused


async def test_attempts_have_sessions_apart_in_one_shop() -> None:
    async with open_environment(TASK, context()) as first, open_environment(TASK, context()) as second:
        await first.call(*search("lamp"))
        assert first.state.page != second.state.page
        assert load_catalogue(SHOP) is load_catalogue(SHOP)


def protocol() -> TextProtocol:
    return SHOP_FORM({tool.name: tool for tool in (SEARCH, CLICK, SUBMIT)})


@each_case(
    ("reply", "call"),
    [
        ("Thought: hm\nAction: search[red lamp]", search("red lamp")),
        ("Thought:\nI look.\n\nAction: \nclick[Buy Now]", click("Buy Now")),
        ("**Action:** `click[size [eu] 40]`", click("size [eu] 40")),
        ("Action:\n```\nsearch[lamp]\n```", search("lamp")),
        ("click[b000lamp01]", click("b000lamp01")),
        ("Action: Search[lamp]", search("lamp")),
        ("Action: click_action[< prev]", click("< prev")),
        ('Act: search_action\n```json\n{"keywords": "lamp"}\n```', search("lamp")),
        ("Action: submit(done)", ("submit", {"answer": "done"})),
    ],
)
def test_actions_are_read_in_upstreams_form(reply: str, call: tuple[str, dict[str, str]]) -> None:
    read = protocol().read(reply)
    assert isinstance(read, TextCall), read
    assert (read.tool, dict(read.arguments)) == call


def test_only_the_first_action_counts() -> None:
    for reply in (
        "Action: search[lamp]\nObservation: x\nAction: click[buy now]",
        "search[lamp]\nclick[buy now]",
    ):
        read = protocol().read(reply)
        assert isinstance(read, TextCall)
        assert (read.tool, read.arguments["keywords"]) == (SEARCH.name, "lamp")
        assert read.advice


@each_case("reply", ["", "I think.", "Action: search", "Action: fly[away]", "Action:", "x [y]"])
def test_a_reply_without_an_action_gets_advice(reply: str) -> None:
    read = protocol().read(reply)
    assert isinstance(read, TextFault), read
    assert read.advice
