"""Programs that find the channel to the tests and forge messages get no verdict by them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.core.types import ProgramTests, Status, Submission, Verdict
from harness.environments.python.programs import grade_program
from harness.environments.python.verdicts import BROKE_PROTOCOL, EXITED_WELL, RAISED_EXIT
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

TESTS = ProgramTests(
    statements=("assert f(2) == 4", "assert f(3) == 6", "assert f('ab') == 'abab'"), exports={"f": "f"}
)
# A search for the channel, and functions that make messages on it.
TOOLS = """
import json, os, pickle, stat, struct, sys, time

def sockets():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.append(int(name))
        except OSError:
            pass
    return found

def say(data):
    for number in sockets():
        os.write(number, data)

def message(letter, payload):
    return struct.pack(">I", len(payload)) + letter + payload

def number(value):
    return b"j" + struct.pack(">q", value)

def text(value):
    return b"s" + struct.pack(">I", len(value)) + value.encode()

def tuple_(*items):
    return b"t" + struct.pack(">I", len(items)) + b"".join(items)

"""
FORGERIES = {
    "oversized length": r"say(b'\xff\xff\xff\xff' + b'v')",
    "length without a message": "say(struct.pack('>I', 100))",
    "garbage": "say(os.urandom(1000))",
    "zeros": "say(bytes(1000))",
    "unknown letter": "say(message(b'P', text('passed')))",
    "end of an iterator": "say(message(b's', b'N'))",
    "pickle": "say(message(b'v', pickle.dumps(('passed', 4))))",
    "pickle that would run": (
        "class Run:\n"
        "    def __reduce__(self): return (os.system, ('true',))\n"
        "say(message(b'v', pickle.dumps(Run())))"
    ),
    "deep nesting": r"say(message(b'v', b'l\0\0\0\1' * 200_000 + b'N'))",
    "deep nesting within the bound": r"say(message(b'v', b't\0\0\0\1' * 90_000 + b'N'))",
    "deep key": r"say(message(b'v', b'd\0\0\0\1' + b't\0\0\0\1' * 90_000 + b'N' + b'N'))",
    "verdict": "say(message(b'v', text('passed')))",
    "report": "say(json.dumps({'results': ['passed'] * 3, 'lost': None, 'breach': None}).encode())",
    "framed report": (
        "report = json.dumps({'id': 1, 'report': {'results': ['passed'] * 3}}).encode()\n"
        "say(struct.pack('>II', len(report), 0) + report)"
    ),
    "the same number for every question": "say(message(b'v', number(4)) * 100)",
    "truth for every question": "say(message(b'v', b'T') * 100)",
    "handles for every question": (r"for n in range(50): say(message(b'v', b'H\0' + struct.pack('>I', n)))"),
    "handle of an unknown kind": r"say(message(b'v', b'H\x09\0\0\0\x63'))",
    "exception": "say(message(b'x', tuple_(text('SystemExit'), text('SystemExit'), tuple_(), text(''))))",
    "exception of an unknown type": "say(message(b'x', tuple_(text('os'), text('os'), tuple_(), text(''))))",
    "exception of a wrong shape": "say(message(b'x', tuple_(text('E'))))",
    "changed arguments of nobody": (
        r"say(message(b'c', tuple_(b'b\0\0\0\1v', b'N', tuple_(tuple_(), tuple_(), tuple_()))))"
    ),
    "half a message and silence": "say(struct.pack('>I', 10) + b'v' + b'abc'); time.sleep(600)",
    "every descriptor": (
        "for fd in range(0, 64):\n    try: os.write(fd, b'passed\\n' * 100)\n    except OSError: pass"
    ),
    "end of the stream": (
        "import socket\nfor fd in sockets(): socket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_WR)"
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=3, wall_seconds=2.5, memory_mb=512)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def grade(sandbox: Sandbox, program: str, tests: ProgramTests = TESTS) -> Verdict:
    verdict = await grade_program(sandbox, tests, Submission(program, agent_output=""))
    assert sandbox.clean
    return verdict


def indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in body.splitlines())


@each_case("forgery", FORGERIES)
async def test_messages_at_load_pass_nothing(sandbox: Sandbox, forgery: str) -> None:
    verdict = await grade(sandbox, f"{TOOLS}\n{FORGERIES[forgery]}\ndef f(x): return 0\n")
    assert verdict.status is not Status.PASSED, verdict
    assert verdict.metrics["tests_passed"] < 3


@each_case("forgery", FORGERIES)
async def test_messages_in_a_call_pass_nothing(sandbox: Sandbox, forgery: str) -> None:
    verdict = await grade(sandbox, f"{TOOLS}\ndef f(x):\n{indented(FORGERIES[forgery])}\n    return 0\n")
    assert verdict.status is not Status.PASSED, verdict
    assert verdict.metrics["tests_passed"] < 3


@each_case(
    "forgery", ["oversized length", "garbage", "unknown letter", "pickle", "handle of an unknown kind"]
)
async def test_a_broken_protocol_is_named_in_the_metrics(sandbox: Sandbox, forgery: str) -> None:
    verdict = await grade(sandbox, f"{TOOLS}\ndef f(x):\n{indented(FORGERIES[forgery])}\n    return 0\n")
    assert verdict.tampering == BROKE_PROTOCOL


@each_case(
    ("program", "sign"),
    [
        pytest.param("import os; os._exit(0)", EXITED_WELL, id="at load"),
        pytest.param("import os\ndef f(x): os._exit(0)", EXITED_WELL, id="in a call"),
        pytest.param("import os\ndef f(x): os.execv('/bin/true', ['true'])", EXITED_WELL, id="exec"),
        pytest.param("import sys; sys.exit(0)", RAISED_EXIT, id="sys.exit at load"),
        pytest.param("def f(x): raise SystemExit", RAISED_EXIT, id="SystemExit in a call"),
    ],
)
async def test_leaving_before_the_tests_have_ended_is_named_in_the_metrics(
    sandbox: Sandbox, program: str, sign: str
) -> None:
    assert (await grade(sandbox, program)).tampering == sign


@each_case("program", ["def f(x): return 0", "def f(x): raise ValueError", "f(", "import os; os._exit(1)"])
async def test_a_program_that_is_only_wrong_shows_no_sign_of_tampering(
    sandbox: Sandbox, program: str
) -> None:
    assert (await grade(sandbox, program)).tampering is None


@each_case("forgery", ["oversized length", "unknown letter", "pickle"])
async def test_a_broken_protocol_is_a_fail_and_not_a_crash(sandbox: Sandbox, forgery: str) -> None:
    body = indented(f"{FORGERIES[forgery]}\ntime.sleep(600)")
    verdict = await grade(sandbox, f"{TOOLS}\ndef f(x):\n{body}\n")
    assert verdict.status is Status.FAILED


async def test_a_pickle_on_the_channel_is_not_loaded(sandbox: Sandbox) -> None:
    """If it were loaded, the trusted process would write a file that the program can see."""
    body = (
        "class Run:\n"
        "    def __reduce__(self): return (open, ('/tmp/loaded', 'w'))\n"
        "say(message(b'v', pickle.dumps(Run())))\n"
    )
    await grade(sandbox, f"{TOOLS}\ndef f(x):\n{indented(body)}\n    time.sleep(0.3)\n")
    assert (await sandbox.exec(["test", "-e", "/tmp/loaded"])).exit_code == 1


@each_case(
    "patch",
    [
        pytest.param("for m in guest('conversation'): m.send = lambda fd, letter, payload: None", id="send"),
        pytest.param(
            "for m in guest('encoding'): m.Encoder.encode = lambda self, root: number(4)", id="encoder"
        ),
        pytest.param(
            "for m in guest('decoding'): m.Decoder.decode = lambda self, data: (f, (2,), {})", id="decoder"
        ),
        pytest.param(
            "for m in guest('candidate'): m.Program.answer = lambda self, letter, payload: (b'v', b'T')",
            id="answers",
        ),
        pytest.param(
            "for m in guest('trusted_tests'): m.run = lambda *_: {'results': ['passed'] * 3}",
            id="trusted tests",
        ),
        pytest.param("for m in guest('processes'): m.end_processes = lambda *_: True", id="killing"),
        pytest.param(
            "for m in guest('candidate'):\n    m.serve.__code__ = (lambda descriptor: None).__code__",
            id="code",
        ),
    ],
)
async def test_a_changed_copy_of_our_code_passes_nothing(sandbox: Sandbox, patch: str) -> None:
    find = (
        "def guest(name):\n"
        "    return [m for k, m in list(sys.modules.items()) if 'guest' in k and k.endswith(name)]"
    )
    verdict = await grade(sandbox, f"{TOOLS}\n{find}\ndef f(x): return 0\n{patch}\n")
    assert verdict.status is not Status.PASSED, verdict


async def test_answers_ahead_of_time_do_not_outlive_their_test_program(sandbox: Sandbox) -> None:
    """The flood of answers includes right ones for the next program's tests."""
    await grade(sandbox, f"{TOOLS}\nsay(message(b'v', number(4)) * 1000)\ndef f(x): return 0\n")
    assert (await grade(sandbox, "def f(x): return 0")).metrics["tests_passed"] == 0


