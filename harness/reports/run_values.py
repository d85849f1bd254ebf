"""The values of a run and of an attempt that the report and the viewer show, as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from harness.core.text import escape_terminal, escape_text
from harness.core.types import AttemptRecord, Status, Summary
from harness.reports.attempt_figures import describe_cost, describe_times, describe_tokens
from harness.reports.figures import (
    count,
    describe_covered_tasks,
    describe_headline,
    describe_range,
    duration,
    has_several_attempts,
    interval,
    percent,
    tampering,
)
from harness.reports.page_text import SHOWN_CHARACTERS, show_text
from harness.reports.remarks import list_conditions, list_model_remarks, list_remarks
from harness.runs.run_names import count_statuses

_FIGURE_CHARACTERS = 4000
_JSON = json.JSONEncoder(ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class Card:
    """A key figure. `kind` is its emphasis in the style sheet: `lost` or none."""

    label: str
    figure: str
    remark: str
    kind: str = ""


def describe_result(
    summary: Summary,
    manifest: Mapping[str, Any],
    *,
    is_running: bool = False,
    duration_seconds: float | None = None,
) -> dict[str, Any]:
    """Return the headline, the key figures, the further figures and the statuses of a run."""
    headline = describe_headline(summary, is_running=is_running)
    is_stopped = summary.statuses.get(Status.CANCELLED, 0) > 0
    cards = _list_cards(
        summary,
        is_running=is_running,
        duration_seconds=duration_seconds,
        has_prices=_has_prices(dict(flatten(manifest))),
    )
    further = [*list_conditions(manifest), *list_model_remarks(summary)]
    if not is_stopped:
        further += [*list_remarks(summary), *summary.quarantined.items()]
    return {
        "headline": [headline.figure, headline.interval, headline.meaning, headline.coverage],
        "warning": tampering(summary.integrity),
        "cards": [[escape_terminal(text, 200) for text in astuple(card)] for card in cards],
        "figures": [describe_fact(*figure) for figure in further],
        "status_counts": [
            {"key": each.key, "label": each.label.replace("_", " "), "number": each.number}
            for each in count_statuses(summary, is_running=is_running)
        ],
    }


def describe_fact(label: str, text: str, limit: int = _FIGURE_CHARACTERS) -> tuple[str, str]:
    """Return a label and its text, safe to show."""
    return escape_terminal(label, 200), escape_terminal(text, limit, multiline=True)


def describe_category(name: str, passed: str, rate: float, low: float, high: float) -> dict[str, Any]:
    """Return the row of a category."""
    return {
        "category": name.encode("utf-8", "backslashreplace").decode(),
        "name": escape_terminal(name) or "none",
        "passed": passed,
        "rate": percent(rate),
        "interval": describe_range(low, high),
        "share": rate,
        "low": low,
        "high": high,
    }


def describe_record(
    record: AttemptRecord, model: str | None, limit: int = SHOWN_CHARACTERS
) -> dict[str, Any]:
    """Return the values of an attempt that has a record.

    Args:
        record: the record.
        model: the name of the model of the run.
        limit: the most characters of each text.
    """
    metrics = record.metrics
    asked = metrics.get("model_requests")
    of_model = {
        "model": escape_text(model or ""),
        "requests": str(asked),
        "tokens": describe_tokens(_list_numbers(metrics)),
        "cost": describe_cost(_list_numbers(metrics).get("cost")),
    }
    figures = {
        **(of_model if asked else {}),
        "duration": duration(record.duration_seconds),
        "started": escape_text(record.started_at or "")[:19].replace("T", " "),
        "category": escape_terminal(record.category or ""),
    }
    facts = {"score": record.score, "sample line": record.sample_line, "started at": record.started_at}
    return {
        "status": record.status.value,
        "figures": [*figures.items()],
        "texts": [
            {"label": label, **show_text(text, limit, is_prose=label == "agent output"), "elsewhere": more}
            for label, text, more in _list_texts(record)
        ],
        "facts": [describe_fact(*fact) for fact in flatten(facts | dict(metrics)) if fact[1] != "null"],
    }


def _list_numbers(metrics: Mapping[str, Any]) -> dict[str, int | float | None]:
    return {name: value for name, value in metrics.items() if isinstance(value, int | float)}


def _list_texts(record: AttemptRecord) -> Iterator[tuple[str, str, int]]:
    """Yield the label and the text of each text that is not empty, and the characters that it lacks."""
    output, left_out = record.agent_output, record.agent_output_cut
    if record.agent_output_full is not None:
        output, left_out = record.agent_output_full, 0
    if record.error:
        yield "evidence", record.error, 0
    if record.submission:
        yield "program or answer", record.submission, 0
    if output and output.strip() != (record.submission or "").strip():
        yield "agent output", output, left_out
    if record.expected_output:
        yield "expected", record.expected_output, record.expected_output_cut


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf of nested values with its path: `config.limits.memory_mb`, `1024`."""
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from flatten(child, f"{path}.{key}" if path else str(key))
    else:
        yield path, value if isinstance(value, str) else _JSON.encode(value)


