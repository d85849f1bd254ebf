"""The rules of blame: the verdict on a submission or an agent whose sandbox was lost."""

from __future__ import annotations

from typing import Any

from harness.core.errors import ImageMissingError, SandboxError
from harness.core.text import escape_terminal
from harness.core.tools import TurnLimitReached
from harness.core.types import Phase, Status, Verdict
from harness.environments.base import Environment
from harness.models.spending import BudgetReached
from harness.sandbox.failures import SandboxUnresponsive

# The sign of tampering that is recorded if a sandbox dies after the agent has acted in it.
LOST_SANDBOX = "lost the sandbox that it acted in"


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
