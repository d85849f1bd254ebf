"""The code or the answer in a model's reply, without the text around it.

Every function first drops the model's thoughts and turns every line end into `\\n`, and takes time in
proportion to the length of the reply.
"""

from __future__ import annotations

import re
from enum import StrEnum

from harness.benchmarks.fences import looks_like_code, read_blocks
from harness.core.scoring.answers import MAX_REPLY_CHARACTERS, drop_thoughts
from harness.core.text import escape_terminal

_FENCE = "```"
_PYTHON = ("```python", "```Python")
_SHOWN_LINES, _SHOWN_CHARACTERS = 5, 300
_ANSWER, _ANSWER_END = "[ANSWER]", "[/ANSWER]"


REPLY_FIELDS = frozenset({"completion", "reply"})
"""The fields of a samples file that hold a model's reply, for benchmarks whose prompts are not continued."""


class CodeRule(StrEnum):
    """The rule that chooses the program in a text.

    `none` takes the text as it is. `fenced` takes the last block that defines the entry point, else the last
    block, and a text without a fence as a whole. The others give nothing for a text without a fence:
    `between_last_fences` is LiveCodeBench's rule, the lines between the last two lines with a fence.
    `first_block` (EvoAgentX's rule), `last_block` and `all_blocks`, joined in order, choose whole blocks, of
    which the last may lack its end.
    """

    NONE = "none"
    FENCED = "fenced"
    BETWEEN_LAST_FENCES = "between_last_fences"
    FIRST_BLOCK = "first_block"
    LAST_BLOCK = "last_block"
    ALL_BLOCKS = "all_blocks"


def extract_code(
    reply: str,
    rule: CodeRule = CodeRule.BETWEEN_LAST_FENCES,
    *,
    entry_point: str | None = None,
    unfenced: bool = False,
) -> str:
    """Return the program in a reply, or "" if there is none.

    `entry_point` is the function that the rule `fenced` looks for. With `unfenced`, the whole of a reply
    without any fence is its program by every rule.
    """
    if rule is CodeRule.NONE:
        return reply
    text = drop_thoughts(reply)
    if rule is CodeRule.BETWEEN_LAST_FENCES and (_FENCE in text or not unfenced):
        return _between_last_fences(text)
    blocks = read_blocks(text)
    if not blocks:
        return text.strip("\n") if _FENCE not in text and (unfenced or rule is CodeRule.FENCED) else ""
    if rule is CodeRule.ALL_BLOCKS:
        return "\n\n".join(blocks)
    if rule is CodeRule.FENCED and entry_point is not None:
        definition = _definition_of(entry_point)
        found = [code for code in reversed(blocks) if _define(code, definition)]
        return next((code for code in found if not _is_stub(code, entry_point)), (found or blocks[-1:])[0])
    return blocks[0 if rule is CodeRule.FIRST_BLOCK else -1]


def remark_on_code(reply: str, rule: CodeRule, program: str) -> str | None:
    """Return the remark on a program that is not code of the reply: empty, or the prose of a whole reply."""
    if rule is CodeRule.NONE:
        return None
    said = drop_thoughts(reply).strip()
    if program.strip() and (program.strip() != said or looks_like_code(said)):
        return None
    if rule is CodeRule.FENCED:
        return explain_nothing(reply, "block of code")
    nothing = explain_nothing(reply, f"program by the rule `{rule}`")
    return f"{nothing}; --extract fenced finds one" if holds_block(reply) else nothing


def remark_on_answer(reply: str, wanted: str, answer: str) -> str | None:
    """Return the remark on an empty answer, None for any other. `wanted` names what the rule reads."""
    return None if answer.strip() else explain_nothing(reply, wanted)


def explain_nothing(reply: str, wanted: str) -> str:
    """Return why nothing was taken from a reply, with its first lines."""
    said = drop_thoughts(reply)
    if not reply.strip():
        return "the reply is empty"
    if len(reply) > MAX_REPLY_CHARACTERS:
        return (
            f"the reply has {len(reply):,} characters, more than {MAX_REPLY_CHARACTERS:,}, so it is not read"
        )
    if not said.strip():
        return f"the reply holds only thoughts, so it has no {wanted}; it begins: {_show_start(reply)}"
    return f"no {wanted} was found in the reply, which begins: {_show_start(said)}"


def _show_start(text: str) -> str:
    lines = text.strip().split("\n")[:_SHOWN_LINES]
    return escape_terminal("\n".join(lines), _SHOWN_CHARACTERS, multiline=True)


def stands_alone(code: str, entry_point: str) -> bool:
    """Return whether code is a program that defines its entry point, and no continuation of a prompt.

    A continuation begins with an indented line, because it is in a function's body. It may define the entry
    point again below that body. The check reads lines and does not parse, because models also write code
    that is not Python, which must fail as a program and not as a body.
    """
    return _define(code, _definition_of(entry_point))


def holds_block(text: str) -> bool:
    """Return whether a text has a fenced block that is not empty, outside of a model's thoughts."""
    return any(block.strip() for block in read_blocks(drop_thoughts(text)))


def _definition_of(entry_point: str) -> re.Pattern[str]:
    name = re.escape(entry_point)
    return re.compile(
        rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE
    )


def _define(code: str, definition: re.Pattern[str]) -> bool:
    return not code.lstrip("\n")[:1].isspace() and definition.search(code) is not None


def _is_stub(code: str, entry_point: str) -> bool:
    """Return whether a program defines the entry point without a body, as a quote of the task does."""
    head = rf"^(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}\b[^\n]*:"
    return (
        re.search(rf"{head}\s*(?:\.\.\.|pass)[ \t]*(?:#[^\n]*)?\n*(?=\S|\Z)", code, re.MULTILINE) is not None
    )


def extract_answer(reply: str) -> str:
    """Return the answer between `[ANSWER]` and `[/ANSWER]`, the official marks of code execution.

    Without the first mark the answer starts where the reply does. Without the second it is one line: the
    first that contains `==`, else the first one. Source: `extraction_utils.py` of LiveCodeBench.
    """
    text = drop_thoughts(reply)
    _, marked, rest = text.partition(_ANSWER)
    body, closed, _ = (rest if marked else text).partition(_ANSWER_END)
    body = body.partition(_ANSWER)[0].strip()
    if closed:
        return body
    first = body.partition("\n")[0]
    return next((line for line in body.split("\n") if "==" in line), first).strip()


def extract_assert(reply: str) -> str:
    """Return the last line that begins with `assert`, else the first block of code, else "".

    A block marked as Python goes before other blocks. Source: `extraction_utils.py` of LiveCodeBench.
    """
    text = drop_thoughts(reply)
    lines = text.split("\n")
    last = next((line for line in reversed(lines) if line.startswith("assert")), None)
    if last is not None:
        return last.rstrip()
    fences = [number for number, line in enumerate(lines) if _FENCE in line]
    start = next((number for number in fences if any(mark in lines[number] for mark in _PYTHON)), None)
    if start is not None:
        fences = [start, *(number for number in fences if number > start)]
    if len(fences) < 2:
        return ""
    return "\n".join(lines[fences[0] + 1 : fences[1]]).strip("\n")


def _between_last_fences(text: str) -> str:
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if _FENCE in line]
    return "\n".join(lines[fences[-2] + 1 : fences[-1]]) if len(fences) > 1 else ""
