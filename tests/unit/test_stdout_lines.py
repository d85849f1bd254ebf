"""The comparison of a program's output with the expected output."""

from __future__ import annotations

from decimal import Decimal

from case_checks import each_case
from effort import text_of_length
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.python.stdin_programs import stdout_difference


@each_case(
    ("printed", "expected"),
    [
        ("YES\nNO\n", "YES\nNO"),
        (b"YES\nNO\n", "YES\nNO"),
        ("  YES \r\n NO\r\n\n", "YES\nNO\n"),
        ("1.0", "1"),
        ("1 2.50 3e2", "1 2.5 300"),
        ("1   2", "1 2"),
        ("0.1000000000000000000000000001", "0.10000000000000000000000000010"),
        ("-0", "0"),
        ("1_000", "1000"),  # The official rule compares by Decimal.
        ("inf", "Infinity"),
        ("nan", "nan"),
        ("", ""),
        ("\n\n", ""),
        ("1\n\n2", "1\n\n2"),
        ("1e999999999", "10e999999998"),
        ("é", "é"),
        ("é".encode(), "é"),
    ],
)
def test_outputs_that_agree(printed: str | bytes, expected: str) -> None:
    assert stdout_difference(printed, expected) is None


@each_case(
    ("printed", "expected", "difference"),
    [
        ("YES", "NO", "line 1: 'YES' printed, 'NO' expected"),
        ("YES", "yes", "line 1: 'YES' printed, 'yes' expected"),
        ("1\n2", "1\n3", "line 2: '2' printed, '3' expected"),
        ("1\n2\n3", "1\n2", "printed 3 lines, expected 2"),
        ("1\n\n2", "1\n2", "printed 3 lines, expected 2"),
        ("", "1", "line 1: '' printed, '1' expected"),
        ("1 2", "12", "line 1: '1 2' printed, '12' expected"),
        ("50000000000000000", "50000000000000001", None),
        ("0.30000000000000004", "0.3", None),
        ("a  b", "a b", None),  # The official rule compares such lines as text.
        ("YES  5", "YES 5", None),
        ("nan", "NaN", None),
        ("sNaN", "1", None),
        ("1", "sNaN", None),
        ("1e999999999", "1", None),
        ("1e99999999999999999999", "1", None),
        ("-inf", "inf", None),
        ("1 2 3", "1 2", None),
        ("1\r2", "1\n2", None),
        (b"\xff", "\ufffd", None),
        ("1" * 5000, "2", f"line 1: '{'1' * 59}…' printed, '2' expected"),
        ("\x1b[31m1", "1", "line 1: '\\x1b[31m1' printed, '1' expected"),
    ],
)
def test_outputs_that_differ(printed: str | bytes, expected: str, difference: str | None) -> None:
    found = stdout_difference(printed, expected)
    assert found is not None
    assert difference in (None, found)


def official(printed: str, expected: str) -> bool:
    """Return the result of the official rule in its plainest form."""
    lines, wanted = ([line.strip() for line in text.strip().split("\n")] for text in (printed, expected))
    if len(lines) != len(wanted):
        return False
    for line, other in zip(lines, wanted, strict=True):
        if line == other:
            continue
        try:
            if [Decimal(word) for word in line.split()] != [Decimal(word) for word in other.split()]:
                return False
        except ArithmeticError:
            return False
    return True


OUTPUTS = st.lists(
    st.sampled_from(["1", "1.0", "2", " ", "\n", "\n", "x", "nan", "1e0", "\r", "\t"]), max_size=8
)


@given(OUTPUTS.map("".join), OUTPUTS.map("".join))
def test_the_comparison_agrees_with_the_official_rule(printed: str, expected: str) -> None:
    assert (stdout_difference(printed, expected) is None) == official(printed, expected)


@given(OUTPUTS.map("".join))
def test_every_output_agrees_with_itself_as_bytes(text: str) -> None:
    assert stdout_difference(text.encode(), text) is None


@each_case("piece", ["1 ", "9", "1\n", " ", "\n", "1e9 ", "\r", "x"])
def test_outputs_of_megabytes_are_compared(piece: str) -> None:
    printed = "0" + text_of_length(piece, 3_000_000) + "0"
    assert stdout_difference(printed, "1 2\n3") is not None
    assert stdout_difference(printed, printed + "1") is not None
