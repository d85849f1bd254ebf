"""Run the trusted tests in this process, with stand-ins for the names that the candidate defines.

The tests' own set-up is tried before any code of the candidate runs. If it fails, the tests are broken, and
no candidate can be the reason. Then the tests run twice. First they drive the living program. After its death
they run on its recorded answers and judge (`conversation`). Only plain data arrives here from the candidate's
process, rebuilt from bytes by a decoder that can build nothing else. Any other or missing answer fails the
test.

A test that draws random numbers must make the same calls each time. The generators of `random` and
`numpy.random` that exist already are put back to their state. A generator that the tests make without a seed,
and everything else that asks the operating system for random bytes, gets the bytes of a stream that begins
anew.
"""

from __future__ import annotations

import builtins
import marshal
import os
import sys

from .assert_calls import MAX_EVIDENCE, SETUP_NAME, Driver, Judge, line_of
from .conversation import LARGE_BYTES, Diverged, Live, Replay
from .evidence import bound, describe
from .peer import Candidate, CandidateLost, UnsupportedTestError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType
    from typing import Any


def run(
    descriptor: int,
    request: dict[str, Any],
    until_dead: Callable[[Candidate], None],
    announce: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Return the result of every test of `request` against the candidate on `descriptor`.

    `compiled` holds the codes of each statement from `compiled_tests.compile_ahead`, and `beginning` the code
    from `compiled_tests.compile_beginning_ahead`. `announce` is called before the candidate's program is
    loaded. `until_dead` is called after the last call, and returns when no process of the candidate is alive.
    The result has eight fields: `results` (`passed` or `failed` for each statement, in order, and fewer if
    the candidate was lost), `evidence` (of the first failure), `error` (the exception's name), `breach`,
    `lost`, `large` (whether judging took time for much data), `objects` (the kinds that crossed other than
    plain data), and `broken` (why the tests' own set-up fails, or None).
    """
    # The tests compile before the program starts, because the duration would reveal the length of the tests.
    codes = [
        _codes(statement, ahead, bool(request["classes"]))
        for statement, ahead in zip(request["statements"], request["compiled"])
    ]
    setup = _Setup(request)
    live = Live(descriptor)
    candidate = Candidate(live, request["classes"])
    broken, prepared = setup.try_out(codes, Driver(candidate).names())
    announce()
    if broken is None:
        _drive(candidate, setup, prepared, [drive for drive, _ in codes])
    until_dead(candidate)
    if broken is not None:
        broken = bound(broken, MAX_EVIDENCE)
        return {
            **dict.fromkeys(("evidence", "error", "breach", "lost")),
            "results": [],
            "large": False,
            "objects": [],
            "broken": broken,
        }
    replay = Replay(live.parts)
    replayed = Candidate(replay, request["classes"])
    judge = Judge(replayed, request["statements"])
    # If the candidate was lost, no later test was driven.
    driven = [code for _, code in codes][: len(live.parts) - 1 if candidate.lost is not None else None]
    _judge(replayed, replay, judge, setup, driven, lost=candidate.lost)
    return {
        "results": judge.results or ["failed"] * len(codes),
        "evidence": None if judge.evidence is None else bound(judge.evidence, MAX_EVIDENCE),
        "error": judge.error_name,
        "breach": candidate.breach,
        "lost": candidate.lost,
        "large": live.exchanged > LARGE_BYTES,
        "objects": candidate.kinds(),
        "broken": None,
    }


class _Setup:
    """The steps before the first test, which are the same in both runs."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._code = _setup_code(request)
        self._randomness = Randomness((request["setup"], *request["statements"]))
        self.stage = ""

    def try_out(
        self, codes: list[tuple[CodeType | None, CodeType | None]], names: dict[str, Any]
    ) -> tuple[str | None, dict[str, Any]]:
        """Return why the tests fail by themselves, or None, and the namespace of the set-up.

        The set-up runs twice here, because the tests run twice later. The statements' own beginning runs
        after the first time, in a namespace that is dropped.
        """
        for number, (drive, _) in enumerate(codes, start=1):
            if drive is None:
                return f"test {number} does not compile", {}
        self.stage = "the tests' own set-up failed"
        try:
            beginning = _beginning(self._request)
            tried = self.prepare({})
            if beginning is not None:
                exec(beginning, tried)
            return None, self.prepare(names)
        except BaseException as error:
            return f"{self.stage}: {describe(error)}", {}

    def prepare(self, names: dict[str, Any]) -> dict[str, Any]:
        """Run the tests' set-up, and return its namespace, which contains `names`."""
        self._randomness.begin()
        namespace: dict[str, Any] = {"__name__": "tests", "__builtins__": builtins, **names}
        self.stage = "the tests' own set-up failed"
        if isinstance(self._code, Exception):
            raise self._code
        exec(self._code, namespace)
        return namespace

    def bind(self, candidate: Candidate, namespace: dict[str, Any]) -> None:
        """Load the program, and add all that the tests use of it to their namespace."""
        request = self._request
        self.stage = "the program failed to load"
        candidate.load(request["preamble"], request["program"])
        self.stage = "the program does not define what the tests use"
        for alias, name in request["exports"].items():
            namespace.pop(alias, None)
            namespace[alias] = candidate.get(name)


def _setup_code(request: dict[str, Any]) -> CodeType | Exception:
    """Return the code of the tests' set-up, or the exception for a set-up that does not compile."""
    if request["compiled_setup"] is not None:
        code: CodeType = marshal.loads(request["compiled_setup"])
        return code
    try:
        return compile(request["setup"], SETUP_NAME, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error


def _beginning(request: dict[str, Any]) -> CodeType | None:
    """Return the code of what the statements do before they use the program, or None if that is nothing."""
    ahead = request["beginning"]
    if ahead is None:
        from . import compiled_tests

        ahead = compiled_tests.compile_beginning(request["statements"], request["exports"])
    code: CodeType | None = marshal.loads(ahead)
    return code


def _drive(
    candidate: Candidate, setup: _Setup, namespace: dict[str, Any], codes: list[CodeType | None]
) -> None:
    """Make every call of the tests, whatever the answers. The replay judges them later."""
    try:
        setup.bind(candidate, namespace)
    except BaseException:
        return
    for code in codes:
        candidate.begin_part()
        try:
            if code is not None:
                exec(code, namespace)
        except BaseException:
            pass
        if candidate.lost is not None:
            return


def _judge(
    candidate: Candidate,
    replay: Replay,
    judge: Judge,
    setup: _Setup,
    codes: list[CodeType | None],
    *,
    lost: str | None,
) -> None:
    """Replay the tests on the recorded answers, and judge each of them."""
    try:
        namespace = setup.prepare(judge.names())
        setup.bind(candidate, namespace)
    except BaseException as error:
        judge.error_name = type(error).__name__
        judge.evidence = f"{setup.stage}: {describe(error)}"
        return
    for number, code in enumerate(codes, start=1):
        candidate.begin_part()
        judge.begin()
        try:
            if code is None:
                raise SyntaxError("the test does not compile")
            exec(code, namespace)
            if lost is not None and number == len(codes):
                raise CandidateLost(lost)
            if replay.diverged is not None:
                raise Diverged(replay.diverged)
            if candidate.suppressed is not None:
                raise UnsupportedTestError(candidate.suppressed)
        except BaseException as error:
            judge.fail(error, line_of(error))
        judge.end()


def _codes(
    statement: str, ahead: bytes | None, with_classes: bool
) -> tuple[CodeType | None, CodeType | None]:
    """Return the codes that drive and judge a test, or two None if it does not compile."""
    if ahead is not None:
        drive, judge = marshal.loads(ahead)
        return drive, judge
    from . import compiled_tests

    try:
        return compiled_tests.compile_test(statement, with_classes=with_classes)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None, None


# Sources with one of these words may draw random numbers. `tempfile` chooses random names.
WORDS = ("random", "secrets", "uuid", "tempfile")
KEY_BYTES = 32


class Randomness:
    """The state of all random numbers of this process, which must be the one of the tests.

    Args:
        sources: The source of the tests. Without one of the `WORDS` in it, nothing is done.
    """

    def __init__(self, sources: Iterable[str]) -> None:
        sources = tuple(sources)
        self._is_wanted = any(word in source for source in sources for word in WORDS)
        self._has_numpy = any("numpy" in source for source in sources)
        self._states: list[tuple[Any, Any]] = []
        if self._is_wanted:
            self._replace()

    def begin(self) -> None:
        """Put all generators back to their state, and begin the stream of random bytes anew."""
        if self._is_wanted:
            self._drawn = 0
            for restore, state in self._states:
                restore(state)

    def _replace(self) -> None:
        import random

        self._key = os.urandom(KEY_BYTES)
        self._drawn = 0
        os.urandom = self._draw
        random._urandom = self._draw  # type: ignore[attr-defined]
        seed = random.Random.seed

        def seed_by_stream(generator: random.Random, a: Any = None, version: int = 2) -> None:
            seed(generator, int.from_bytes(self._draw(KEY_BYTES), "big") if a is None else a, version)

        random.Random.seed = seed_by_stream  # type: ignore[method-assign, assignment]
        # The module has the methods of one generator as its functions.
        random.seed = random._inst.seed
        self._states.append((random.setstate, random.getstate()))
        if self._has_numpy:
            try:
                import numpy.random
            except ImportError:
                return
            self._states.append((numpy.random.set_state, numpy.random.get_state()))

    def _draw(self, size: int, /) -> bytes:
        """Return the next bytes of the stream, in the place of `os.urandom`."""
        from hashlib import blake2b

        if size < 0:
            raise ValueError("negative argument not allowed")
        pieces = []
        for _ in range(-(-size // blake2b.MAX_DIGEST_SIZE)):
            pieces.append(blake2b(self._drawn.to_bytes(8, sys.byteorder), key=self._key).digest())
            self._drawn += 1
        return b"".join(pieces)[:size]