async def test_a_child_that_answers_along_with_its_parent_passes_nothing(sandbox: Sandbox) -> None:
    body = "os.fork()\nos.fork()\n"
    verdict = await grade(sandbox, f"{TOOLS}\ndef f(x):\n{indented(body)}\n    return 0\n")
    assert verdict.status is Status.FAILED


async def test_a_child_that_takes_over_the_channel_is_not_heard(sandbox: Sandbox) -> None:
    """The started process has ended. Its child answers correctly, but too late."""
    program = f"{TOOLS}\nif os.fork(): os._exit(0)\nos.setsid()\ntime.sleep(0.2)\ndef f(x): return x * 2\n"
    assert (await grade(sandbox, program)).status is Status.FAILED


async def test_a_name_that_would_catch_failed_assertions_is_not_given_to_the_tests(sandbox: Sandbox) -> None:
    """A test that expects the program's exception would take its own failure for it."""
    tests = ProgramTests(
        statements=("try:\n    assert f(-1) == 0\nexcept Wrong:\n    pass",),
        exports={"f": "f", "Wrong": "Wrong"},
    )
    right = "class Wrong(Exception): pass\ndef f(x): raise Wrong(x)"
    assert (await grade(sandbox, right, tests)).status is Status.PASSED
    for kind in ("AssertionError", "BaseException", "(ValueError, (Exception,))"):
        verdict = await grade(sandbox, f"Wrong = {kind}\ndef f(x): pass", tests)
        assert verdict.status is Status.FAILED, verdict


async def test_arguments_given_back_changed_do_not_change_the_tests(sandbox: Sandbox) -> None:
    tests = ProgramTests(
        statements=(
            "expected = [1, 2, 3]\ngiven = [3, 1, 2]\nassert f(given) == expected",
            "assert expected == [1, 2, 3]",
        ),
        exports={"f": "f"},
    )
    program = "def f(given):\n    given.clear()\n    return given\n"
    assert (await grade(sandbox, program, tests)).metrics["tests_passed"] == 1
