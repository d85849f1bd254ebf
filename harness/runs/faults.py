"""The faults of a run, which stop it, and how many attempts it makes at once."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from harness.core.errors import HarnessError
from harness.core.text import escape_terminal
from harness.host.retries import Retries, RunStoppedError
from harness.runs.agents.agent import AgentNotStarted
from harness.runs.progress import ShowsNotes
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import EXTRA, Isolation, Limits, count_gate_places, free_memory_mb

# A run stops if its agent could not start in this number of attempts, and in no other one.
START_TRIES = 3
# An attempt that waits for a model costs this machine almost nothing.
MOST_ATTEMPTS = 1024
# Attempts without a sandbox mostly wait for their records to reach the disk.
WITHOUT_SANDBOX = 16
# So many submissions keep the sandboxes of a service at work while their verdicts travel.
AT_SERVICE = 256
_REASON_CHARACTERS = 500


class Faults(Retries):
    """Decides for all attempts of one run whether a fault is retried or stops the run.

    Once `stopped` is set, no new attempt begins.
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
        """Watch `backend` or the service as `Retries` does.

        The run stops if the agent cannot start in the first `start_tries` attempts.
        """
        super().__init__(backend, observer.note, wait_seconds=wait_seconds, responds=responds)
        self._start_tries = start_tries
        self._failed_starts = 0
        self._has_started = False

    @property
    def has_one_attempt(self) -> bool:
        """Whether the run makes a single attempt, whose refusal is the refusal of the run."""
        return self._start_tries == 1

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
