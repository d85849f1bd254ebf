from __future__ import annotations

import unicodedata

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.core.text import ByteEscaper, escape_bytes, escape_terminal, escape_text, shorten

BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]
CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
ZERO_WIDTH = [0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x00AD, 0x034F, 0x180E, 0xFE0F, 0xE0020, 0xE0100]
BLANK = [0x00A0, 0x2003, 0x3000, 0x2028, 0x2029, 0x115F, 0x3164, 0xFFA0, 0x2800]
TAGS = [0xE0001, *range(0xE0020, 0xE0080)]
OTHERS = [0xD800, 0xDFFF, 0xE000, 0xFFFE, 0x0378]
INVISIBLE = frozenset([*BIDI, *ZERO_WIDTH, *BLANK, *TAGS])
# Random characters alone are hardly ever dangerous ones.
ANY_TEXT = st.text(
    st.characters(exclude_categories=()) | st.sampled_from([chr(code) for code in sorted(INVISIBLE)]),
    max_size=80,
)


def test_everything_invisible_becomes_an_ascii_escape() -> None:
    def is_escaped(char: str) -> bool:
        shown = escape_text(f"a{char}b")
        unescaped = shown.encode("ascii", "replace").decode("unicode_escape")
        return shown.isascii() and shown.isprintable() and shown[1] == "\\" and unescaped == f"a{char}b"

    codes = [*CONTROLS, *BIDI, *ZERO_WIDTH, *BLANK, *OTHERS, *TAGS]
    assert [hex(code) for code in codes if not is_escaped(chr(code))] == []


@each_case(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b]8;;http://evil\x1b\\link", r"\x1b]8;;http://evil\x1b\link"),
        ("\x9b2J", r"\x9b2J"),
        ("abc\u202ecba", r"abc\u202ecba"),
        ("\U000e0041", r"\U000e0041"),
        ("one\ntwo\tthree\r\n", r"one\ntwo\tthree\r\n"),
        ("naïve 日本語 עברית 🙂", "naïve 日本語 עברית 🙂"),
        (r"a literal \n and \x1b", r"a literal \n and \x1b"),
        ("", ""),
    ],
)
def test_hostile_and_harmless_texts(text: str, shown: str) -> None:
    assert escape_terminal(text) == shown


def test_multiline_keeps_newlines_and_tabs_and_nothing_else() -> None:
    assert escape_terminal("a\tb\r\nc\rd\n\x0b", multiline=True) == "a\tb\nc\\rd\n\\x0b"


def is_harmless(shown: str, kept: str) -> bool:
    """Return whether a text has no control, bidi, zero-width or tag character except the kept ones."""
    return all(
        char in kept or (unicodedata.category(char)[0] != "C" and ord(char) not in INVISIBLE)
        for char in shown
    )


@given(ANY_TEXT, st.integers(1, 120), st.booleans())
def test_is_bounded_safe_and_idempotent(text: str, limit: int, multiline: bool) -> None:
    shown = escape_terminal(text, limit, multiline=multiline)
    assert len(shown) <= limit
    assert is_harmless(shown, "\n\t" if multiline else "")
    assert escape_terminal(shown, limit, multiline=multiline) == shown


@given(ANY_TEXT, st.booleans())
def test_a_whole_text_is_safe(text: str, multiline: bool) -> None:
    shown = escape_text(text, multiline=multiline)
    assert is_harmless(shown, "\n\t" if multiline else "")
    assert escape_text(shown, multiline=multiline) == shown


@given(ANY_TEXT, st.integers(1, 120), st.booleans())
def test_a_shortened_text_keeps_its_bound(text: str, limit: int, keep_end: bool) -> None:
    shown = shorten(text, limit, keep_end=keep_end)
    assert len(shown) <= limit
    assert shown == text or len(text) > limit


def test_a_cut_is_marked_by_the_length_of_the_whole() -> None:
    assert shorten("ab" * 500, 33) == "ababa... (1000 characters in all)"
    assert shorten("ab" * 500, 33, keep_end=True) == "... (1000 characters in all) abab"
    assert shorten("ab", 2) == "ab"


def test_a_cut_text_states_its_length() -> None:
    assert escape_terminal("x" * 1000, 40) == "x" * 12 + "... (1000 characters in all)"


def test_a_text_of_exactly_the_limit_is_whole() -> None:
    assert escape_terminal("x" * 500) == "x" * 500
    assert escape_terminal("\n" * 250) == r"\n" * 250
    assert escape_terminal("\r\n" * 500, multiline=True) == "\n" * 500


@each_case("limit", range(27, 60))
def test_an_escape_is_never_cut_in_half(limit: int) -> None:
    shown = escape_terminal("ab\u202e\U000e0041\x1bz" * 20, limit)
    kept, _, _ = shown.partition("... (")
    assert kept in escape_terminal("ab\u202e\U000e0041\x1bz" * 20, 5000)
    assert kept.encode().decode("unicode_escape") in "ab\u202e\U000e0041\x1bz" * 20


def test_a_huge_text_costs_no_more_than_its_limit() -> None:
    assert len(escape_terminal("\u202e" * 50_000_000, 100)) <= 100


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        escape_terminal("x", 0)


@each_case(
    ("data", "shown"),
    [
        (b"one\r\ntwo\n\tthree", "one\ntwo\n\tthree"),
        (b"50 %\r100 %\r\r\n", "50 %\\r100 %\\r\n"),
        (b"\xff\x9b31m", r"\xff\x9b31m"),
        ("grün \u202e".encode(), r"grün \u202e"),
        (b"\xc2\x9b", r"\x9b"),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
        (b"\x1b[2J\x00", r"\x1b[2J\x00"),
        (b"", ""),
    ],
)
def test_bytes_of_a_program_become_safe_text(data: bytes, shown: str) -> None:
    assert escape_bytes(data) == shown


@given(st.binary(max_size=200))
def test_bytes_are_always_safe_and_stay_in_bounds(data: bytes) -> None:
    shown = escape_bytes(data)
    assert len(shown) <= 4 * len(data)
    assert all(char in "\n\t" or char.isprintable() for char in shown)


@each_case("size", [1, 2, 3, 7])
def test_output_is_escaped_in_pieces_as_it_is_as_a_whole(size: int) -> None:
    data = "a\r\nb\rc\x1b[2J\u202e€😀\t".encode() + b"\xff\xe2\x82\r" + "\u200b".encode() + b"\r\n\xf0\x9f"
    escaper = ByteEscaper()
    pieces = [escaper.escape(data[start : start + size]) for start in range(0, len(data), size)]
    assert "".join([*pieces, escaper.escape(b"", is_last=True)]) == escape_bytes(data)
