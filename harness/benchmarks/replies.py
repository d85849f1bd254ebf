"""The blocks of code in a text: between fences, or between marks such as `[PYTHON]` and `[/PYTHON]`.

Models forget fences, write too many and put them into docstrings. Each rule below decides by the lines alone,
and reading takes time in proportion to the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import StrEnum

from harness.core.scoring.answers import MAX_REPLY_CHARACTERS, drop_thoughts
from harness.core.text import escape_terminal

# At the start of a line, any text without a backquote may follow a fence, such as `python title="main.py"`.
_FENCE_LINE = re.compile(r"(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)(?P<info>[^`]*)\Z")
# At the end of a line that opens a block, only the name of a language may follow the fence.
_OPENING = re.compile(r"(?P<fence>`{3,})[ \t]*(?P<info>[\w+#.-]*)[ \t]*\Z")
_LONGEST_OPENING = 100
_LABEL = re.compile(r"[ \t]*[\w+#.-]+[ \t]*\Z")
_PYTHON_LABELS = frozenset({"", "python", "python3", "py", "python2", "py3"})
_PROSE = frozenset({"markdown", "md", "mdx", "text", "txt", "plaintext", "plain"})
_MARKS = re.compile(
    r"^[ \t]*\[(?P<mark>PYTHON|CODE)\][ \t]*\n?(?P<code>.*?)(?:\[/(?P=mark)\]|\Z)", re.DOTALL | re.MULTILINE
)
_TAGS = re.compile(
    r"^[ \t]*(?:<pre\b[^<>]{0,100}>\s*)?<(?P<mark>python|code|answer|solution)\b[^<>]{0,100}>[ \t]*\n?"
    r"(?P<code>.*?)(?:</(?P=mark)>|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
# The end of a block that began in the prompt.
_LONE_END = re.compile(
    r"^[ \t]*(?:\[/(?:PYTHON|CODE)\]|</python>)[ \t]*$|\[/(?:PYTHON|CODE)\]\s*\Z", re.MULTILINE
)
_LONGEST_LINE = 500
# A line that prose does not begin with.
_CODE_LINE = re.compile(
    r"(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[(:]|import\s+[\w.]+(?:\s+as\s+\w+)?(?:\s*,\s*[\w., ]+)?\s*$"
    r"|from\s+[\w.]+\s+import\s|@[\w.]+|\"\"\"|'''|(?:for|while|if|with|try|elif|else)\b.*:\s*(?:#.*)?$"
    r"|return\b(?:\s|$)|[A-Za-z_]\w*(?:\[[^\]]*\]|\.\w+)*(?:\s*,\s*[A-Za-z_]\w*)*(?:\s*:\s*[\w\[\]., |]+)?"
    r"\s*[+\-*/|&]?=(?!=)\s*\S|print\(|[\w.]+\(.*\)\s*$|(?:[ ]{2,}|\t)\s*\S"
)
_STRINGS = re.compile(r"\"\"\"|'''|\"(?:\\.|[^\"\\])*+\"?|'(?:\\.|[^'\\])*+'?|#.*|\\.")
_FENCE = "```"
_PYTHON = ("```python", "```Python")
_SHOWN_LINES, _SHOWN_CHARACTERS = 5, 300
_ANSWER, _ANSWER_END = "[ANSWER]", "[/ANSWER]"
REPLY_FIELDS = frozenset({"completion", "reply"})
"""The fields of a samples file that hold a model's reply, for benchmarks whose prompts are not continued."""


def looks_like_code(text: str) -> bool:
    """Return whether the first line of a text, comments left out, is one that prose does not begin with."""
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            return _CODE_LINE.match(line[:_LONGEST_LINE]) is not None
    return False


