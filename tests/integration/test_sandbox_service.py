"""Commands that answer lines while their sandbox lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from harness import Sandbox
from harness.core.errors import UsageError
from harness.environments.maths.grader import ServiceAnswer
from harness.environments.maths.grader import ask as ask_service
from harness.sandbox.backends.docker.backend import DockerBackend

PYTHON = ("/usr/bin/python3", "-S", "-c")
ECHO = (*PYTHON, "import os\nwhile True: print(os.getpid(), input(), flush=True)")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("maths", backend=backend) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def own_sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    """Yield a new sandbox for a test of whether it stays clean."""
    async with Sandbox.open("maths", backend=backend) as opened:
        yield opened


async def ask(
    sandbox: Sandbox, service: tuple[str, ...], question: bytes, timeout: float = 30
) -> ServiceAnswer:
    return await ask_service(sandbox, service, question, timeout=timeout, start_timeout=0)


async def test_one_process_answers_all_questions(own_sandbox: Sandbox) -> None:
    answers = [await ask(own_sandbox, ECHO, f"question {number}".encode()) for number in range(20)]
    assert len({answer.line.split()[0] for answer in answers if answer.line}) == 1
    assert [answer.line.split()[-1] for answer in answers if answer.line] == [
        str(number).encode() for number in range(20)
    ]
    assert own_sandbox.clean


async def test_question_may_be_long_but_no_longer_than_a_pipe_holds(sandbox: Sandbox) -> None:
    answer = await ask(sandbox, ECHO, b"x" * 48 * 1024)
    assert answer.line is not None
    assert len(answer.line) > 48 * 1024
    for refused in (b"x" * (48 * 1024 + 1), b"two\nlines"):
        with pytest.raises(UsageError, match="one line of at most"):
            await ask(sandbox, ECHO, refused)


async def test_service_that_does_not_answer_in_time_is_ended_and_started_anew(sandbox: Sandbox) -> None:
    slow = (*PYTHON, "import time\nif input() == 'wait': time.sleep(600)\nprint('here')")
    late = await ask(sandbox, slow, b"wait", timeout=0.5)
    assert (late.line, late.ended, late.clean) == (None, "wall_seconds", True)
    assert (await ask(sandbox, slow, b"go")).line == b"here"
    left = await sandbox.exec(["/bin/sh", "-c", "grep -l sleep /proc/[0-9]*/cmdline | grep -v self || true"])
    assert "600" not in str(left.stdout)


async def test_the_end_of_a_service_is_reported_with_its_reason(sandbox: Sandbox) -> None:
    answer = await ask(sandbox, (*PYTHON, "input(); raise SystemExit('no more')"), b"go")
    assert (answer.line, answer.ended, answer.exit_code, answer.stderr) == (None, "exited", 1, "no more\n")
    missing = await ask(sandbox, ("/no/such/command",), b"go")
    assert (missing.line, missing.ended, missing.exit_code) == (None, "exited", 127)


async def test_an_answer_without_end_ends_the_service(sandbox: Sandbox) -> None:
    answer = await ask(sandbox, (*PYTHON, "input()\nwhile True: print('x' * 65536, end='')"), b"go")
    assert (answer.line, answer.ended) == (None, "output_mb")


async def test_a_cancelled_question_leaves_its_answer_to_no_other(own_sandbox: Sandbox) -> None:
    asked = asyncio.create_task(ask(own_sandbox, (*PYTHON, "input(); import time; time.sleep(600)"), b"go"))
    await asyncio.sleep(0.2)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert not own_sandbox.clean
