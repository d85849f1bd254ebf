"""The result of a run in a few lines, as notebooks show it."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from harness.reports.figures import percent
from harness.reports.headline import describe_headline, has_several_attempts
from harness.reports.run_conditions import BUNDLED_NOTICE
from harness.text import escape_terminal
from harness.types import Summary

_MOST_CATEGORIES = 30


def describe_rate(summary: Summary) -> str:
    """Return the headline of a run, such as `75.0 % resolved (95 % interval ...): 3 of 4 tasks`."""
    return str(describe_headline(summary))


def render_result(summary: Summary, folder: Path, *, is_bundled: bool = False) -> str:
    """Return a small piece of HTML: rate, statuses and categories. All names in it are escaped.

    `is_bundled` adds the notice that the figures are no result of the benchmark.
    """
    rows = [(status.value, f"{number:,}") for status, number in summary.statuses.items() if number]
    rows += [(f"pass@{k}", percent(value)) for k, value in summary.pass_at_k.items() if value is not None]
    if len(summary.by_category) > 1:
        listed = list(summary.by_category.items())
        for name, row in listed[:_MOST_CATEGORIES]:
            by = " at the first attempt" if has_several_attempts(summary) else ""
            rows.append((name, f"{percent(row['rate'])}, {row['resolved']:,} of {row['total']:,}{by}"))
        if len(listed) > _MOST_CATEGORIES:
            rows.append((f"{len(listed) - _MOST_CATEGORIES:,} more categories", ""))
    cells = Markup("").join(
        Markup("<tr><th style='text-align:left'>{}</th><td>{}</td></tr>").format(escape_terminal(name), text)
        for name, text in rows
    )
    notice = Markup("<div><strong>{}</strong></div>").format(BUNDLED_NOTICE) if is_bundled else Markup("")
    return str(
        Markup("<div>{}<strong>{}</strong><table>{}</table><small>{}</small></div>").format(
            notice, describe_rate(summary), cells, escape_terminal(str(folder))
        )
    )
