r"""Turn an answer in LaTeX into expressions that a computer algebra system can compare.

The system alone takes the last side of any equation, treats all brackets alike, and drops the base of a
number. Therefore `8=7` would be 7, `\{1,2\}` would be the pair (1,2), and `4210_{7}` would be `4210_{5}`.
This module turns an answer into one or several expressions. Each must equal the gold answer, or
refuses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.environments.maths.latex import (
    COMMA,
    OR,
    enclosed,
    has_value,
    plain,
    split_top,
    split_with,
    text_parts,
    words,
)
from harness.environments.maths.quantities import (
    APPROXIMATE,
    as_intervals,
    differ,
    is_dropped,
    split_unit,
    words_of,
)

MAX_EXPRESSIONS = 8
"""The largest number of sides of an equation, or forms of an answer, that are compared."""

_EQUALS = re.compile(r"=|\\equiv(?![A-Za-z])")
_ABOUT = re.compile(r"\\(?:approx|sim)(?![A-Za-z])")
_DECIMAL = re.compile(r"\d\.\d|\d\s*\\?%")
_LISTED = re.compile(rf"{OR.pattern}|\s*\\(?:text|mathrm|mbox)\s*\{{\s*and\s*\}}\s*|\s*[,;]\s*|\s+and\s+")

# A lone letter, a letter with a subscript or a function of something.
_LETTER = r"\\?(?:mathbf|vec|mathrm|overrightarrow)?\s*\{?[A-Za-z]\}?"
_NAME = re.compile(
    rf"\s*(?:{_LETTER}(?:_\{{?\w+\}}?)?'*(?:\^\{{-1\}})?(?:\s*\([^()]*\))?"
    r"|\\(?:theta|alpha|beta|gamma|phi|lambda)\s*)\s*"
)

_NUMBERS = (
    *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen"),
)
_WORDS = {word: number for number, word in enumerate(_NUMBERS, 2)}
_BASE_NAME = rf"\$?(?P<base>\d{{1,2}}|{'|'.join(_WORDS)})\$?"
_SUBSCRIPT = re.compile(
    r"(?P<digits>(?<![\w.\\])[0-9][0-9A-Fa-f.]*)\s*_\s*"
    rf"(?:\{{\s*)?(?:\\text\s*\{{\s*)?\(?\s*(?:base\s*\}}?\s*)?{_BASE_NAME}(?!\w|\.\d)\s*\)?\s*(?:\}}\s*){{0,2}}"
)
_IN_BASE = re.compile(
    rf"\s*(?:\\,|\\ )?\s*(?:\\text\s*\{{)?\s*[,(]?\s*(?:in\s+)?base[\s~-]*{_BASE_NAME}\s*\)?\s*\}}?\s*\Z",
    re.IGNORECASE,
)
_NAMED_BASE = re.compile(
    rf"(?P<into>\b(?:in|to|into|as an?)\s+)?\bbase[\s~-]*{_BASE_NAME}(?!\w|\.\d)", re.IGNORECASE
)

_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALE = re.compile(
    rf"(?<=[\d}}])(?:\s|\\[, ])*(?P<text>\\text\s*\{{)?\s*(?P<scale>{'|'.join(_SCALES)})\b"
    r"(?P<rest>(?(text)[^{}]*\}))"
)
# These words deny the expression next to them.
_DENIAL = re.compile(
    r"\b(?:not|no|nor|neither|except|but|wrong|incorrect|false|unless|anything)\b", re.IGNORECASE
)
# The system adds two numbers with only blanks between them, or joins their digits.
_APART = re.compile(r"(?<![\d_^.])\d+(?:\.\d+)?(?:\s|\\[,;:! ]|\\q?quad(?![A-Za-z])|~)+\d")
_THOUSANDS = re.compile(r"(?<![\d.,_^])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)")
# The system drops these signs after a number: a base, minutes of arc, the e of a programming language.
_MARKS = re.compile(r"(?<=[\d)}\]])\s*(?:_|'|\^\s*\{?\s*(?:\\prime|'|\*)|[eE]\s*\d)|[%\u2030\u2031]\s*\d")
_LAYOUT = re.compile(
    r"\\(?:begin|end)\s*\{[a-z]+\*?\}(?:\s*\{[lcr|]*\})?|\\(?:text)?color\s*\{\w+\}"
    r"|\\(?:left|right)(?![A-Za-z])"
)
_NO_SIGNS = re.compile(r"[\w\s.,;:()~$\\]")
_AFTER_TEXT = re.compile(r"\s*(?:\Z|[,;)\]}^]|\\[}])")
_MODULO = re.compile(r"\\?\b[pb]?mod\s*\{?\s*(\w+)")
# The name of the element of a set, and the words between the elements of a list.
_JOINED_BY = re.compile(r"\A\s*[A-Za-z]\s*\\in(?![A-Za-z])|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
_JOINS = frozenset({"and", "or"})
_SHORT_FRACTION = re.compile(r"\\(?:[dt]?(?:frac|binom))\s*\d\s+\d")


@dataclass(frozen=True, slots=True)
class Reading:
    """A comparison: each of `answers` must be equal to `gold`."""

    gold: str
    answers: tuple[str, ...]


def read_answer(gold: str, answer: str, bases: frozenset[int] = frozenset()) -> Reading | None:
    """Return the comparison that decides an answer, or None if the answer is wrong without one.

    Args:
        gold: the content of the box of the gold answer, in LaTeX.
        answer: the answer in LaTeX, of at most a few thousand characters.
        bases: the number bases that the problem asks for, if it names any.
    """
    reading = _read_answer(gold, answer, bases)
    if reading is None or reading.answers == (reading.gold,):
        return reading
    return None if any(_says_more(plain(gold), one) for one in reading.answers) else reading


def _says_more(gold: str, answer: str) -> bool:
    """Return whether an answer has words or signs that may change its value, and the gold answer lacks them.

    The system would drop them. A word passes only if it is known to change nothing.
    """
    known = words_of(gold) | (APPROXIMATE if _is_rounded(gold) else set())
    parts = [*text_parts(answer)]
    for position, (is_text, part) in enumerate(parts):
        signs = set(_NO_SIGNS.sub("", part)) - set(gold)
        if not is_text or (words_of(part) <= known | _JOINS and not signs):
            continue
        before, after = parts[position - 1][1], parts[position + 1][1]
        if not before.strip() or not _AFTER_TEXT.match(after) or not is_dropped(part):
            return True
    rest = _LAYOUT.sub(" ", " ".join(part for is_text, part in parts if not is_text))
    if any("".join(mark.split()) not in "".join(gold.split()) for mark in _MARKS.findall(rest)):
        return True
    if has_value(gold):
        return not has_value(_JOINED_BY.sub(" ", rest))
    letters = set("".join(known))
    runs = re.findall(r"(?<![A-Za-z\\\\])[A-Za-z]{2,}", rest)
    return any(run.lower() not in known | _JOINS and not set(run) <= letters for run in runs)


def _read_answer(gold: str, answer: str, bases: frozenset[int]) -> Reading | None:
    same_but_blanks = "".join(gold.split()) == "".join(answer.split())
    if gold.strip() == answer.strip() or (same_but_blanks and not _apart(answer)):
        return Reading(gold, (gold,))
    wanted, found = plain(gold), plain(answer)
    if words(wanted) is not None and words(wanted) == words(found):
        return Reading(gold, (gold,))
    if (
        _is_choice(wanted)
        and _is_choice(found)
        and (words(wanted) or "").lower() == (words(found) or "").lower()
    ):
        return Reading(gold, (gold,))
    if _denies(found) and not _denies(wanted):
        return None
    if not {*_MODULO.findall(found)} <= {*_MODULO.findall(wanted)}:
        # A residue class is more than one number.
        return None
    if _apart(_texts_apart(found)):
        return None
    if not _is_rounded(wanted) and any(map(_is_only_about, split_top(found, _LISTED))):
        return None
    found, scaled = _SCALE.subn(_power_of_ten, found)
    if scaled:
        wanted = _SCALE.sub(_power_of_ten, wanted)
    stated = _without_bases(wanted, found, bases)
    if stated is None:
        return None
    wanted, found = stated
    if r"\ne" in wanted:
        found = found.replace("!=", r"\ne ")
    plain_numbers = _without_units(wanted, _texts_apart(found))
    if plain_numbers is None:
        return None
    wanted, found = as_intervals(*_without_commas(*plain_numbers))
    wanted = _with_name_first(wanted)
    if named := _by_name(wanted, found):
        return named
    answers = [_in_brackets(wanted, one) for one in _answers(wanted, found)]
    if not 0 < len(answers) <= MAX_EXPRESSIONS or None in answers:
        return None
    if _brackets(wanted) is None and all(_brackets(one or "") == "()" for one in answers):
        # A list without brackets has no order, unless the answer gives it one.
        wanted = f"({wanted})" if len(split_top(wanted, COMMA)) > 1 else wanted
    return Reading(wanted, tuple(one for one in answers if one is not None))


def _is_choice(text: str) -> bool:
    """Return whether a text may be the letter of a multiple choice, whose case does not count."""
    return re.fullmatch(r"[A-Ja-j]", words(text) or "") is not None


def asked_bases(problem: str) -> frozenset[int]:
    """Return the number bases that a problem asks for.

    Bases after "in", "to" or "into" take precedence over others that it names.
    """
    named = list(_NAMED_BASE.finditer(problem))
    into = [one for one in named if one["into"]]
    return frozenset(_base(one) for one in into or named)


def _answers(gold: str, answer: str) -> list[str]:
    """Return the expressions that must all equal the gold answer, none if it contradicts itself."""
    if (several := _count(gold)) > 1 or enclosed(gold) is not None:
        # The system takes a list for a set, so it would drop an element that is listed again.
        return _one_list(gold, answer) if several <= 1 or _count(answer) <= several else []
    forms = [form if _is_balanced(form) else form.strip(" ()") for form in _forms(answer)]
    return [value for form in forms for value in _values(gold, form) or [""]]


def _count(text: str) -> int:
    return sum(bool(part.strip()) for part in split_top(text, _LISTED))


def _forms(answer: str) -> list[str]:
    """Return the alternatives that "or" separates, or none if that word is inside a bracket."""
    forms = split_top(answer, OR)
    return [] if len(forms) == 1 and OR.search(answer) else forms


def _is_balanced(form: str) -> bool:
    """Return whether a form has as many brackets that open as brackets that close, of any kind."""
    return sum(form.count(one) for one in "([") == sum(form.count(one) for one in ")]")


def _one_list(gold: str, answer: str) -> list[str]:
    """Return an answer of several elements without the names of the elements."""
    parts = split_with(answer, _LISTED)
    if len(parts) == 1:
        return _values(gold, answer)
    text = ""
    for part, separator in parts:
        sides = split_top(part, _EQUALS)
        values = [side for side in sides if not _is_name(side)]
        # Two values leave open which one is meant. A relation of several unknowns stays as it is.
        if len(sides) > 1 and len(values) > 1 and all(map(has_value, values)):
            return []
        text += (values[-1] if len(sides) > 1 and len(values) == 1 else part) + separator
    return [text]


def _values(gold: str, answer: str) -> list[str]:
    """Return the sides of an equation that must equal the gold answer, or the whole of any other answer."""
    sides: list[str] = []
    for side in split_top(answer, _EQUALS):
        exact, *rounded = split_top(side, _ABOUT)
        if rounded and _is_name(exact):
            exact, *rounded = rounded
        if any(not _close(exact, one) for one in rounded):
            return []
        sides.append(exact.strip())
    if not sides[0]:
        # The last line of a calculation, such as `= 5`, continues the line above it.
        sides = sides[1:]
    if len(sides) == 1:
        return sides
    if not all(sides):
        return []
    if len(split_top(gold, _EQUALS)) > 1:
        return sides if all(map(has_value, sides)) else [answer]
    if has_value(gold):
        # The value may belong to any expression with an unknown, as in `x + y = 7`.
        return [side for side in sides if has_value(side) and not _is_name(side)] or [answer]
    named = [side for side in sides if not _is_name(side)]
    return named or [answer]


def _is_rounded(gold: str) -> bool:
    """Return whether a gold answer may be a rounded value, so that an answer may say that it is one."""
    return _DECIMAL.search(gold) is not None or _ABOUT.search(gold) is not None


def _is_only_about(element: str) -> bool:
    """Return whether an element of an answer states a value by a sign of approximation alone."""
    return any(
        len(stated) > 1 and _is_name(stated[0])
        for side in split_top(element, _EQUALS)
        for stated in [split_top(side, _ABOUT)]
    )


def _close(exact: str, rounded: str) -> bool:
    """Return whether two plain numbers are close, or True if one is not a plain number."""
    try:
        first, second = float(exact), float(rounded)
    except ValueError:
        return True
    return abs(first - second) <= 0.05 * max(abs(first), abs(second))


def _is_name(side: str) -> bool:
    """Return whether a side of an equation is a name: a letter, a function or a text."""
    if _NAME.fullmatch(side):
        return True
    return not any(part.strip(" :$\\") for is_text, part in text_parts(side) if not is_text)


def _denies(answer: str) -> bool:
    """Return whether the words in an answer deny its mathematics."""
    return any(is_text and _DENIAL.search(part) for is_text, part in text_parts(answer))


def _apart(answer: str) -> bool:
    """Return whether an answer has two numbers with only blanks between them."""
    return _APART.search(_SHORT_FRACTION.sub("", answer)) is not None


def _power_of_ten(found: re.Match[str]) -> str:
    rest = rf"\text{{{found['rest']}" if found["text"] else ""
    return rf"\cdot 10^{{{_SCALES[found['scale']]}}}{rest}"


def _with_name_first(text: str) -> str:
    """Return `x = 2` for `2 = x`, or the text itself if it is anything else."""
    sides = split_top(text, _EQUALS)
    if len(sides) == 2 and _is_name(sides[1]) and not _is_name(sides[0]):
        return f"{sides[1].strip()} = {sides[0].strip()}"
    return text


def _without_commas(gold: str, answer: str) -> tuple[str, str]:
    """Return both without the commas between thousands.

    A comma may also separate two elements. It is taken as a mark between thousands in a gold answer that has
    no other commas and no brackets around it, and in an answer that has as many elements as the gold answer
    without such commas, and more with them.
    """
    if not re.search(r",\s", gold) and enclosed(gold) is None:
        gold = _THOUSANDS.sub(_joined, gold)
    joined = _THOUSANDS.sub(_joined, answer)
    wanted = _elements(gold)
    if joined == answer or (wanted == 1 and enclosed(answer) is not None):
        return gold, answer
    if wanted == _elements(joined) and (wanted == 1 or wanted < _elements(answer)):
        return gold, joined
    # The system would take a comma without a blank for a mark between thousands.
    return gold, _THOUSANDS.sub(lambda number: number[0].replace(",", ", "), answer)


def _joined(number: re.Match[str]) -> str:
    return number[0].replace(",", "")


def _elements(text: str) -> int:
    held = enclosed(text)
    return len(split_top(held[1] if held else text, COMMA))


def _texts_apart(answer: str) -> str:
    r"""Return an answer without `\text{}` around numbers, so that no number in a text is overlooked."""
    return "".join(
        part if not is_text or any(character.isdigit() for character in part) else rf"\text{{{part}}}"
        for is_text, part in text_parts(answer)
    )


def _without_units(gold: str, answer: str) -> tuple[str, str] | None:
    """Return both without their units if the gold answer is a value, or None if their units differ."""
    (wanted, gold_unit), (found, unit) = split_unit(gold), split_unit(answer)
    if not has_value(wanted):
        return gold, answer
    return None if differ(gold_unit, unit) else (wanted, found)


def _without_bases(gold: str, answer: str, bases: frozenset[int]) -> tuple[str, str] | None:
    """Return both without their number bases, or None if the answer states another base."""
    wanted, gold_digits = _stated_bases(gold)
    found, digits = _stated_bases(answer)
    if not wanted and not found:
        return gold, answer
    if not found <= (wanted or bases or frozenset({10})):
        return None
    if gold_digits is not None and digits is not None:
        # Digits in a base are text, because as decimal numbers 25.0 or 5^2 would be equal.
        return (gold, gold) if gold_digits == digits else None
    return _SUBSCRIPT.sub(r"\g<digits>", gold), _SUBSCRIPT.sub(r"\g<digits>", _IN_BASE.sub("", answer))


def _stated_bases(text: str) -> tuple[frozenset[int], str | None]:
    """Return the bases that a text states, and its digits if it is one number."""
    behind = _IN_BASE.search(text)
    number = text[: behind.start()] if behind else text
    found = [*_SUBSCRIPT.finditer(number), *([behind] if behind else [])]
    digits = _SUBSCRIPT.sub(r"\g<digits>", number)
    *_, digits = split_top(digits, _EQUALS)
    digits = re.sub(r"[\s,]|\\[,!;: ]", "", digits).upper()
    whole = re.fullmatch(r"-?[0-9A-F]*\.?[0-9A-F]+", digits)
    return frozenset(_base(one) for one in found), digits.lstrip("0") if whole else None


def _base(found: re.Match[str]) -> int:
    name = found["base"].lower()
    return _WORDS.get(name) or int(name)


def _by_name(gold: str, answer: str) -> Reading | None:
    """Return the comparison of two lists that give values to the same names in any order, or None."""
    wanted, found = _values_of_names(gold), _values_of_names(answer)
    if len(wanted) < 2 or wanted.keys() != found.keys():
        return None
    return Reading(f"({', '.join(wanted.values())})", (f"({', '.join(found[name] for name in wanted)})",))


def _values_of_names(text: str) -> dict[str, str]:
    """Return the value of each name in a list such as `x = 3, y = 4`, or nothing for any other text."""
    values: dict[str, str] = {}
    for part in split_top(text, _LISTED):
        match [side.strip() for side in split_top(part, _EQUALS)]:
            case [name, value] if _is_name(name) and value and "".join(name.split()) not in values:
                values["".join(name.split())] = value
            case _:
                return {}
    return values


def _in_brackets(gold: str, answer: str) -> str | None:
    r"""Return an answer in the brackets of the gold answer, or None if its brackets mean something else."""
    answer = answer.strip()
    if not answer:
        return None
    wanted, found = _brackets(gold), _brackets(answer)
    if wanted is None or wanted == found:
        return answer
    if found is None:
        # A pair may lack its brackets, and a set its braces. An interval without brackets would lack its
        # ends.
        several = len(split_top(answer, _LISTED)) > 1 and len(split_top(answer, _EQUALS)) == 1
        if wanted == "()" and several:
            return f"({answer})"
        return None if several and wanted != "\\{\\}" else answer
    return None


def _brackets(text: str) -> str | None:
    held = enclosed(text.strip())
    if held is None or len(split_top(held[1], COMMA)) < 2:
        return None
    return held[0] + held[2]
