r"""Normalise mathematics in LaTeX and split it into parts.

All functions are pure, read at most a few thousand characters, and evaluate nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_CHARACTERS = str.maketrans(
    {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63", "-")
    | dict.fromkeys("\u00a0\u2007\u2009\u200a\u202f", r"\,")
    | dict.fromkeys("\u00b0\u00ba\u02da", r"^\circ ")
    | dict.fromkeys("\u00b7\u22c5\u2219", r"\cdot ")
    | {
        "\u00d7": r"\times ",
        "\u00f7": r"\div ",
        "\u03c0": r"\pi ",
        "\u03b8": r"\theta ",
        "\u03b1": r"\alpha ",
        "\u03b2": r"\beta ",
        "\u2264": r"\le ",
        "\u2a7d": r"\le ",
        "\u2265": r"\ge ",
        "\u2a7e": r"\ge ",
        "\u2260": r"\ne ",
        "\u2248": r"\approx ",
        "\u221e": r"\infty ",
        "\u222a": r"\cup ",
        "\u2229": r"\cap ",
        "\u2208": r"\in ",
        "\u2205": r"\emptyset ",
        "\u211d": r"\mathbb{R} ",
        "\u00b1": r"\pm ",
        "\u27e8": r"\langle ",
        "\u27e9": r"\rangle ",
        "\u2026": r"\ldots ",
        "\u200b": "",
    }
)
_RAISED = {"\u207b": "-", "\u207a": "+"} | {
    character: str(unicodedata.digit(character))
    for character in "\u00b2\u00b3\u00b9\u2070\u2074\u2075\u2076\u2077\u2078\u2079"
}
_RAISED_RUN = re.compile(f"[{''.join(_RAISED)}]+")
_LOWERED_RUN = re.compile("[\u2080-\u2089]+")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e]")
_ROOT = re.compile(
    r"\u221a\s*(?:\((?P<group>[^()]*)\)|\{(?P<braced>[^{}]*)\}|(?P<atom>\d+(?:\.\d+)?|[A-Za-z]))"
)

_UPRIGHT = r"(?:mathrm|operatorname|mathit|mathop|textrm|textit|text|rm)(?![A-Za-z])"
_FUNCTIONS = "(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|ln|log|exp"

_RENAMED = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        # The reply was escaped once too often. In a matrix two backslashes end a row.
        (r"\\\\(?=(?:[dt]?frac|sqrt|text|left|right|pi|infty|cup|cdot|times|le|ge|circ)(?![a-z]))", r"\\"),
        (r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])\s*(?=[()\[\]|]|\\[{}|])", ""),
        (r"\\(?:leqslant|leqq|leq)(?![A-Za-z])", r"\\le "),
        (r"\\(?:geqslant|geqq|geq)(?![A-Za-z])", r"\\ge "),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\neq(?![A-Za-z])", r"\\ne "),
        (r"<=|=<", r"\\le "),
        (r">=", r"\\ge "),
        (rf"\{{\s*\\rm\s+(?P<name>{_FUNCTIONS})\s*\}}", r"\\\g<name> "),
        (r"\{\s*\\rm\s+(?P<name>[ei])\s*\}", r"\g<name> "),
        # Without a blank this may be a factorial: 3!=6.
        (r"(?<=\s)!=", r"\\ne "),
        (
            rf"\\(?:{_UPRIGHT})\s*(?:\{{\s*(?P<name>{_FUNCTIONS})\s*\}}|\b(?P<bare>{_FUNCTIONS})\b)",
            r"\\\g<name>\g<bare> ",
        ),
        (rf"(?<![A-Za-z\\])(?P<name>{_FUNCTIONS})(?=\()", r"\\\g<name> "),
        (
            rf"\\(?:{_UPRIGHT})\s*(?:\{{\s*(?P<name>[ei]|\\pi)\s*\}}|(?<=\s)(?P<bare>[ei])(?![A-Za-z]))",
            r"\g<name>\g<bare> ",
        ),
        (
            r"\s*(?:\\(?:text|mathrm)\s*\{\s*(?:\\?%|per\s?cent|pct)\s*\}|(?<=[\d\s}])(?:per\s?cent|pct)\b)",
            r"\\%",
        ),
        (r"(?<![A-Za-z\\])sqrt\((?P<inside>[^()]*)\)", r"\\sqrt{\g<inside>}"),
        (r"\\(?:approxeq|simeq|doteq)(?![A-Za-z])", r"\\approx "),
        (r"\\(?:mathbb|mathbf)\s*(?:\{R\}|R)", r"\\mathbb{R}"),
        (r"\\langle(?![A-Za-z])", "("),
        (r"\\rangle(?![A-Za-z])", ")"),
        (r"\\(?:displaystyle|textstyle|checkmark|therefore|blacksquare)(?![A-Za-z])", " "),
        (r"(?<=[\d})])\s*(?:\\degree|\\deg|\^\s*\{?o\}?|\^\s*\{?\\degree\}?)(?![A-Za-z])", r"^\\circ "),
        (r"(?<=[\d})])\s*degrees?\b(?!\s*\})", r"^\\circ "),
    )
)
_GROUPED = re.compile(
    r"(?<![\d.,])\d{1,3}(?P<mark>\\[,;:! ]|\{,\}|,\\!|[~ ])\d{3}(?!\d)(?:(?P=mark)\d{3}(?!\d))*"
)
_MARK = re.compile(r"\\[,;:! ]|\{,\}|,\\!|[~ ]")

_REPEATING = re.compile(
    r"(?P<whole>\d{0,40})\.(?P<start>\d{0,40})"
    r"(?:\\(?:overline|bar|dot)\s*(?:\{(?P<braced>\d{1,40})\}|(?P<single>\d))|\((?P<round>\d{1,40})\)\Z)(?!\d)"
)
_DOTS = r"\s*(?:\\[lc]?dots(?![A-Za-z])|\.\.\.)"
_GOING_ON = re.compile(
    rf"(?P<whole>\d{{0,40}})\.(?P<start>\d{{0,6}}?)(?P<period>\d{{1,6}}?)(?P<more>(?P=period){{1,20}}){_DOTS}"
)

# These commands may wrap a whole answer without a change of its value.
_FENCES = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("__", "__"), ("`", "`"))
_WRAPPER = re.compile(
    r"\\(?:boxed|fbox|underline|mathbf|textbf|boldsymbol|bm|ensuremath|color\s*\{\w+\}|"
    r"(?:textcolor|colorbox)\s*\{\w+\})\s*(?=\{)"
)
_TEXT = re.compile(r"\\(?:text|mathrm|mbox|textrm|textnormal)\s*(?=\{)")
_LEAD = re.compile(
    r"(?:\\text\s*\{)?\s*(?:so|thus|therefore|hence)?,?\s*"
    r"(?:the\s+)?(?:final\s+)?answer(?:\s+is|\s*:|\s*=)\s*:?\s*(?P<close>\})?\s*",
    re.IGNORECASE,
)
_END = re.compile(r"(?:\\\\|\\[,;:! ]|\\q?quad(?![A-Za-z])|[\s,;])\Z")
_LAYERS = 10
COMMA = re.compile(r"[,;]")
OR = re.compile(
    r"\s*(?:,\s*)?(?:\\(?:text|mathrm|mbox)\s*\{\s*(?:or)\s*\}|\\lor(?![A-Za-z])|(?<![A-Za-z\\])or(?![A-Za-z]))\s*"
)
# Commands in an expression that has a value although it contains letters.
_VALUED = re.compile(
    r"\\(?:[dtc]?frac|sqrt|pi|cdot|times|div|pm|mp|infty|circ|[dt]?binom|ln|log|cup|cap|"
    r"(?:arc)?(?:sin|cos|tan)|cot|sec|csc|exp|quad|emptyset)(?![A-Za-z])"
    r"|\\(?:begin|end)\{[a-z]*matrix\}|\\mathbb\{R\}|\\[^A-Za-z]"
)
_LETTERS = re.compile(r"[A-Za-z]+|\\[A-Za-z]+")
_ARTICLE = re.compile(r"(?:an?|the)\s+(?!and\b|or\b)(?=[a-z0-9])", re.IGNORECASE)
_SPACE = re.compile(r"\\[,;:! ]|\\q?quad(?![A-Za-z])|~")
_AND = re.compile(r"\s*,?\s+and\s+", re.IGNORECASE)
_LETTER_IN_BRACKETS = re.compile(r"\(([A-Za-z])\)")
_ONLY_WORDS = re.compile(r"[A-Za-z][A-Za-z \-]*")
# A date, a room, a list. Digits and letters in one word would be mathematics.
_DATE_OR_LIST = re.compile(
    r"(?:[A-Za-z]+(?:[-'][A-Za-z]+)*|\d+)(?:[,;]? (?:[A-Za-z]+(?:[-'][A-Za-z]+)*|\d+))*"
)
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_LONG_WORD = re.compile(r"[A-Za-z]{3}")


def plain(text: str) -> str:
    """Return an answer in LaTeX in a normal spelling.

    Unicode signs become commands and a repeating decimal becomes a fraction. Marks between thousands,
    formatting around the whole answer and the punctuation after it are removed.
    """
    text = unicodedata.normalize("NFC", text).translate(_CHARACTERS)
    text = _RAISED_RUN.sub(lambda run: f"^{{{''.join(_RAISED[one] for one in run[0])}}}", text)
    text = _LOWERED_RUN.sub(lambda run: f"_{{{unicodedata.normalize('NFKC', run[0])}}}", text)
    text = _FRACTION.sub(_fraction, text)
    text = _ROOT.sub(lambda root: f"\\sqrt{{{root['group'] or root['braced'] or root['atom'] or ''}}}", text)
    for pattern, name in _RENAMED:
        text = pattern.sub(name, text)
    text = _bare(text)
    text = _GROUPED.sub(lambda number: _MARK.sub("", number[0]), text)
    return _GOING_ON.sub(_as_fraction, _REPEATING.sub(_as_fraction, text))


def has_value(text: str) -> bool:
    """Return whether an expression has no unknown: no letters except in commands, e and i."""
    expression = "".join(part for is_text, part in text_parts(text) if not is_text)
    return set(_LETTERS.findall(_VALUED.sub(" ", expression))) <= {"e", "i"}


def split_top(text: str, separators: re.Pattern[str]) -> list[str]:
    """Return the parts of a text between the separators outside of brackets."""
    return [part for part, _ in split_with(text, separators)]


def split_with(text: str, separators: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return the parts of `split_top`, each with the separator after it, which is "" for the last part."""
    parts: list[tuple[str, str]] = []
    start = position = depth = 0
    while position < len(text):
        if depth == 0 and (found := separators.match(text, position)) and found.end() > position:
            parts.append((text[start:position], found[0]))
            start = position = found.end()
            continue
        if text[position] == "\\":
            # Visible braces nest. Every other command does not.
            if text[position + 1 : position + 2] in ("{", "}"):
                depth += 1 if text[position + 1] == "{" else -1
            position += 2
            continue
        if text[position] in "([{":
            depth += 1
        elif text[position] in ")]}":
            depth = max(depth - 1, 0)
        position += 1
    return [*parts, (text[start:], "")]


