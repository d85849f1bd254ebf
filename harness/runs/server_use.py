"""The use of MCP servers: the metric `mcp` of one attempt, and the sums over a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

METRIC = "mcp"
# The figures of a tool, and the figure of a server.
CALLS, ERRORS, SECONDS, FAILED_STARTS = "calls", "errors", "seconds", "failed_starts"
# The reason of the first failed start. A server without one has no such figure.
START_ERROR = "start_error"

ServerFigures = Mapping[str, Mapping[str, Any]]
"""For each server by name `failed_starts`, the `start_error` if there is one, and `tools`.

Each tool has its `calls`, `errors` and `seconds`.
"""


def read_server_use(metrics: Mapping[str, Any]) -> ServerFigures | None:
    """Return the use in the metrics of an attempt, None if it had no servers."""
    found = metrics.get(METRIC)
    return found if isinstance(found, dict) else None


def sum_server_use(parts: Iterable[ServerFigures | None]) -> dict[str, dict[str, Any]]:
    """Return the sums over several attempts, {} if none had servers."""
    total: dict[str, dict[str, Any]] = {}
    for part in parts:
        for server, figures in (part or {}).items():
            sums = total.setdefault(server, {FAILED_STARTS: 0, "tools": {}})
            sums[FAILED_STARTS] += figures[FAILED_STARTS]
            if START_ERROR in figures:
                sums.setdefault(START_ERROR, figures[START_ERROR])
            for tool, use in figures["tools"].items():
                tools = sums["tools"].setdefault(tool, {CALLS: 0, ERRORS: 0, SECONDS: 0.0})
                for name in (CALLS, ERRORS, SECONDS):
                    tools[name] += use[name]
    for sums in total.values():
        for tools in sums["tools"].values():
            tools[SECONDS] = round(tools[SECONDS], 3)
    return total


def list_absent_servers(summed: ServerFigures) -> list[str]:
    """Return the servers that gave no tool in any attempt of a run because they failed to start."""
    return [name for name, figures in summed.items() if figures[FAILED_STARTS] and not figures["tools"]]


def add_server_use(one: ServerFigures | None, other: ServerFigures | None) -> ServerFigures | None:
    """Return the sums of two tries of an attempt."""
    if one is None or other is None:
        return other if one is None else one
    return sum_server_use((one, other))