def _has_prices(facts: Mapping[str, str]) -> bool:
    """Return whether the config of a run has a price for a model."""
    return any(
        name.startswith("config.") and "prices" in name and text not in ("null", "{}")
        for name, text in facts.items()
    )


def _list_cards(
    summary: Summary, *, is_running: bool, duration_seconds: float | None, has_prices: bool
) -> Iterator[Card]:
    """Yield the key figures below the headline."""
    if summary.coverage:
        kind = "lost" if summary.coverage["missing"] else ""
        figure = f"{summary.coverage['samples']:,}"
        yield Card("samples", figure, describe_covered_tasks(summary), kind=kind)
    cancelled = summary.statuses.get(Status.CANCELLED, 0)
    passed = f"{summary.statuses.get(Status.PASSED, 0):,} passed"
    if cancelled:
        yield Card("tasks", f"{summary.total:,}", f"{summary.resolved:,} passed at the first attempt so far")
    else:
        yield from _scores(summary, passed)
    lost = sum(summary.statuses.get(status, 0) for status in Status if not status.has_score)
    if lost:
        remark = (
            f"{'attempts to come' if is_running else 'cancelled attempts'}, infra errors and broken tests"
        )
        yield Card("no verdict", f"{lost:,}", remark, kind="lost")
    if summary.model:
        yield from _usage(summary.model, has_prices=has_prices)
    if duration_seconds is not None:
        remark = describe_times(summary.model) if summary.model else "wall time"
        yield Card("duration", duration(duration_seconds), remark)


def _usage(model: Mapping[str, int | float | None], *, has_prices: bool) -> Iterator[Card]:
    """Yield the figures of the use of a model."""
    yield Card("requests", f"{model.get('model_requests') or 0:,}", describe_tokens(model))
    cost = model.get("cost")
    remark = "by the prices in the config" if has_prices or cost is not None else "no prices in the config"
    yield Card("cost", describe_cost(cost), remark)


def _scores(summary: Summary, passed: str) -> Iterator[Card]:
    several = has_several_attempts(summary)
    resolved = f"{summary.resolved:,} resolved"
    yield Card("tasks", f"{summary.total:,}", f"{resolved} by the first attempt" if several else resolved)
    yield Card("attempts", f"{summary.attempts:,}", passed)
    if several:
        yield Card("first attempt", percent(summary.first_attempt_rate), "the first attempts alone")
    for k, value in sorted(summary.pass_at_k.items()):
        if value is None:
            yield Card(f"pass@{k}", "-", f"undefined: needs n >= {k} attempts of each task")
        elif k == 1 and value != summary.rate:
            yield Card("pass@1", percent(value), "without the attempts that have no verdict")
        else:
            yield Card(f"pass@{k}", percent(value), f"chance of a pass in {count(k, 'attempt')}")
    for name, metric in summary.metrics.items():
        yield Card(name, percent(metric.mean), interval(metric))
