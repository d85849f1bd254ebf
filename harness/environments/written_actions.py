"""The actions in a model's reply: lines such as `Act: bash`, and the blocks and parentheses after them.

Only the replies of the model are read, so that the output of a tool cannot be taken for an action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.core.scoring.answers import MAX_REPLY_CHARACTERS, drop_thoughts

# Models decorate the line, for example `**Act:** bash`, `- Act:bash` or `### action: bash`. No quantifier
# gives back what it has matched, so that a long line takes linear time.
_ACTION = re.compile(
    r"[ \t>*_#`-]*+act(?:ion)?[ \t*_`]*+[:：][ \t*_`]*+(?:(?P<name>[\w.-]++)(?P<rest>.*))?",
    re.IGNORECASE | re.ASCII,
)
_OPENING = re.compile(r"(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<label>[^\s`]*+)[^`]*+\Z")
# A block may also begin at the end of the line of its action, or of a line such as `Final Answer:`.
_OPENING_AT_END = re.compile(r"(?P<indent>)(?P<fence>`{3,}|~{3,})[ \t]*(?P<label>[\w+#.-]*)[ \t]*\Z")
_LONGEST_OPENING = 100
DECORATION = " \t*_`"


class Unreadable(Exception):
    """A reply that holds no readable action. `advice` explains to the model how to write one."""

    def __init__(self, name: str, advice: str) -> None:
        super().__init__(name)
        self.name = name
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the word after its opening fence, in lower case, and its lines."""

    label: str
    text: str
    # Whether the reply has its closing fence.
    is_closed: bool = True


@dataclass(slots=True)
class WrittenAction:
    """One action: its name as written, and the reply up to the next action."""

    name: str
    # The rest of the line after the name. Text in parentheses may extend over more lines.
    rest: str
    # The lines outside of blocks.
    lines: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def find_in_parentheses(self) -> str | None:
        """Return the text from the first `(` after the name to the last `)`, None without both."""
        start, end = self.rest.find("("), self.rest.rfind(")")
        if start < 0 or end < start or self.rest[:start].strip(DECORATION):
            return None
        return _unwrap_text(self.rest[start + 1 : end])

    @property
    def closes_parentheses(self) -> bool:
        """Return whether as many parentheses are closed as opened. A cut-off answer may lack some."""
        return self.rest.count("(") <= self.rest.count(")")


@dataclass(frozen=True, slots=True)
class WrittenReply:
    """The actions of a reply, and the lines before the first one."""

    actions: list[WrittenAction]
    introduction: WrittenAction
    # Whether the model wrote the result of an action itself.
    has_result: bool = False


def read_actions(reply: str, *, result: str = "") -> WrittenReply:
    """Return the actions of a reply, which may be none.

    The model's thoughts are dropped first. The text from a line after the first action that begins with
    `result` is ignored, because these words begin the results, which only the harness writes. A block without
    its end extends to the end of the reply. Raises Unreadable for an empty reply, for one that is too long,
    and if an action seems to follow in a block without its end, because its end is then unknown.
    """
    if len(reply) > MAX_REPLY_CHARACTERS:
        limit = f"more than {MAX_REPLY_CHARACTERS:,}"
        raise Unreadable("reply too long", f"Your reply has {len(reply):,} characters, {limit}. Be shorter.")
    text = drop_thoughts(reply)
    if not text.strip():
        raise Unreadable("empty reply", "Your reply is empty.")
    lines = text.split("\n")
    found = _split(lines, result)
    if not found.actions and (inner := _unwrap(lines)) is not None:
        found = _split(inner, result)
    return found


