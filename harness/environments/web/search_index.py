"""A search index that ranks as Lucene does with BM25, over arrays in memory or mapped from files.

A document's length is rounded to one byte as Lucene stores it, sums are made from single-precision parts, and
a repeated word of a query counts as often as it occurs. Documents with the same score come in the order of
their ids. Source: Lucene's `BM25Similarity` and `SmallFloat`; Pyserini's parameters for k1 and b.

The terms of documents and of queries are made as Lucene's `EnglishAnalyzer` makes them, which Pyserini uses:
words by the rules of Unicode's annex 29, without the possessive, in lower case, without stop words, stemmed
by Porter's algorithm.
"""

from __future__ import annotations

import math
import os
import re
import threading
import unicodedata
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

K1, B = 0.9, 0.4
_ARRAYS = ("term_bytes", "term_ends", "starts", "documents", "frequencies", "lengths", "ranks", "totals")
_MOST_FREQUENT = 65535
# The number of occurrences that are sorted at a time when an index is built.
_CHUNK = 1 << 22

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


def encode_length(length: int) -> int:
    """Return the byte of a document's length. It is exact up to 39, and then loses bits."""
    if length < 24:
        return length
    rest = length - 24
    if rest < 8:
        return 24 + rest
    shift = rest.bit_length() - 4
    return 24 + ((rest >> shift) & 7 | (shift + 1) << 3)


def decode_length(byte: int) -> int:
    """Return the length of a byte, which is at most the length that it was made from."""
    if byte < 24:
        return byte
    bits, shift = (byte - 24) & 7, ((byte - 24) >> 3) - 1
    return 24 + (bits if shift < 0 else (bits | 8) << shift)


