"""The use of a model as text: requests, tokens, cost and times, the same in every report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.reports.figures import count, duration

UNKNOWN = "unknown"
# Every request passes our own queue. A shorter wait there is not worth a mention.
SHOWN_WAIT_SECONDS = 0.05
_Model = Mapping[str, int | float | None]


def describe_usage(model: _Model) -> str:
    """Return the requests, the tokens, the cost and the times in one line."""
    return f"{describe_requests(model)}, {describe_times(model)}"


def describe_requests(model: _Model) -> str:
    """Return `12 requests, 3,400 tokens in, 900 out, cost unknown`."""
    details = ", ".join(_list_request_details(model))
    requests = _add(details, count(_whole(model, "model_requests"), "request"))
    return f"{requests}, {describe_tokens(model)}, cost {describe_cost(model.get('cost'))}"


def describe_tokens(model: _Model) -> str:
    """Return the input and output tokens, with the part that was cached or spent on reasoning."""
    into, out = model.get("input_tokens"), model.get("output_tokens")
    if into is None and out is None:
        return f"tokens {UNKNOWN}"
    return (
        f"{_add(_part(model, 'cached_tokens', 'cached'), f'{_number(into)} tokens in')}, "
        f"{_add(_part(model, 'reasoning_tokens', 'reasoning'), f'{_number(out)} out')}"
    )


def describe_cost(cost: int | float | None) -> str:
    """Return a cost in the currency of the price table, with at least three significant digits."""
    if cost is None:
        return UNKNOWN
    return f"{cost:,.2f}" if cost >= 1 or cost == 0 else f"{cost:.3g}"


def describe_times(model: _Model) -> str:
    """Return the time of waiting for the model, and the time in sandboxes with the wait for one."""
    queued = model.get("waiting_seconds") or 0
    detail = f"{duration(queued)} in our own queue" if queued >= SHOWN_WAIT_SECONDS else ""
    waited = _add(detail, _seconds(model, "model"))
    return f"{waited} waiting for the model, {_seconds(model, 'sandbox')} in sandboxes or their queue"


def _list_request_details(model: _Model) -> Iterator[str]:
    cached, retries = _whole(model, "cached_replies"), _whole(model, "model_retries")
    if cached:
        yield f"{cached:,} {'reply' if cached == 1 else 'replies'} from the cache"
    if cut := _whole(model, "cut_replies"):
        yield f"{cut:,} {'reply' if cut == 1 else 'replies'} cut off"
    if retries:
        yield f"{retries:,} {'retry' if retries == 1 else 'retries'}"


def _add(detail: str, text: str) -> str:
    return f"{text} ({detail})" if detail else text


def _part(model: _Model, name: str, noun: str) -> str:
    """Return the part of the tokens that a server reports apart, "" if there is none or it is unknown."""
    part = model.get(name)
    return f"{_number(part)} {noun}" if part else ""


def _whole(model: _Model, name: str) -> int:
    return int(model.get(name) or 0)


def _number(amount: int | float | None) -> str:
    return UNKNOWN if amount is None else f"{int(amount):,}"


def _seconds(model: _Model, name: str) -> str:
    amount = model.get(f"{name}_seconds")
    return f"{UNKNOWN} time" if amount is None else duration(amount)
