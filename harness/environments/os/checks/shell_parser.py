"""Parse a bash script into its syntax tree. Whatever is not surely understood raises NotUnderstood."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from harness.environments.os.checks import shell_syntax as sh
from harness.environments.os.checks.shell_reader import Reader

MAX_CHARACTERS = 64 * 1024
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?=)")
_REDIRECT = re.compile(r"(?:\d+|&)?(?:<<<|<<-?|<&|>&|>>|>\||&>>|&>|<>|<|>)")
_FUNCTION = re.compile(r"([A-Za-z_][\w-]*)[ \t]*\([ \t]*\)")
_NAMED_FUNCTION = re.compile(r"([A-Za-z_][\w-]*)[ \t]*(\([ \t]*\))?")


def parse_shell(code: str) -> sh.Script:
    """Return the syntax tree of a bash script. Raises NotUnderstood."""
    if len(code) > MAX_CHARACTERS:
        raise sh.NotUnderstood(f"it has more than {MAX_CHARACTERS:,} characters")
    parser = _Parser(code, 0, {})
    body = parser.parse_body(())
    parser.require_end()
    return sh.Script(body, parser.functions)


class _Parser(Reader):
    """Reads the commands of one text."""

    def parse_body(self, ends: tuple[str, ...]) -> sh.Body:
        items: list[sh.Command] = []
        while True:
            self._skip_blanks(lines=True)
            if self._at >= len(self._text) or self._rest() in ends or self._keyword() in ends:
                break
            if self._rest(2) in ends:
                break
            items.append(self._parse_and_or())
            self._skip_blanks()
            if self._rest() == "&":
                raise self._refuse("a command in the background")
            if self._rest(2) == ";;":
                break
            if not self._takes(";") and self._rest() not in ("", "\n", ")", "}"):
                raise self._refuse(f"unexpected {self._rest(10)!r}")
            if self._rest() == "}" and "}" not in ends:
                raise self._refuse("unexpected '}'")
            if self._rest() == ")" and ")" not in ends:
                raise self._refuse("unexpected ')'")
        return sh.Body(tuple(items))

    def _parse_and_or(self) -> sh.Command:
        first = self._parse_pipeline()
        items: list[tuple[Literal["&&", "||"], sh.Command]] = [("&&", first)]
        while True:
            self._skip_blanks()
            operator = self._rest(2)
            if operator not in ("&&", "||"):
                break
            self._at += 2
            self._skip_blanks(lines=True)
            items.append(("&&" if operator == "&&" else "||", self._parse_pipeline()))
        return first if len(items) == 1 else sh.AndOr(tuple(items))

    def _parse_pipeline(self) -> sh.Command:
        negated = False
        self._skip_blanks()
        while self._keyword() == "!":
            self._at += 1
            negated = not negated
            self._skip_blanks()
        commands = [self._parse_command()]
        while True:
            self._skip_blanks()
            if self._rest() != "|" or self._rest(2) == "||":
                break
            if self._rest(2) == "|&":
                raise self._refuse("|&")
            self._at += 1
            self._skip_blanks(lines=True)
            commands.append(self._parse_command())
        return commands[0] if len(commands) == 1 and not negated else sh.Pipeline(tuple(commands), negated)

    def _parse_command(self) -> sh.Command:
        self._skip_blanks()
        keyword = self._keyword()
        compound: dict[str, Callable[[], sh.Command]] = {
            "if": self._parse_if,
            "while": self._parse_while,
            "until": self._parse_while,
            "for": self._parse_for,
            "case": self._parse_case,
            "{": self._parse_group,
            "[[": self._parse_condition,
            "function": self._parse_function,
        }
        if keyword in compound:
            command = compound[keyword]()
        elif keyword:
            raise self._refuse(f"unexpected `{keyword}`")
        elif self._rest(2) == "((":
            self._at += 2
            command = sh.ArithmeticCommand(self._read_arithmetic("))"))
        elif self._takes("("):
            command = sh.Block(self._read_parenthesised(), is_subshell=True)
        elif found := _FUNCTION.match(self._text, self._at):
            self._at = found.end()
            command = self._define(found[1])
        else:
            return self._parse_simple()
        if isinstance(command, sh.Function):
            return command
        redirects = self._read_redirects()
        return sh.Block(command, tuple(redirects)) if redirects else command

    def _define(self, name: str) -> sh.Command:
        self._skip_blanks(lines=True)
        body = self._parse_command()
        if isinstance(body, sh.Simple) or name in self.functions:
            raise self._refuse(f"the function {name}")
        self.functions[name] = body
        return sh.Function(name, body)

    def _parse_function(self) -> sh.Command:
        self._at += len("function")
        self._skip_blanks()
        found = _NAMED_FUNCTION.match(self._text, self._at)
        if found is None:
            raise self._refuse("a function")
        self._at = found.end()
        return self._define(found[1])

    def _parse_group(self) -> sh.Command:
        self._at += 1
        body = self.parse_body(("}",))
        self._take_keyword("}")
        return sh.Block(body)

    def _parse_if(self) -> sh.Command:
        clauses = []
        otherwise = None
        self._take_keyword("if")
        while True:
            condition = self.parse_body(("then",))
            self._take_keyword("then")
            clauses.append((condition, self.parse_body(("elif", "else", "fi"))))
            if self._keyword() != "elif":
                break
            self._take_keyword("elif")
        if self._keyword() == "else":
            self._take_keyword("else")
            otherwise = self.parse_body(("fi",))
        self._take_keyword("fi")
        return sh.If(tuple(clauses), otherwise)

    def _parse_while(self) -> sh.Command:
        is_until = self._keyword() == "until"
        self._at += len("while")
        condition = self.parse_body(("do",))
        return sh.While(condition, self._parse_loop_body(), is_until)

    def _parse_loop_body(self) -> sh.Body:
        self._skip_blanks()
        self._takes(";")
        self._take_keyword("do")
        body = self.parse_body(("done",))
        self._take_keyword("done")
        return body

    def _parse_for(self) -> sh.Command:
        self._take_keyword("for")
        self._skip_blanks()
        if self._takes("(("):
            head = self._read_for_head()
            return sh.For("", (), self._parse_loop_body(), head)
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise self._refuse("a loop")
        self._at = found.end()
        self._skip_blanks(lines=True)
        words: list[sh.Word] = [sh.Word((sh.Variable("@", quoted=True, is_list=True),))]
        if self._keyword() == "in":
            self._at += len("in")
            words = self._read_words()
        return sh.For(found[0], tuple(words), self._parse_loop_body())

    def _read_for_head(self) -> sh.Arithmetic:
        end = self._text.find("))", self._at)
        if end < 0:
            raise self._refuse("a loop")
        head = self._text[self._at : end].replace(";", ",")
        self._at = end + 2
        return self._nest(f"{head}))", None)._read_arithmetic("))")

    def _read_words(self) -> list[sh.Word]:
        words: list[sh.Word] = []
        while True:
            self._skip_blanks()
            if self._rest() in ("", "\n", ";", ")", "&", "|"):
                return words
            if self._rest() in "<>(":
                part = self._read_process()
                words.append(sh.Word((part,)))
            else:
                words.append(self._read_word())

    def _read_process(self) -> sh.Part:
        if self._rest(2) != "<(":
            raise self._refuse(f"unexpected {self._rest(2)!r}")
        self._at += 2
        return sh.Substitution(self._read_parenthesised(), quoted=True, is_file=True)

    def _parse_case(self) -> sh.Command:
        self._take_keyword("case")
        self._skip_blanks()
        subject = self._read_word()
        self._take_keyword("in")
        items = []
        while True:
            self._skip_blanks(lines=True)
            if self._keyword() == "esac":
                break
            self._takes("(")
            patterns = []
            while True:
                self._skip_blanks()
                patterns.append(self._read_word())
                self._skip_blanks()
                if not self._takes("|"):
                    break
            if not self._takes(")"):
                raise self._refuse("a case")
            items.append((tuple(patterns), self.parse_body((";;", "esac"))))
            self._skip_blanks(lines=True)
            if not self._takes(";;") and self._keyword() != "esac":
                raise self._refuse("a case")
            if self._rest() == "&":
                raise self._refuse("a case")
        self._take_keyword("esac")
        return sh.Case(subject, tuple(items))

    def _parse_condition(self) -> sh.Command:
        self._at += 2
        words: list[sh.Word] = []
        while True:
            self._skip_blanks(lines=True)
            if self._keyword() == "]]":
                self._at += 2
                return sh.Condition(tuple(words))
            if words and words[-1].text == "=~":
                words.append(self._read_pattern())
                continue
            operator = next((each for each in ("&&", "||", "(", ")", "<", ">") if self._takes(each)), None)
            if operator is not None:
                words.append(sh.Word((sh.Text(operator, quoted=False),)))
                continue
            word = self._read_word()
            if not word.parts:
                raise self._refuse("a condition")
            words.append(word)

    def _read_pattern(self) -> sh.Word:
        """Return the regular expression of `=~`, which may contain parentheses."""
        parts: list[sh.Part] = []
        depth = 0
        while self._rest() and (depth or self._rest() not in " \t\n"):
            depth += {"(": 1, ")": -1}.get(self._rest(), 0)
            parts += self._read_part(quoted=False)
        return sh.make_word(parts)

    def _parse_simple(self) -> sh.Command:
        assignments: list[sh.Assignment] = []
        words: list[sh.Word] = []
        redirects: list[sh.Redirect] = []
        start: int | None = None
        while True:
            self._skip_blanks()
            found = _ASSIGNMENT.match(self._text, self._at)
            if redirect := self._read_redirects():
                redirects += redirect
            elif self._rest() in ("", "\n", ";", "&", "|", ")"):
                break
            elif found is not None and not words:
                assignments.append(self._read_assignment(found))
            elif found is not None and self._text.startswith("(", found.end()):
                # `local names=(a b)`
                assignments.append(self._read_assignment(found))
            elif self._rest() in "<>(":
                words.append(sh.Word((self._read_process(),)))
            else:
                if not words and self._base is not None:
                    start = self._base + self._at
                words.append(self._read_word())
        if not (assignments or words or redirects):
            raise self._refuse("a missing command")
        return sh.Simple(tuple(assignments), tuple(words), tuple(redirects), start)

    def _read_assignment(self, found: re.Match[str]) -> sh.Assignment:
        self._at = found.end()
        if not self._takes("("):
            return sh.Assignment(found[1], (self._read_word(),))
        values: list[sh.Word] = []
        while True:
            self._skip_blanks(lines=True)
            if self._takes(")"):
                return sh.Assignment(found[1], tuple(values), is_array=True)
            word = self._read_word()
            if not word.parts or (word.text or "").startswith("["):
                raise self._refuse("an array")
            values.append(word)

    def _read_redirects(self) -> list[sh.Redirect]:
        redirects: list[sh.Redirect] = []
        while True:
            self._skip_blanks()
            found = _REDIRECT.match(self._text, self._at)
            if found is None or self._text.startswith(("<(", ">("), found.start()):
                return redirects
            operator = found[0].lstrip("0123456789")
            descriptor = found[0].removesuffix(operator)
            self._at = found.end()
            self._skip_blanks()
            if operator in ("<<", "<<-"):
                self._expect_document(operator, redirects)
            else:
                redirects.append(sh.Redirect(operator, self._read_word(), descriptor))

    def _expect_document(self, operator: str, redirects: list[sh.Redirect]) -> None:
        word = self._read_word()
        end = "".join(part.text for part in word.parts if isinstance(part, sh.Text))
        if word.text is None or self._depth:
            raise self._refuse("a here-document")
        is_plain = any(isinstance(part, sh.Text) and part.quoted for part in word.parts)
        redirects.append(sh.Redirect("<<", sh.Word(())))
        self._pending.append((end, is_plain, operator == "<<-", redirects[-1]))