@cache
def _known_lengths() -> NDArray[np.float32]:
    return np.array([decode_length(byte) for byte in range(256)], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """The arrays of an index. A term's occurrences are one slice of `documents` and `frequencies`."""

    # The sorted terms as UTF-8 one after the other, and the end of each of them.
    term_bytes: NDArray[np.uint8]
    term_ends: NDArray[np.int64]
    # The first occurrence of each term, and in the end the number of all occurrences.
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    frequencies: NDArray[np.uint16]
    # The length of each document, as `encode_length` returns it.
    lengths: NDArray[np.uint8]
    # The place of each document in the order of their ids.
    ranks: NDArray[np.int32]
    # The sum of the documents' lengths before they were rounded, and the number of documents with terms.
    totals: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Return the number of documents."""
        return len(self.lengths)

    def search(self, query: str, limit: int) -> list[int]:
        """Return the numbers of the best documents, best first, at most `limit`."""
        scores = np.zeros(self.size, dtype=np.float64)
        found = False
        norms = self._norms()
        # Lucene leaves documents without terms out of its statistics.
        filled = int(self.totals[1])
        for term, count in Counter(analyze(query)).items():
            place = self._find_term(term.encode("utf-8", "surrogatepass"))
            if place is None:
                continue
            found = True
            start, end = int(self.starts[place]), int(self.starts[place + 1])
            documents = np.asarray(self.documents[start:end])
            idf = math.log(1 + (filled - (end - start) + 0.5) / ((end - start) + 0.5))
            weight = np.float32(count) * np.float32(idf)
            frequencies = np.asarray(self.frequencies[start:end]).astype(np.float32)
            parts = weight - weight / (np.float32(1) + frequencies * norms[self.lengths[documents]])
            scores[documents] += parts
        return self._best(scores.astype(np.float32), limit) if found else []

    def _best(self, scores: NDArray[np.float32], limit: int) -> list[int]:
        matching = np.flatnonzero(scores > 0)
        if len(matching) > limit:
            values = scores[matching]
            least = np.partition(values, len(values) - limit)[len(values) - limit]
            matching = matching[values >= least]
        order = np.lexsort((self.ranks[matching], -scores[matching]))
        return [int(number) for number in matching[order][:limit]]

    def _norms(self) -> NDArray[np.float32]:
        """Return 1 / (k1 (1 - b + b length / average)) for each byte of a length."""
        average = np.float32(int(self.totals[0]) / max(int(self.totals[1]), 1)) or np.float32(1)
        lengths = _known_lengths()
        inverse = np.float32(K1) * ((np.float32(1) - np.float32(B)) + np.float32(B) * lengths / average)
        return np.asarray(np.float32(1) / inverse, dtype=np.float32)

    def _find_term(self, term: bytes) -> int | None:
        low, high = 0, len(self.term_ends)
        while low < high:
            middle = (low + high) // 2
            if self._term(middle) < term:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self.term_ends) and self._term(low) == term else None

    def _term(self, place: int) -> bytes:
        start = int(self.term_ends[place - 1]) if place else 0
        return self.term_bytes[start : int(self.term_ends[place])].tobytes()


class IndexBuilder:
    """Collects documents one at a time. With a folder, everything that grows with their number is on disk."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._vocabulary: dict[str, int] = {}
        self._lengths = bytearray()
        self._total = 0
        self._filled = 0
        self._counts: list[int] = []
        self._pieces: list[NDArray[np.uint32]] = []
        # Three numbers for each distinct term of a document: the document, the term, and its frequency.
        self._pending = array("I")
        self._file = None if folder is None else (folder / "occurrences.tmp").open("w+b")

    def add(self, text: str) -> None:
        """Add the next document."""
        terms = analyze(text)
        self._lengths.append(encode_length(len(terms)))
        self._total += len(terms)
        self._filled += bool(terms)
        document = len(self._lengths) - 1
        for term, count in Counter(terms).items():
            number = self._vocabulary.setdefault(term, len(self._vocabulary))
            if number == len(self._counts):
                self._counts.append(0)
            self._counts[number] += 1
            self._pending.extend((document, number, min(count, _MOST_FREQUENT)))
        if len(self._pending) >= 3 * _CHUNK // 4:
            self._flush()

    def build(self, ids: Iterable[str]) -> SearchIndex:
        """Return the index. `ids` are the documents' ids, in the order that they were added."""
        self._flush()
        encoded = {term: term.encode("utf-8", "surrogatepass") for term in self._vocabulary}
        terms = sorted(self._vocabulary, key=encoded.__getitem__)
        new_numbers = np.empty(len(terms), dtype=np.int64)
        new_numbers[[self._vocabulary[term] for term in terms]] = np.arange(len(terms))
        counts = np.zeros(len(terms), dtype=np.int64)
        counts[new_numbers] = self._counts
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        joined = b"".join(encoded[term] for term in terms)
        ends = np.cumsum([len(encoded[term]) for term in terms], dtype=np.int64)
        documents: NDArray[np.int32] = self._make("documents", int(starts[-1]), np.int32)
        frequencies: NDArray[np.uint16] = self._make("frequencies", int(starts[-1]), np.uint16)
        filled = starts[:-1].copy()
        for piece in self._read():
            numbers = new_numbers[piece[:, 1]]
            order = np.argsort(numbers, kind="stable")
            numbers = numbers[order]
            firsts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
            sizes = np.diff(np.append(firsts, len(numbers)))
            places = filled[numbers] + np.arange(len(numbers)) - np.repeat(firsts, sizes)
            documents[places] = piece[order, 0]
            frequencies[places] = piece[order, 2]
            filled[numbers[firsts]] += sizes
        ranks = np.empty(len(self._lengths), dtype=np.int32)
        # An array of texts drops zeros at the end.
        known = list(ids)
        ranks[sorted(range(len(known)), key=known.__getitem__)] = np.arange(len(known), dtype=np.int32)
        return SearchIndex(
            np.frombuffer(joined, dtype=np.uint8),
            ends,
            starts,
            documents,
            frequencies,
            np.frombuffer(bytes(self._lengths), dtype=np.uint8),
            ranks,
            np.array([self._total, self._filled], dtype=np.int64),
        )

    def close(self) -> None:
        """Delete the file of occurrences."""
        if self._file is not None and self._folder is not None:
            self._file.close()
            (self._folder / "occurrences.tmp").unlink(missing_ok=True)

    def _flush(self) -> None:
        piece = np.array(self._pending, dtype=np.uint32).reshape(-1, 3)
        self._pending = array("I")
        if self._file is None:
            self._pieces.append(piece)
        else:
            self._file.write(piece.tobytes())

    def _read(self) -> Iterator[NDArray[np.uint32]]:
        if self._file is None:
            yield from (piece for piece in self._pieces if len(piece))
            return
        self._file.seek(0)
        while data := self._file.read(12 * (_CHUNK // 4)):
            yield np.frombuffer(data, dtype=np.uint32).reshape(-1, 3)

    def _make(self, name: str, size: int, kind: type[Any]) -> NDArray[Any]:
        if self._folder is None or size == 0:
            return np.empty(size, dtype=kind)
        path = self._folder / f"{name}.npy"
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(kind), shape=(size,))
        if hasattr(os, "posix_fallocate"):
            # A write into a mapped file that the disk has no room for kills the process by a signal.
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        return array


def save_index(index: SearchIndex, folder: Path) -> None:
    """Write the arrays of an index into a folder. Those that are mapped from there are only flushed."""
    for name in _ARRAYS:
        array = getattr(index, name)
        if isinstance(array, np.memmap):
            array.flush()
        else:
            np.save(folder / f"{name}.npy", array, allow_pickle=False)


def open_index(folder: Path) -> SearchIndex:
    """Return the index in a folder, mapped into memory.

    Raises OSError, ValueError and EOFError for a damaged one.
    """
    arrays: Mapping[str, Any] = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS
    }
    return SearchIndex(**arrays)


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
