"""The list of benchmarks fits into the width of a terminal."""

from __future__ import annotations

import io

import pytest
from case_checks import each_case
from rich.console import Console

from harness.benchmarks import definitions
from harness.reports import benchmarks
from harness.reports.benchmarks import facts_json, print_benchmarks

LISTED = [definition for _, definition in sorted(definitions().items())]


def list_in(monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    """Return the lines on a terminal of this width."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, markup=False, highlight=False)
    monkeypatch.setattr(benchmarks, "open_console", lambda _: console)
    print_benchmarks(facts_json(LISTED), stream=stream)
    return stream.getvalue().splitlines()


@each_case("width", [80, 100, 120, 200])
def test_each_line_fits_and_each_name_is_whole(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = list_in(monkeypatch, width)
    assert max(map(len, lines)) <= width
    begun = [line.split()[0] for line in lines if line.strip()]
    assert all(begun.count(definition.name) == 1 for definition in LISTED)
    categories = [name for definition in LISTED for name in definition.category_facts]
    assert [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "] == categories


def test_a_wide_terminal_also_shows_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "metrics" not in list_in(monkeypatch, 80)[0]
    wide = list_in(monkeypatch, 120)
    assert "metrics" in wide[0]
    assert any("em, f1, acc" in line for line in wide)
