"""Tables for a terminal or a log, in colour on a terminal and plain elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from harness.core.text import escape_terminal
from harness.reports.comparison import (
    conclude,
    count_unshown,
    list_figures,
    list_names,
    list_shown_differences,
    list_warnings,
    uses_bundled_sample,
)
from harness.reports.console import cell, grid, open_report, print_heading, print_line, print_section
from harness.runs.comparison import Comparison

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WARNING = "bold yellow"
_NAME_LIMIT = 200


def write_report(comparison: Comparison, stream: TextIO) -> None:
    """Print the figures of both sides, the changed tasks, and the differences between the manifests."""
    with open_report(stream) as console:
        print_heading(
            console, f"{comparison.benchmark} - comparison", bundled=uses_bundled_sample(comparison)
        )
        console.print(_list_figures(comparison))
        console.print()
        for sentence in conclude(comparison):
            print_line(console, sentence, "bold")
        for warning in list_warnings(comparison):
            print_line(console, f"warning: {warning}", _WARNING)
        for label, names, style in list_names(comparison):
            _print_names(console, label, names, style)
        if comparison.differences:
            print_section(console, _list_differences(comparison))
            _print_more(console, len(comparison.differences))


def _list_figures(comparison: Comparison) -> Table:
    table = grid("", ">baseline", ">candidate", ">change")
    for figure in list_figures(comparison):
        texts = (figure.label, figure.baseline, figure.candidate, figure.change)
        table.add_row(*(cell(text) for text in texts), style="bold" if figure.label == "rate" else "")
    return table


def _print_names(console: Console, label: str, names: tuple[str, ...], style: str) -> None:
    print_line(console, f"\n{label} ({len(names):,})", style)
    shown = names[: len(names) - count_unshown(len(names))]
    for name in shown:
        print_line(console, f"  {escape_terminal(name, _NAME_LIMIT)}")
    _print_more(console, len(names))


def _print_more(console: Console, number: int) -> None:
    left_out = count_unshown(number)
    if left_out:
        print_line(console, f"  ... and {left_out:,} more, which --json lists", "dim")


def _list_differences(comparison: Comparison) -> Table:
    table = grid("difference", "baseline", "candidate")
    for each in list_shown_differences(comparison):
        style = _WARNING if each.is_unfair else ""
        table.add_row(cell(each.name), cell(each.baseline), cell(each.candidate), style=style)
    return table
