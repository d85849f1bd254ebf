"""The shop's search: the terms of a text, the lengths of documents, and the order of the hits."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.web.search_index import (
    LONGEST_WORD,
    IndexBuilder,
    SearchIndex,
    analyze,
    decode_length,
    encode_length,
    open_index,
    save_index,
)


def build(documents: Sequence[tuple[str, str]], folder: Path | None = None) -> SearchIndex:
    builder = IndexBuilder(folder)
    for _document_id, text in documents:
        builder.add(text)
    index = builder.build(document_id for document_id, _text in documents)
    builder.close()
    return index


@each_case(
    ("text", "terms"),
    [
        ("The Dogs and the cats", ["dog", "cat"]),
        ("the baker's dozens’s", ["baker", "dozen"]),
        ("a 3.5mm jack, 1,000 items", ["3.5mm", "jack", "1,000", "item"]),
        ("clip-in t-shirt 1/2", ["clip", "t", "shirt", "1", "2"]),
        ("size:large  no. 7", ["size:larg", "7"]),
        ("under_score __ _", ["under_scor"]),
        ("cm² ½ ①", ["cm"]),
        ("日本 x", ["日", "本", "x"]),
        ("ab is as", ["ab"]),
        ("<r> <a>", ["r"]),
        ("comfortably visibly ably family", ["comfort", "visibl", "abli", "famili"]),
        ("technology technologies biology mythologies", ["technolog", "technolog", "biologi", "mytholog"]),
        ("trekking doccing hopped falling hissed", ["trek", "doc", "hop", "fall", "hiss"]),
        ("Café Crème's ΣΑΣ İz", ["café", "crème", "σασ", "iz"]),
        ("Brand® ★5 stars★ 👍🏽", ["brand", "®", "★", "5", "star", "★", "👍🏽"]),
        ("1️⃣ #️⃣ 👩‍👧 🇺🇸", ["1️⃣", "#️⃣", "👩‍👧", "🇺🇸"]),
        ("カメラ ひら 한국어 々x 〇", ["カメラ", "ひ", "ら", "한국어", "々x", "〇"]),
        ("ไทย7 soft­ware zero​width", ["ไทย", "7", "soft­war", "zero", "width"]),
        ("5·6 a·b 5，6 a：b x‿y", ["5", "6", "a·b", "5，6", "a：b", "x‿y"]),
        ("", []),
    ],
)
def test_the_terms_are_those_of_lucenes_english_analyzer(text: str, terms: list[str]) -> None:
    assert analyze(text) == terms


@given(st.text(st.sampled_from("aB7_'.:,; -/")))
def test_plain_english_has_the_same_words_by_both_rules(text: str) -> None:
    assert analyze(text) == analyze(f"{text} ½")


def test_a_long_word_is_cut_into_pieces() -> None:
    assert [len(term) for term in analyze("7" * (2 * LONGEST_WORD + 1))] == [LONGEST_WORD, LONGEST_WORD, 1]


@given(st.integers(0, 1_000_000))
def test_a_length_loses_at_most_an_eighth(length: int) -> None:
    known = decode_length(encode_length(length))
    assert known <= length <= known * 9 / 8 + 1
    assert length > 39 or known == length


@given(st.integers(0, 255))
def test_a_byte_of_a_length_survives_both_ways(byte: int) -> None:
    assert encode_length(decode_length(byte)) == byte


DOCUMENTS = [
    ("B3", "red lamp"),
    ("B1", "red lamp"),
    ("B2", "lamp lamp lamp and a very long story about lamps in the town by the sea"),
    ("B4", "blue chair"),
]


def test_equal_scores_come_in_the_order_of_the_ids() -> None:
    index = build(DOCUMENTS)
    assert index.search("red", 50) == [1, 0]
    assert index.search("red", 1) == [1]


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    assert build(DOCUMENTS).search("lamp chair", 50)[0] == 3


def test_a_repeated_word_of_a_query_counts_again() -> None:
    documents = [("A", "lamp"), ("B", "chair"), ("C", "lamp"), ("D", "table")]
    index = build(documents)
    assert index.search("lamp chair", 1) == [1]
    assert index.search("lamp lamp lamp chair", 2) == [0, 2]


@each_case("query", ["", "the", "unknown", "\ud800", "\0", "*:*", "'" * 500])
def test_a_query_without_known_words_finds_nothing(query: str) -> None:
    assert build(DOCUMENTS).search(query, 50) == []


def test_a_document_without_words_counts_for_nothing() -> None:
    documents = [("A", "lamp"), ("B", "chair chair chair"), ("C", "chair")]
    queries = ("chair", "lamp chair chair", "lamp chair")
    alone = [build(documents).search(query, 50) for query in queries]
    with_blanks = build([*documents, *((f"X{number}", "the !") for number in range(30))])
    assert [with_blanks.search(query, 50) for query in queries] == alone
    assert with_blanks.totals.tolist() == [5, 3]


def test_an_index_without_documents_finds_nothing() -> None:
    assert build([]).search("lamp", 50) == []


def test_an_index_from_files_finds_the_same(tmp_path: Path) -> None:
    in_memory = build(DOCUMENTS)
    save_index(build(DOCUMENTS, tmp_path), tmp_path)
    mapped = open_index(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".npy"}
    for query in ("red", "lamp", "sea chair", "story lamps"):
        assert mapped.search(query, 3) == in_memory.search(query, 3)


def test_searches_at_the_same_time_find_the_same() -> None:
    words = [f"word{number} thing{number % 7}ing" for number in range(300)]
    index = build([(f"B{number:03}", text) for number, text in enumerate(words)])
    alone = [index.search(f"new{text} {text}", 10) for text in words]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: index.search(f"new{text} {text}", 10), words)) == alone
