"""A search index that ranks as Lucene does with BM25, over arrays in memory or mapped from files.

A document's length is rounded to one byte as Lucene stores it, sums are made from single-precision parts, and
a repeated word of a query counts as often as it occurs. Documents with the same score come in the order of
their ids. Source: Lucene's `BM25Similarity` and `SmallFloat`; Pyserini's parameters for k1 and b.
"""

from __future__ import annotations

import math
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.environments.web.analyzer import analyze

K1, B = 0.9, 0.4
_ARRAYS = ("term_bytes", "term_ends", "starts", "documents", "frequencies", "lengths", "ranks", "totals")
_MOST_FREQUENT = 65535
# The number of occurrences that are sorted at a time when an index is built.
_CHUNK = 1 << 22


def encode_length(length: int) -> int:
    """Return the byte that stands for a document's length. It is exact up to 39, and then loses bits."""
    if length < 24:
        return length
    rest = length - 24
    if rest < 8:
        return 24 + rest
    shift = rest.bit_length() - 4
    return 24 + ((rest >> shift) & 7 | (shift + 1) << 3)


def decode_length(byte: int) -> int:
    """Return the length that a byte stands for, which is at most the length that it was made from."""
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
