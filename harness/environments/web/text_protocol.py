"""The actions of AgentBench's `web` in text: `Action:` and `search[KEYWORDS]` or `click[VALUE]`.

As upstream does, this module carries out the first action of a reply. The action may be on the line of its
`Action:` or on the next one.
Source: the task `webshop` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.tools import SUBMIT, TextCall, TextFault, Tool
from harness.environments.text_protocol import (
    HOW_TO_ACT,
    Reply,
    WrittenAction,
    add_advice,
    describe_tool,
    find_tool,
    read_first_action,
    read_tool_call,
    show_result,
    unknown_action,
)
from harness.environments.web.environment import CLICK, SEARCH

RESULT = "The result of the action:"
_VERBS: Mapping[str, tuple[Tool, str]] = {"search": (SEARCH, "keywords"), "click": (CLICK, "value")}
# The text ends with the last bracket of its line, because the values of options may hold brackets.
_WRITTEN = re.compile(
    r"[ \t>*_`-]*+(?P<verb>search|click)(?:_action)?[ \t]*+\[(?P<text>[^\n]*)\]", re.IGNORECASE | re.ASCII
)

_INSTRUCTIONS = f"""\
{HOW_TO_ACT}

`{SEARCH.name}`: {SEARCH.description}

Action: search[KEYWORDS]

`{CLICK.name}`: {CLICK.description}

Action: click[VALUE]

For example, to open a product of the results:

Action: click[b07abcdefg]"""
_ADVICE = "Write a line `Action: search[KEYWORDS]` or `Action: click[VALUE]`."


@dataclass(frozen=True, slots=True)
class ShopProtocol:
    """The text protocol of `web`. Any other tool is called in the generic form."""

    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        known = (SEARCH.name, CLICK.name, SUBMIT.name)
        added = [tool for name, tool in self.tools.items() if name not in known]
        return "\n\n".join([_INSTRUCTIONS, *(describe_tool(tool) for tool in added)])

    def read(self, reply: str) -> TextCall | TextFault:
        read = read_first_action(reply, self._read_action, _ADVICE, result=RESULT)
        if isinstance(read, TextFault) and read.name == "no action":
            # Models often leave the word `Action:` out.
            written = [found for line in reply.split("\n") if (found := _WRITTEN.fullmatch(line.strip()))]
            if written:
                call = _call(written[0])
                return call if len(written) == 1 else add_advice(call, "[Only the first action was done.]")
        return read

    def show(self, call: TextCall, observation: str) -> str:
        return show_result(RESULT, call, observation)

    def _read_action(self, reply: Reply) -> TextCall | TextFault:
        action = reply.actions[0]
        written = _find_written(action)
        if written is not None and (not action.name or action.name.lower() in _names()):
            return _call(written)
        if find_tool(self.tools, action.name) is None:
            if action.name.lower() in _VERBS or not action.name:
                return TextFault("malformed arguments", f"The action has no text in brackets. {_ADVICE}")
            return unknown_action(action.name, {**_VERBS, SUBMIT.name: SUBMIT})
        return read_tool_call(self.tools, action)


def _names() -> set[str]:
    return {*_VERBS, SEARCH.name, CLICK.name}


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
