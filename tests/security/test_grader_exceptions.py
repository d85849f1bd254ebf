"""Exceptions between tests and program take the same way as in plain Python, and cost the tests little."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.environments.python.client import TestReport, run_tests
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

# Answers a call with the description of an exception, written to the channel directly.
TOOLS = """
import os, stat, sys
guest = "harness.environments.python.guest."
encoding, channel = sys.modules[guest + "encoding"], sys.modules[guest + "conversation"]
descriptor = next(fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")
                  and stat.S_ISSOCK(os.fstat(fd).st_mode))

def described(*classes, args=(), text="", attributes=None, cause=None, members=None):
    return classes, args, text, attributes or {}, cause, None, False, members

def answer(description):
    payload = encoding.Encoder(lambda value: (0, 0, None)).encode(description)
    channel.send(descriptor, channel.RAISED, payload)
    while channel.receive(descriptor):
        channel.send(descriptor, channel.RAISED, payload)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=5, wall_seconds=3)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def run(sandbox: Sandbox, program: str, *statements: str) -> TestReport:
    report = await run_tests(sandbox, program=program, statements=statements, exports={"f": "f"})
    assert sandbox.clean
    return report


HOSTILE = {
    "place before the bytes": (
        "described('UnicodeDecodeError', args=('utf-8', b'abc', -10**12, 1 - 10**12, ''), text='x')"
    ),
    "ancestors without end": (
        "described('Exception', *(('Own', (place,), place, None) for place in range(99)))"
    ),
    "slices of shared slices": "described('ValueError', args=(slices,), text='x')",
    "attributes of the machinery": (
        "described('ValueError', ('Own', (0,), 1, None), attributes=dict.fromkeys(('__class__', '__dict__', "
        "'args', '__traceback__', '__notes__', 'with_traceback', '__str__', '__cause__'), 5))"
    ),
}


@each_case("description", HOSTILE)
async def test_a_hostile_exception_fails_its_own_test_alone(sandbox: Sandbox, description: str) -> None:
    slices = "slices = []\nfor _ in range(60): slices = [slice(slices, slices, slices)]\n"
    program = f"{TOOLS}{slices}def f(): answer({HOSTILE[description]})\n"
    report = await run(sandbox, program, "assert f() == 1", "try: f()\nexcept Exception: pass", "assert True")
    assert report.results == (False, True, True)
    assert report.breach is None


@each_case("raised", ["KeyboardInterrupt", "SystemExit", "GeneratorExit", "BaseException"])
async def test_an_exception_of_a_lent_function_arrives_only_through_the_program(
    sandbox: Sandbox, raised: str
) -> None:
    test = f"def g(): raise {raised}\nseen = False\ntry: f(g)\nexcept {raised}: seen = True\nassert seen"
    swallowing = await run(sandbox, "def f(g):\n    try: g()\n    except BaseException: pass\n", test)
    assert swallowing.results == (False,)
    passing = await run(sandbox, "def f(g): return g()\n", test)
    assert passing.results == (True,), passing.evidence


async def test_a_program_handles_an_exception_that_ends_programs(sandbox: Sandbox) -> None:
    program = "def f(g):\n    try: g()\n    except SystemExit as error: return error.code\n"
    report = await run(sandbox, program, "def g(): raise SystemExit(3)\nassert f(g) == 3")
    assert report.results == (True,), report.evidence


CONTEXT_MANAGER = """
class Own:
    def __enter__(self): return 0
    def __exit__(self, kind, error, traceback):
        seen.append(kind)
        return {suppresses}
seen = []
def f(see=False): return seen if see else Own()
"""
LEFT_BY = "arrived = False\ntry:\n    with f(): raise {0}\nexcept {0}: arrived = True\nassert arrived"


async def test_a_test_that_expects_an_exception_behind_one_that_suppresses_it_fails(sandbox: Sandbox) -> None:
    program = CONTEXT_MANAGER.format(suppresses=True)
    report = await run(sandbox, program, LEFT_BY.format("ValueError"), "with f(): pass")
    assert report.results == (False, True)
    assert "suppressed ValueError" in str(report.evidence)


@each_case("raised", ["ValueError", "KeyboardInterrupt"])
async def test_a_context_manager_sees_the_exception_that_leaves_it(sandbox: Sandbox, raised: str) -> None:
    program = CONTEXT_MANAGER.format(suppresses=None)
    report = await run(sandbox, program, f"{LEFT_BY.format(raised)}\nassert f(True) == [{raised}]")
    assert report.results == (True,), report.evidence


async def test_no_test_gets_an_exception_that_it_expects_for_stop_iteration(sandbox: Sandbox) -> None:
    program = "def f(): return next(iter(()))\n"
    report = await run(
        sandbox, program, "seen = False\ntry: f()\nexcept RuntimeError: seen = True\nassert seen"
    )
    assert report.results == (False,)


@each_case("test", ["f().kept = 5", "del f().kept"], ids=["assignment", "deletion"])
async def test_only_an_object_that_refuses_a_change_passes_a_test_for_that(
    sandbox: Sandbox, test: str
) -> None:
    expected = f"refused = False\ntry: {test}\nexcept AttributeError: refused = True\nassert refused"
    program = """
import dataclasses
@dataclasses.dataclass(frozen={frozen})
class Own:
    kept: int
def f(): return Own(1)
"""
    changing = await run(sandbox, program.format(frozen=False), expected)
    assert changing.results == (False,)
    frozen = await run(sandbox, program.format(frozen=True), expected)
    assert frozen.results == (True,), frozen.evidence


GENERATOR = "import contextlib, unittest\nmade = contextlib.contextmanager(f)\n"


@each_case("body", ["assert got == 2", "unittest.TestCase().assertEqual(got, 2)", "raise KeyError", "got[0]"])
async def test_a_generator_as_a_context_manager_suppresses_no_failure(sandbox: Sandbox, body: str) -> None:
    program = "def f():\n    try: yield 1\n    except BaseException: pass\n"
    report = await run(sandbox, program, f"{GENERATOR}with made() as got: {body}")
    assert report.results == (False,)


@each_case("handler", ["raise", "pass"])
async def test_a_generator_as_a_context_manager_lets_an_exception_through_or_fails(
    sandbox: Sandbox, handler: str
) -> None:
    program = f"def f():\n    try: yield 1\n    except TypeError: {handler}\n"
    left = LEFT_BY.replace("f()", "made()").format("TypeError")
    report = await run(sandbox, program, GENERATOR + left)
    assert report.results == (handler == "raise",), report.evidence
