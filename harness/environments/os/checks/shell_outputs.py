"""The outputs of tools that only read: which of them are a number, a word or a line, and which any text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.environments.os.checks.shell_values import Argument, Call, Kind, Trusting, Value

if TYPE_CHECKING:
    from harness.environments.os.checks.shell_analysis import ShellAnalysis

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


def _identify(analysis: ShellAnalysis, call: Call) -> Value:
    return Value(Kind.MAYBE if list_options(call) in ("u", "g") else Kind.TEXT)


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
    "id": _identify,
    "stat": _describe_file,
    "wc": _count,
}
