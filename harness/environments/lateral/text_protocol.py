"""The form of AgentBench v0.2: the first line of a reply is the question.

Source: the task `lateralthinkingpuzzle` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.tools import SUBMIT, TextCall, TextFault, Tool
from harness.environments.lateral.environment import ASK
from harness.environments.text_protocol import GenericProtocol, add_advice, describe_tool, show_result

RESULT = "The host's answer:"
_ACT = re.compile(r"[\s>*_#`-]*act(?:ion)?[\s*_`]*[:：]", re.IGNORECASE)
# Labels that models write before their question.
_LABEL = re.compile(r"(?:question(?: \d+)?|q\d*|问题|提问)\s*[:：]\s*", re.IGNORECASE)
_MARKS = " \t>*_#`"
_INSTRUCTIONS = """\
Write one question in each reply, and nothing else. Only the first line of a reply is read, and it is the \
question for the host. The next message shows the host's answer.

To end the game before all is found, write the line `Act: submit`."""
_ADVICE = "Write your question for the host on the first line."
_ONLY_FIRST_LINE = "[Only the first line of your reply was read as the question.]"


@dataclass(frozen=True, slots=True)
class LateralProtocol:
    """The text protocol of `lateral`. A tool that was added to the environment is called in the generic form.

    A task without a game has the generic form alone.
    """

    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        if ASK.name not in self.tools:
            return GenericProtocol(self.tools).instructions()
        added = [tool for name, tool in self.tools.items() if name not in (ASK.name, SUBMIT.name)]
        return "\n\n".join([_INSTRUCTIONS, *(describe_tool(tool) for tool in added)])

    def read(self, reply: str) -> TextCall | TextFault:
        lines = [line.strip() for line in reply.strip().splitlines() if line.strip(_MARKS)]
        if ASK.name not in self.tools:
            return GenericProtocol(self.tools).read(reply)
        if not lines:
            return TextFault("no action", f"Your reply is empty. {_ADVICE}")
        if _ACT.match(lines[0]):
            return self._read_action(reply, lines[0])
        question = _LABEL.sub("", lines[0].strip(_MARKS), count=1).strip(_MARKS)
        if not question:
            return TextFault("no action", f"The first line of your reply has no question. {_ADVICE}")
        # The server may have cut off the only line, and no later one.
        call = TextCall(ASK.name, {"question": question}, is_complete=len(lines) > 1)
        return add_advice(call, _ONLY_FIRST_LINE) if len(lines) > 1 else call

    def show(self, call: TextCall, observation: str) -> str:
        return show_result(RESULT, call, observation)

    def _read_action(self, reply: str, line: str) -> TextCall | TextFault:
        read = GenericProtocol(self.tools).read(reply)
        if isinstance(read, TextFault) and SUBMIT.name in line.lower():
            # An answer does not count here, so none is needed.
            return TextCall(SUBMIT.name, {"answer": ""})
        return read
