"""Calls of tools that a server has left in the text of a reply, because it did not recognise their form.

A call begins at a mark of a chat template, is the whole reply, or is a block at the end of the reply. A call
in a block with text after it, or in quotes, is an example, and must not be carried out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.agents.chat.call_forms import ELEMENT, read_calls, read_expression
from harness.environments.text_protocol import TextCall
from harness.environments.tool import Tool
from harness.scoring.thoughts import drop_thoughts

# `<tool_call>` (Hermes, Qwen, GLM) with its relatives, `<function=` (Qwen, Llama), `<invoke name=` (MiniMax,
# DeepSeek 3.2), the tokens of DeepSeek, Kimi, Llama, Granite, LFM and Cohere, `[TOOL_CALLS]` of Mistral,
# `functools[` of Phi, and the channels of gpt-oss.
_MARK = re.compile(
    r"(?:^|(?<=:)|(?<=: ))[ \t]*(?P<fence>`{3,}+|~{3,}+)[ \t]*(?P<label>[\w+#.-]{0,40})[ \t]*$"
    rf"|<{ELEMENT}(?:tool_?calls?|function_?calls?)>"
    rf"|(?=<{ELEMENT}(?:function(?:=|\s+name=)|invoke\s+name=))"
    r"|<[|｜](?=[^<>|｜\n]{0,60}(?:tool|function|python|action|plugin))(?![^<>|｜\n]{0,60}(?:end|sep|argument|"
    r"result|output|response))[^<>|｜\n]{1,60}[|｜]>"
    r"|\[TOOL_CALLS\]|\bfunctools(?=\[)|(?:assistant|commentary|analysis)\s{0,3}to=",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSING_MARKS = re.compile(r"<[^<>]{0,80}>|\[/?TOOL_CALLS\]")
# The longest part of a line that shows whether a call is in a sentence.
_LINE = 500
_QUOTES = frozenset("`'\"")
_CODE_LABELS = frozenset(
    {"", "json", "xml", "text", "tool_code", "tool_call", "tool_calls", "tool", "tool_use"}
)
# A reply with more marks is no list of calls.
_MAX_MARKS = 100


@dataclass(frozen=True, slots=True)
class _Found:
    """Calls in a part of the text."""

    calls: list[TextCall]
    start: int
    end: int
    is_block: bool


def find_text_calls(text: str, tools: Mapping[str, Tool]) -> list[TextCall]:
    """Return the calls in the text of a reply in order, without those in the model's thoughts.

    Only a complete call of one of the tools counts. `tools` are the tools of the environment by name.
    """
    text = drop_thoughts(text)
    begun = len(text) - len(text.lstrip())
    if whole := read_expression(text, tools):
        return whole
    found: list[_Found] = []
    position = marks = 0
    if text[begun : begun + 1] in ("{", "["):
        calls, position = read_calls(text, begun, tools)
        found.append(_Found(calls, begun, position, is_block=False))
    while marks < _MAX_MARKS and (mark := _MARK.search(text, position)):
        marks += 1
        if mark["fence"]:
            part = _read_block(text, mark, tools)
        else:
            calls, end = read_calls(text, mark.end(), tools)
            part = _Found(calls, mark.start(), max(end, mark.end()), is_block=False)
            if _is_quoted(text, part):
                part = _Found([], part.start, part.end, is_block=False)
        found.append(part)
        # A mark inside of a call that has been read is a part of its arguments.
        position = max(part.end, mark.end() + (mark.end() == mark.start()))
    return [call for part in _drop_examples(text, found) for call in part.calls]


def _read_block(text: str, mark: re.Match[str], tools: Mapping[str, Tool]) -> _Found:
    fence = mark["fence"]
    closing = re.compile(rf"^[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
    end = closing.search(text, mark.end())
    stop = len(text) if end is None else end.start()
    content = text[mark.end() : stop]
    calls: list[TextCall] = []
    if mark["label"].lower() in _CODE_LABELS:
        calls, position = read_calls(content, 0, tools)
        if _CLOSING_MARKS.sub("", content[position:]).strip():
            calls = read_expression(content, tools)
    return _Found(calls, mark.start(), stop if end is None else end.end(), is_block=True)


def _is_quoted(text: str, part: _Found) -> bool:
    """Return whether a call is in quotes, or in a sentence that goes on after it."""
    if text[part.start - 1 : part.start] in _QUOTES:
        return True
    before = text[max(part.start - _LINE, 0) : part.start].rpartition("\n")[2]
    after = _CLOSING_MARKS.sub("", text[part.end : part.end + _LINE].partition("\n")[0])
    return bool(before.strip() and after.strip())


def _drop_examples(text: str, found: list[_Found]) -> list[_Found]:
    """Return the parts without the blocks that anything but other such blocks follows."""
    marked = [part for part in found if part.calls and not part.is_block]
    if marked:
        return marked
    kept: list[_Found] = []
    end = len(text)
    for part in reversed(found):
        if not part.is_block or text[part.end : end].strip():
            break
        kept.append(part)
        end = part.start
    return kept[::-1]
