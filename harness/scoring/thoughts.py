"""A model's reply without its thoughts, which are never part of an answer, a program or an action.

The marks of chat templates that a server left in the text go with them: channels, the end of the text, and
the turns that a model wrote after it.
"""

from __future__ import annotations

import re

from harness.scoring.bounds import MAX_REPLY_CHARACTERS

# A thought is between two marks of one kind, `<KIND>` and `</KIND>`. Seed-OSS and MiniMax put a name before
# the kind, Magistral writes square brackets, and Kimi-VL, OpenThinker and Cohere have marks of their own.
_THOUGHT = re.compile(
    r"<(?P<end>/)?(?:[a-z][\w-]{0,20}:)?(?P<kind>think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)>"
    r"|\[(?P<end2>/)?THINK\]|◁(?P<end3>/)?think▷"
    r"|<\|(?:begin_of|(?P<end4>end_of))_thought\|>|<\|(?:START|(?P<end5>END))_THINKING\|>",
    re.IGNORECASE,
)
_ENDS = ("end", "end2", "end3", "end4", "end5")
_QUOTES = frozenset("'\"`")
# gpt-oss writes messages, each in a channel: `analysis` for thoughts, `final` for the reply, and one with a
# recipient for each call of a tool. Source: OpenAI's Harmony response format.
_CHANNEL = re.compile(
    r"(?:<\|start\|>[^<]{0,200}+)?<\|channel\|>\s{0,20}+(?P<name>\w{0,40}+)[^<]{0,200}+"
    r"(?:<\|constrain\|>[^<]{0,100}+)?<\|message\|>"
)
_MESSAGE_END = re.compile(r"<\|(?:end|return|call|start)\|>")
# A server that removes special tokens leaves the names of the channels.
_BARE_ANALYSIS = re.compile(r"\s*analysis(?=[A-Z\W])")
_BARE_CHANNEL = re.compile(r"assistant(?P<name>final|commentary)")
# `<|im_end|>`, `<|eot_id|>`, `<｜end▁of▁sentence｜>`, `</s>`, `<end_of_turn>` and their relatives.
_END_OF_TEXT = (
    r"(?:<[|｜](?:im_end|end|return|eo[tsm](?:_id)?|end_?of_?text|(?:\w{1,20}_)?end[_▁]of[_▁]\w{1,20}"
    r"|endof\w{1,20})[|｜]>|</s>|<end_of_turn>|<eos>|\[EOS\]|\[e~\[)"
)
_END_OF_REPLY = re.compile(rf"(?:\s*+{_END_OF_TEXT})++\s*\Z", re.IGNORECASE)
_END_AFTER_FENCE = re.compile(rf"^([ \t]*+(?:`{{3,}}+|~{{3,}}+))[ \t]*+(?:{_END_OF_TEXT})++", re.I | re.M)
_NEXT_TURN = re.compile(
    rf"{_END_OF_TEXT}\s*+(?:<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>|<[|｜](?:user|assistant)[|｜]>)",
    re.IGNORECASE,
)
# An editor may write these before the first character of a file, and no eye sees them.
_INVISIBLE_STARTS = re.compile("^[\ufeff\u200b\u2060]+", re.MULTILINE)


def drop_thoughts(reply: str) -> str:
    """Return a reply without the model's thoughts, with plain line ends and without the marks of a template.

    Thoughts are between `<think>` and `</think>`, or two other marks of one kind. A thought without its end
    extends to the end of the reply. Some chat templates open a thought before the reply: it extends from the
    start to `</think>`. A mark between quotes is text. Of a reply in channels, `final` counts, and without it
    all channels but `analysis`. A reply of more than MAX_REPLY_CHARACTERS gives "", because any part of it
    might be in a thought.
    """
    if len(reply) > MAX_REPLY_CHARACTERS:
        return ""
    text = _INVISIBLE_STARTS.sub("", reply.replace("\r\n", "\n").replace("\r", "\n"))
    text = _drop_marked(_read_channels(text))
    turn = _NEXT_TURN.search(text)
    if turn is not None and text[: turn.start()].strip():
        text = text[: turn.start()]
    # The text of another turn may follow the end in the line of a fence.
    text = _END_AFTER_FENCE.sub(r"\1\n", text)
    return _drop_end(text)


def _drop_end(text: str) -> str:
    # No reply ends with more marks, and the pattern is tried at each place of the end alone.
    start = max(len(text) - 500, 0)
    found = _END_OF_REPLY.search(text, start)
    return text if found is None else text[: found.start()]


def _drop_marked(text: str) -> str:
    kept: list[str] = []
    position = depth = 0
    # The kind of the thought that is open. Marks of other kinds in it are its text.
    kind = ""
    for mark in _THOUGHT.finditer(text):
        if _is_quoted(text, mark):
            continue
        own = (mark["kind"] or "think").lower().removesuffix("ing").removesuffix("s")
        is_end = any(mark[name] for name in _ENDS)
        if depth and own != kind:
            continue
        if depth == 0 and not is_end:
            kept.append(text[position : mark.start()])
            kind = own
        if is_end:
            if depth == 0:
                kept.clear()
            depth = max(depth - 1, 0)
        else:
            depth += 1
        position = mark.end()
    if depth == 0:
        kept.append(text[position:])
    return "".join(kept)


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    before = text[max(mark.start() - 3, 0) : mark.start()]
    return before[-1:] in _QUOTES and before != "```" and text[mark.end() : mark.end() + 1] == before[-1:]


def _read_channels(text: str) -> str:
    """Return the reply in a text with channels. A message to a tool keeps its head."""
    marks = list(_CHANNEL.finditer(text))
    if not marks:
        return _read_bare_channels(text)
    before = text[: marks[0].start()]
    final: list[str] = []
    # A template may have opened the channel of the first message.
    others = [] if _MESSAGE_END.search(before) else [before]
    for number, mark in enumerate(marks):
        stop = marks[number + 1].start() if number + 1 < len(marks) else len(text)
        end = _MESSAGE_END.search(text, mark.end(), stop)
        content = text[mark.end() : stop if end is None else end.start()]
        if " to=" in mark.group():
            others.append(f"{mark.group()}{content}")
        elif mark["name"] == "final":
            final.append(content)
        elif mark["name"] != "analysis":
            others.append(content)
    return "\n".join(final or others)


def _read_bare_channels(text: str) -> str:
    if _BARE_ANALYSIS.match(text) is None:
        return text
    marks = list(_BARE_CHANNEL.finditer(text))
    if not marks:
        return ""
    last = next((mark for mark in reversed(marks) if mark["name"] == "final"), None)
    return text[marks[0].start() :] if last is None else text[last.end() :]
