"""The actions of AgentBench's `knowledgegraph` in text: `Action: get_relations(Ada)`, and `Final Answer: #2`.

The first of them in a reply is carried out.
Source: the task `knowledgegraph` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.tools import SUBMIT, TextCall, TextFault, Tool
from harness.environments.kg.program import FUNCTIONS, split_arguments
from harness.environments.text_protocol import (
    ONLY_FIRST,
    Reply,
    Unreadable,
    WrittenAction,
    add_advice,
    describe_tool,
    find_tool,
    read_actions,
    read_tool_call,
    unknown_action,
)

OBSERVATION = "Observation:"
_ANSWER = "Answer"
_FINAL_ANSWER = re.compile(
    r"[ \t>*_#`-]*+(?:final|find)[ \t]++answer[ \t*_`]*+[:：][ \t*_`]*+(?P<answer>.*)",
    re.IGNORECASE | re.ASCII,
)
_DECORATION = " \t*_`."
_INSTRUCTIONS = """\
In each reply, write your thoughts first, then exactly one action on one line, and then stop. The next \
message shows the observation. The actions are these:

{actions}

When a variable holds the answer, end with its name instead of an action:

Final Answer: #3"""
_ADVICE = "Write one line `Action: FUNCTION(ARGUMENTS)`, or `Final Answer: #NUMBER` to end."


@dataclass(frozen=True, slots=True)
class KnowledgeProtocol:
    """The text protocol of `kg`. A tool that was added to the environment is called in the generic form."""

    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        known = [tool for name, tool in self.tools.items() if name in FUNCTIONS]
        actions = "\n\n".join(
            f"Action: {tool.name}({', '.join(FUNCTIONS[tool.name])})\n{tool.description}" for tool in known
        )
        added = [tool for name, tool in self.tools.items() if name not in (*FUNCTIONS, SUBMIT.name)]
        return "\n\n".join([_INSTRUCTIONS.format(actions=actions), *(describe_tool(tool) for tool in added)])

    def read(self, reply: str) -> TextCall | TextFault:
        try:
            # Upstream's own models escape the underscores of names.
            found = read_actions(reply.replace("\\_", "_"), result=OBSERVATION)
        except Unreadable as error:
            return TextFault(error.name, f"{error.advice} {_ADVICE}")
        answer = _find_final_answer(found.introduction)
        if answer is not None:
            return add_advice(answer, ONLY_FIRST) if found.actions else answer
        if not found.actions:
            return TextFault("no action", f"Your reply has no action. {_ADVICE}")
        read = self._read_action(found.actions[0])
        if isinstance(read, TextCall) and _has_more(found, read):
            return add_advice(read, ONLY_FIRST)
        return read

    def show(self, call: TextCall, observation: str) -> str:
        text = f"{OBSERVATION} {observation}"
        return f"{text}\n\n{call.advice}" if call.advice else text

    def _read_action(self, action: WrittenAction) -> TextCall | TextFault:
        name = action.name.rstrip(".-").lower()
        if name in (_ANSWER.lower(), SUBMIT.name):
            return _read_answer(action)
        tool = find_tool(self.tools, name)
        if tool is None:
            return unknown_action(action.name, dict.fromkeys([*FUNCTIONS, "Final Answer"]))
        if tool.name not in FUNCTIONS:
            return read_tool_call(self.tools, action)
        try:
            read = split_arguments(tool.name, _find_arguments(action))
        except ValueError:
            return TextFault("malformed arguments", _how_to_write(tool.name))
        names = FUNCTIONS[tool.name]
        return TextCall(
            tool.name, dict(zip(names, read.arguments, strict=True)), is_complete=action.closes_parentheses
        )


def _find_arguments(action: WrittenAction) -> str:
    """Return the text between the parentheses of an action, "" if there is none.

    The name of an entity may hold parentheses, and a remark in parentheses may follow the action.
    """
    text = action.find_in_parentheses()
    depth = 0
    for end, character in enumerate(text or ""):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return str(text)[:end]
    return text or ""


def _how_to_write(name: str) -> str:
    return f"Write `Action: {name}({', '.join(FUNCTIONS[name])})` on one line."


def _read_answer(action: WrittenAction) -> TextCall | TextFault:
    text = action.find_in_parentheses()
    if text is not None:
        return TextCall(SUBMIT.name, {"answer": text.strip()}, is_complete=action.closes_parentheses)
    return _find_final_answer(action) or TextFault("missing answer", _ADVICE)


def _find_final_answer(action: WrittenAction) -> TextCall | None:
    """Return the call that submits the text after `Final Answer:`, None if no line has one."""
    for number, line in enumerate(action.lines):
        found = _FINAL_ANSWER.match(line)
        answer = found["answer"].strip(_DECORATION) if found else ""
        if answer:
            # A line that the server cut off is the last one.
            return TextCall(SUBMIT.name, {"answer": answer}, is_complete=number + 1 < len(action.lines))
    return None


def _has_more(reply: Reply, read: TextCall) -> bool:
    later = read.tool != SUBMIT.name and _find_final_answer(reply.actions[0]) is not None
    return later or len(reply.actions) > 1 or reply.has_result
