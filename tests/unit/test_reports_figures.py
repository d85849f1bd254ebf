from __future__ import annotations

from case_checks import each_case

from harness.reports.figures import count, duration, percent, speed


@each_case(
    ("share", "text"),
    [
        (0, "0.0 %"),
        (1, "100.0 %"),
        (0.423, "42.3 %"),
        (1e-6, "<0.1 %"),
        (0.0005, "0.1 %"),
        (0.9994, "99.9 %"),
        (0.9999, ">99.9 %"),
    ],
)
def test_percent_never_rounds_to_none_or_all(share: float, text: str) -> None:
    assert percent(share) == text


@each_case(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (4.21, "4.2 s"),
        (9.96, "10 s"),
        (59.6, "1 min 00 s"),
        (192.3, "3 min 12 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (360000, "100 h 00 min"),
    ],
)
def test_duration_in_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@each_case(("rate", "text"), [(12.34, "12.3/s"), (0.5, "30.0/min"), (0.005, "18.0/h")])
def test_speed_in_the_unit_that_reads_best(rate: float, text: str) -> None:
    assert speed(rate) == text


@each_case(("number", "text"), [(0, "0 attempts"), (1, "1 attempt"), (12345, "12,345 attempts")])
def test_count(number: int, text: str) -> None:
    assert count(number, "attempt") == text
