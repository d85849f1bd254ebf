"""Classes of values in a check, by the influence of an agent on them, also of the outputs of tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from harness.environments.os.checks import shell_syntax as sh

if TYPE_CHECKING:
    from harness.environments.os.checks.shell_analysis import ShellAnalysis
_COMPARISONS = frozenset(("=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"))
_NUMERIC = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknoprstuwxzGLNOS")
_UNQUOTED = "puts a text of the agent's into a test without quotes"
_VANISHING = "has a test without quotes, which fails if the agent removes a file"
_NO_NUMBER = "compares a text of the agent's as a number, and a test of anything else fails"
_OPTIONS_WITH_VALUES = {
    "cut": ("-b", "-c", "-d", "-f", "--output-delimiter"),
    "grep": ("-A", "-B", "-C", "-m", "-e"),
    "head": ("-c", "-n"),
    "id": (),
    "sort": ("-k", "-t"),
    "stat": ("-c",),
    "tail": ("-c", "-n"),
    "uniq": ("-f", "-s", "-w"),
    "xargs": ("-I", "-n", "-P", "-L", "-d"),
}
_HARMLESS_FORMAT = re.compile(r"(?:%[aAsughiYXZWbBdfo]|[\w.:/-])+")
_DIGESTS = frozenset(
    ("cksum", "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "sum")
)


class Trusting(Exception):
    """A check believes an agent. The message is a predicate, as in `starts calc`."""


class Kind(IntEnum):
    """The freedom that an agent has in a value, in rising order. A harmless word has no marks of a shell."""

    # The text of the check or of the image.
    FIXED = 0
    # One harmless word, such as a number.
    NUMBER = 1
    # One harmless word, or nothing.
    MAYBE = 2
    # Harmless words in one line, or nothing.
    LINE = 3
    # Any text.
    TEXT = 4


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a check. With `led`, it cannot begin with a dash, and no command takes it for an option."""

    kind: Kind = Kind.FIXED
    led: bool = False

    def join(self, other: Value) -> Value:
        """Return the value that is one of two."""
        return Value(max(self.kind, other.kind), self.led and other.led)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument after its expansion. With `many`, it may be any number of words."""

    value: Value
    many: bool = False
    text: str | None = None

    @property
    def steers(self) -> bool:
        """Whether an agent may turn it into options, or make it vanish."""
        kind = self.value.kind
        return ((self.many and kind >= Kind.MAYBE) or kind is Kind.TEXT) and not self.value.led


@dataclass(frozen=True, slots=True)
class Input:
    """A command's standard input. With `exists`, the command runs even if an agent removed all files."""

    kind: Kind = Kind.FIXED
    exists: bool = True
    # Whether the check gives it, instead of the empty one of the check itself.
    is_given: bool = True


