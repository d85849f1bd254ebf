"""The environment of AgentBench's `web`: a shop in which an agent searches, clicks and buys."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from pydantic import Field

from harness.core.tools import Arguments, LastObservation, Tool
from harness.core.types import Task
from harness.environments.base import EnvironmentContext
from harness.environments.host_environment import HostEnvironment, open_without_world
from harness.environments.web.grader import ShopGoal
from harness.environments.web.pages import RESULTS_A_PAGE, Button, OptionChoice, Page, show_page
from harness.environments.web.reward import same_option
from harness.environments.web.session import MAX_RESULTS, Session

TURNS = 20
# The longest of the published titles and options are below these, and a search costs time for each word.
MAX_KEYWORDS_CHARACTERS = 1000
MAX_VALUE_CHARACTERS = 1000


class Search(Arguments):
    """The arguments of `search_action`."""

    keywords: str = Field(
        description="The keywords to search for", min_length=1, max_length=MAX_KEYWORDS_CHARACTERS
    )


class Click(Arguments):
    """The arguments of `click_action`."""

    value: str = Field(
        description="A value of the list of clickables", min_length=1, max_length=MAX_VALUE_CHARACTERS
    )


SEARCH = Tool("search_action", "Search the shop for keywords and see the first page of results.", Search)
CLICK = Tool(
    "click_action",
    "Click one of the clickables of the open page: a button, a product, or the value of an option. "
    "'buy now' buys the product with the chosen options and ends the task.",
    Click,
)


@contextlib.asynccontextmanager
async def open_environment(task: Task, context: EnvironmentContext) -> AsyncIterator[HostEnvironment[Any]]:
    """Open a session in the shop of the task's goal.

    Raises DataError if the shop's files cannot be read any more.
    """
    target = context.target
    if not isinstance(target, ShopGoal):
        yield open_without_world(context)
        return
    # The catalogue's arrays need a library that takes a while to import.
    from harness.environments.web.catalogue import load_catalogue

    catalogue = await asyncio.to_thread(load_catalogue, target.source)
    session = Session(catalogue, target.goal.instruction)

    async def search(arguments: Search) -> str:
        return show_page(await asyncio.to_thread(session.search, arguments.keywords))

    async def click(arguments: Click) -> str | LastObservation:
        page = await asyncio.to_thread(session.click, arguments.value)
        purchase = session.purchase
        if purchase is None:
            return show_page(page)
        answer = json.dumps({"asin": purchase.product.asin, "options": dict(purchase.options)})
        return LastObservation(show_page(page), answer)

    yield HostEnvironment(session, {SEARCH: search, CLICK: click}, context)


async def solve(environment: HostEnvironment[Session], target: ShopGoal) -> str:
    """Search for the title of the wanted product, buy it, and return the answer that the purchase submitted.

    The answer is empty if the search does not find the product.
    """
    goal, session = target.goal, environment.state
    await environment.call(SEARCH.name, {"keywords": goal.name[:MAX_KEYWORDS_CHARACTERS]})
    for _ in range(MAX_RESULTS // RESULTS_A_PAGE - 1):
        if goal.asin.lower() in session.page.clickables:
            break
        await environment.call(CLICK.name, {"value": Button.NEXT.value})
    if goal.asin.lower() not in session.page.clickables:
        return ""
    await environment.call(CLICK.name, {"value": goal.asin})
    for value in list(choose_values(session.page, goal.options)):
        await environment.call(CLICK.name, {"value": value})
    await environment.call(CLICK.name, {"value": Button.BUY.value})
    return environment.submitted or ""


def choose_values(page: Page, wanted: tuple[str, ...]) -> Iterator[str]:
    """Yield the values to click so that each wanted option is met, at most one for each option's name."""
    choices = [choice for choice in page.clickables.values() if isinstance(choice, OptionChoice)]
    used: set[str] = set()
    for option in wanted:
        exact = [choice for choice in choices if choice.value == option.lower()]
        similar = [choice for choice in choices if same_option(choice.value, option)]
        for choice in (*exact, *similar):
            if choice.name not in used:
                used.add(choice.name)
                yield choice.value
                break
