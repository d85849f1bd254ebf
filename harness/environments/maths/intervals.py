r"""Read a set of real numbers in any of its spellings as an interval or a union of intervals.

`-2 \le x \le 7`, `7 >= x >= -2`, `x \in [-2,7]`, `\{x : -2 \le x \le 7\}` and `[-2,7]` are the same set.
"""

from __future__ import annotations

import re

from harness.environments.maths.latex import COMMA, OR, enclosed, has_value, split_top, split_with

_AND = re.compile(
    r"\s*(?:,\s*)?(?:\\(?:text|mathrm|mbox)\s*\{\s*and\s*\}|\\land(?![A-Za-z])|(?<![A-Za-z\\])and(?![A-Za-z]))\s*"
)
_RELATION = re.compile(r"\s*(?:\\le(?![A-Za-z])|\\ge(?![A-Za-z])|\\ne(?![A-Za-z])|<|>)\s*")
_UNION = re.compile(r"\\cup(?![A-Za-z])")
_SUCH_THAT = re.compile(r"\\mid(?![A-Za-z])|\||:")
_VARIABLE = r"(?:[A-Za-z]|\\(?:theta|alpha|beta|phi|lambda)(?![A-Za-z]))"
_NAME = re.compile(rf"{_VARIABLE}\s*")
_IN = re.compile(rf"\s*(?P<name>{_VARIABLE})\s*\\in(?![A-Za-z])\s*")
_TURNED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", r"\ne": r"\ne"}
_FROM, _TO = r"(-\infty,", r",\infty)"
_REAL = r"\mathbb{R}"


def as_intervals(gold: str, answer: str) -> tuple[str, str]:
    """Return both as intervals if both are sets of real numbers, else both as they are.

    Two inequalities must name the same unknown. An interval does not name its unknown.
    """
    wanted, found = _without_name(gold), _without_name(answer)
    if _is_interval(wanted):
        return _interval(wanted) or wanted, _interval(found) or found
    if not _is_set(wanted):
        return gold, answer
    named, unknown = _unknown(wanted), _unknown(found)
    if _is_interval(found) or (named and named == unknown):
        first, second = _interval(wanted), _interval(found)
        if first and second:
            return first, second
    return gold, answer


def _without_name(text: str) -> str:
    r"""Return the set in `x \in [1,2]`, or the text itself if it is anything else."""
    member = _IN.match(text)
    if member is None:
        return text.strip()
    inside = text[member.end() :].strip()
    return inside if _is_interval(inside) else text.strip()


def _is_interval(text: str) -> bool:
    """Return whether a text is an interval, or a union of intervals and finite sets."""
    if text.strip() == _REAL:
        return True
    forms = split_top(text, OR)
    if len(forms) > 1 and not any(mark in text for mark in ("[", "]", r"\infty")):
        return False  # Points, as in (1,2) or (2,1).
    pieces = [enclosed(part.strip()) for form in forms for part in split_top(form, _UNION)]
    sets = [piece is not None and "\\{" in piece for piece in pieces]
    return not all(sets) and all(
        piece is not None and (is_set or len(split_top(piece[1], COMMA)) == 2)
        for piece, is_set in zip(pieces, sets, strict=True)
    )


def _is_set(text: str) -> bool:
    r"""Return whether a text is an inequality or a set `\{x : ...\}` whose sides have values."""
    sides = [
        side.strip()
        for part in split_top(_condition(text), OR)
        for both in split_top(part, _AND)
        for side in split_top(both, _RELATION)
    ]
    return len(sides) > 1 and all(side and (_NAME.fullmatch(side) or has_value(side)) for side in sides)


def _unknown(text: str) -> str | None:
    """Return the unknown of an inequality, or None if it has several or none."""
    names = {
        side.strip()
        for part in split_top(_condition(text), OR)
        for both in split_top(part, _AND)
        for side in split_top(both, _RELATION)
        if _NAME.fullmatch(side.strip())
    }
    return names.pop() if len(names) == 1 else None


def _condition(text: str) -> str:
    held = enclosed(text.strip())
    if held is not None and held[0] == "\\{":
        first, *condition = split_top(held[1], _SUCH_THAT)
        if len(condition) == 1 and _NAME.fullmatch(first.replace(rf"\in {_REAL}", "").strip()):
            return condition[0].strip()
    return text.strip()


def _interval(text: str) -> str | None:
    r"""Return an inequality in one unknown as an interval or a union of intervals, or None.

    An interval with a reversed bracket, as in `[1,2[`, gets a round bracket.
    """
    text = text.strip()
    turned = re.fullmatch(r"([\[\]])([^\[\],]*,[^\[\],]*)([\[\]])", text)
    if turned and (turned[1] == "]" or turned[3] == "["):
        return f"{'[' if turned[1] == '[' else '('}{turned[2]}{']' if turned[3] == ']' else ')'}"
    text = _condition(text)
    if text in (_REAL, rf"x \in {_REAL}"):
        return r"(-\infty,\infty)"
    pieces = [_common(part) for part in split_top(text, OR)]
    return r"\cup ".join(piece for piece in pieces if piece) if all(pieces) else None


def _common(text: str) -> str | None:
    """Return the interval where all inequalities that "and" joins hold, or None."""
    text = _without_name(text)
    if _is_interval(text):
        return text
    parts = [_one_interval(part) for part in split_top(text, _AND)]
    match sorted(part or "" for part in parts):
        case [interval]:
            return interval or None
        case [below, above] if (
            below.startswith(_FROM) and above.endswith(_TO) and r"\cup" not in below + above
        ):
            # The upper end of one half-line and the lower end of the other.
            return above.removesuffix(_TO) + "," + below.removeprefix(_FROM)
    return None


def _one_interval(text: str) -> str | None:
    parts = split_with(text.strip(), _RELATION)
    sides = [part.strip() for part, _ in parts]
    signs = [sign.strip() for _, sign in parts[:-1]]
    match sides, signs:
        case [name, side], [sign] if _NAME.fullmatch(name):
            return _half_line(side, sign)
        case [side, name], [sign] if _NAME.fullmatch(name):
            return _half_line(side, _TURNED[sign])
        case [low, name, high], [first, second] if _NAME.fullmatch(name):
            if first in (">", r"\ge") and second in (">", r"\ge"):
                low, high, first, second = high, low, _TURNED[second], _TURNED[first]
            elif first not in ("<", r"\le") or second not in ("<", r"\le"):
                return None
            return f"{'[' if 'l' in first else '('}{low},{high}{']' if 'l' in second else ')'}"
    return None


def _half_line(side: str, sign: str) -> str | None:
    if not side:
        return None
    match sign:
        case "<":
            return rf"(-\infty,{side})"
        case r"\le":
            return rf"(-\infty,{side}]"
        case ">":
            return rf"({side},\infty)"
        case r"\ge":
            return rf"[{side},\infty)"
        case r"\ne":
            return rf"(-\infty,{side})\cup ({side},\infty)"
    return None
