"""The runs that can be made on Ray. All others are refused before anything starts."""

from __future__ import annotations

from harness.core.errors import UsageError
from harness.models.endpoint import Endpoint
from harness.runs.settings import RunConfig

_LOCAL_HINT = "leave out --executor, or use: --executor local"


def refuse_unsupported(
    config: RunConfig,
    agent: object,
    *,
    endpoint: Endpoint | None,
    judge: Endpoint | None,
    is_object: bool = False,
) -> None:
    """Raise UsageError if an attempt of the run needs the process of the run itself.

    A model does. Its key must not leave the machine, because every user of a Ray cluster can read its object
    store. Its budgets, its cache and its adaptive concurrency hold for all attempts together.
    """
    if endpoint is not None:
        raise UsageError(
            f"--executor ray: agent '{config.agent}' asks a model, and only attempts on this machine can ask "
            "one, because keys do not leave it",
            hint=f"{_LOCAL_HINT}; or store the replies as samples, and grade them on Ray",
        )
    if judge is not None:
        raise UsageError(
            f"--executor ray: benchmark '{config.benchmark}' asks a model as the judge, and only "
            "attempts on this machine can ask one, because keys do not leave it",
            hint=_LOCAL_HINT,
        )
    if config.mcp_servers:
        raise UsageError(
            "--executor ray: MCP servers of the config are programs or addresses of this machine",
            hint=_LOCAL_HINT,
        )
    if is_object:
        raise UsageError(
            f"--executor ray: the agent '{config.agent}' is an object of this process",
            hint="name it by its file or module: agent='FILE.py', agent='module:Name'",
        )
    if getattr(agent, "needs_this_machine", False):
        raise UsageError(
            f"--executor ray: agent '{config.agent}' acts only on this machine", hint=_LOCAL_HINT
        )
