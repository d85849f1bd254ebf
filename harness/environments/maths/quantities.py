r"""Read the quantities of an answer: sets of real numbers, and numbers with a unit or currency.

`-2 \le x \le 7`, `7 >= x >= -2`, `x \in [-2,7]`, `\{x : -2 \le x \le 7\}` and `[-2,7]` are the same set.

Only words that cannot change a value may be dropped: units and counted nouns of the lists in this module.
Units are compared if both answers have one. `m/s^2`, `\frac{m}{s^2}` and `metres per second squared` are the
same unit.
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

Unit = frozenset[tuple[str, int]]
"""The base units, each with its exponent. N and kg m/s^2 are equal."""

_SYMBOLS = (
    "mm=millimeter|millimetre cm=centimeter|centimetre dm=decimeter|decimetre m=meter|metre "
    "km=kilometer|kilometre in=inch|inche ft=foot|feet yd=yard mi=mile g=gram|gm kg=kilogram mg=milligram lb "
    "oz=ounce t=tonne|ton s=sec|second ms=millisecond min=minute h=hr|hour day week month year|yr "
    "ml=milliliter|millilitre|cc L=l|liter|litre gal=gallon qt=quart pt=pint N=newton J=joule W=watt "
    "kW=kilowatt V=volt A=amp|ampere Pa=pascal Hz=hertz kelvin mol=mole deg=degree rad=radian "
    "degC=celsius degF=fahrenheit acre unit "
    "cent=¢ pound=gbp|£|pounds|lbs dollar=usd|$|buck euro=eur|€ rupee=inr|₹|rs yen=jpy|¥|yuan|cny|rmb "
    "franc=chf peso=mxn am pm"
)
_NAMES = {
    name: first.partition("=")[0]
    for first in _SYMBOLS.split()
    for base in [first.partition("=")]
    for name in (base[0], *filter(None, base[2].split("|")))
}
# These names are in several systems, or name no particular unit.
_SAME = {"lb": "pound"}
_ANY = frozenset({"unit"})
# Nouns that count things. Words for a number of things, such as pairs and dozens, would change the value.
_COUNTED = (
    "way person people student child children boy girl man men woman women adult teacher player "
    "friend member worker employee customer passenger voter vote marble ball card coin stamp ticket "
    "book page word letter digit number integer solution value element divisor side edge vertex "
    "vertices face diagonal triangle rectangle circle tile point line segment row column seat chair "
    "table room house car bus buses bike wheel apple orange banana cookie candy candies cake pizza "
    "egg cup bottle box boxes jar block brick stick pencil pen toy game team match matches problem "
    "question test class classes school trip tree flower plant animal dog cat horse cow chicken bird "
    "fish outcome arrangement permutation combination path sequence subset function pattern color "
    "colour shirt sock shoe hat song movie"
)
_NOUNS = frozenset(_COUNTED.split())
# Adjectives that may come before such a noun. Others, such as `more` or `remaining`, may change the value.
_ADJECTIVES = frozenset(("distinct", "different", "possible", "unique", "valid", "such", "total", "whole"))
_REMARKS = ("exactly", "in total", "total", "altogether")
APPROXIMATE = frozenset({"approximately", "approx"})
"""Words that mark a value as rounded."""
_COMPOUND: dict[str, dict[str, int]] = {
    "mph": {"mi": 1, "h": -1},
    "kph": {"km": 1, "h": -1},
    "kmh": {"km": 1, "h": -1},
    "N": {"kg": 1, "m": 1, "s": -2},
    "J": {"kg": 1, "m": 2, "s": -2},
    "W": {"kg": 1, "m": 2, "s": -3},
    "Pa": {"kg": 1, "m": -1, "s": -2},
    "Hz": {"s": -1},
    "ml": {"cm": 3},
}
_SIGN = re.compile(r"[€£₹¥¢]|\\(?:pounds|euro|yen|cent)(?![A-Za-z])|\\\$")
_IN_TEXT = re.compile(r"\\(?:text|mathrm|mbox)\s*\{\s*(?P<sign>[€£₹¥¢]|\\(?:pounds|euro|yen|\$))\s*\}")
_HALF_OF_DAY = re.compile(r"(?<![A-Za-z])(?P<half>[ap])\.\s?m\b\.?")
_LEAD = re.compile(
    r"(?P<minus>[-+]?)\s*(?:\\(?:text|mathrm)\s*\{\s*)?"
    r"(?P<name>USD|EUR|GBP|INR|JPY|CNY|CHF|MXN|Rs)\.?(?:\s|~|\\[,;: ]|\})+(?=[-+]?[\d.\\(])"
)
# A unit is at the end of an answer, after a number, a bracket or a constant.
_LONGEST = 80
_END_OF_NUMBER = re.compile(r"(?:[\d)}]|\\pi|(?<=\d)\.)(?=\s|~|[^\d)}.])")
_DEGREES = re.compile(
    r"\s*(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))\s*)(?:\\(?:text|mathrm)\s*\{\s*)?(?P<scale>[CF])?\s*\}?\s*\Z"
)
_WORD = re.compile(r"[^\W\d_]+")
_DRESS = re.compile(
    r"\\(?:text(?:normal|rm|bf|it)?|math(?:rm|bf|it)|mbox|rm|left|right)(?![A-Za-z])|\\[,;:! ]|~"
)
_GROUP = r"[^{}]*(?:\{[^{}]*\}[^{}]*)*"
_FRACTION = re.compile(rf"\\[dt]?frac\s*\{{(?P<above>{_GROUP})\}}\s*\{{(?P<below>{_GROUP})\}}")
_EXPONENT = re.compile(r"\s*\^\s*\{?\s*(?P<exponent>-?\d)\s*\}?")
_PIECE = re.compile(
    r"\s*(?:(?P<over>/|\bper\b)|(?P<times>\\cdot(?![A-Za-z])|\\times(?![A-Za-z])|\*|-(?=[a-z]))"
    r"|(?P<power>(?:sq(?:uare)?|cubic)\b\.?)|(?P<name>[A-Za-z]+)\.?(?P<after>\s+(?:squared|cubed)\b)?"
    r"(?:\s*\^\s*(?P<exponent>-?\d))?)"
)
_POWERS = {"sq": 2, "sq.": 2, "square": 2, "square.": 2, "squared": 2, "cubic": 3, "cubed": 3}


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


def split_unit(text: str) -> tuple[str, Unit | None]:
    """Return an answer without its unit or currency, and the unit, or None if it has none that is known."""
    text = _HALF_OF_DAY.sub(r"\g<half>m", _IN_TEXT.sub(lambda found: f"{found['sign']} ", text))
    currencies = {_name_of(sign[0]) for sign in _SIGN.finditer(text)} - {None}
    text = _SIGN.sub(" ", text).strip()
    if lead := _LEAD.match(text):
        currencies.add(_NAMES[lead["name"].lower()])
        text = lead["minus"] + text[lead.end() :].strip()
    text = re.sub(r"\A([-+])\s+", r"\1", text)
    if degrees := _DEGREES.search(text):
        return text[: degrees.start()], frozenset({(f"deg{degrees['scale'] or ''}", 1)})
    for found in _END_OF_NUMBER.finditer(text, max(0, len(text) - _LONGEST)):
        unit = _parse(text[found.end() :])
        if unit is not None:
            return text[: found.end()].rstrip(), unit | {(one, 1) for one in currencies if one}
    return text, frozenset((one, 1) for one in currencies if one) or None


def differ(first: Unit | None, second: Unit | None) -> bool:
    """Return whether two units are known and different."""
    if first is None or second is None or any(name in _ANY for name, _ in first | second):
        return False
    return first != second


def is_dropped(text: str) -> bool:
    """Return whether all words after a value leave it unchanged: a known unit, or one counted noun.

    Adjectives that only describe may precede the noun, and a remark such as `in total` may follow it.
    """
    if _parse(f" {text}") is not None:
        return True
    said = " ".join(text.strip(" .~()").lower().split())
    if said in _REMARKS:
        return True
    for remark in _REMARKS:
        said = said.removesuffix(f" {remark}")
    *adjectives, word = said.split() or [""]
    return _ADJECTIVES.issuperset(adjectives) and not _NOUNS.isdisjoint((word, word.removesuffix("s")))


def words_of(text: str) -> set[str]:
    """Return the words in a text, in lower case. A word in capitals keeps its case."""
    return {word if word.isupper() or len(word) == 1 else word.lower() for word in _WORD.findall(text)}


def _parse(text: str) -> Unit | None:
    """Return the unit that a text is, or None if it is anything else."""
    bare = not _DRESS.search(text) and not text[:1].isspace() and "{" not in text
    text = _FRACTION.sub(lambda found: f" {found['above']} / {found['below']} ", text)
    text = _EXPONENT.sub(r"^\g<exponent>", text)
    text = _DRESS.sub(" ", text).replace("{", " ").replace("}", " ").strip()
    text = re.sub(r"\s*\^\s*", "^", text)
    if not text or (bare and len(text) == 1):
        # A letter right after a number is an unknown.
        return None
    exponents: dict[str, int] = {}
    position, sign, power, named = 0, 1, 1, False
    while position < len(text):
        piece = _PIECE.match(text, position)
        if piece is None or piece.end() == position:
            return None
        position = piece.end()
        if piece["over"]:
            sign = -1
        elif piece["power"]:
            power = _POWERS[piece["power"]]
        elif piece["name"]:
            base = _name_of(piece["name"])
            if base is None:
                return None
            power = _POWERS[piece["after"].strip()] if piece["after"] else int(piece["exponent"] or power)
            for name, one in _COMPOUND.get(base, {_SAME.get(base, base): 1}).items():
                exponents[name] = exponents.get(name, 0) + one * power * sign
            sign, power, named = 1, 1, True
    return frozenset((name, one) for name, one in exponents.items() if one) if named else None


def _name_of(text: str) -> str | None:
    r"""Return the base name of a unit: `cm` for `centimeters`, or None if it is unknown."""
    text = text.lstrip("\\")
    if text in _NAMES or text in _COMPOUND:
        return _NAMES.get(text, text)
    word = text.lower()
    for name in (word, word.removesuffix("s"), word.removesuffix("es")):
        # The case of a symbol has a meaning, unless it is a word.
        if len(name) > 1 and (name in _NAMES or name in _COMPOUND):
            return _NAMES.get(name, name)
    return None
