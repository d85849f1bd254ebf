"""Readings of the benchmark as a table and as JSON, and the registry of its figures."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

sys.path.insert(0, str(Path(__file__).parents[1] / "perf"))

from bench import parse
from figure import CannotMeasure, Figure, Measurement, Reading, Verdict
from figure_table import HEAD, as_json, as_markdown, as_rows, as_text
from registry import BAR, MEASUREMENTS, in_order

RATIO = Figure("a run", "s", "bare starts", mark=1.15, goal=1.05)
RATE = Figure("programs", "per s", "official", mark=1.0, goal=2.0, better="higher")
OURS = Figure("a call", "ms", mark=2, goal=1, judged="ours")
SESSION: Any = None


def cells(reading: Reading) -> dict[str, str]:
    return dict(zip(HEAD, as_rows([reading])[1], strict=True))


@each_case(
    ("reading", "verdict"),
    [
        (Reading(RATIO, [10.5], [10.0]), Verdict.GOAL),
        (Reading(RATIO, [11.0], [10.0]), Verdict.MARK),
        (Reading(RATIO, [12.0], [10.0]), Verdict.MISSED),
        (Reading(RATE, [20.0], [10.0]), Verdict.GOAL),
        (Reading(RATE, [10.0], [10.0]), Verdict.MARK),
        (Reading(RATE, [9.0], [10.0]), Verdict.MISSED),
        (Reading(OURS, [0.5], [100.0]), Verdict.GOAL),
        (Reading(OURS, [3.0], [100.0]), Verdict.MISSED),
        (Reading(replace(OURS, mark=None), [3.0]), Verdict.UNJUDGED),
        (Reading(replace(OURS, goal=None), [0.5]), Verdict.MARK),
        (Reading(OURS, unmeasured="no data"), Verdict.UNMEASURED),
        (Reading(RATIO, [10.0]), Verdict.UNMEASURED),
    ],
)
def test_a_reading_is_judged_by_its_ratio_or_by_our_own_value(reading: Reading, verdict: Verdict) -> None:
    assert reading.verdict is verdict


def test_the_value_of_samples_is_their_median() -> None:
    reading = Reading(RATIO, [1.0, 9.0, 2.0], [1.0, 3.0])

    assert (reading.ours, reading.peer, reading.ratio) == (2.0, 2.0, 1.0)


def test_a_row_shows_ours_peer_ratio_mark_goal_and_verdict() -> None:
    assert cells(Reading(RATIO, [31.34], [15.0])) == {
        "figure": "a run",
        "ours": "31.3",
        "unit": "s",
        "peer": "bare starts",
        "peer's": "15",
        "ratio": "2.09",
        "mark": "<= 1.15x",
        "goal": "<= 1.05x",
        "verdict": "missed",
    }


def test_a_bound_on_our_own_value_has_its_unit() -> None:
    assert cells(Reading(OURS, [1.5]))["mark"] == "<= 2 ms"


def test_an_unmeasured_figure_shows_its_reason_and_no_number() -> None:
    reading = Reading(RATIO, unmeasured="the package cannot be fetched")

    row = cells(reading)

    assert (row["ours"], row["peer's"], row["ratio"], row["verdict"]) == ("-", "-", "-", "not measured")
    assert "not measured: a run: the package cannot be fetched" in as_text([reading])


def test_figures_that_one_reason_leaves_out_share_a_line() -> None:
    left_out = [Reading(figure, unmeasured="--quick leaves it out") for figure in (RATIO, RATE)]
    head, _line, row, _empty, remark = as_text([Reading(OURS, [1.0]), *left_out]).splitlines()
    assert (row.split()[:2], remark) == (["a", "call"], "not measured: 2 figures: --quick leaves it out")
    assert head.startswith("figure")


def test_the_columns_of_the_table_begin_at_the_same_place() -> None:
    head, _line, *rows = as_text([Reading(RATIO, [1.0], [1.0]), Reading(RATE, [1234.5], [9.0])]).splitlines()

    assert [row.index("bare starts") for row in rows[:1]] == [head.index("peer")]
    assert rows[1].index("official") == head.index("peer")


def test_markdown_has_a_row_for_each_reading() -> None:
    lines = as_markdown([Reading(RATIO, [1.0], [1.0]), Reading(OURS, [1.0])]).splitlines()

    assert [line.count("|") for line in lines] == [len(HEAD) + 1] * 4


def test_json_has_the_facts_and_every_sample() -> None:
    written = json.loads(as_json([Reading(RATIO, [1.0, 2.0], [4.0], "why")], {"commit": None}))

    (figure,) = written["figures"]
    assert written["commit"] is None
    assert figure["samples"] == {"ours": [1.0, 2.0], "peer": [4.0]}
    assert (figure["ratio"], figure["verdict"], figure["note"]) == (0.375, "goal", "why")


def test_a_measurement_that_cannot_be_taken_gives_the_reason_for_each_figure() -> None:
    def take(_session: Any) -> Iterator[Reading]:
        yield Reading(OURS, [1.0])
        raise CannotMeasure("no data")

    readings = Measurement("both", (OURS, RATE), take).readings(SESSION)

    assert [(each.figure, each.unmeasured) for each in readings] == [(OURS, ""), (RATE, "no data")]


def test_an_error_in_one_measurement_is_a_reason_and_ends_nothing() -> None:
    def take(_session: Any) -> Iterator[Reading]:
        raise ValueError("broken")

    (reading,) = Measurement("one", (RATE,), take).readings(SESSION)

    assert reading.unmeasured == "ValueError: broken"


def test_each_measurement_and_figure_is_registered_once() -> None:
    names = Counter(each.name for each in MEASUREMENTS)
    figures = Counter(figure for each in MEASUREMENTS for figure in each.figures)

    assert set(names.values()) == set(figures.values()) == {1}


def test_the_figures_of_the_bar_have_mark_and_goal_and_come_first() -> None:
    figures = [figure for each in MEASUREMENTS for figure in each.figures]

    ordered = in_order([Reading(figure) for figure in figures])

    assert [reading.figure for reading in ordered][: len(BAR)] == list(BAR)
    assert all(figure.mark is not None and figure.goal is not None for figure in BAR)


def test_a_goal_is_harder_than_its_mark() -> None:
    figures = [figure for each in MEASUREMENTS for figure in each.figures]

    easy = [
        figure.name
        for figure in figures
        if figure.mark is not None
        and figure.goal is not None
        and (figure.goal < figure.mark) != (figure.better == "lower")
    ]

    assert easy == []


def test_the_command_line_takes_a_file_for_json_in_both_forms() -> None:
    assert parse(["-o", "a.json"]).json == parse(["--json", "a.json"]).json == Path("a.json")


def test_a_measurement_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SystemExit):
        parse(["--only", "nothing"])
