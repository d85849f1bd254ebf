"""The runs that a service can grade. All others are refused before anything starts."""

from __future__ import annotations

from collections.abc import Collection

from harness.client.grader import MAX_REQUEST_SECONDS
from harness.errors import UsageError
from harness.evaluation.grader import is_graded_by_text
from harness.evaluation.selection import Selection
from harness.evaluation.workspaces import find_needs

# The settings of sandboxes and machines, which are those of the service.
_OF_SERVICE = ("runtime", "isolation", "limits", "max_sandboxes", "executor", "ray_address")
# A request may wait in the queue of the service for as long as its grading may take.
_MOST_SECONDS = int(MAX_REQUEST_SECONDS / 2)
_LOCAL_HINT = "run it on this machine with harness.run"


def refuse_settings(given: Collection[str]) -> None:
    """Raise UsageError if the names of the given settings have one that the service decides."""
    for name in _OF_SERVICE:
        if name in given:
            raise UsageError(
                f"{name} has no effect on a run at a service, whose operator decides it",
                hint=f"leave it out, or {_LOCAL_HINT}",
            )


def refuse_unsupported(selection: Selection) -> None:
    """Raise UsageError if an attempt of the run needs more than text, or more time than a request has."""
    config, benchmark = selection.config, selection.benchmark
    if config.mcp_servers:
        raise UsageError(
            "mcp_servers: an agent whose submissions a service grades has no tools", hint=_LOCAL_HINT
        )
    if find_needs(selection.agent) is not None:
        raise UsageError(
            f"agent '{config.agent}' needs a sandbox, and a run at a service has submissions of text alone",
            hint=_LOCAL_HINT,
        )
    for spec in selection.environments:
        if spec.open_environment is not None:
            raise UsageError(
                f"{benchmark.name} has tasks in the environment '{spec.name}', in which an agent must act, "
                "and a service grades text alone",
                hint=_LOCAL_HINT,
            )
    for planned in selection.plan:
        if not is_graded_by_text(benchmark.references[planned.task.id].target):
            raise UsageError(
                f"{benchmark.name}: task {planned.task.id} is not graded by a text", hint=_LOCAL_HINT
            )
    seconds = max(config.timeout_seconds or spec.timeout_seconds for spec in selection.environments)
    if seconds > _MOST_SECONDS:
        raise UsageError(
            f"timeout_seconds may be at most {_MOST_SECONDS} at a service, not {seconds}, because a request "
            f"takes at most {MAX_REQUEST_SECONDS:.0f} s with its time in the queue",
            hint=f"use timeout_seconds={_MOST_SECONDS}, or {_LOCAL_HINT}",
        )
