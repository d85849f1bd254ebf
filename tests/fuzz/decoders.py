"""Fuzz everything that reads bytes from a hostile process, guided by coverage: `make fuzz`.

A finding is any exception but those that the format's documentation names, a value of a type
outside the list, or a value that does not survive being sent again. libFuzzer bounds memory and
time of each input (`-rss_limit_mb`, `-timeout`).
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import fractions
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports():
    from harness.environments.python.guest import (
        conversation,
        decoding,
        encoding,
        exceptions,
        peer,
        plain,
        remote,
        values,
    )
    from harness.sandbox.guest import frames

CORPORA = Path(".fuzz")
ALLOWED: set[type] = {
    *(type(None), type(...), bool, int, float, complex, str, bytes, bytearray),
    *(list, tuple, dict, set, frozenset),
    *(collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque),
    *(decimal.Decimal, fractions.Fraction, datetime.date, datetime.time, datetime.datetime),
    *(datetime.timedelta, datetime.timezone, range, type({}.keys()), type({}.values()), type({}.items())),
    *(slice, memoryview, array.array),
}


class Handle:
    """A stand-in for any object that the peer announces."""


def fuzz_frames(data: bytes) -> None:
    decoder = frames.FrameDecoder()
    half = len(data) // 2
    try:
        for piece in (data[:half], data[half:]):
            for header, body in decoder.feed(piece):
                assert type(header) is dict
                assert type(body) is bytes
    except frames.FrameError:
        pass


def fuzz_values(data: bytes) -> None:
    handle = Handle()
    try:
        value = decoding.Decoder(lambda _kind, _number, _description: handle).decode(data)
    except (plain.ValueRefused, values.LimitReached):
        return
    check_types(value)
    try:
        again = encoding.Encoder(lambda _value: (values.OPAQUE, 0, None)).encode(value)
    except (plain.ValueRefused, values.LimitReached):
        return
    decoding.Decoder(lambda _kind, _number, _description: handle).decode(again)


def check_types(root: Any) -> None:
    """Fail on any type outside the list, at any depth; cycles are walked once."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        assert type(value) in ALLOWED or type(value) is Handle, type(value)
        if id(value) in seen or isinstance(value, (str, bytes, bytearray, range, memoryview, array.array)):
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            waiting.extend(value.keys())
            waiting.extend(value.values())
        elif isinstance(value, collections.abc.Iterable):
            waiting.extend(value)


def fuzz_exceptions(data: bytes) -> None:
    try:
        value = decoding.Decoder(lambda _kind, _number, _description: Handle()).decode(data)
        error = exceptions.rebuild(value, {})
    except (plain.ValueRefused, values.LimitReached):
        return
    assert isinstance(error, BaseException)


def fuzz_answers(data: bytes) -> None:
    """Run tests that call a candidate with a list and a function, while the bytes are all its answers."""
    to_tests, from_candidate = os.pipe()
    from_tests = os.open("/dev/null", os.O_WRONLY)
    try:
        os.set_blocking(from_candidate, False)
        os.write(from_candidate, data[:60_000])
        os.close(from_candidate)
        candidate = Answering(to_tests, from_tests)
        try:
            value = candidate.call(candidate.function, ([1, [2]], len, lambda x: x), {})
        except peer.CandidateLost:
            assert candidate.lost is not None
        except BaseException as error:
            if raised_in(error) != "_exchange":  # It raises the candidate's own exception on purpose.
                raise
        else:
            assert candidate.lost is None
            assert type(value) in ALLOWED or isinstance(value, remote.RemoteObject)
    finally:
        os.close(to_tests)
        os.close(from_tests)


def raised_in(error: BaseException) -> str:
    """Return the name of the function that raised."""
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_name


class Answering(peer.Candidate):
    """A candidate whose answers are read from one descriptor, and whose questions go to another."""

    def __init__(self, answers: int, questions: int) -> None:
        super().__init__(conversation.Live(answers), {"C": ["x", "__eq__"]})
        self.function = remote.RemoteCallable(self, 0)
        conversation.send = lambda descriptor, letter, payload: SEND(questions, letter, payload)


SEND = conversation.send
TARGETS = {
    "frames": fuzz_frames,
    "values": fuzz_values,
    "exceptions": fuzz_exceptions,
    "answers": fuzz_answers,
}


def seeds(name: str) -> list[bytes]:
    """Return valid inputs, from which the fuzzer starts."""
    if name == "frames":
        return [frames.encode_frame({"id": 1, "verb": "exec"}, b"body")]
    cyclic: list[Any] = [1]
    cyclic.append(cyclic)
    described = exceptions.describe(KeyError("k", 2))
    queue = collections.deque([1, 2], maxlen=3)
    plain = [None, True, -1, 1 << 80, 1.5, 2j, "a\ud800", b"b", (1, [2]), {1: {2}}, frozenset({3}), range(3)]
    stored = [array.array("d", [1.5]), memoryview(b"ab"), slice(1), list(range(20)), (0.5,) * 20]
    dated = [datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), datetime.timedelta(1), decimal.Decimal(1)]
    changed = (conversation.VALUE, 5, ((1, 2), (3,)))
    written = [
        encoding.Encoder(lambda _: (0, 0, None)).encode(v)
        for v in (cyclic, described, queue, plain, stored, dated, changed)
    ]
    if name != "answers":
        return written
    replies = (conversation.VALUE, conversation.CHANGED, conversation.RAISED, conversation.STOPPED)
    letters = (*replies, conversation.CALLBACK)
    return [len(w).to_bytes(4, "big") + letter + w for w in written for letter in letters]


def main() -> None:
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        raise SystemExit(f"usage: {sys.argv[0]} {'|'.join(TARGETS)} [libFuzzer options]")
    corpus = CORPORA / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup([*sys.argv, str(corpus)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
