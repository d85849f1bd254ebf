"""Tests lend functions to a program, which may call those with plain data and reaches nothing else."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.environments.python.client import TestReport, run_tests
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

# Writes to the channel directly, and asks the tests' process to call a lent function. The first call of the
# program is message 2, after those that load it and get `f`.
TOOLS = """
import os, stat, sys
guest = "harness.environments.python.guest."
encoding, decoding = sys.modules[guest + "encoding"], sys.modules[guest + "decoding"]
channel = sys.modules[guest + "conversation"]
descriptor = next(fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")
                  and stat.S_ISSOCK(os.fstat(fd).st_mode))

class Handle:
    def __init__(self, kind, number):
        self.kind, self.number = kind, number

def ask(request):
    payload = encoding.Encoder(lambda value: (value.kind, value.number, None)).encode(request)
    channel.send(descriptor, channel.CALLBACK, payload)
    letter, answer = channel.receive(descriptor)
    return letter, decoding.Decoder(lambda kind, number, _: (kind, number)).decode(answer)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=5, wall_seconds=1)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def run(
    sandbox: Sandbox,
    program: str,
    *statements: str,
    setup: str = "",
    classes: Mapping[str, Sequence[str]] | None = None,
) -> TestReport:
    exports = {name: name for name in ("f", *(classes or ()))}
    report = await run_tests(
        sandbox, program=program, statements=statements, exports=exports, setup=setup, classes=classes
    )
    assert sandbox.clean
    return report


FORGED = {
    "no tuple": "7",
    "too short": "(2, 0, ())",
    "arguments that are none": "(2, 0, 7, {})",
    "arguments by name that are none": "(2, 0, (), [])",
    "place beyond those lent": "(2, 99, (), {})",
    "message that lent nothing": "(1, 0, (), {})",
    "place that is text": "(2, '0', (), {})",
    "place that is a fraction": "(2, 0.0, (), {})",
    "message that is a list": "([], 0, (), {})",
    "name of a function": "(2, 'eval', ('1',), {})",
    "handle instead of a place": "(2, Handle(5, 0), (), {})",
    "built-in instead of a place": "(2, Handle(6, 0), (), {})",
    "unknown kind of handle": "(2, 0, (Handle(77, 0),), {})",
}


@each_case("request_", FORGED)
async def test_a_malformed_request_is_a_breach(sandbox: Sandbox, request_: str) -> None:
    program = f"{TOOLS}\ndef f(g): return ask({FORGED[request_]})\n"
    report = await run(sandbox, program, "f(lambda *args: 1)", "assert False")
    assert report.breach is not None
    assert report.results == (False, False)


async def test_no_function_can_be_called_if_none_was_lent(sandbox: Sandbox) -> None:
    report = await run(sandbox, f"{TOOLS}\ndef f(): return ask((2, 0, (), {{}}))\n", "f()")
    assert report.breach is not None


async def test_no_function_can_be_called_while_the_program_loads(sandbox: Sandbox) -> None:
    report = await run(
        sandbox, f"{TOOLS}\nask((2, 0, (), {{}}))\ndef f(): return 1\n", "f()", setup="g = len"
    )
    assert report.results == (False,)
    assert report.breach is not None


@each_case(
    "arguments",
    ["('x' * (1 << 20),), {}", "(), {'y': 1}", "(), {5: 1}", "([[[]]] * 1000,), {}", "tuple(range(999)), {}"],
)
async def test_odd_arguments_raise_an_error_in_the_program(sandbox: Sandbox, arguments: str) -> None:
    program = f"{TOOLS}\ndef f(g): return ask((2, 0, {arguments}))[0] == b'x'\n"
    report = await run(sandbox, program, "def g():\n    return 1\nassert f(g)")
    assert report.results == (True,), report.evidence


async def test_functions_that_are_called_without_end_end_with_the_programs_time(sandbox: Sandbox) -> None:
    report = await run(sandbox, "def f(g):\n    while True: g()\n", "f(lambda: 1)", "pass")
    assert report.results == (False, False)
    assert report.ended == "wall_seconds"


async def test_functions_that_call_each_other_without_end_fail(sandbox: Sandbox) -> None:
    report = await run(sandbox, "def f(g): return g()\n", "def g():\n    return f(g)\nassert f(g)")
    assert report.results == (False,)


async def test_a_lent_function_that_uses_too_much_fails_the_program(sandbox: Sandbox) -> None:
    report = await run(sandbox, "def f(g): return g(1 << 60)\n", "assert f(lambda n: [0] * n) == []")
    assert report.results == (False,)


