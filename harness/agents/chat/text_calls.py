"""Calls of tools that a server has left in the text of a reply, because it did not recognise their form.

A call counts where a model's chat template puts it: at the start of a line, with nothing but white space,
marks of the template and calls of the same form behind it. JSON without a mark is the whole reply, or a block
at the end of it. A call that text follows, or that is in a quote, an indented block, a here-document or
backticks, is an example. The text before a call is not judged, because models explain what they do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.agents.chat.call_forms import ELEMENT, FRAME, Group, read_calls, read_expression
from harness.environments.text_protocol import TextCall
from harness.environments.tool import Tool
from harness.scoring.thoughts import drop_thoughts

# `<tool_call>` (Hermes, Qwen, GLM) with its relatives, `<function=` (Qwen, Llama), `<invoke name=` (MiniMax,
# DeepSeek 3.2), the tokens of DeepSeek, Kimi, Llama, Granite, LFM and Cohere, `[TOOL_CALLS]` of Mistral,
# `functools[` of Phi, and the channels of gpt-oss.
_MARK = re.compile(
    r"(?:^|(?<=:)|(?<=: ))[ \t]*(?P<fence>`{3,}+|~{3,}+)[ \t]*(?P<label>[^`\n]{0,100})$"
    r"|<<-?(?:[ \t]*(?P<quote>['\"])(?P<quoted>\w{1,60})(?P=quote)|\\?(?P<word>\w{1,60})"
    r"|[ \t]+(?P<upper>(?-i:[A-Z]\w{0,60})))"
    r"(?=[ \t]*(?:[|>&;)\d][^\n`]{0,300})?$)"
    rf"|<{ELEMENT}(?:tool_?calls?|function_?calls?)>"
    rf"|(?=<{ELEMENT}(?:function(?:=|\s+name=)|invoke\s+name=))"
    r"|<[|｜](?=[^<>|｜\n]{0,60}(?:tool|function|python|action|plugin))(?![^<>|｜\n]{0,60}(?:end|sep|argument|"
    r"result|output|response))[^<>|｜\n]{1,60}[|｜]>"
    r"|\[TOOL_CALLS\]|\bfunctools(?=\[)"
    r"|(?:<\|start\|>)?(?:assistant)?(?:<\|channel\|>)?(?:assistant|commentary|analysis)\s{0,3}to=",
    re.MULTILINE | re.IGNORECASE,
)
_FRAME = re.compile(FRAME, re.IGNORECASE)
# Templates put these right behind the model's text, because they are single tokens.
_TOKEN_MARK = re.compile(r"<[|｜](?!DSML)|\[TOOL_CALLS\]|assistant(?:commentary|analysis)", re.IGNORECASE)
_QUOTE_LINE = re.compile(r"\s*>")
_INDENT = 4
_NOTHING = Group([], 0)
_QUOTES = frozenset("`'\"")
_CODE_LABELS = frozenset(
    {"", "json", "xml", "text", "tool_code", "tool_call", "tool_calls", "tool", "tool_use"}
)
# A reply with more marks is no list of calls.
_MAX_MARKS = 100


@dataclass(frozen=True, slots=True)
class _Found:
    """Calls in a part of the text. A part without calls is text that holds none."""

    group: Group
    start: int
    end: int


def find_text_calls(text: str, tools: Mapping[str, Tool]) -> list[TextCall]:
    """Return the calls at the end of the text of a reply in order, without those in the model's thoughts.

    Only a complete call of one of the tools counts. `tools` are the tools of the environment by name.
    """
    text = drop_thoughts(text)
    begun = len(text) - len(text.lstrip())
    if whole := read_expression(text, tools):
        return whole
    found: list[_Found] = []
    position = marks = 0
    if text[begun : begun + 1] in ("{", "["):
        group = read_calls(text, begun, tools)
        position = group.end
        if not _strip_frame(text[position:]):
            return group.calls
    while marks < _MAX_MARKS and (mark := _MARK.search(text, position)):
        marks += 1
        if mark["fence"]:
            part = _read_block(text, mark, tools)
        elif word := mark["quoted"] or mark["word"] or mark["upper"]:
            part = _skip_document(text, mark, word)
        else:
            group = read_calls(text, mark.end(), tools, mark.group())
            part = _Found(group, mark.start(), max(group.end, mark.end()))
        found.append(part if _is_in_place(text, mark) else _Found(_NOTHING, part.start, part.end))
        # A mark inside of a call that has been read is a part of its arguments.
        position = max(part.end, mark.end() + (mark.end() == mark.start()))
    return _take_last(text, found)


def _read_block(text: str, mark: re.Match[str], tools: Mapping[str, Tool]) -> _Found:
    fence = mark["fence"]
    closing = re.compile(rf"^[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
    end = closing.search(text, mark.end())
    stop = len(text) if end is None else end.start()
    content = text[mark.end() : stop]
    calls: list[TextCall] = []
    if mark["label"].strip().lower() in _CODE_LABELS:
        group = read_calls(content, 0, tools)
        calls = read_expression(content, tools) if _strip_frame(content[group.end :]) else group.calls
    after = stop if end is None else end.end()
    return _Found(Group(calls, after, ("block", "")), mark.start(), after)


def _skip_document(text: str, mark: re.Match[str], word: str) -> _Found:
    """Return the part of the text that a here-document is."""
    end = re.compile(rf"^[ \t]*{word}[ \t]*$", re.MULTILINE).search(text, mark.end())
    return _Found(_NOTHING, mark.start(), len(text) if end is None else end.end())


def _is_in_place(text: str, mark: re.Match[str]) -> bool:
    """Return whether a template would put a mark here: at the start of a line, or a token behind a text."""
    start = mark.start()
    before = text[text.rfind("\n", 0, start) + 1 : start]
    line = before + (mark.group() if mark["fence"] else "")
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    if len(indent.expandtabs(_INDENT)) >= _INDENT or _QUOTE_LINE.match(before) or before[-1:] in _QUOTES:
        return False
    return _TOKEN_MARK.match(text, start) is not None or not _strip_frame(before)


def _take_last(text: str, found: list[_Found]) -> list[TextCall]:
    """Return the calls at the end of a text that have the form of the last one."""
    kept: list[_Found] = []
    end = len(text)
    for part in reversed(found):
        if not part.group.calls:
            continue
        if _strip_frame(text[part.end : end]) or (kept and kept[-1].group.form != part.group.form):
            break
        kept.append(part)
        end = part.start
    return [call for part in reversed(kept) for call in part.group.calls]


def _strip_frame(text: str) -> str:
    """Return a text without the marks of a template and the blanks around it."""
    return _FRAME.sub("", text).strip()
