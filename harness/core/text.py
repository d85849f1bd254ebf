r"""Make text from a hostile party safe to show: nothing in it moves a cursor, hides or reorders.

This module is the only escaper of the host. Use `escape_terminal` for a line of a table, a message or a log,
`escape_text` for evidence that is bounded already, and `escape_bytes` for the output of a program. All of
them return plain text, which is not markup: hand it to `rich.text.Text` and never to a markup parser. Only
the result of `quote_markdown` may appear in Markdown, and only the result of `quote_argument` in a command
that a user may paste. The page of reports and of the viewer gets texts of this module alone and makes text
nodes of them. `harness/reports/page_values.py` reads some as Markdown, and escapes what an entity in it
stands for. Code that runs inside a sandbox cannot import this module, so the host escapes everything that it
receives.
"""

from __future__ import annotations

import codecs
import re
import shlex
from functools import lru_cache
from pathlib import Path
from typing import TextIO

# `str.isprintable` accepts these characters, although the eye sees nothing: joiners, fillers, variation
# selectors (which can carry hidden data), the empty braille cell and the musical null note head.
_INVISIBLE = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    r"\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
_MARKDOWN = {ord("`"): r"\x60", ord("|"): r"\x7c"}


def escape_text(text: str, *, multiline: bool = False) -> str:
    r"""Return all of `text` with everything invisible written as an escape (`\x1b`, `\u202e`, ...).

    The function escapes control and format characters, bidi controls, zero-width and other invisible
    characters, spaces other than U+0020, line separators, surrogates, private and unassigned code points.
    With `multiline`, newlines and tabs stay and `\r\n` becomes a newline; without it, the result is one line.
    A backslash stays as it is, so that escaping a text twice changes nothing.
    """
    if _is_safe(text):
        return text
    if not multiline:
        return text.translate(_ONE_LINE)
    text = text.replace("\r\n", "\n")
    return text if _is_safe(text.replace("\n", "").replace("\t", "")) else text.translate(_LINES)


def escape_terminal(text: str, limit: int = 500, *, multiline: bool = False) -> str:
    """Return `text` as `escape_text` does, in at most `limit` characters. A cut text ends with its length.

    Raises:
        ValueError: `limit` is less than 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    if len(text) <= limit and _is_safe(text):
        return text
    # Twice the limit is always enough, because only `\r\n` becomes shorter, and it becomes one character.
    shown = escape_text(text[: 2 * limit + 2], multiline=multiline)
    if len(shown) <= limit:
        return shown
    ending = _name_length(text)
    return (_cut(shown, limit - len(ending)) + ending)[:limit]


def escape_bytes(data: bytes) -> str:
    r"""Return the output of a program as text: valid UTF-8 as it is, every other byte as `\xNN`.

    Newlines and tabs stay, `\r\n` becomes a newline, and all that `escape_text` escapes is escaped, a lone
    `\r` included. The function does not bound the length, which is up to four times the length of `data`.
    """
    return escape_text(data.decode("utf-8", "backslashreplace"), multiline=True)


class ByteEscaper:
    """Escapes the output of a program as `escape_bytes` does, piece by piece.

    A piece may end inside of a character, or between the two characters of a line end.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._held = ""

    def escape(self, data: bytes, *, is_last: bool = False) -> str:
        """Return the next piece, without its last characters if they may go with the next piece."""
        text = self._held + self._decoder.decode(data, is_last)
        self._held = "\r" if text.endswith("\r") and not is_last else ""
        return escape_text(text.removesuffix("\r") if self._held else text, multiline=True)


def quote_markdown(text: str, limit: int = 200) -> str:
    r"""Return `text` as a code span of Markdown in one line, in at most `limit` characters and four more.

    Inside of a code span no site looks for markup, HTML, links, mentions or issue numbers. A backtick could
    end the span, and a `|` the cell of a table, so they are written as `\x60` and `\x7c`.

    Raises:
        ValueError: `limit` is less than 1.
    """
    shown = escape_terminal(text.translate(_MARKDOWN), limit) or " "
    # Markdown strips one space from each side of a code span.
    room = " " if " " in (shown[0], shown[-1]) else ""
    return f"`{room}{shown}{room}`"


def quote_argument(argument: str | Path) -> str:
    """Return a text or a path as one word of a shell's command line.

    A text with an invisible character is written in the form `$'...'` of bash and zsh, so that a user sees
    what is pasted.
    """
    text = str(argument)
    if escape_text(text) == text:
        return shlex.quote(text)
    return f"$'{''.join(map(_escape_for_shell, text))}'"


def shorten(text: str, limit: int, *, keep_end: bool = False) -> str:
    """Return the start of `text`, or its end, in at most `limit` characters. The length marks a cut."""
    if len(text) <= limit:
        return text
    mark = f"{_name_length(text)} " if keep_end else _name_length(text)
    room = max(limit - len(mark), 0)
    return (mark + text[len(text) - room :] if keep_end else text[:room] + mark)[:limit]


def escape_unencodable(text: str, stream: TextIO) -> str:
    """Return `text` with an escape for every character that the encoding of `stream` lacks.

    A report must not end in an error because the encoding of a terminal lacks one letter.
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _escape_for_shell(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if escape_text(char) == char:
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _name_length(text: str) -> str:
    return f"... ({len(text)} characters in all)"


def _is_safe(text: str) -> bool:
    """Return whether no character needs an escape. Both checks run at the speed of C."""
    return text.isprintable() and (text.isascii() or not _INVISIBLE.search(text))


@lru_cache(maxsize=4096)
def _show(char: str) -> str:
    if _is_safe(char):
        return char
    return char.encode("unicode_escape").decode("ascii")


class _Escapes(dict[int, str]):
    """The table for `str.translate`. It holds the escapes of ASCII and computes all others."""

    def __missing__(self, code: int) -> str:
        return _show(chr(code))


_ONE_LINE = _Escapes((code, _show(chr(code))) for code in range(128))
_LINES = _Escapes(_ONE_LINE | {ord("\n"): "\n", ord("\t"): "\t"})

_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])")


def _cut(shown: str, room: int) -> str:
    """Return at most `room` characters of an escaped text, and never half of an escape."""
    room = max(room, 0)
    around = _ESCAPE.finditer(shown, max(room - 9, 0), room + 9)
    inside = next((match.start() for match in around if match.start() < room < match.end()), room)
    return shown[:inside]