async def test_a_program_cannot_catch_the_failure_of_a_lent_function_into_a_pass(sandbox: Sandbox) -> None:
    program = "def f(g):\n    try: g(1)\n    except BaseException: pass\n    return 2\n"
    report = await run(sandbox, program, "def g(x):\n    assert x == 2\nassert f(g) == 3")
    assert report.results == (False,)


@each_case("function", ["str.format", "str.format_map"])
async def test_a_lent_function_reaches_nothing_behind_its_arguments(sandbox: Sandbox, function: str) -> None:
    secret = f"SECRET-{secrets.token_hex(16)}"
    program = (
        "class Own: pass\n"
        "def f(form, other):\n"
        "    text = '{0._candidate._callbacks[1].__globals__[expected]}'\n"
        "    named = text.replace('{0.', '{own.')\n"
        "    for attempt in (lambda: form(text, Own()), lambda: form(named, {'own': Own()})):\n"
        "        try: return attempt()\n"
        "        except Exception: pass\n"
    )
    report = await run(
        sandbox, program, f"assert f({function}, lambda: 1) != expected", setup=f"expected = {secret!r}"
    )
    assert report.results == (True,) or "not plain data" in str(report.evidence)


SHOWN = """
import os, time
class Own:
    def __repr__(self): {body}
def f(): return Own()
"""


async def test_an_object_that_ends_the_program_when_it_is_shown_fails_its_test_alone(
    sandbox: Sandbox,
) -> None:
    program = SHOWN.format(body="os._exit(0)")
    report = await run(sandbox, program, "pass", "assert f() == 2", classes={"Own": ["__repr__"]})
    assert report.results == (True, False)
    assert report.evidence is not None


async def test_an_object_that_takes_for_ever_to_be_shown_fails(sandbox: Sandbox) -> None:
    program = SHOWN.format(body="time.sleep(600)")
    report = await run(sandbox, program, "assert f() == 2", classes={"Own": ["__repr__"]})
    assert report.results == (False,)


@each_case(
    "body",
    ["return 'x' * (20 << 20)", "return 2", "raise SystemExit", "return '\\x1b[2J'", "return self.__dict__"],
)
async def test_an_object_that_shows_itself_oddly_fails(sandbox: Sandbox, body: str) -> None:
    report = await run(
        sandbox,
        SHOWN.format(body=body),
        "assert f() == 2",
        "assert f() == f'{f()}'",
        classes={"Own": ["__repr__"]},
    )
    assert report.results == (False, False)
    assert len(str(report.evidence)) <= 2000


@each_case(
    "handed", ["(1, 0)", "(2, 7)", "(9, 0)", "('2', 0)", "(None, 0)", "([], 0)"], ids=lambda name: name
)
async def test_a_function_that_was_never_lent_cannot_be_handed_back(sandbox: Sandbox, handed: str) -> None:
    program = f"""{TOOLS}
def f(g):
    message, place = {handed}
    described = lambda value: (8, place, message) if isinstance(value, Handle) else (0, 0, None)
    channel.send(descriptor, channel.VALUE, encoding.Encoder(described).encode(Handle(8, 0)))
    channel.receive(descriptor)
"""
    report = await run(sandbox, program, "f(lambda: 1)\nassert True")
    assert report.results == (False,)
    assert report.breach is not None


async def test_a_context_manager_of_the_program_suppresses_no_failure(sandbox: Sandbox) -> None:
    program = """
class Suppressor:
    def __enter__(self): return 0
    def __exit__(self, *error): return True
def f(g=None): return Suppressor()
"""
    for test in ("with f() as got: assert got == 1", "with f() as got: got[0]", "with f(): raise KeyError"):
        report = await run(sandbox, program, test)
        assert report.results == (False,), test
        assert report.breach is None


async def test_a_context_manager_of_the_program_never_gets_a_failed_assertion(sandbox: Sandbox) -> None:
    program = """
class Spy:
    def __enter__(self): return 0
    def __exit__(self, kind, error, traceback): kept.append(error)
kept = []
def f(g=None): return kept if g else Spy()
"""
    failing = "try:\n    with f(): unittest.TestCase().assertEqual(0, 8471)\nexcept AssertionError: pass"
    test = f"import unittest\n{failing}\nassert f(1) == [None]"
    report = await run(sandbox, program, test)
    assert report.results == (True,), report.evidence
