"""The tests of bash: `[` and `test`, which see words after their expansion, and `[[`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.environments.os.checks.shell_syntax import Condition, Word
from harness.environments.os.checks.shell_values import Argument, Call, Kind, Trusting, Value

if TYPE_CHECKING:
    from harness.environments.os.checks.shell_analysis import ShellAnalysis

_COMPARISONS = frozenset(("=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"))
_NUMERIC = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknoprstuwxzGLNOS")
_UNQUOTED = "puts a text of the agent's into a test without quotes"
_VANISHING = "has a test without quotes, which fails if the agent removes a file"
_NO_NUMBER = "compares a text of the agent's as a number, and a test of anything else fails"


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
    """Check an expression with `-a`, `-o` or parentheses, in which a text can be taken for an operator."""
    if any(argument.value.kind >= Kind.LINE for argument in arguments):
        analysis.force(call, "puts a text of the agent's into a test with several parts")


def check_condition(analysis: ShellAnalysis, condition: Condition) -> None:
    """Raise Trusting for a `[[` that takes a text of the agent's for a pattern or for arithmetic."""
    words = condition.words
    for place, word in enumerate(words):
        value = analysis.expand(word, splits=False).value
        operator = words[place - 1].text if place else None
        if value.kind <= Kind.MAYBE:
            continue
        if operator in ("=", "==", "!=", "=~") and not _is_quoted(word):
            raise Trusting("compares with a pattern that the agent writes")
        following = words[place + 1].text if place + 1 < len(words) else None
        if operator in _NUMERIC or following in _NUMERIC:
            raise Trusting("evaluates a text of the agent's as arithmetic")
        if operator in ("-v", "-R"):
            raise Trusting("takes a text of the agent's for the name of a variable")


def _is_quoted(word: Word) -> bool:
    return all(part.quoted for part in word.parts)
