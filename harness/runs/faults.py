"""Faults that no agent causes: when to retry, how long to wait for the engine, and when to stop a run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from harness.core.errors import HarnessError, ImageMissingError, SandboxError, UsageError
from harness.core.text import escape_terminal
from harness.runs.agents.agent import AgentNotStarted
from harness.runs.observer import ShowsNotes
from harness.sandbox.backends.base import Backend
from harness.sandbox.failures import SandboxUnresponsive
from harness.sandbox.limits import Isolation, Limits
from harness.sandbox.pool import EXTRA, count_gate_places, free_memory_mb

INFRA_TRIES = 5
# Each try lasts as long as the limit that the guest did not enforce. Three show that it is no accident.
UNRESPONSIVE_TRIES = 3
BACKOFF_SECONDS = 0.5
# A run stops if its agent could not start in this number of attempts, and in no other one.
START_TRIES = 3
# How long a run waits for an engine that stopped responding, unless WAIT_VARIABLE is set.
WAIT_SECONDS = 60.0
WAIT_VARIABLE = "HARNESS_ENGINE_WAIT_SECONDS"
ASK_SECONDS = 0.5
_REASON_CHARACTERS = 500


class RunStoppedError(HarnessError):
    """Every further attempt would fail, so the run stops. Finished attempts stay stored."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None, of_machine: bool = False) -> None:
        """Make the error. `of_machine` is true if attempts on another machine would not fail."""
        super().__init__(message, hint=hint)
        self.of_machine = of_machine


class RunStopped(Exception):
    """The run stopped before an attempt had a verdict, so the attempt gets no record."""


class Faults:
    """Decides for all attempts of one run whether an infrastructure fault is retried or stops the run.

    `stopped` is set once every further attempt would fail. Attempts under way then end as `infra_error`,
    and no new attempt begins.
    """

    def __init__(
        self,
        backend: Backend | None,
        observer: ShowsNotes,
        *,
        wait_seconds: float,
        start_tries: int = START_TRIES,
        responds: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Watch `backend`, and wait up to `wait_seconds` in each outage.

        The run stops if the agent cannot start in the first `start_tries` attempts. `responds` returns
        whether the service that grades the run takes requests. Without it, sandboxes of `backend` grade.
        """
        self._backend = backend
        self._service_responds = responds
        self._name = "the Docker engine" if responds is None else "the service"
        self._observer = observer
        self._wait_seconds = wait_seconds
        self._waiting = asyncio.Lock()
        self.stopped: RunStoppedError | None = None
        self._start_tries = start_tries
        self._failed_starts = 0
        self._has_started = False

    async def prepare_retry(self, task_id: str, error: SandboxError | ImageMissingError, tried: int) -> bool:
        """Return whether to retry a task that failed `tried` times, after the wait that precedes a retry."""
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
        self._observer.note(f"{task_id}: {error.message}; retrying")
        await asyncio.sleep(BACKOFF_SECONDS * 2**tried)
        return True

    @contextlib.contextmanager
    def watch_start(self) -> Iterator[None]:
        """Stop the run if the agent has started in none of its first attempts. The block calls the agent."""
        try:
            yield
        except AgentNotStarted as error:
            self._failed_starts += 1
            if not self._has_started and self._failed_starts >= self._start_tries:
                tries = self._failed_starts
                attempts = "its first attempt" if tries == 1 else f"any of its first {tries} attempts"
                self.stop(
                    RunStoppedError(
                        f"the agent could not start in {attempts}: "
                        f"{escape_terminal(str(error), _REASON_CHARACTERS)}",
                        hint="correct the agent or its command, then start a new run",
                    )
                )
            raise
        except HarnessError:
            # The sandbox or the model failed, so the attempt shows nothing about the agent.
            raise
        except BaseException:
            self._has_started = True
            raise
        else:
            self._has_started = True

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
        self._observer.note(
            f"{self._name} does not respond; waiting up to {self._wait_seconds:.0f} s for it to come back"
        )
        while time.monotonic() - started < self._wait_seconds:
            await asyncio.sleep(ASK_SECONDS)
            if await self._responds():
                self._observer.note(f"{self._name} is back after {time.monotonic() - started:.0f} s")
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
        """Let no further attempt begin, for this reason. Only the first reason counts."""
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


# An attempt that waits for a model costs this machine almost nothing.
MOST_ATTEMPTS = 1024
# Attempts without a sandbox mostly wait for their records to reach the disk.
WITHOUT_SANDBOX = 16
# So many submissions keep the sandboxes of a service at work while their verdicts travel.
AT_SERVICE = 256


def choose_concurrency(
    wanted: int | None,
    agent: Any,
    *,
    sandboxes: bool,
    isolation: Isolation = "task",
    at_service: bool = False,
) -> int:
    """Return how many attempts may be under way at once.

    Args:
        wanted: the number that the config asks for, None for the default. An agent may have a lower maximum.
        agent: the agent of the run. By default an agent that never waits for a model gets as many attempts
            as the cores can work on, because more would only hold memory.
        sandboxes: whether the attempts need sandboxes.
        isolation: the attempts that share a sandbox. With "run" there is one for each core, because the
            start of a further one costs more than it brings once none has to wait for another start.
        at_service: whether a service grades the submissions.
    """
    if wanted is None and at_service and not getattr(agent, "waits", True):
        wanted = AT_SERVICE
    if wanted is None and not getattr(agent, "waits", True):
        places = count_gate_places() - (EXTRA if isolation == "run" else 0)
        wanted = places if sandboxes else WITHOUT_SANDBOX
    return min(wanted or MOST_ATTEMPTS, getattr(agent, "max_concurrent", MOST_ATTEMPTS))


def choose_gate_places(wanted: int | None, agent: Any) -> int:
    """Return how many container starts and gradings may be under way at once.

    The number follows from the cores. It is at least `wanted` for an agent that never waits, because its
    attempts consist only of grading.
    """
    places = count_gate_places()
    return places if wanted is None or getattr(agent, "waits", True) else max(places, wanted)


def default_concurrency(limits: Limits) -> int:
    """Return how many sandboxes with these limits the cores and the free memory can serve at once."""
    return max(1, min(count_gate_places(), free_memory_mb() // limits.memory_mb))
