"""The use of models: the figures of one attempt, and their sums over a run."""

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
