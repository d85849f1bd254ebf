"""The environment of AgentBench's `web`: a shop where an agent searches, clicks and buys."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from pydantic import Field

from harness.core.tools import SUBMIT, Arguments, LastObservation, TextCall, TextFault, Tool
from harness.core.types import Task
from harness.environments.base import EnvironmentContext, HostEnvironment, open_without_world
from harness.environments.text_protocol import (
    HOW_TO_ACT,
    Published,
    TextForm,
    add_advice,
    bound_text,
    find_tool,
    make_tool,
    read_named,
    read_tool_call,
)
from harness.environments.web.grader import ShopGoal, same_option
from harness.environments.web.session import (
    MAX_RESULTS,
    RESULTS_A_PAGE,
    Button,
    OptionChoice,
    Page,
    Session,
    show_page,
)
from harness.environments.written_actions import WrittenAction, WrittenReply

TURNS = 20
# The longest of the published titles and options are below these, and a search costs time for each word.
MAX_KEYWORDS_CHARACTERS = 1000
MAX_VALUE_CHARACTERS = 1000

# The text ends with the last bracket of its line, because the values of options may hold brackets.
_WRITTEN = re.compile(
    r"[ \t>*_`-]*+(?P<verb>search|click)(?:_action)?[ \t]*+\[(?P<text>[^\n]*)\]", re.IGNORECASE | re.ASCII
)

_ADVICE = "Write a line `Action: search[KEYWORDS]` or `Action: click[VALUE]`."


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


PUBLISHED_SEARCH = make_tool(
    SEARCH.name,
    "Use search functionality with specified keywords.",
    keywords=(bound_text(1, MAX_KEYWORDS_CHARACTERS), "The keywords to use in the search function."),
)
PUBLISHED_CLICK = make_tool(
    CLICK.name,
    "Click a button or link with a specified value.",
    value=(bound_text(1, MAX_VALUE_CHARACTERS), "The value to click from the list of available actions."),
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

    environment = HostEnvironment(session, {SEARCH: search, CLICK: click}, context)
    environment.publish(task, Published(handlers={PUBLISHED_SEARCH: search, PUBLISHED_CLICK: click}))
    yield environment


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


_VERBS: Mapping[str, tuple[Tool, str]] = {"search": (SEARCH, "keywords"), "click": (CLICK, "value")}

_INSTRUCTIONS = f"""\
{HOW_TO_ACT}

`{SEARCH.name}`: {SEARCH.description}

Action: search[KEYWORDS]

`{CLICK.name}`: {CLICK.description}

Action: click[VALUE]

For example, to open a product of the results:

Action: click[b07abcdefg]"""


def _read_written(tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    action = reply.actions[0]
    written = _find_written(action)
    if written is not None:
        return _call(written)
    if find_tool(tools, action.name) is not None:
        return read_tool_call(tools, action)
    return TextFault("malformed arguments", f"The action has no text in brackets. {_ADVICE}")


def _read_bare(reply: str, _introduction: WrittenAction) -> TextCall | None:
    """Return the first action of a reply that leaves the word `Action:` out, as models often do."""
    written = [found for line in reply.split("\n") if (found := _WRITTEN.fullmatch(line.strip()))]
    if not written:
        return None
    call = _call(written[0])
    return call if len(written) == 1 else add_advice(call, "[Only the first action was done.]")


def _find_written(action: WrittenAction) -> re.Match[str] | None:
    """Return the action in brackets after `Action:`, on its line or on the first one that is not blank."""
    if action.name:
        return _WRITTEN.match(f"{action.name}{action.rest}")
    lines = [*action.lines, *(line for block in action.blocks for line in block.text.split("\n"))]
    first = next((line for line in (action.rest, *lines) if line.strip()), "")
    return _WRITTEN.match(first.strip())


def _call(written: re.Match[str]) -> TextCall:
    tool, argument = _VERBS[written["verb"].lower()]
    return TextCall(tool.name, {argument: written["text"].strip()})


TEXT_FORM = TextForm(
    instructions=_INSTRUCTIONS,
    tools=(SEARCH, CLICK),
    advice=_ADVICE,
    result="The result of the action:",
    # The action may be on the line of its `Action:` or on the next one.
    words={**dict.fromkeys(("", *_VERBS, SEARCH.name, CLICK.name), _read_written), SUBMIT.name: read_named},
    known=(*_VERBS, SUBMIT.name),
    read_without_action=_read_bare,
)
"""AgentBench's form: `Action:` and `search[KEYWORDS]` or `click[VALUE]`. The first action is carried out.

Source: the task `webshop` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""
