"""Programs that hand work on from process to process get no more processor time than one process.

Each gives the right answer, but only after one and a half times the allowed time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from effort import THOROUGH

from harness import Sandbox
from harness.audit.attack import AttackFile, list_parts, read_part
from harness.audit.attack_kinds import read_prelude
from harness.core.types import ProgramTests, Status, Submission
from harness.environments.python.call_programs import CallTest, CallTests, grade_calls
from harness.environments.python.programs import grade_program
from harness.environments.python.stdin_programs import StdinTest, StdinTests, grade_stdin
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

LIMIT_SECONDS = 1
# The time is short enough that the wall limits of calls and of runs do not end the program.
BURNT_SECONDS = 1.4
RELAYS = list_parts("relays")


def some_relays(start: int) -> pytest.MarkDecorator:
    """Try every third relay from `start` on, or every one in a thorough run."""
    relays = RELAYS if THOROUGH else RELAYS[start::3]
    return pytest.mark.parametrize("relay", relays, ids=lambda relay: relay.path.stem)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=LIMIT_SECONDS, wall_seconds=40, memory_mb=256, processes=64)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


def submission(relay: AttackFile, end: str) -> Submission:
    facts = "NAMES = ['f']\nENTRY_POINT = 'f'\nTASK = ''\nSAMPLE = 0\n"
    program = "\n".join((facts, read_prelude(), read_part("relay.py"), relay.text, end))
    return Submission(program, agent_output="")


@some_relays(2)
async def test_no_relay_buys_processor_time_under_asserts(sandbox: Sandbox, relay: AttackFile) -> None:
    tests = ProgramTests(("assert f(1) == 1",), {"f": "f"})
    end = f"def f(x):\n    burn({BURNT_SECONDS})\n    return x\n"
    verdict = await grade_program(sandbox, tests, submission(relay, end))
    assert verdict.status is Status.TIMEOUT


@some_relays(0)
async def test_no_relay_buys_processor_time_in_a_call(sandbox: Sandbox, relay: AttackFile) -> None:
    tests = CallTests((CallTest("1", "1"),), "f", 0, seconds=LIMIT_SECONDS)
    end = f"def f(x):\n    burn({BURNT_SECONDS})\n    return x\n"
    verdict = await grade_calls(sandbox, tests, submission(relay, end))
    assert verdict.status is Status.TIMEOUT


@some_relays(1)
async def test_no_relay_buys_processor_time_on_stdin(sandbox: Sandbox, relay: AttackFile) -> None:
    tests = StdinTests((StdinTest("1\n", "1\n"),), 0, seconds=LIMIT_SECONDS)
    end = f"burn({BURNT_SECONDS})\nprint(input())\n"
    verdict = await grade_stdin(sandbox, tests, submission(relay, end))
    assert verdict.status is Status.TIMEOUT


async def test_processor_time_in_an_exit_handler_counts(sandbox: Sandbox) -> None:
    tests = StdinTests((StdinTest("1\n", "1\n"),), 0, seconds=LIMIT_SECONDS)
    end = f"import atexit\natexit.register(burn, {BURNT_SECONDS})\nprint(input(), flush=True)\n"
    verdict = await grade_stdin(sandbox, tests, submission(RELAYS[0], end))
    assert verdict.status is Status.TIMEOUT


@some_relays(1)
async def test_a_relay_within_the_limit_passes(sandbox: Sandbox, relay: AttackFile) -> None:
    """This shows that the programs above fail because of the time, and not because they relay it."""
    tests = StdinTests((StdinTest("1\n", "1\n"),), 0, seconds=20.0)
    verdict = await grade_stdin(sandbox, tests, submission(relay, "burn(0.4)\nprint(input())\n"))
    assert verdict.status is Status.PASSED