def enclosed(text: str) -> tuple[str, str, str] | None:
    """Return the first bracket, the inside and the last bracket if one pair encloses the whole text.

    The brackets may be of two kinds, as in `[1,2)`. Visible braces are `\\{` and `\\}`.
    """
    opening = "\\{" if text.startswith("\\{") else text[:1]
    closing = "\\}" if text.endswith("\\}") else text[-1:]
    if opening not in ("(", "[", "\\{") or closing not in (")", "]", "\\}"):
        return None
    if len(text) < len(opening) + len(closing) or _first_close(text) != len(text):
        return None
    return opening, text[len(opening) : len(text) - len(closing)].strip(), closing


def _first_close(text: str) -> int:
    """Return the position of the bracket that closes the first one, or -1."""
    depth = position = 0
    while position < len(text):
        step = 1
        character = text[position]
        if character == "\\":
            step = 2
            character = text[position + 1 : position + 2]
            if character not in ("{", "}"):
                character = ""
        if character and character in "([{":
            depth += 1
        elif character and character in ")]}":
            depth -= 1
            if depth == 0:
                return position + step
        position += step
    return -1


def _bare(text: str) -> str:
    """Return a text without the formatting around it."""
    for _ in range(_LAYERS):
        before = text
        text = _without_end(text.strip())
        for opening, closing in _FENCES:
            inside = text[len(opening) : len(text) - len(closing)]
            if text == f"{opening}{inside}{closing}" and inside and opening not in inside:
                text = inside.strip()
        if lead := _LEAD.match(text):
            in_text = lead[0].lstrip().startswith("\\text") and not lead["close"]
            text = text[lead.end() :]
            text = text.removesuffix("}") if in_text else text
        for wrapper in (_WRAPPER, _TEXT):
            found = wrapper.match(text)
            if found is None or _first_close(text[found.end() :]) != len(text) - found.end():
                continue
            inside = text[found.end() + 1 : -1]
            # A word stays in \\text, because letters outside of it would be symbols.
            if wrapper is _WRAPPER or not any(character.isalpha() for character in inside):
                text = inside
        if text.startswith("{") and _first_close(text) == len(text):
            text = text[1:-1]
        if text == before:
            break
    return text


