"""The actions of AgentBench's `house` in text: `THOUGHT: ...` and `ACTION: go to drawer 1`.

As upstream does, this module carries out the first action of a reply, up to the end of its line.
Source: the task `alfworld` of AgentBench v0.2 (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.scoring.answers import drop_thoughts
from harness.core.tools import SUBMIT, TextCall, TextFault, Tool
from harness.environments.house.environment import TAKE_ACTION
from harness.environments.text_protocol import (
    Reply,
    WrittenAction,
    describe_tool,
    find_tool,
    read_first_action,
    read_tool_call,
)

_DECORATION = " \t*_`\"'"
_INSTRUCTIONS = """\
In each reply, write your thoughts first, then exactly one action on its own line, and then stop. The next \
message shows its result. Write one of the available actions after `ACTION:`, exactly as it is listed:

THOUGHT: your thoughts
ACTION: your next action

To give up, write `ACTION: submit` instead."""
_IN_LINE = re.compile(r"\bACTION:([^\n]*)")
# As `read_first_action` names it.
NO_ACTION = "no action"
_ADVICE = "Write a line `ACTION:` with one of the available actions."


@dataclass(frozen=True, slots=True)
class HouseProtocol:
    """The text protocol of `house`. A tool that was added is called in the generic form."""

    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        return "\n\n".join([_INSTRUCTIONS, *(describe_tool(tool) for tool in self._added().values())])

    def read(self, reply: str) -> TextCall | TextFault:
        read = read_first_action(reply, self._read_action, _ADVICE, result="")
        if isinstance(read, TextFault) and read.name == NO_ACTION:
            # Upstream also accepts an action in the line of the thoughts.
            found = _IN_LINE.search(drop_thoughts(reply))
            text = "" if found is None else found[1].strip(_DECORATION)
            return TextCall(TAKE_ACTION.name, {"action": text}) if text else read
        return read

    def show(self, call: TextCall, observation: str) -> str:
        return f"{observation}\n\n{call.advice}" if call.advice else observation

    def _added(self) -> Mapping[str, Tool]:
        return {
            name: tool for name, tool in self.tools.items() if name not in (TAKE_ACTION.name, SUBMIT.name)
        }

    def _read_action(self, reply: Reply) -> TextCall | TextFault:
        action = reply.actions[0]
        if TAKE_ACTION.name not in self.tools:
            return read_tool_call(self.tools, action)
        if find_tool(self._added(), action.name) is not None:
            return read_tool_call(self.tools, action)
        text, is_complete = _read_text(action)
        if text.lower().startswith(SUBMIT.name):
            return TextCall(SUBMIT.name, {"answer": action.find_in_parentheses() or ""})
        if not text:
            return TextFault(NO_ACTION, f"The line `ACTION:` is empty. {_ADVICE}")
        return TextCall(TAKE_ACTION.name, {"action": text}, is_complete=is_complete)


def _read_text(action: WrittenAction) -> tuple[str, bool]:
    """Return the text of an action, from its line or from the block after it, and whether it is complete."""
    line = f"{action.name}{action.rest}".split("\n")[0]
    if not line.strip(_DECORATION) and action.blocks:
        block = action.blocks[0]
        return block.text.strip().split("\n")[0].strip(), block.is_closed
    # A line that the server cut off is the last one.
    return line.strip(_DECORATION), bool(action.lines or action.blocks)
