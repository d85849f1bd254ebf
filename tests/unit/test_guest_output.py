"""The output of a job is counted in full and kept in part, never more than requested."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import cast

import pytest
from case_checks import each_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.sandbox.guest.loop import Loop
from harness.sandbox.guest.output import READ_BYTES, Output
from harness.sandbox.results import Stream


class Descriptors:
    """The part of the guest's loop that an output uses: the watcher of each descriptor."""

    def __init__(self) -> None:
        self.ready: dict[int, Callable[[], None]] = {}

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None:
        self.ready[descriptor] = ready

    def unwatch(self, descriptor: int) -> None:
        del self.ready[descriptor]


class Pipe:
    """An output, and the end to which a job writes."""

    def __init__(self, keep_bytes: int) -> None:
        self.loop = Descriptors()
        self.grown = 0
        read_end, self.write_end = os.pipe()
        self.output = Output(cast(Loop, self.loop), read_end, keep_bytes, self._grew)

    def _grew(self) -> None:
        self.grown += 1

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.write_end, data[:READ_BYTES]) :]
            self.turn()

    def turn(self) -> None:
        for ready in list(self.loop.ready.values()):
            ready()

    def hang_up(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def stream(self) -> Stream:
        return Stream(*self.output.read_kept(), self.output.total)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe(1000)
    yield pipe
    pipe.hang_up()
    pipe.output.close()


def test_a_flood_is_counted_to_the_byte(pipe: Pipe) -> None:
    for _ in range(50):
        pipe.write(b"y" * 100_001)
    assert pipe.output.total == 50 * 100_001


def test_a_paused_reader_takes_the_rest_on_closing(pipe: Pipe) -> None:
    os.write(pipe.write_end, b"late")
    pipe.hang_up()
    pipe.output.close()
    assert pipe.stream().data == b"late"


def test_a_writer_that_lives_on_does_not_delay_closing(pipe: Pipe) -> None:
    os.write(pipe.write_end, b"so far")
    pipe.output.close()
    assert pipe.stream().data == b"so far"


def test_the_end_of_the_stream_is_no_longer_watched(pipe: Pipe) -> None:
    pipe.hang_up()
    pipe.turn()
    assert pipe.loop.ready == {}


def test_nothing_to_read_is_not_an_end(pipe: Pipe) -> None:
    pipe.turn()
    pipe.write(b"now")
    assert pipe.stream().data == b"now"


def test_growth_is_reported(pipe: Pipe) -> None:
    pipe.write(b"x")
    assert pipe.grown == 1


def test_closing_twice_does_no_harm(pipe: Pipe) -> None:
    pipe.output.close()
    pipe.output.close()
    assert pipe.output.total == 0


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(keep=st.integers(2, 300), writes=st.lists(st.integers(1, 400), max_size=10))
def test_the_kept_output_is_the_start_and_the_end(keep: int, writes: list[int]) -> None:
    pipe = Pipe(keep)
    data = bytes(number % 251 for number in range(sum(writes)))
    start = 0
    for size in writes:
        pipe.write(data[start : start + size])
        start += size
    pipe.hang_up()
    pipe.output.close()
    stream = pipe.stream()
    assert stream.total == len(data)
    assert data.startswith(stream.head)
    assert data.endswith(stream.tail)
    assert len(stream.head) + len(stream.tail) == min(len(data), keep // 2 * 2)
    assert stream.truncated == (len(data) > keep // 2 * 2)
    if stream.truncated:
        assert len(stream.head) == len(stream.tail)


@each_case("keep", [0, 1])
def test_no_output_is_kept_if_none_is_requested(keep: int) -> None:
    pipe = Pipe(keep)
    pipe.write(b"x" * 10)
    pipe.hang_up()
    pipe.output.close()
    assert pipe.stream() == Stream(b"", b"", 10)


@each_case(
    ("stream", "expected"),
    [
        (Stream(b"42\n", b"", 3), r"Stream(b'42\n', total=3)"),
        (Stream(b"y" * 300, b"z", 900), f"Stream(b'{'y' * 200}'..., total=900)"),
    ],
)
def test_a_notebook_shows_the_start_of_an_output(stream: Stream, expected: str) -> None:
    assert repr(stream) == expected


def test_a_script_prints_all_that_was_kept() -> None:
    assert str(Stream(b"a", b"b", 5)) == "a\n[... 3 bytes left out ...]\nb"