def _split(lines: list[str], result: str) -> WrittenReply:
    actions: list[WrittenAction] = []
    current = introduction = WrittenAction("", "")
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if result and actions and result in line and line.lstrip(DECORATION).startswith(result):
            return WrittenReply(actions, introduction, has_result=True)
        action = _find_action(line)
        if action is not None:
            current = WrittenAction(action["name"] or "", action["rest"] or "")
            actions.append(current)
            end = _find_parenthesis(lines, position, current.rest)
            if end is not None:
                current.rest = "\n".join([current.rest, *lines[position:end]])
                position = end
                continue
        opening = _find_opening(line, is_action=action is not None)
        if opening is None:
            if action is None:
                current.lines.append(line)
            continue
        if action is not None:
            current.rest = current.rest.removesuffix(opening.group())
        elif before := line.removesuffix(opening.group()):
            current.lines.append(before)
        block, position = _read_block(lines, position, opening)
        current.blocks.append(block)
    return WrittenReply(actions, introduction)


def _find_action(line: str) -> re.Match[str] | None:
    # Most lines have no colon, and a reply may have a million lines.
    return _ACTION.match(line) if ":" in line or "：" in line else None


def _find_opening(line: str, *, is_action: bool) -> re.Match[str] | None:
    if "```" not in line and "~~~" not in line:
        return None
    if found := _OPENING.match(line):
        return found
    found = _OPENING_AT_END.search(line[-_LONGEST_OPENING:])
    if found is None or not (is_action or line.removesuffix(found.group()).rstrip(DECORATION).endswith(":")):
        return None
    return found


def _read_block(lines: list[str], position: int, opening: re.Match[str]) -> tuple[Block, int]:
    """Return the block whose lines start at `position`, and the position after it.

    As in Markdown, the closing fence is at least as long as the opening one. Some models write it at the end
    of the last line of the block.
    """
    fence = opening["fence"]
    for end in range(position, len(lines)):
        stripped = lines[end].rstrip()
        if stripped.endswith(fence):
            last = stripped.rstrip(fence[0])
            return _make_block([*lines[position:end], *([last] if last.strip() else [])], opening), end + 1
    if any(_find_action(line) for line in lines[position:]):
        advice = f"A block in your reply has no end. End it with a line that holds only `{fence}`."
        raise Unreadable("block without its end", advice)
    return _make_block(lines[position:], opening, is_closed=False), len(lines)


def _make_block(lines: list[str], opening: re.Match[str], *, is_closed: bool = True) -> Block:
    # A block in a list is indented as a whole.
    indent = len(opening["indent"])
    texts = (line[min(indent, len(line) - len(line.lstrip(" \t"))) :] for line in lines)
    return Block(opening["label"].lower(), "\n".join(texts), is_closed)


def _find_parenthesis(lines: list[str], position: int, rest: str) -> int | None:
    """Return the position after the line that ends the text in parentheses, None if it begins on no line.

    The text ends with the first line that ends with `)`, if as many are closed by then as were opened. No
    such line before the next action gives None as well.
    """
    if not rest.lstrip(DECORATION).startswith("(") or ")" in rest:
        return None
    depth = rest.count("(")
    for end in range(position, len(lines)):
        line = lines[end]
        if _find_action(line):
            return None
        depth += line.count("(") - line.count(")")
        if depth <= 0 and line.rstrip(DECORATION).endswith(")"):
            return end + 1
    return None


def _unwrap(lines: list[str]) -> list[str] | None:
    """Return the lines of a reply that is one block as a whole, None for any other reply."""
    start = next(number for number, line in enumerate(lines) if line.strip())
    if _OPENING.match(lines[start]) is None:
        return None
    inner = lines[start + 1 :]
    while inner and not inner[-1].strip():
        inner.pop()
    if inner and not inner[-1].strip("`~ \t"):
        inner.pop()
    return inner


def _unwrap_text(text: str) -> str:
    """Return the content of a text that is one block as a whole, else the text."""
    lines = text.strip().split("\n")
    opening = _OPENING.match(lines[0])
    if opening is None or len(lines) < 2 or lines[-1].strip() != opening["fence"]:
        return text
    return "\n".join(lines[1:-1])
