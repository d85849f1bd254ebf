"""A sandbox is in doubt if a request got no answer, or an answer that reports a leftover."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from case_checks import each_case

from harness.core.errors import SandboxError
from harness.environments.python.client import run_tests
from harness.sandbox import sandbox as module
from harness.sandbox.backends.base import Cause, Fate, SandboxSpec
from harness.sandbox.connection import ConnectionLost
from harness.sandbox.failures import SandboxOutOfMemory, SandboxUnresponsive
from harness.sandbox.limits import Limits
from harness.sandbox.sandbox import Sandbox

ENDED = {"head": 0, "tail": 0, "total": 0}
ANSWER = {"ended": "exited", "exit_code": 0, "cpu_seconds": 0.0, "duration_seconds": 0.0}
ANSWER |= {"stdout": ENDED, "stderr": ENDED, "clean": True, "marked": False, "report": None, "broken": None}
ANSWER |= {"memory_kills": 0, "refused_forks": 0}


class Guest:
    """The connection to a guest that reacts to every request in the same way."""

    stderr = ""

    def __init__(self, outcome: BaseException | dict[str, Any] | None) -> None:
        self._outcome = outcome

    async def request(
        self,
        _header: Any,
        _body: bytes = b"",
        *,
        seconds: float | None = None,
        explain: Any = None,
        receiver: Any = None,
    ) -> tuple[dict[str, Any], bytes]:
        if self._outcome is None:
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.Event().wait()
            except TimeoutError:
                raise await explain() from None
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome, b""


class Engine:
    """A backend that only reports the end of a container."""

    def __init__(self, cause: Cause) -> None:
        self._cause = cause

    def find_fate(self, _id: str, *, silent: bool = False) -> Fate:
        return Fate(self._cause, 137)

    def destroy(self, _id: str) -> bool:
        return True


def sandbox_with(outcome: BaseException | dict[str, Any] | None, cause: Cause = Cause.INSIDE) -> Sandbox:
    engine: Any = Engine(cause)
    guest: Any = Guest(outcome)
    return Sandbox(engine, "id", guest, SandboxSpec("sha256:0", Limits()))


async def test_a_sandbox_that_has_answered_is_clean() -> None:
    sandbox = sandbox_with(ANSWER)
    await sandbox.exec(["true"])
    assert sandbox.clean


@each_case("verb", ["exec", "run_tests"])
async def test_a_job_that_has_left_something_puts_a_sandbox_in_doubt(verb: str) -> None:
    sandbox = sandbox_with({**ANSWER, "clean": False})
    if verb == "exec":
        await sandbox.exec(["true"])
    else:
        await run_tests(sandbox, program="", statements=[], exports={})
    assert not sandbox.clean


async def test_a_program_that_has_left_a_mark_marks_its_sandbox() -> None:
    sandbox = sandbox_with({**ANSWER, "marked": True})
    await run_tests(sandbox, program="", statements=[], exports={})
    assert sandbox.marked


async def test_an_abandoned_request_puts_a_sandbox_in_doubt() -> None:
    sandbox = sandbox_with(None)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sandbox.exec(["true"]), timeout=0.01)
    assert not sandbox.clean


@each_case("cause", [Cause.INSIDE, Cause.OUTSIDE])
async def test_a_guest_that_does_not_answer_puts_a_sandbox_in_doubt(
    monkeypatch: pytest.MonkeyPatch, cause: Cause
) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.0)
    sandbox = sandbox_with(None, cause)
    with pytest.raises(SandboxUnresponsive) as raised:
        await sandbox.exec(["true"], timeout=0.01)
    assert (raised.value.outside, sandbox.clean) == (cause is Cause.OUTSIDE, False)


async def test_a_fault_of_the_machine_that_a_guest_reports_is_no_result() -> None:
    sandbox = sandbox_with({"fault": "the machine ran out of memory"})
    sandbox.agent_acted = True
    with pytest.raises(SandboxError, match="ran out of memory") as raised:
        await sandbox.exec(["true"])
    assert (raised.value.outside, sandbox.clean) == (True, False)


@each_case(("cause", "kind"), [(Cause.MEMORY, SandboxOutOfMemory), (Cause.INSIDE, SandboxError)])
async def test_a_lost_guest_puts_a_sandbox_in_doubt(cause: Cause, kind: type[SandboxError]) -> None:
    sandbox = sandbox_with(ConnectionLost("the sandbox closed its stream"), cause)
    with pytest.raises(SandboxError) as raised:
        await sandbox.exec(["true"])
    assert (type(raised.value), sandbox.clean) == (kind, False)
