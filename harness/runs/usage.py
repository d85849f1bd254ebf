"""The use of models and of MCP servers: the figures of one attempt, and their sums over a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# The metrics of an attempt that asked a model, in the order of `Amounts`. A summary has sums by these names.
USAGE = (
    "model_requests",
    "model_retries",
    "cached_replies",
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "cost",
    "model_seconds",
    "waiting_seconds",
    "sandbox_seconds",
    "context_truncated",
    "cut_replies",
)
_REQUESTS = USAGE.index("model_requests")
# Sums of floats are rounded to these digits, because 0.1 + 0.2 would show as 0.30000000000000004.
_COST_DIGITS, _SECONDS_DIGITS = 9, 3

Amounts = tuple[int | float | None, ...]
"""The values of USAGE in its order. None is an unknown amount, and never means 0."""


def read_usage(metrics: Mapping[str, Any]) -> Amounts | None:
    """Return the amounts in the metrics of an attempt, None if the attempt asked no model."""
    if _read_amount(metrics.get("model_requests")) is None:
        return None
    amounts = tuple(_read_amount(metrics.get(name)) for name in USAGE)
    if amounts[_REQUESTS]:
        return amounts
    # Nothing was asked of the server, so nothing is unknown.
    return tuple(amount or 0 for amount in amounts)


def add_usage(one: Amounts | None, other: Amounts | None) -> Amounts | None:
    """Return the sums of two amounts. A sum that lacks a part is None."""
    if one is None or other is None:
        return other if one is None else one
    pairs = zip(one, other, strict=True)
    return tuple(None if left is None or right is None else left + right for left, right in pairs)


def sum_usage(parts: Iterable[Amounts | None]) -> dict[str, int | float | None]:
    """Return the sums by their names, {} if no part has any."""
    total: Amounts | None = None
    for part in parts:
        total = add_usage(total, part)
    if total is None:
        return {}
    return {name: _round(name, amount) for name, amount in zip(USAGE, total, strict=True)}


def _round(name: str, amount: int | float | None) -> int | float | None:
    if not isinstance(amount, float):
        return amount
    return round(amount, _COST_DIGITS if name == "cost" else _SECONDS_DIGITS)


def _read_amount(value: Any) -> int | float | None:
    return value if type(value) in (int, float) and value >= 0 else None


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
