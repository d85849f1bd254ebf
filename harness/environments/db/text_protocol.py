"""The actions of AgentBench's `db` in text: `Action: Operation` with SQL, and `Action: Answer`.

As upstream does, this module carries out the first action of a reply, and of an operation the first block. A
block or a final answer before the action counts if none follows it.
Source: the task `dbbench` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.tools import SUBMIT, TextCall, TextFault, Tool
from harness.environments.db.environment import SQL
from harness.environments.text_protocol import (
    HOW_TO_ACT,
    LONGER_FENCE,
    ONLY_FIRST,
    Reply,
    Unreadable,
    WrittenAction,
    add_advice,
    describe_tool,
    find_tool,
    read_actions,
    read_tool_call,
    show_result,
    unknown_action,
)

OPERATION, ANSWER = "operation", "answer"
RESULT = "The result of the SQL:"
_FINAL_ANSWER = re.compile(
    r"(?P<before>[ \t>*_#`-]*+)final[ \t]++answer[ \t*_`]*+[:：][ \t]*+(?P<bold>\*{0,2}+)(?P<answer>.*)",
    re.IGNORECASE | re.ASCII,
)

_INSTRUCTIONS = f"""\
{HOW_TO_ACT}

`sql`: {SQL.description}

Action: Operation
```sql
SQL
```

`submit`, where ANSWER is the text to submit:

Action: Answer
Final Answer: ANSWER

For example, to submit a list of two values:

Action: Answer
Final Answer: ["Ada", "Grace"]

{LONGER_FENCE}"""
_ADVICE = (
    "Write a line `Action: Operation` and the SQL in a block ```sql, or the lines `Action: Answer` and "
    "`Final Answer: ANSWER`."
)


@dataclass(frozen=True, slots=True)
class DatabaseProtocol:
    """The text protocol of `db`. A tool that was added to the environment is called in the generic form."""

    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        added = [tool for name, tool in self.tools.items() if name not in (SQL.name, SUBMIT.name)]
        return "\n\n".join([_INSTRUCTIONS, *(describe_tool(tool) for tool in added)])

    def read(self, reply: str) -> TextCall | TextFault:
        try:
            found = read_actions(reply, result=RESULT)
        except Unreadable as error:
            return TextFault(error.name, f"{error.advice} {_ADVICE}")
        if not found.actions:
            # Upstream accepts a final answer without the line before it.
            answer = _find_final_answer(found.introduction)
            if answer is None:
                return TextFault("no action", f"Your reply has no action. {_ADVICE}")
            return answer
        first = found.actions[0]
        read = self._read_action(found)
        is_operation = isinstance(read, TextCall) and read.tool != SUBMIT.name
        ignored = len(found.actions) > 1 or found.has_result
        ignored |= is_operation and (len(first.blocks) > 1 or _find_final_answer(first) is not None)
        if isinstance(read, TextCall) and ignored:
            return add_advice(read, ONLY_FIRST)
        return read

    def show(self, call: TextCall, observation: str) -> str:
        return show_result(RESULT, call, observation)

    def _read_action(self, reply: Reply) -> TextCall | TextFault:
        action = reply.actions[0]
        name = action.name.rstrip(".-").lower()
        if name in (OPERATION, SQL.name):
            blocks = action.blocks or [each for each in reply.introduction.blocks if each.label == "sql"]
            if not blocks:
                return TextFault("missing block", f"There is no SQL in your reply. {_ADVICE}")
            return TextCall(SQL.name, {"sql": blocks[0].text}, is_complete=blocks[0].is_closed)
        if name in (ANSWER, SUBMIT.name):
            return _read_answer(reply)
        if find_tool(self.tools, name) is None:
            added = [known for known in self.tools if known not in (SQL.name, SUBMIT.name)]
            return unknown_action(action.name, dict.fromkeys(["Operation", "Answer", *added]))
        return read_tool_call(self.tools, action)


def _read_answer(reply: Reply) -> TextCall | TextFault:
    action = reply.actions[0]
    if (call := _find_final_answer(action)) is not None:
        return call
    answer = action.find_in_parentheses()
    if answer is not None:
        return TextCall(SUBMIT.name, {"answer": answer}, is_complete=action.closes_parentheses)
    if (call := _find_final_answer(reply.introduction)) is not None:
        return call
    return TextFault("missing answer", "There is no answer. Write it on the line `Final Answer: ANSWER`.")


def _find_final_answer(action: WrittenAction) -> TextCall | None:
    """Return the call that submits the answer after `Final Answer:`, None if there is none.

    It is the rest of the line. A list may extend to the line that ends with its bracket. An empty rest stands
    for the next block, or else for the next line that is not empty.
    """
    lines = [action.rest, *action.lines]
    for number, line in enumerate(lines):
        found = _FINAL_ANSWER.match(line)
        if found is None:
            continue
        answer = found["answer"].strip()
        if "*" in found["before"] and not found["bold"]:
            answer = answer.removesuffix("**").rstrip()
        if answer.startswith("`["):
            answer = answer.strip("`")
        following = lines[number + 1 :]
        if not answer and action.blocks:
            block = action.blocks[0]
            return TextCall(SUBMIT.name, {"answer": block.text.strip()}, is_complete=block.is_closed)
        if not answer:
            number, answer = _find_text(following)
            following = following[number:]
        answer = _complete_list(answer, following)
        # A line that the server cut off is the last one.
        is_complete = bool(following) or answer.endswith("]")
        return TextCall(SUBMIT.name, {"answer": answer}, is_complete=is_complete) if answer else None
    return None


def _find_text(lines: list[str]) -> tuple[int, str]:
    """Return the first line that is not empty, and the number of lines up to it."""
    found = ((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip())
    return next(found, (len(lines), ""))


def _complete_list(answer: str, following: list[str]) -> str:
    """Return an answer with the lines up to the end of its list, the answer alone if the list has no end."""
    if not answer.startswith("[") or "]" in answer:
        return answer
    for number, line in enumerate(following, 1):
        if line.rstrip().endswith("]"):
            return "\n".join([answer, *following[:number]])
    return answer