def _without_end(text: str) -> str:
    while True:
        end = _END.search(text[-8:])
        if end is not None:
            text = text[: len(text) - len(end[0])]
        elif text.endswith(".") and not text.endswith(("..", "right.", "left.")):
            text = text[:-1]
        else:
            return text


def _fraction(found: re.Match[str]) -> str:
    above, _, below = unicodedata.normalize("NFKC", found[0]).partition("\N{FRACTION SLASH}")
    return f"\\frac{{{above}}}{{{below}}}"


def _as_fraction(found: re.Match[str]) -> str:
    groups = found.groupdict()
    period = groups.get("period") or groups.get("braced") or groups.get("single") or groups.get("round") or ""
    if groups.get("more") is not None and len(period + groups["more"]) < 3:
        return found[0]
    whole, start = groups["whole"] or "0", groups["start"]
    scale = 10 ** len(start)
    nines = 10 ** len(period) - 1
    above = int(whole + start) * nines + int(period)
    return f"\\frac{{{above}}}{{{scale * nines}}}"


def text_parts(text: str) -> Iterator[tuple[bool, str]]:
    r"""Yield the parts of an expression: True with the content of a `\text{}`, False with the rest."""
    position = 0
    while found := _TEXT.search(text, position):
        length = _first_close(text[found.end() :])
        if length < 0:
            break
        yield False, text[position : found.start()]
        yield True, text[found.end() + 1 : found.end() + length - 1]
        position = found.end() + length
    yield False, text[position:]


