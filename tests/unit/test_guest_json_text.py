"""The guest's JSON agrees with the module `json`."""

from __future__ import annotations

import json
import math

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox.guest import json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
# The last is too deep for the scanner.
BROKEN = ("", "{", "[1,]", "1 2", "nul", "-", '"\x01"', "{1: 2}", " 1", "1 ", "[" * 100_000)


@given(VALUES)
def test_encoding_gives_the_text_of_json(value: object) -> None:
    assert json_text.encode(value) == json.dumps(value, separators=(",", ":"))


@given(VALUES)
def test_decoding_gives_the_value_of_json(value: object) -> None:
    text = json.dumps(value, separators=(",", ":"))
    assert repr(json_text.decode(text)) == repr(json.loads(text))


@each_case("text", BROKEN, ids=lambda text: text[:8])
def test_a_text_that_is_no_value_is_refused(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        json_text.decode(text)


@each_case("name", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_are_no_numbers_are_read_as_json_reads_them(name: str) -> None:
    assert not math.isfinite(json_text.decode(name))


def test_a_type_that_json_lacks_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="JSON has no set"):
        json_text.encode({"a": set()})
