"""The actions of AgentBench's `os` in text: `Act: bash`, `Act: finish` and `Act: answer(...)`.

Upstream carries out the last action of a reply. This module carries out the first, because a model that
writes several has not seen the result of the first one. As upstream does, it joins all blocks marked as
`bash`, and takes those before the action if none follows it.
Source: the task `os_interaction` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.core.tools import SUBMIT, TextCall, TextFault, Tool
from harness.environments.os.environment import BASH
from harness.environments.text_protocol import (
    HOW_TO_ACT,
    LONGER_FENCE,
    Block,
    Reply,
    WrittenAction,
    describe_tool,
    find_tool,
    read_first_action,
    read_tool_call,
    show_result,
    unknown_action,
)

FINISH, ANSWER = "finish", "answer"
DONE = "done"
# Upstream begins every result so, and models know the words from AgentBench's examples.
RESULT = "The output of the OS:"
_SHELLS = ("bash", "sh", "shell")

_INSTRUCTIONS = f"""\
{HOW_TO_ACT}

`bash`: {BASH.description}

Think: YOUR THOUGHTS

Act: bash

```bash
COMMAND
```

`submit` with an answer. It is in parentheses, and has quotes only if they belong to it:

Think: YOUR THOUGHTS

Act: answer(ANSWER)

`submit` with `{DONE}`, when you were not asked for an answer:

Think: YOUR THOUGHTS

Act: finish

A command that needs more time than usual goes into a block of JSON instead:

Act: bash

```json
{{"command": COMMAND, "timeout_seconds": SECONDS}}
```

{LONGER_FENCE}"""
_ADVICE = (
    "Write a line `Act: bash` and the command in a block ```bash, or `Act: answer(ANSWER)`, or `Act: finish`."
)


@dataclass(frozen=True, slots=True)
class ShellProtocol:
    """The text protocol of `os`. A tool that was added to the environment is called in the generic form."""

    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        added = [tool for name, tool in self.tools.items() if name not in (BASH.name, SUBMIT.name)]
        return "\n\n".join([_INSTRUCTIONS, *(describe_tool(tool) for tool in added)])

    def read(self, reply: str) -> TextCall | TextFault:
        return read_first_action(reply, self._read_action, _ADVICE, result=RESULT)

    def show(self, call: TextCall, observation: str) -> str:
        return show_result(RESULT, call, observation)

    def _read_action(self, reply: Reply) -> TextCall | TextFault:
        action = reply.actions[0]
        name = action.name.rstrip(".-").lower()
        if name == FINISH:
            return TextCall(SUBMIT.name, {"answer": DONE})
        if name in (ANSWER, SUBMIT.name):
            return _read_answer(action)
        if find_tool(self.tools, name) is None:
            added = [known for known in self.tools if known not in (BASH.name, SUBMIT.name)]
            return unknown_action(action.name, dict.fromkeys([BASH.name, ANSWER, FINISH, *added]))
        if name == BASH.name:
            blocks = action.blocks or [each for each in reply.introduction.blocks if each.label in _SHELLS]
            if not blocks:
                return TextFault("missing block", f"There is no command for `bash`. {_ADVICE}")
            action = replace(action, blocks=[_join_commands(blocks)])
        return read_tool_call(self.tools, action)


def _read_answer(action: WrittenAction) -> TextCall | TextFault:
    answer = action.find_in_parentheses()
    if answer is not None:
        return TextCall(SUBMIT.name, {"answer": answer}, is_complete=action.closes_parentheses)
    if action.blocks:
        block = action.blocks[0]
        return TextCall(SUBMIT.name, {"answer": block.text}, is_complete=block.is_closed)
    advice = "Write the answer in parentheses on the same line: `Act: answer(ANSWER)`."
    return TextFault("missing answer", f"There is no answer. {advice}")


def _join_commands(blocks: list[Block]) -> Block:
    """Return the command of an action: its blocks marked as a shell's, joined, or else its first block."""
    marked = [block for block in blocks if block.label in _SHELLS]
    if blocks[0].label == "json" or not marked:
        return blocks[0]
    return Block(_SHELLS[0], "\n\n".join(block.text for block in marked), marked[-1].is_closed)
