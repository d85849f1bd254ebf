"""Faults that no agent causes: when to retry, when to stop, and which of them are an agent's after all."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from harness.core.errors import HarnessError, ImageMissingError, SandboxError, UsageError
from harness.core.text import escape_terminal
from harness.core.tools import TurnLimitReached
from harness.core.types import Phase, Status, Verdict
from harness.environments.base import Environment
from harness.models.spending import BudgetReached
from harness.sandbox.backends.base import Backend
from harness.sandbox.failures import SandboxUnresponsive

# The sign of tampering that is recorded if a sandbox dies after the agent has acted in it.
LOST_SANDBOX = "lost the sandbox that it acted in"
INFRA_TRIES = 5
# Each try lasts as long as the limit that the guest did not enforce. Three show that it is not an accident.
UNRESPONSIVE_TRIES = 3
BACKOFF_SECONDS = 0.5
# How long to wait for an engine that stopped responding, unless WAIT_VARIABLE is set.
WAIT_SECONDS = 60.0
WAIT_VARIABLE = "HARNESS_ENGINE_WAIT_SECONDS"
ASK_SECONDS = 0.5
Fault = SandboxError | ImageMissingError
"""A fault of the infrastructure that another try may not have."""


def is_caused_by_agent(error: SandboxError, environment: Environment) -> bool:
    """Return whether the agent is responsible for a failure.

    It is if it has acted and nothing else explains the failure. Such an attempt is not retried, because an
    agent must not gain a second chance by destroying its sandbox.
    """
    return environment.agent_acted and not error.outside and error.acted_in is not False


def lose_to_agent(error: SandboxError, phase: Phase) -> Verdict:
    """Return the verdict on an attempt whose agent has cost its sandbox."""
    evidence = escape_terminal(error.message)
    if isinstance(error, SandboxUnresponsive):
        return Verdict(
            Status.TIMEOUT,
            0.0,
            evidence=evidence,
            phase=phase,
            limit="timeout_seconds",
            tampering=LOST_SANDBOX,
        )
    return Verdict(Status.CRASHED, 0.0, evidence=evidence, phase=phase, tampering=LOST_SANDBOX)


def give_up(error: SandboxError | ImageMissingError, tried: int, phase: Phase) -> Verdict:
    """Return the verdict on an attempt whose sandbox failed in each of several tries."""
    metrics: dict[str, Any] = {"tries": tried}
    if isinstance(error, SandboxError) and error.lasting and error.hint:
        metrics["hint"] = error.hint
    if isinstance(error, SandboxUnresponsive) and not error.outside:
        # After several tries, only the program in the sandbox explains that PID 1 does not respond.
        return Verdict(Status.TIMEOUT, 0.0, metrics, error.message, phase, "timeout_seconds")
    return Verdict(Status.INFRA_ERROR, None, metrics, error.message, phase)


def stop_at_limit(reached: TurnLimitReached | BudgetReached) -> Verdict:
    """Return the verdict on an attempt that has reached a limit of its turns or its budget."""
    return Verdict(
        Status.LIMIT_REACHED,
        0.0,
        evidence=str(reached),
        phase=Phase.AGENT,
        limit=reached.limit,
        limit_value=reached.allowed,
    )


class RunStoppedError(HarnessError):
    """Every further attempt would fail, so the run stops. Finished attempts stay stored."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None, of_machine: bool = False) -> None:
        """Make the error. `of_machine` is true if attempts on another machine would not fail."""
        super().__init__(message, hint=hint)
        self.of_machine = of_machine


class RunStopped(Exception):
    """The run stopped before an attempt had a verdict, so the attempt gets no record."""


