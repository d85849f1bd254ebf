"""The syntax tree of a bash script, as far as checks need it.

A script that uses anything else is refused, because a check that the parser misread could be judged sound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

_PATTERN = re.compile(r"[*?]|\[[^]]*\]")
_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}")


class NotUnderstood(Exception):
    """A script uses syntax that is not analysed."""


@dataclass(frozen=True, slots=True)
class Text:
    """Literal characters of a word."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, or `${name...}` with an operator and its operand. `${#name}` has the operator `length`."""

    name: str
    quoted: bool
    operator: str = ""
    operand: tuple[Part, ...] = ()
    # Whether it is `$@` or all elements of an array, which are several words even in quotes.
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(...)`, backticks, or with `is_file` the name of a pipe as in `<(...)`."""

    body: Body
    quoted: bool
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((...))` or `((...))`: the variables and substitutions in it."""

    parts: tuple[Part, ...]
    quoted: bool = True
    assigned: tuple[str, ...] = ()


Part = Text | Variable | Substitution | Arithmetic


@dataclass(frozen=True, slots=True)
class Word:
    """A word before its expansion."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str | None:
        """The word if no expansion changes it, else None."""
        if not all(isinstance(part, Text) for part in self.parts) or self.is_pattern:
            return None
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def is_pattern(self) -> bool:
        """Whether the word expands to names of files, or to several words in braces."""
        return _PATTERN.search(self._unquoted) is not None or self.has_braces

    @property
    def has_braces(self) -> bool:
        """Whether the word expands to several words in braces."""
        return _BRACES.search(self._unquoted) is not None

    @property
    def _unquoted(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text) and not part.quoted)


def make_word(parts: list[Part]) -> Word:
    """Return the word of these parts, with neighbouring characters joined."""
    joined: list[Part] = []
    for key, group in groupby(parts, lambda part: part.quoted if isinstance(part, Text) else None):
        found = list(group)
        if key is None:
            joined += found
        else:
            joined.append(Text("".join(part.text for part in found if isinstance(part, Text)), key))
    return Word(tuple(joined))


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, or `name=(value value)`."""

    name: str
    values: tuple[Word, ...]
    is_array: bool = False


@dataclass(slots=True)
class Redirect:
    """A redirection. The target of `<<` is the here-document, which the parser reads later."""

    operator: str
    target: Word
    # The number of the redirected file as written, "" for the operator's own.
    descriptor: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Simple:
    """A command with its arguments. `start` is the offset of its first word, None inside escaped text."""

    assignments: tuple[Assignment, ...] = ()
    words: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    start: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """`[[ ... ]]`: its operators and operands in order."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ArithmeticCommand:
    """`(( ... ))`."""

    value: Arithmetic


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    commands: tuple[Command, ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AndOr:
    """Commands joined by `&&` and `||`. The first has the operator `&&`."""

    items: tuple[tuple[Literal["&&", "||"], Command], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """Commands one after the other."""

    items: tuple[Command, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If:
    clauses: tuple[tuple[Body, Body], ...]
    otherwise: Body | None


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """A `while` or `until` loop."""

    condition: Body
    body: Body
    is_until: bool


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """A `for` loop over words, or over numbers if `arithmetic` is set."""

    name: str
    words: tuple[Word, ...]
    body: Body
    arithmetic: Arithmetic | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    subject: Word
    items: tuple[tuple[tuple[Word, ...], Body], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """`{ ... }`, or `( ... )` with `is_subshell`, or another compound command, with redirections."""

    body: Command
    redirects: tuple[Redirect, ...] = ()
    is_subshell: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    name: str
    body: Command


Command = (
    Simple
    | Condition
    | ArithmeticCommand
    | Pipeline
    | AndOr
    | Body
    | If
    | While
    | For
    | Case
    | Block
    | Function
)


@dataclass(slots=True)
class Script:
    """A parsed script, and the functions that it defines, by name."""

    body: Body
    functions: dict[str, Command] = field(default_factory=dict)
