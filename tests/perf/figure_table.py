"""The readings of a run as a table for a terminal, as a table in Markdown, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from figure import Figure, Reading

HEAD = ("figure", "ours", "unit", "peer", "peer's", "ratio", "mark", "goal", "verdict")
SCHEMA_VERSION = 1


def as_rows(readings: Sequence[Reading]) -> list[tuple[str, ...]]:
    """Return the head and one row of texts for each reading."""
    return [HEAD, *(_as_row(reading) for reading in readings)]


def as_text(readings: Sequence[Reading]) -> str:
    """Return the table of all measured figures in columns, followed by the reasons and notes."""
    rows = as_rows([reading for reading in readings if not reading.unmeasured])
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    numbers = {HEAD.index(name) for name in ("ours", "peer's", "ratio", "mark", "goal")}
    lines = [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join([*lines, *_remarks(readings)])


def as_markdown(readings: Sequence[Reading]) -> str:
    """Return the table in Markdown, as docs/speed.md has it."""
    head, *rows = ("| " + " | ".join(row) + " |" for row in as_rows(readings))
    return "\n".join([head, "|" + " --- |" * len(HEAD), *rows])


def as_json(readings: Sequence[Reading], facts: Mapping[str, Any]) -> str:
    """Return the readings with all their samples, and the facts of the run, as JSON."""
    content = {
        "schema_version": SCHEMA_VERSION,
        **facts,
        "figures": [_as_fields(reading) for reading in readings],
    }
    return json.dumps(content, indent=1) + "\n"


def _as_row(reading: Reading) -> tuple[str, ...]:
    figure = reading.figure
    return (
        figure.name,
        _number(reading.ours),
        figure.unit,
        figure.peer or "-",
        _number(reading.peer),
        "-" if reading.ratio is None else f"{reading.ratio:.2f}",
        _bound(figure, figure.mark),
        _bound(figure, figure.goal),
        str(reading.verdict),
    )


def _number(value: float | None) -> str:
    """Return a number with at least three digits that count."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def _bound(figure: Figure, bound: float | None) -> str:
    """Return a mark or a goal. A bound on our own value has its unit, and a bound on the ratio has an x."""
    if bound is None:
        return "-"
    sign = "<=" if figure.better == "lower" else ">="
    return f"{sign} {bound:g}{'x' if figure.judged == 'ratio' else f' {figure.unit}'}"


def _remarks(readings: Sequence[Reading]) -> list[str]:
    """Return a line for each note, and one for each reason with the figures that it has left out."""
    lines = [f"note: {reading.figure.name}: {reading.note}" for reading in readings if reading.note]
    missing: dict[str, list[str]] = {}
    for reading in readings:
        if reading.unmeasured:
            missing.setdefault(reading.unmeasured, []).append(reading.figure.name)
    for reason, names in missing.items():
        shown = names[0] if len(names) == 1 else f"{len(names)} figures"
        lines.append(f"not measured: {shown}: {reason}")
    return ["", *lines] if lines else []


def _as_fields(reading: Reading) -> dict[str, Any]:
    figure = reading.figure
    return {
        "name": figure.name,
        "unit": figure.unit,
        "peer_name": figure.peer or None,
        "ours": reading.ours,
        "peer": reading.peer,
        "ratio": reading.ratio,
        "mark": figure.mark,
        "goal": figure.goal,
        "judged": figure.judged,
        "better": figure.better,
        "verdict": str(reading.verdict),
        "unmeasured": reading.unmeasured or None,
        "note": reading.note or None,
        "samples": {"ours": list(reading.ours_samples), "peer": list(reading.peer_samples)},
    }