class Retries:
    """Decides whether an infrastructure fault is retried, for all work in the sandboxes of one host.

    `stopped` is set once every further try would fail. Work under way then ends as `infra_error`.
    """

    def __init__(
        self,
        backend: Backend | None,
        note: Callable[[str], None],
        *,
        wait_seconds: float,
        responds: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Watch `backend`, and wait up to `wait_seconds` in each outage.

        `note` shows a message. `responds` returns whether the service that grades takes requests. Without
        it, sandboxes of `backend` grade.
        """
        self._backend = backend
        self.note = note
        self._wait_seconds = wait_seconds
        self._service_responds = responds
        self._name = "the Docker engine" if responds is None else "the service"
        self._waiting = asyncio.Lock()
        self.stopped: RunStoppedError | None = None

    def renew(self) -> Retries:
        """Return the retries of later work, which waits for the engine again, because it may come back."""
        return Retries(
            self._backend, self.note, wait_seconds=self._wait_seconds, responds=self._service_responds
        )

    async def repeat(
        self,
        name: str,
        work: Callable[[], Awaitable[Verdict]],
        *,
        on_fault: Callable[[Fault, int], None],
        find_phase: Callable[[], Phase] = lambda: Phase.EVALUATOR,
    ) -> Verdict:
        """Return the verdict of `work`, which is tried again after a fault of the infrastructure.

        Args:
            name: the name of the work in messages.
            work: makes one try.
            on_fault: gets each fault and the number of its try. It may raise to end the work.
            find_phase: returns the phase that the last fault belongs to.
        """
        for tried in itertools.count(1):
            try:
                return await work()
            except (SandboxError, ImageMissingError) as error:
                on_fault(error, tried)
                if not await self._prepare_retry(name, error, tried):
                    return give_up(error, tried, find_phase())
        raise AssertionError("unreachable: the loop ends by returning")

    async def _prepare_retry(self, name: str, error: Fault, tried: int) -> bool:
        """Return whether to retry work that failed `tried` times, after the wait that precedes a retry."""
        if isinstance(error, SandboxError) and error.lasting:
            return False
        if isinstance(error, ImageMissingError):
            self.stop(
                RunStoppedError(
                    "the sandbox image was removed from the Docker engine during the run",
                    hint="run `harness setup`, then start a new run; one run must not mix two images",
                    of_machine=True,
                )
            )
        else:
            await self.check_engine()
        limit = UNRESPONSIVE_TRIES if isinstance(error, SandboxUnresponsive) else INFRA_TRIES
        if self.stopped is not None or tried >= limit:
            return False
        self.note(f"{name}: {error.message}; retrying")
        await asyncio.sleep(BACKOFF_SECONDS * 2**tried)
        return True

    async def check_engine(self) -> bool:
        """Return whether the engine responded at once. If not, first wait for it to come back."""
        if await self._responds():
            return True
        async with self._waiting:
            if self.stopped is None and not await self._responds():
                await self._wait()
        return False

    async def _wait(self) -> None:
        started = time.monotonic()
        self.note(
            f"{self._name} does not respond; waiting up to {self._wait_seconds:.0f} s for it to come back"
        )
        while time.monotonic() - started < self._wait_seconds:
            await asyncio.sleep(ASK_SECONDS)
            if await self._responds():
                self.note(f"{self._name} is back after {time.monotonic() - started:.0f} s")
                return
        self.stop(
            RunStoppedError(
                f"{self._name} stopped responding and did not come back within {self._wait_seconds:.0f} s",
                hint="start it, then finish the run with "
                + ("--resume" if self._service_responds is None else "run(resume=FOLDER)"),
                of_machine=True,
            )
        )

    async def _responds(self) -> bool:
        if self._service_responds is not None:
            return await self._service_responds()
        if self._backend is None:
            return True
        try:
            await asyncio.to_thread(self._backend.describe)
        except SandboxError:
            return False
        return True

    def stop(self, reason: RunStoppedError) -> None:
        """Let no further work begin, for this reason. Only the first reason counts."""
        if self.stopped is None:
            self.stopped = reason


def read_wait_seconds() -> float:
    """Return the seconds to wait for a lost engine, from HARNESS_ENGINE_WAIT_SECONDS, by default 60.

    Raises UsageError for a value that is not a number in range.
    """
    text = os.environ.get(WAIT_VARIABLE) or str(WAIT_SECONDS)
    with contextlib.suppress(ValueError):
        if 0 <= (seconds := float(text)) <= 86_400:
            return seconds
    raise UsageError(f"{WAIT_VARIABLE} must be from 0 to 86400 seconds, not {text!r}")