NOTHING = Input(is_given=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A command with its arguments after expansion."""

    command: sh.Simple
    name: str
    arguments: Sequence[Argument]
    input: Input

    def inner(self, skipped: int) -> Call | None:
        """Return the call of the command after some arguments, or None if its name is not text."""
        rest = self.arguments[skipped:]
        if not rest or rest[0].text is None:
            return None
        return replace(self, name=rest[0].text, arguments=rest[1:])


def join_all(values: Iterable[Value]) -> Value:
    """Return the value that is one of several, and for none the empty text."""
    found = list(values)
    if not found:
        return Value()
    joined = found[0]
    for value in found[1:]:
        joined = joined.join(value)
    return joined


def one_after_another(outputs: Iterable[Value | None]) -> Value | None:
    """Return the output of commands that run one after the other. None is no output."""
    printed = [output for output in outputs if output is not None]
    if len(printed) < 2:
        return printed[0] if printed else None
    return Value(Kind.FIXED if all(value.kind is Kind.FIXED for value in printed) else Kind.TEXT)


def one_of(outputs: Iterable[Value | None]) -> Value | None:
    """Return the output of one of several commands."""
    found = list(outputs)
    printed = [output for output in found if output is not None]
    if not printed:
        return None
    joined = join_all(printed)
    may_lack = len(printed) < len(found) and joined.kind <= Kind.NUMBER
    return Value(Kind.MAYBE, joined.led) if may_lack else joined


def check_test(analysis: ShellAnalysis, call: Call) -> Value | None:
    """Note which statuses an agent can give `[` or `test`. Raises Trusting."""
    arguments = list(call.arguments)
    if call.name == "[" and (not arguments or arguments.pop().text != "]"):
        raise Trusting("has a `[` without its `]`")
    if any(argument.many and argument.value.kind >= Kind.LINE for argument in arguments):
        analysis.force(call, _UNQUOTED)
        return None
    while len(arguments) > 2 and arguments[0].text == "!":
        del arguments[0]
    operators = {argument.text for argument in arguments if argument.text is not None}
    vanishing = sum(argument.many for argument in arguments)
    is_comparison = len(arguments) == 3 and arguments[1].text in _COMPARISONS | _NUMERIC
    if vanishing:
        # `[ $number = 3 ]` fails without a number. If all words vanish, `[` may find any text true.
        analysis.force(call, _VANISHING, (False,) if is_comparison and vanishing == 1 else (True, False))
    elif not is_comparison and len(arguments) > 2:
        _check_several(analysis, call, arguments)
    if operators & {"-v", "-R"} and any(each.value.kind > Kind.NUMBER for each in arguments):
        raise Trusting("takes a text of the agent's for the name of a variable")
    if len(arguments) == 2 and arguments[0].text not in _UNARY | {"!"}:
        raise Trusting("has a test that is not understood")
    if operators & _NUMERIC and any(each.value.kind >= Kind.MAYBE for each in arguments):
        analysis.force(call, _NO_NUMBER, (False,))
    return None


def _check_several(analysis: ShellAnalysis, call: Call, arguments: list[Argument]) -> None:
    """Check an expression with `-a`, `-o` or parentheses, where a text can be taken for an operator."""
    if any(argument.value.kind >= Kind.LINE for argument in arguments):
        analysis.force(call, "puts a text of the agent's into a test with several parts")


def check_condition(analysis: ShellAnalysis, condition: sh.Condition) -> None:
    """Raise Trusting for a `[[` that takes a text of the agent's for a pattern or for arithmetic."""
    words = condition.words
    for place, word in enumerate(words):
        value = analysis.expand(word, splits=False).value
        operator = words[place - 1].text if place else None
        if value.kind <= Kind.MAYBE:
            continue
        if operator in ("=", "==", "!=", "=~") and not all(part.quoted for part in word.parts):
            raise Trusting("compares with a pattern that the agent writes")
        following = words[place + 1].text if place + 1 < len(words) else None
        if operator in _NUMERIC or following in _NUMERIC:
            raise Trusting("evaluates a text of the agent's as arithmetic")
        if operator in ("-v", "-R"):
            raise Trusting("takes a text of the agent's for the name of a variable")


def list_operands(call: Call) -> list[Argument]:
    """Return the arguments that are neither options nor the values of options."""
    with_values = _OPTIONS_WITH_VALUES.get(call.name, ())
    operands = []
    is_value = False
    for argument in call.arguments:
        text = argument.text or ""
        if is_value:
            is_value = False
        elif argument.text is not None and text.startswith("-") and text != "-":
            is_value = text in with_values
        else:
            operands.append(argument)
    return operands


def list_options(call: Call) -> str:
    """Return the letters of all short options."""
    texts = [argument.text or "" for argument in call.arguments]
    return "".join(text[1:] for text in texts if text.startswith("-") and not text.startswith("--"))


def _is_one_file(operands: Sequence[Argument]) -> bool:
    return len(operands) == 1 and not operands[0].many


def filter_input(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of a tool that prints parts of its input."""
    if call.name != "tr" and list_operands(call):
        return Value(Kind.TEXT)
    kind = call.input.kind
    if kind is Kind.LINE and call.name == "cut" and _cuts_one_field(call):
        kind = Kind.MAYBE
    if kind is Kind.LINE and call.name == "tr" and not set("ds") & set(list_options(call)):
        kind = Kind.TEXT
    return Value(Kind.MAYBE if kind is Kind.NUMBER else kind)


def _cuts_one_field(call: Call) -> bool:
    texts = [argument.text or "" for argument in call.arguments]
    places = [place for place, text in enumerate(texts) if text.startswith("-f")]
    return any((texts[place][2:] or "".join(texts[place + 1 : place + 2])).isdigit() for place in places)


def _count(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `wc`."""
    operands, options = list_operands(call), list_options(call)
    if len(options) != 1 or options not in "lcwm":
        return Value(Kind.LINE if not operands and call.input.exists else Kind.TEXT)
    if not operands:
        return Value(Kind.NUMBER if call.input.exists else Kind.MAYBE, led=True)
    return Value(Kind.LINE if _is_one_file(operands) and operands[0].text else Kind.TEXT, led=True)


def _search(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `grep`. Its pattern must not be a text of the agent's."""
    operands, options = list_operands(call), list_options(call)
    texts = [argument.text for argument in call.arguments]
    given = [call.arguments[place + 1] for place, text in enumerate(texts[:-1]) if text == "-e"]
    if any(text is not None and re.match(r"-\w*f|--file", text) for text in texts):
        raise Trusting("searches for patterns of a file")
    patterns, files = (given, operands) if given else (operands[:1], operands[1:])
    if any(pattern.value.kind >= Kind.LINE for pattern in patterns):
        analysis.force(call, "searches for a pattern that the agent writes")
        return Value(Kind.TEXT)
    if "c" in options and not set(options) & set("rRH") and len(files) < 2 and not any(f.many for f in files):
        exists = not files and call.input.exists
        return Value(Kind.NUMBER if exists else Kind.MAYBE, led=True)
    if files or set(options) - set("viEwxFqs"):
        return Value(Kind.TEXT)
    return filter_input(analysis, replace(call, arguments=()))


def _describe_file(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `stat`."""
    texts = [argument.text for argument in call.arguments]
    formats = [texts[place + 1] for place, text in enumerate(texts[:-1]) if text in ("-c", "--format")]
    formats += [text.partition("=")[2] for text in texts if text and re.match("--(format|printf)=", text)]
    if len(formats) == 1 and formats[0] and _is_one_file(list_operands(call)):
        if _HARMLESS_FORMAT.fullmatch(formats[0]):
            return Value(Kind.MAYBE)
        if _HARMLESS_FORMAT.fullmatch(formats[0].replace(" ", "").replace("%F", "")):
            return Value(Kind.LINE)
    return Value(Kind.TEXT)


def _digest(analysis: ShellAnalysis, call: Call) -> Value:
    operands = call.arguments
    is_plain = not operands or (len(operands) == 1 and operands[0].text is not None)
    return Value(Kind.LINE if is_plain else Kind.TEXT)


def _measure(analysis: ShellAnalysis, call: Call) -> Value:
    """Return the output of `du`."""
    operands = list_operands(call)
    is_plain = "s" in list_options(call) and _is_one_file(operands) and operands[0].text is not None
    return Value(Kind.LINE if is_plain else Kind.TEXT)


def _tell_time(analysis: ShellAnalysis, call: Call) -> Value:
    if any(argument.value.kind > Kind.FIXED for argument in call.arguments) or set("rf") & set(
        list_options(call)
    ):
        return Value(Kind.TEXT)
    return Value()


OUTPUTS: dict[str, Callable[[ShellAnalysis, Call], Value]] = {
    **dict.fromkeys(("cat", "cut", "head", "rev", "tac", "tail", "tr", "uniq"), filter_input),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _search),
    **dict.fromkeys(_DIGESTS, _digest),
    "date": _tell_time,
    "du": _measure,
    "id": lambda _, call: Value(Kind.MAYBE if list_options(call) in ("u", "g") else Kind.TEXT),
    "stat": _describe_file,
    "wc": _count,
}
