"""The actions of AgentBench's `card` in text: a JSON object for a guess, and one for an action.

As upstream does, this module finds the objects anywhere in a reply, and takes positions as texts and single
quotes as well. It carries out the first move, where upstream takes the first legal one.
Source: the task `card_game` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.scoring.answers import drop_thoughts
from harness.core.tools import SUBMIT, TextCall, TextFault, Tool
from harness.environments.card.environment import ACT, GUESS, LOOK
from harness.environments.text_protocol import (
    HOW_TO_ACT,
    ONLY_FIRST,
    add_advice,
    describe_tool,
    read_first_action,
    read_tool_call,
    show_result,
)

_RESULT = "The game:"
# A move holds no other object. Every character is read once, because neither part of the class gives back.
_OBJECT = re.compile(r"\{[^{}]*+\}")
_INTEGER = re.compile(r"-?[0-9]{1,3}")

_INSTRUCTIONS = f"""\
{HOW_TO_ACT}

`{GUESS.name}`: {GUESS.description}

{{"guess_type": "FISH", "target_position": POSITION}}

`{ACT.name}`: {ACT.description} ACTION is `normal` or `active`. Leave out the target of an active skill that \
hits all enemies.

{{"pick_fish": "FISH", "action": "ACTION", "target_position": POSITION}}

`{LOOK.name}`: {LOOK.description}

Act: look"""
_ADVICE = (
    'Write one object: {"guess_type": "FISH", "target_position": POSITION} or '
    '{"pick_fish": "FISH", "action": "ACTION", "target_position": POSITION}.'
)


@dataclass(frozen=True, slots=True)
class CardProtocol:
    """The text protocol of `card`. Other tools than `guess` and `act` are called in the generic form."""

    tools: Mapping[str, Tool]

    def instructions(self) -> str:
        known = (GUESS.name, ACT.name, LOOK.name, SUBMIT.name)
        added = [tool for name, tool in self.tools.items() if name not in known]
        return "\n\n".join([_INSTRUCTIONS, *(describe_tool(tool) for tool in added)])

    def read(self, reply: str) -> TextCall | TextFault:
        moves = _find_moves(drop_thoughts(reply))
        first = next(moves, None)
        if first is not None:
            return first if next(moves, None) is None else add_advice(first, ONLY_FIRST)
        return read_first_action(
            reply, lambda found: read_tool_call(self.tools, found.actions[0]), _ADVICE, result=_RESULT
        )

    def show(self, call: TextCall, observation: str) -> str:
        return show_result(_RESULT, call, observation)


def _find_moves(text: str) -> Iterator[TextCall]:
    for found in _OBJECT.finditer(text):
        written = found.group()
        values = _parse(written) or _parse(written.replace("'", '"'))
        if values is None:
            continue
        if "guess_type" in values:
            given = {"position": values.get("target_position"), "fish": values["guess_type"]}
            yield TextCall(GUESS.name, {name: _clean(value) for name, value in given.items()})
        elif "pick_fish" in values:
            given = {
                "fish": values["pick_fish"],
                "action": values.get("action"),
                "target": values.get("target_position"),
            }
            yield TextCall(ACT.name, {name: _clean(value) for name, value in given.items()})


def _parse(written: str) -> dict[str, Any] | None:
    try:
        values = json.loads(written, strict=False)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _clean(value: Any) -> Any:
    """Return an argument as the tools take it: a text in lower case, and a position as a number."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    return int(text) if _INTEGER.fullmatch(text) else text
