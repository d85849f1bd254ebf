"""Markdown that fits into the comment of a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from harness.core.text import escape_unencodable, quote_markdown
from harness.reports.comparison import (
    conclude,
    count_unshown,
    list_figures,
    list_names,
    list_shown_differences,
    list_warnings,
    uses_bundled_sample,
)
from harness.reports.remarks import BUNDLED_NOTICE
from harness.runs.comparison import Comparison

_TEXT_LIMIT = 120


def write_report(comparison: Comparison, stream: TextIO) -> None:
    """Write the figures of both sides, the changed tasks, and the differences between the manifests."""
    stream.write(escape_unencodable("\n".join(_list_lines(comparison)), stream) + "\n")


def _list_lines(comparison: Comparison) -> Iterator[str]:
    yield f"### {_quote(comparison.benchmark)}: comparison"
    yield ""
    yield from (f"**{sentence}**  " for sentence in conclude(comparison))
    yield ""
    if uses_bundled_sample(comparison):
        yield f"- :warning: {BUNDLED_NOTICE}"
    for warning in list_warnings(comparison):
        yield f"- :warning: {warning}"
    yield ""
    yield "| | baseline | candidate | change |"
    yield "| :-- | --: | --: | --: |"
    for figure in list_figures(comparison):
        sides = (figure.baseline, figure.candidate)
        shown = [_quote(text) for text in sides] if figure.is_text else list(sides)
        yield f"| {figure.label} | {shown[0]} | {shown[1]} | {figure.change} |"
    for label, names, _ in list_names(comparison):
        yield from _fold(
            f"{label} ({len(names):,})", [f"- {_quote(name)}" for name in _cut(names)], len(names)
        )
    if comparison.differences:
        rows = [
            f"| {_quote(each.name)} | {_quote(each.baseline)} | {_quote(each.candidate)} |"
            for each in list_shown_differences(comparison)
        ]
        head = ["| field | baseline | candidate |", "| :-- | :-- | :-- |"]
        number = len(comparison.differences)
        yield from _fold(f"differences of the runs ({number:,})", [*head, *rows], number)


def _fold(title: str, lines: Sequence[str], number: int) -> Iterator[str]:
    """Yield a part that a reader opens. Markdown inside of it needs the empty lines."""
    yield ""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    if left_out := count_unshown(number):
        yield ""
        yield f"... and {left_out:,} more, which `--json` lists"
    yield ""
    yield "</details>"


def _cut(names: Sequence[str]) -> Sequence[str]:
    return names[: len(names) - count_unshown(len(names))]


def _quote(text: str) -> str:
    return quote_markdown(text, _TEXT_LIMIT)