def read_blocks(text: str) -> list[str]:
    """Return the blocks of code in a text. A last block without an end extends to the end of the text.

    A block in an item of a list is indented as its fence is, and loses that indentation. A text that begins
    with code and has only the end of a block is a block up to there. Fences in the docstring of a program do
    not end its block. The fences around other blocks are ignored.
    """
    marked = _read_marked(text)
    if not marked:
        return _Reader(text).read()
    return [block for code in marked for block in (_Reader(code).read() or [code])]


def _read_marked(text: str) -> list[str]:
    """Return the texts between marks, none if fences come before them or the text is a whole program."""
    fences = [place for fence in ("```", "~~~") if (place := text.find(fence)) >= 0]
    if looks_like_code(text):
        end = None if fences else _LONE_END.search(text)
        return [] if end is None else [text[: end.start()].strip("\n")]
    first = _MARKS.search(text)
    if first is not None and first.start() < min(fences, default=len(text)):
        return [found["code"].strip("\n") for found in _MARKS.finditer(text)]
    return [] if fences else [found["code"].strip("\n") for found in _TAGS.finditer(text)]


@dataclass(frozen=True, slots=True)
class _Fence:
    """A fence that opens or closes a block, and the text after it."""

    indent: str
    fence: str
    info: str

    @property
    def label(self) -> str:
        return (self.info.split(None, 1) or [""])[0].lower()

    @property
    def is_opening(self) -> bool:
        """Whether the name of a language follows, which no closing fence has."""
        return _LABEL.match(self.info) is not None

    def closes(self, opening: _Fence) -> bool:
        """Return whether this may be the closing fence of a block, which is at least as long as its first."""
        return self.fence.startswith(opening.fence) and not self.is_opening


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a block: the line after its last one, and the line where the text goes on."""

    stop: int
    after: int
    # Whether the line `stop` is code up to the fence at its end.
    is_in_line: bool = False


class _Reader:
    """Reads the blocks of a text once."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        # The fences at the starts of lines by the number of the line.
        self._fences = {
            number: _Fence(found["indent"], found["fence"], found["info"])
            for number, line in enumerate(self._lines)
            if ("```" in line or "~~~" in line) and (found := _FENCE_LINE.match(line))
        }
        self._places = sorted(self._fences)
        # A text whose quotes do not agree with its fences has them followed no more, so that no line is read
        # more than twice.
        self._follows_quotes = True

    def read(self) -> list[str]:
        blocks: list[str] = []
        # The fences around other blocks that are still open.
        wrappers: list[_Fence] = []
        position = 0
        if (begun := self._find_begun_block()) is not None:
            blocks.append(self._cut(*begun).lstrip("\n"))
            position = begun[2].after
        while position < len(self._lines):
            opening = self._find_opening(position)
            position += 1
            if opening is None:
                continue
            if wrappers and not opening.label and opening.closes(wrappers[-1]):
                wrappers.pop()
            elif self._is_wrapper(opening, position):
                wrappers.append(opening)
            else:
                end = self._find_end(opening, position)
                blocks.append(self._cut(opening, position, end))
                position = end.after
        # A fence too many opens a block without any text.
        return [block for block in blocks if block.strip()] or blocks[:1]

    def _find_begun_block(self) -> tuple[_Fence, int, _End] | None:
        """Return the block whose opening fence was in the prompt, so that the text has only its end."""
        if not self._places:
            return None
        first = self._fences[self._places[0]]
        opening = _Fence("", first.fence[0] * 3, "")
        # The prompt may have had only the fence.
        start = int(self._lines[0].strip().lower() in _PYTHON_LABELS - {""})
        if not looks_like_code("\n".join(self._lines[start : self._places[0]])):
            return None
        end = self._find_end(opening, start)
        if end.after == end.stop or end.stop not in self._fences:
            return None
        following = self._places[bisect_right(self._places, end.stop) :]
        is_pair = len(following) % 2 == 0 or self._fences[following[0]].is_opening
        return (opening, start, end) if is_pair else None

    def _find_opening(self, position: int) -> _Fence | None:
        if (opening := self._fences.get(position)) is not None:
            return opening
        line = self._lines[position]
        found = _OPENING.search(line[-_LONGEST_OPENING:]) if "```" in line else None
        return None if found is None else _Fence("", found["fence"], found["info"])

    def _is_wrapper(self, opening: _Fence, start: int) -> bool:
        """Return whether a fence is around other blocks, as in a reply that is Markdown in a block."""
        if opening.label not in _PROSE and opening.label:
            return False
        place = bisect_left(self._places, start)
        if place == len(self._places):
            return False
        inner = self._fences[self._places[place]]
        if opening.label:
            return not inner.closes(opening)
        return inner.is_opening and not looks_like_code("\n".join(self._lines[start : self._places[place]]))

    def _find_end(self, opening: _Fence, start: int) -> _End:
        """Return the end of the block whose lines begin at `start`.

        Fences in triple quotes are part of a program if they are pairs and the quotes end within the block.
        The opening fence of another block ends a block whose own end is missing.
        """
        quote = ""
        follows = self._follows_quotes and opening.label in _PYTHON_LABELS
        quoted: list[tuple[_End, bool]] = []
        for number in range(start, len(self._lines)):
            line = self._lines[number]
            found = self._fences.get(number)
            end = self._end_at(opening, number, found)
            if end is None:
                quote = _follow_quotes(line, quote) if follows else ""
                continue
            if quote or (end.is_in_line and follows and _follow_quotes(line, quote)):
                quoted.append((end, found is not None and found.is_opening))
                quote = _follow_quotes(line, quote)
                continue
            return end if _are_pairs(quoted) else self._distrust(quoted)
        if quoted and (quote or not _are_pairs(quoted)):
            return self._distrust(quoted)
        # A fence that is too short for the block still ends the text.
        last = self._places[-1] if self._places else -1
        is_end = (
            last >= start and not self._fences[last].info and not any(map(str.strip, self._lines[last + 1 :]))
        )
        return _End(last if is_end else len(self._lines), len(self._lines))

    def _end_at(self, opening: _Fence, number: int, found: _Fence | None) -> _End | None:
        """Return the end of a block if the line may be one."""
        if found is not None:
            if found.closes(opening):
                return _End(number, number + 1)
            is_next = found.is_opening and opening.label in _PYTHON_LABELS and found.fence == opening.fence
            return _End(number, number) if is_next and len(found.indent) <= len(opening.indent) else None
        stripped = self._lines[number].rstrip()
        is_in_line = opening.fence[0] == "`" and stripped.endswith(opening.fence)
        return _End(number, number + 1, is_in_line=True) if is_in_line else None

    def _distrust(self, quoted: list[tuple[_End, bool]]) -> _End:
        self._follows_quotes = False
        return quoted[0][0]

    def _cut(self, opening: _Fence, start: int, end: _End) -> str:
        lines = self._lines[start : end.stop]
        if end.is_in_line:
            last = self._lines[end.stop].rstrip().rstrip("`")
            lines += [last] if last.strip() else []
        return "\n".join(line.removeprefix(opening.indent) for line in lines)


def _are_pairs(quoted: list[tuple[_End, bool]]) -> bool:
    """Return whether each second fence in a text in quotes closes the one before it."""
    return len(quoted) % 2 == 0 and not any(is_opening for _, is_opening in quoted[1::2])


def _follow_quotes(line: str, quote: str) -> str:
    """Return the triple quotes open at a line's end, "" for none, from the quotes open at its start."""
    position = 0
    while position < len(line):
        if quote:
            end = line.find(quote, position)
            if end < 0:
                return quote
            position = end + 3
            before = line[:end]
            if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
                quote = ""
            else:
                position = end + 1
            continue
        found = _STRINGS.search(line, position)
        if found is None:
            return ""
        position = found.end()
        if found.group() in ('"""', "'''"):
            quote = found.group()
    return quote


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
