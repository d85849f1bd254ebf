"""Read the words of a bash script: quotes, expansions, substitutions, arithmetic and here-documents."""

from __future__ import annotations

import re

from harness.environments.os.checks import shell_syntax as sh

MAX_DEPTH = 40
_NAME = re.compile(r"[A-Za-z_]\w*")
_PARAMETER = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]")
_PARAMETER_IN_BRACES = re.compile(r"[A-Za-z_]\w*|\d+|[@*?#$]")
_INDEX = re.compile(r"\[(?:[@*]|\d+)\]")
_OPERATOR = re.compile(r":?[-=+?]|##?|%%?|/[/#%]?|\^\^?|,,?")
_SLICE = re.compile(r":\s?-?\d+(?::-?\d+)?\}")
_KEYWORD = re.compile(r"[^\s;&|<>()\"'`$\\]+")
_ARITHMETIC_MARKS = frozenset(' \t\n+-*/%<>=!&|^~?:,."0123456789')
_ENDS_WORD = frozenset(" \t\n;&|<>()")
_RESERVED = frozenset(
    (
        *("!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function"),
        *("if", "in", "select", "then", "time", "until", "while", "{", "}"),
    )
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


class Reader:
    """Reads the words of one text from its start to its end. A subclass reads commands.

    `base` is the offset of the text in the script, None if that is unknown.
    """

    def __init__(self, text: str, base: int | None, functions: dict[str, sh.Command], depth: int = 0) -> None:
        self.functions = functions
        self._text = text
        self._base = base
        self._at = 0
        self._depth = depth
        self._pending: list[tuple[str, bool, bool, sh.Redirect]] = []

    def parse_body(self, ends: tuple[str, ...]) -> sh.Body:
        """Return the commands up to one of the operators or reserved words in `ends`, or to the end."""
        raise NotImplementedError

    def _rest(self, number: int = 1) -> str:
        return self._text[self._at : self._at + number]

    def _refuse(self, what: str) -> sh.NotUnderstood:
        line = self._text.count("\n", 0, self._at) + 1
        return sh.NotUnderstood(f"{what} in line {line}")

    def _skip_blanks(self, *, lines: bool = False) -> None:
        while self._at < len(self._text):
            here = self._rest()
            if self._rest(2) == "\\\n":
                self._at += 2
            elif here in " \t":
                self._at += 1
            elif here == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif here == "\n" and lines:
                self._at += 1
                self._read_documents()
            else:
                return

    def _takes(self, text: str) -> bool:
        """Move behind an operator if it is next."""
        if self._rest(len(text)) != text:
            return False
        self._at += len(text)
        return True

    def _keyword(self) -> str:
        """Return the reserved word that is next, or an empty string."""
        found = _KEYWORD.match(self._text, self._at)
        return found[0] if found and found[0] in _RESERVED else ""

    def _take_keyword(self, word: str) -> None:
        self._skip_blanks(lines=True)
        if self._keyword() != word:
            raise self._refuse(f"`{word}` is missing")
        self._at += len(word)

    def require_end(self) -> None:
        self._skip_blanks(lines=True)
        if self._at < len(self._text) or self._pending:
            raise self._refuse(f"unexpected {self._rest(10)!r}")

    def _read_word(self, ends: frozenset[str] = _ENDS_WORD) -> sh.Word:
        parts: list[sh.Part] = []
        while self._at < len(self._text) and self._rest() not in ends:
            parts += self._read_part(quoted=False)
        return sh.make_word(parts)

    def _read_part(self, *, quoted: bool) -> list[sh.Part]:
        here = self._rest()
        if here == "\\":
            self._at += 2
            escaped = self._text[self._at - 1 : self._at]
            if escaped == "\n":
                return []
            keeps = quoted and escaped not in ('"', "\\", "$", "`")
            return [sh.Text(f"\\{escaped}" if keeps else escaped, quoted=True)]
        if here == "'" and not quoted:
            return [sh.Text(self._read_until("'"), quoted=True)]
        if here == '"' and not quoted:
            return self._read_quoted()
        if here == "`":
            return [self._read_backticks(quoted)]
        if here == "$":
            return [self._read_dollar(quoted)]
        if not quoted and self._rest(2) in ("?(", "*(", "+(", "@(", "!("):
            raise self._refuse("an extended pattern")
        self._at += 1
        return [sh.Text(here, quoted)]

    def _read_until(self, mark: str) -> str:
        end = self._text.find(mark, self._at + 1)
        if end < 0:
            raise self._refuse(f"an unclosed {mark}")
        inner = self._text[self._at + 1 : end]
        self._at = end + 1
        return inner

    def _read_quoted(self) -> list[sh.Part]:
        self._at += 1
        parts: list[sh.Part] = [sh.Text("", quoted=True)]
        while not self._takes('"'):
            if self._at >= len(self._text):
                raise self._refuse('an unclosed "')
            parts += self._read_part(quoted=True)
        return parts

    def _read_backticks(self, quoted: bool) -> sh.Part:
        start = self._at + 1
        end = start
        while self._text[end : end + 1] != "`":
            if end >= len(self._text):
                raise self._refuse("an unclosed `")
            end += 2 if self._text[end] == "\\" else 1
        inner = self._text[start:end]
        self._at = end + 1
        marks = '[`\\\\$"]' if quoted else "[`\\\\$]"
        plain = re.sub(rf"\\({marks})", r"\1", inner)
        base = None if self._base is None or "\\" in inner else self._base + start
        parser = self._nest(plain, base)
        body = parser.parse_body(())
        parser.require_end()
        return sh.Substitution(body, quoted)

    def _nest(self, text: str, base: int | None) -> Reader:
        if self._depth >= MAX_DEPTH:
            raise self._refuse("too deep a nesting")
        return type(self)(text, base, self.functions, self._depth + 1)

    def _read_dollar(self, quoted: bool) -> sh.Part:
        if self._rest(3) == "$((":
            self._at += 3
            return self._read_arithmetic("))", quoted)
        if self._rest(2) == "$(":
            self._at += 2
            return sh.Substitution(self._read_parenthesised(), quoted)
        if self._rest(2) == "${":
            self._at += 2
            return self._read_braces(quoted)
        if self._rest(2) == "$'" and not quoted:
            self._at += 1
            text = self._read_ansi()
            return sh.Text(text, quoted=True)
        if (self._rest(2) == '$"' and not quoted) or self._rest(2) == "$[":
            raise self._refuse(f"{self._rest(2)}")
        found = _PARAMETER.match(self._text, self._at + 1)
        if found is None:
            self._at += 1
            return sh.Text("$", quoted)
        self._at = found.end()
        return sh.Variable(found[0], quoted, is_list=found[0] == "@")

    def _read_ansi(self) -> str:
        start = self._at
        end = start + 1
        while self._text[end : end + 1] != "'":
            if end >= len(self._text):
                raise self._refuse("an unclosed '")
            end += 2 if self._text[end] == "\\" else 1
        self._at = end + 1

        def unescape(found: re.Match[str]) -> str:
            if found[1] not in _ESCAPES:
                raise self._refuse(f"the escape {found[0]}")
            return _ESCAPES[found[1]]

        return re.sub(r"\\(.)", unescape, self._text[start + 1 : end], flags=re.DOTALL)

    def _read_parenthesised(self) -> sh.Body:
        """Return the commands up to a closing parenthesis."""
        if self._depth >= MAX_DEPTH:
            raise self._refuse("too deep a nesting")
        self._depth += 1
        body = self.parse_body((")",))
        self._depth -= 1
        if not self._takes(")"):
            raise self._refuse("an unclosed (")
        return body

    def _read_braces(self, quoted: bool) -> sh.Part:
        if self._rest() == "#" and _NAME.match(self._text, self._at + 1):
            self._at += 1
            operator = "length"
        else:
            operator = ""
        variable, is_list = self._read_parameter()
        if not is_list and self._takes("["):
            index = self._read_arithmetic("]")
            if not self._takes("}"):
                raise self._refuse("an expansion in braces")
            return sh.Variable(variable, quoted, "[", (index,))
        if self._takes("}"):
            return sh.Variable(variable, quoted, operator, is_list=is_list and not operator)
        if found := _SLICE.match(self._text, self._at):
            self._at = found.end()
            return sh.Variable(variable, quoted, ":", is_list=is_list)
        found = _OPERATOR.match(self._text, self._at)
        if found is None or operator:
            raise self._refuse("an expansion in braces")
        self._at = found.end()
        parts: list[sh.Part] = []
        while not self._takes("}"):
            if self._at >= len(self._text):
                raise self._refuse("an unclosed ${")
            if self._rest() == '"':
                parts += self._read_quoted()
            else:
                parts += self._read_part(quoted=quoted)
        return sh.Variable(variable, quoted, found[0], tuple(parts), is_list)

    def _read_parameter(self) -> tuple[str, bool]:
        found = _PARAMETER_IN_BRACES.match(self._text, self._at)
        if found is None:
            raise self._refuse("an expansion in braces")
        self._at = found.end()
        is_list = found[0] == "@"
        if index := _INDEX.match(self._text, self._at):
            self._at = index.end()
            is_list = index[0] == "[@]"
        return found[0], is_list

    def _read_arithmetic(self, end: str, quoted: bool = True) -> sh.Arithmetic:
        parts: list[sh.Part] = []
        assigned: list[str] = []
        depth = 0
        while depth or not self._takes(end):
            here = self._rest()
            if not here:
                raise self._refuse("unclosed arithmetic")
            if here in "()":
                depth += 1 if here == "(" else -1
                if depth < 0:
                    raise self._refuse("arithmetic")
                self._at += 1
            elif here == "$":
                parts.append(self._read_dollar(quoted=True))
            elif here == "`":
                parts.append(self._read_backticks(quoted=True))
            elif found := _NAME.match(self._text, self._at):
                self._at = found.end()
                parts.append(sh.Variable(found[0], quoted=True))
                assigned.append(found[0])
            elif here in _ARITHMETIC_MARKS:
                self._at += 1
            else:
                raise self._refuse("arithmetic")
        return sh.Arithmetic(tuple(parts), quoted, tuple(assigned))

    def _read_documents(self) -> None:
        pending, self._pending = self._pending, []
        for end, is_plain, strips, redirect in pending:
            lines = []
            while True:
                if self._at >= len(self._text):
                    raise self._refuse("an unclosed here-document")
                stop = self._text.find("\n", self._at)
                stop = len(self._text) if stop < 0 else stop
                line = self._text[self._at : stop]
                self._at = min(stop + 1, len(self._text))
                line = line.lstrip("\t") if strips else line
                if line == end:
                    break
                lines.append(f"{line}\n")
            body = "".join(lines)
            plain = sh.Word((sh.Text(body, quoted=True),))
            redirect.target = plain if is_plain else self._nest(body, None)._read_all()

    def _read_all(self) -> sh.Word:
        """Return the whole text as if it were in double quotes, with double quotes as plain text."""
        parts: list[sh.Part] = []
        while self._at < len(self._text):
            parts += self._read_part(quoted=True)
        return sh.make_word(parts)