def words(text: str) -> str | None:
    """Return the normal form of an answer in words, or None for any other answer.

    The form has single blanks, and a comma and a blank between the elements of a list. Words are in lower
    case. A single letter keeps its case, which can distinguish two letters, and so does a short product.
    """
    parts = list(text_parts(text))
    plain = _SPACE.sub(" ", " ".join(part for _, part in parts))
    plain = " ".join(_LETTER_IN_BRACKETS.sub(r"\1", plain).split()).strip(" ().:,")
    plain = _ARTICLE.sub("", plain, count=1)
    if _ONLY_WORDS.fullmatch(plain) is None:
        plain = re.sub(r"\s*[,;]\s*", ", ", _AND.sub(", ", _ORDINAL.sub("", plain)).replace(". ", " "))
        in_text = any(is_text and part.strip() for is_text, part in parts)
        letters = all(len(one) == 1 and one.isalpha() for one in plain.split(", "))
        if _DATE_OR_LIST.fullmatch(plain) is None or not (in_text or letters or _LONG_WORD.search(plain)):
            return None
        if not any(character.isalpha() for character in plain):
            return None
    else:
        plain = _AND.sub(", ", plain)
    if re.fullmatch(r"[A-Za-z]{2}|[A-Z]{3}", plain) and plain.lower() not in ("no", "yes"):
        return plain
    return " ".join(one if len(one.strip(",")) == 1 else one.lower() for one in plain.split(" "))
