"""A run whose agent cannot start stops after its first attempts, and goes on if one of them has worked."""

from __future__ import annotations

import sys

from case_checks import each_case

from harness.core.errors import SandboxError
from harness.reports.progress import NotesOnly
from harness.runs.agents.agent import AgentError, AgentNotStarted
from harness.runs.faults import Faults

MISSING = AgentNotStarted("exit code 127: agent: not found")


def end_attempts(*ends: Exception | None) -> Faults:
    """Return the faults of a run whose attempts have ended so. None is a submission."""
    faults = Faults(None, NotesOnly(sys.stderr), wait_seconds=0, start_tries=2)
    for end in ends:
        try:
            with faults.watch_start():
                if end is not None:
                    raise end
        except type(end or AgentError()):
            pass
    return faults


@each_case(
    "ends",
    [(MISSING, MISSING), (MISSING, SandboxError("the engine is busy"), MISSING)],
    ids=["first attempts", "a fault between them"],
)
def test_a_run_stops_if_its_agent_starts_in_none_of_the_first_attempts(
    ends: tuple[Exception | None, ...],
) -> None:
    stopped = end_attempts(*ends).stopped
    assert stopped is not None
    assert "could not start in any of its first 2 attempts: exit code 127" in stopped.message
    assert stopped.exit_code == 3


@each_case("start", [None, AgentError("exit code 1"), TimeoutError()], ids=repr)
def test_a_run_goes_on_if_its_agent_has_started_once(start: Exception | None) -> None:
    assert end_attempts(start, MISSING, MISSING, MISSING).stopped is None


def test_the_reason_is_escaped_because_it_comes_from_a_program() -> None:
    stopped = end_attempts(*[AgentNotStarted("\x1b[2J")] * 2).stopped
    assert stopped is not None
    assert "\x1b" not in stopped.message
