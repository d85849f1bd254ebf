"""Run the trusted tests in this process, with stand-ins for the names that the candidate defines.

The tests run twice. First they drive the living program. After its death they run on its recorded answers and
judge (`conversation`). Only plain data arrives here from the candidate's process, rebuilt from bytes by a
decoder that can build nothing else. Any other or missing answer fails the test.
"""

from __future__ import annotations

import builtins
import marshal

from .conversation import LARGE_BYTES, Diverged, Live, Replay
from .driving import Driver
from .evidence import bound, describe
from .judging import MAX_EVIDENCE, Judge, line_of
from .peer import Candidate, CandidateLost, UnsupportedTestError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

SETUP_NAME = "setup.py"
# Tests that draw random numbers must draw the same ones in the replay.
RANDOM_MODULES = ("random", "numpy.random")


def run(descriptor: int, request: dict[str, Any], until_dead: Callable[[Candidate], None]) -> dict[str, Any]:
    """Return the result of every test of `request` against the candidate on `descriptor`.

    `compiled` holds the codes of each statement from `asserts.compile_ahead`. `until_dead` is called after
    the last call, and returns when no process of the candidate is alive. The result has six fields:
    `results` (`passed` or `failed` for each statement, in order, and fewer if the candidate was lost),
    `evidence` (of the first failure), `error` (the exception's name), `breach`, `lost`, and `large` (whether
    judging took time for much data).
    """
    # The tests compile before the program starts, because the duration would reveal the length of the tests.
    codes = [
        _codes(statement, ahead, bool(request["classes"]))
        for statement, ahead in zip(request["statements"], request["compiled"])
    ]
    setup = _Setup(request)
    live = Live(descriptor)
    candidate = Candidate(live, request["classes"])
    _drive(candidate, setup, [drive for drive, _ in codes])
    until_dead(candidate)
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
    }


class _Setup:
    """The steps before the first test, which are the same in both runs."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._code = _setup_code(request)
        self._states: dict[str, Any] = {}
        self.stage = ""
        if any("random" in source for source in (request["setup"], *request["statements"])):
            self._remember_random()

    def run(self, candidate: Candidate, names: dict[str, Any]) -> dict[str, Any]:
        """Load the program, run the tests' set-up, and return the tests' namespace with all its exports."""
        request = self._request
        namespace: dict[str, Any] = {"__name__": "tests", "__builtins__": builtins, **names}
        self._put_random_back()
        self.stage = "the program failed to load"
        candidate.load(request["preamble"], request["program"])
        self.stage = "the tests' own set-up failed"
        if isinstance(self._code, Exception):
            raise self._code
        exec(self._code, namespace)
        self.stage = "the program does not define what the tests use"
        for alias, name in request["exports"].items():
            namespace.pop(alias, None)
            namespace[alias] = candidate.get(name)
        return namespace

    def _remember_random(self) -> None:
        for name in RANDOM_MODULES:
            if name == "random" or any("numpy" in source for source in self._request["statements"]):
                try:
                    module = __import__(name, fromlist=["random"])
                except ImportError:
                    continue
                self._states[name] = module, _random_state(module)

    def _put_random_back(self) -> None:
        for module, state in self._states.values():
            _set_random_state(module, state)


def _setup_code(request: dict[str, Any]) -> CodeType | Exception:
    """Return the code of the tests' set-up, or the exception for a set-up that does not compile."""
    if request["compiled_setup"] is not None:
        code: CodeType = marshal.loads(request["compiled_setup"])
        return code
    try:
        return compile(request["setup"], SETUP_NAME, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error


def _random_state(module: Any) -> Any:
    return module.getstate() if hasattr(module, "getstate") else module.get_state()


def _set_random_state(module: Any, state: Any) -> None:
    module.setstate(state) if hasattr(module, "setstate") else module.set_state(state)


def _drive(candidate: Candidate, setup: _Setup, codes: list[CodeType | None]) -> None:
    """Make every call of the tests, whatever the answers. The replay judges them later."""
    try:
        namespace = setup.run(candidate, Driver(candidate).names())
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
        namespace = setup.run(candidate, judge.names())
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
    from . import asserts

    try:
        return asserts.compile_test(statement, with_classes=with_classes)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None, None
