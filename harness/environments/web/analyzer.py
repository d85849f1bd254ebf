"""The terms of a text as Lucene's analyzer for English makes them, of documents and of queries.

The steps are Lucene's `EnglishAnalyzer`, which Pyserini uses: words by the rules of Unicode's annex
29, without the possessive, in lower case, without stop words, stemmed by Porter's algorithm.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

_LETTER, _HEBREW, _NUMBER, _KATAKANA, _JOINER = "L", "H", "N", "K", "_"
_HAN, _HIRAGANA, _THAI, _THAI_MARK, _MARK = "C", "R", "T", "t", "x"
_EMOJI, _REGION, _SKIN, _EMOJI_STYLE, _ZERO_WIDTH_JOINER, _KEYCAP, _KEY = "E", "F", "s", "v", "z", "k", "#"
_OTHER = " "
_QUOTE, _DOUBLE_QUOTE, _BETWEEN_BOTH, _BETWEEN_LETTERS, _BETWEEN_NUMBERS = "'", '"', ".", ":", ","

_X = f"[{_MARK}{_THAI_MARK}{_EMOJI_STYLE}{_ZERO_WIDTH_JOINER}{_KEYCAP}{_SKIN}]*+"
_L = f"[{_LETTER}{_HEBREW}]{_X}"
_N = f"{_NUMBER}{_X}"
_K = f"{_KATAKANA}{_X}"
_U = f"(?:{_JOINER}{_X})"
_BETWEEN_L = f"[{_QUOTE}{_BETWEEN_BOTH}{_BETWEEN_LETTERS}]{_X}"
_BETWEEN_N = f"[{_QUOTE}{_BETWEEN_BOTH}{_BETWEEN_NUMBERS}]{_X}"
# In Hebrew, both quotes are signs of an abbreviation. The single one may end a word.
_IN_HEBREW = f"(?<={_HEBREW}){_DOUBLE_QUOTE}{_X}(?={_HEBREW})"
_AFTER_HEBREW = f"(?<={_HEBREW}){_QUOTE}{_X}"
_LETTERS = f"{_L}(?:(?:{_BETWEEN_L}|{_IN_HEBREW})?{_L})*+(?:{_AFTER_HEBREW})?"
_NUMBERS = f"{_N}(?:(?:{_BETWEEN_N})?{_N})*+"
_RUN = f"(?:(?:{_K})++|(?:{_LETTERS}|{_NUMBERS})++)"
_PICTURE = f"{_ZERO_WIDTH_JOINER}*+[{_EMOJI}{_SKIN}][{_MARK}{_THAI_MARK}{_EMOJI_STYLE}{_SKIN}{_KEYCAP}]*+"
_WORD = re.compile(
    f"{_U}*+{_RUN}(?:{_U}++{_RUN})*+{_U}*+"
    f"|(?:[{_HAN}{_HIRAGANA}]){_X}"
    f"|(?:[{_THAI}{_THAI_MARK}]{_X})++"
    f"|{_KEY}{_EMOJI_STYLE}?{_KEYCAP}{_X}"
    f"|{_PICTURE}(?:{_ZERO_WIDTH_JOINER}{_PICTURE})*+{_ZERO_WIDTH_JOINER}*+"
    f"|{_REGION}{_X}{_REGION}{_X}"
)

_SINGLE_CHARACTERS = {
    **dict.fromkeys(".\u2018\u2019\u2024\ufe52\uff07\uff0e", _BETWEEN_BOTH),
    **dict.fromkeys(":\u00b7\u0387\u05f4\u2027\ufe13\ufe55\uff1a", _BETWEEN_LETTERS),
    **dict.fromkeys(
        ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b", _BETWEEN_NUMBERS
    ),
    "'": _QUOTE,
    '"': _DOUBLE_QUOTE,
    "\u066b": _NUMBER,
    "\u202f": _JOINER,
    "\u200b": _OTHER,
    "\u3006": _OTHER,
    "\u200d": _ZERO_WIDTH_JOINER,
    "\ufe0f": _EMOJI_STYLE,
    "\u20e3": _KEYCAP,
    "#": _KEY,
    "*": _KEY,
}
# Ranges by their first and last code, in hexadecimal.
_RANGES_TEXT = {
    _HEBREW: "5d0-5ea 5ef-5f2 fb1d fb1f-fb28 fb2a-fb4f",
    _HAN: "2e80-2e99 2e9b-2ef3 2f00-2fd5 3007 3021-3029 3038-303b 3400-4dbf 4e00-9fff f900-fa6d fa70-fad9 "
    "20000-3134f",
    _HIRAGANA: "3041-3096 309d-309f 1b001-1b11e 1b150-1b152 1f200",
    _KATAKANA: "3031-3035 309b-309c 30a0-30fa 30fc-30ff 31f0-31ff 32d0-32fe 3300-3357 ff66-ff9d 1b000 "
    "1b164-1b167",
    _MARK: "ff9e-ff9f",
    _LETTER: "2c2-2c5 2d2-2d7 2de-2df 2ed 2ef-2ff 55b-55c 55e 5f3 24b6-24e9 a720-a721 a789-a78a ab5b "
    "1f130-1f149 1f150-1f169 1f170-1f189",
    _REGION: "1f1e6-1f1ff",
    _SKIN: "1f3fb-1f3ff",
    _EMOJI: "a9 ae 203c 2049 2122 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa 25aa-25ab "
    "25b6 25c0 25fb-25fe 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271d 2721 2728 "
    "2733-2734 2744 2747 274c 274e 2753-2755 2757 2763-2767 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 "
    "2b1b-2b1c 2b50 2b55 3030 303d 3297 3299 1f000-1f0ff 1f10d-1f10f 1f12f 1f16c-1f16f 1f18e 1f191-1f19a "
    "1f1ad-1f1e5 1f201-1f20f 1f21a 1f22f 1f232-1f23a 1f23c-1f23f 1f249-1f3fa 1f400-1f53d 1f546-1f64f "
    "1f680-1f6ff 1f774-1f77f 1f7d5-1f7ff 1f80c-1f80f 1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8ff "
    "1f90c-1f93a 1f93c-1f945 1f947-1fffd",
    # Thai, Lao, Myanmar, Khmer and the scripts of the Tai peoples are written without blanks.
    _THAI: "e01-e3a e40-e4e e81-ec6 ec8-ecd edc-edf 1000-103f 1050-108f 109a-109f 1780-17d3 17d7 17dc-17dd "
    "1950-19df 1a20-1a7c 1aa0-1aad a9e0-a9ef a9fa-a9fe aa60-aac2 aadb-aadf",
}


def _read_ranges() -> list[tuple[int, int, str]]:
    found = []
    for kind, text in _RANGES_TEXT.items():
        for each in text.split():
            first, _, last = each.partition("-")
            found.append((int(first, 16), int(last or first, 16), kind))
    return sorted(found)


_RANGES = _read_ranges()
_FIRSTS = [first for first, _, _ in _RANGES]


def _find_class(code: int) -> str:
    character = chr(code)
    category = unicodedata.category(character)
    if (single := _SINGLE_CHARACTERS.get(character)) is not None:
        return single
    if category == "Nd":
        return _NUMBER
    first, last, kind = _RANGES[max(bisect_right(_FIRSTS, code) - 1, 0)]
    if first <= code <= last:
        return _THAI_MARK if kind == _THAI and category.startswith("M") else kind
    if category in ("Mn", "Mc", "Me", "Cf"):
        return _MARK
    if category == "Pc":
        return _JOINER
    return _LETTER if category.startswith("L") or category == "Nl" else _OTHER


class _Classes(dict[int, str]):
    """The class of each character that was asked for so far."""

    def __missing__(self, code: int) -> str:
        found = self[code] = _find_class(code)
        return found


_classes = _Classes()


def find_words(text: str) -> Iterator[str]:
    """Yield the words of a text in order."""
    for match in _WORD.finditer(text.translate(_classes)):
        yield text[match.start() : match.end()]


_STOP_WORDS_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there
these they this to was will with
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
# Lucene cuts a longer word into pieces of this length.
LONGEST_WORD = 255
# Porter's algorithm leaves words of one or two letters as they are.
_SHORTEST_STEMMED = 3
_KEPT_WORDS = 1 << 17

_LETTER_BEFORE, _LETTER_AFTER = r"(?<=[^\W\d_])", r"(?=[^\W\d_])"
_JOINED = rf"(?:{_LETTER_BEFORE}['’.:·]{_LETTER_AFTER}|(?<=\d)['’.,;](?=\d))"
# Most texts are plain English, and this form of the rules of `find_words` is faster for them. No word goes
# across a blank, so that the full rules are needed only between blanks.
_PLAIN_WORD = re.compile(rf"\w+(?:{_JOINED}\w+)*", re.ASCII)
_BEYOND_ASCII = re.compile(r"[!-~]*+[^\x00-\x7f][^\x00-\x20\x7f]*")
# The ending that the first step of Porter's algorithm makes into an "i".
_ADDED_RULES = re.compile(r"(.+)(bl|log)(?:[yi](?:ed|ing)?s?|ies)")
_DOUBLED = re.compile(r"(.+)([chjkqvwx])\2(?:ed|ing)s?")
# A "y" is a vowel after a consonant only.
_VOWEL_Y = re.compile(r"(?<=[^aeiouy])y")
_VOWEL = re.compile(r"[aeiou]")
_MEASURED = re.compile(r"[aeiou][^aeiou]")
_POSSESSIVES = ("'s", "’s", "＇s")

_stemming = threading.Lock()


@cache
def _stemmer() -> Any:
    # The library takes a tenth of a second to import, which commands without a shop need not wait for.
    import snowballstemmer

    return snowballstemmer.stemmer("porter")


def _adapt(term: str) -> str:
    """Return a word that Porter's published algorithm stems as Lucene stems the given one.

    Lucene also has two rules that Porter added later: `bli` becomes `ble`, and `logi` becomes `log`, as the
    words "possibly" and "technology" end after the first step. Both need a vowel and a consonant before them.
    And Lucene halves any double consonant that an ending follows, as in "trekked". The library knows nine.
    """
    if found := _ADDED_RULES.fullmatch(term):
        before, root = found.groups()
        if _MEASURED.search(_VOWEL_Y.sub("i", before)):
            return before + ("ble" if root == "bl" else "log")
    elif (found := _DOUBLED.fullmatch(term)) and _VOWEL.search(_VOWEL_Y.sub("i", found[1])):
        return found[1] + found[2]
    return term


@lru_cache(maxsize=_KEPT_WORDS)
def _term(word: str) -> str:
    """Return the term of a word, or "" for a stop word."""
    # Lucene lowers each character without a look at its neighbours, and never makes two of one.
    term = word.lower() if word.isascii() else "".join(each.lower()[0] for each in word)
    if term.endswith(_POSSESSIVES):
        term = term[:-2]
    if term in STOP_WORDS or not term.strip("_"):
        return ""
    if len(term) < _SHORTEST_STEMMED:
        return term
    # A stemmer holds the word that it works on, so only one thread may use it at a time.
    with _stemming:
        stem: str = _stemmer().stemWord(_adapt(term))
    return stem


def _list_words(text: str) -> list[str]:
    if text.isascii():
        return _PLAIN_WORD.findall(text)
    words, end = [], 0
    for part in _BEYOND_ASCII.finditer(text):
        words += _PLAIN_WORD.findall(text, end, part.start())
        words += find_words(part[0])
        end = part.end()
    return words + _PLAIN_WORD.findall(text, end)


def analyze(text: str) -> list[str]:
    """Return the terms of a text in order, with repeats."""
    terms = []
    for word in _list_words(text):
        if len(word) <= LONGEST_WORD:
            terms.append(_term(word))
        else:
            pieces = (word[start : start + LONGEST_WORD] for start in range(0, len(word), LONGEST_WORD))
            terms += map(_term, pieces)
    return [term for term in terms if term]
