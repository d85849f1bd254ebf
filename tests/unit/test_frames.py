"""The frame format returns frames unchanged for every cut of the stream, and refuses other bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox.guest.frames import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    PREFIX,
    FrameDecoder,
    FrameError,
    encode_frame,
)

HEADERS = st.dictionaries(
    st.text(st.characters()),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
FRAMES = st.tuples(HEADERS, st.binary(max_size=100))
TWO = [({"id": 1, "verb": "exec"}, b"\x00\xff body"), ({"id": 2, "text": "\ud800é"}, b"")]


def raw_frame(header: bytes, body: bytes = b"") -> bytes:
    return PREFIX.pack(len(header), len(body)) + header + body


@given(frames=st.lists(FRAMES, max_size=3))
def test_frames_come_out_as_they_went_in(frames: list[tuple[dict[str, Any], bytes]]) -> None:
    assert FrameDecoder().feed(b"".join(encode_frame(*frame) for frame in frames)) == frames


@given(frames=st.lists(FRAMES, max_size=3), data=st.data())
def test_the_cuts_of_the_stream_make_no_difference(
    frames: list[tuple[dict[str, Any], bytes]], data: st.DataObject
) -> None:
    stream = b"".join(encode_frame(*frame) for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder = FrameDecoder()
    got = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += decoder.feed(stream[start:end])
    assert got == frames


def test_a_stream_that_comes_byte_by_byte_is_understood() -> None:
    stream = b"".join(encode_frame(*frame) for frame in TWO)
    decoder = FrameDecoder()
    assert [frame for byte in stream for frame in decoder.feed(bytes([byte]))] == TWO


def test_an_incomplete_frame_is_not_returned() -> None:
    assert FrameDecoder().feed(encode_frame({"id": 1}, b"body")[:-1]) == []


def test_a_body_is_bytes_that_later_data_cannot_change() -> None:
    decoder = FrameDecoder()
    ((_, body),) = decoder.feed(encode_frame({}, b"first"))
    decoder.feed(encode_frame({}, b"other"))
    assert type(body) is bytes
    assert body == b"first"


@each_case(
    "prefix",
    [
        PREFIX.pack(MAX_HEADER_BYTES + 1, 0),
        PREFIX.pack(2, MAX_BODY_BYTES + 1),
        PREFIX.pack(0xFFFFFFFF, 0xFFFFFFFF),
        b"\xff" * PREFIX.size,
    ],
)
def test_lengths_out_of_bounds_are_refused_before_anything_of_them_has_come(prefix: bytes) -> None:
    with pytest.raises(FrameError, match="out of bounds"):
        FrameDecoder().feed(prefix)


def test_lengths_at_the_bound_are_waited_for() -> None:
    assert FrameDecoder().feed(PREFIX.pack(MAX_HEADER_BYTES, MAX_BODY_BYTES)) == []


@each_case(("header", "body"), [({"text": "x" * MAX_HEADER_BYTES}, b""), ({}, bytes(MAX_BODY_BYTES + 1))])
def test_a_frame_over_a_bound_is_not_sent(header: dict[str, Any], body: bytes) -> None:
    with pytest.raises(FrameError, match="frame too large"):
        encode_frame(header, body)


@each_case(
    "header",
    [
        *(b"", b" ", b"{", b"{}}", b'{"a": }', b"\xff\xfe", b"\x00"),
        pytest.param(b"[" * 100_000, id="deep arrays"),
        pytest.param(b'{"a":' * 100_000, id="deep objects"),
        pytest.param(b'{"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", id="deep and complete"),
        pytest.param(b'{"a": ' + b"9" * 100_000 + b"}", id="a number of 100,000 digits"),
    ],
)
def test_a_header_that_is_not_json_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError, match="not JSON"):
        FrameDecoder().feed(raw_frame(header))


@each_case("header", [b"[]", b"null", b"1", b'"id"', b"true", b"NaN"])
def test_a_header_that_is_not_an_object_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError, match="not a JSON object"):
        FrameDecoder().feed(raw_frame(header))


@given(st.binary(max_size=64))
def test_garbage_is_refused_or_waited_for(garbage: bytes) -> None:
    decoder = FrameDecoder()
    try:
        frames = decoder.feed(garbage)
    except FrameError:
        return
    assert all(type(header) is dict and type(body) is bytes for header, body in frames)


@given(frame=FRAMES, data=st.data())
def test_a_frame_with_changed_bytes_is_refused_or_waited_for_or_another_frame(
    frame: tuple[dict[str, Any], bytes], data: st.DataObject
) -> None:
    stream = bytearray(encode_frame(*frame))
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    try:
        frames = FrameDecoder().feed(bytes(stream))
    except FrameError:
        return
    assert all(type(header) is dict and type(body) is bytes for header, body in frames)


def test_a_header_is_always_ascii() -> None:
    frame = encode_frame({"text": "é\ud800\U0001f600\x1b"})
    assert frame[PREFIX.size :].isascii()
    assert json.loads(frame[PREFIX.size :]) == {"text": "é\ud800\U0001f600\x1b"}
