from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reports.figures import count, duration, percent, speed
from harness.reports.interval import wilson_interval


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(("rate", "text"), [(12.34, "12.3/s"), (0.5, "30.0/min"), (0.005, "18.0/h")])
def test_speed_in_the_unit_that_reads_best(rate: float, text: str) -> None:
    assert speed(rate) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 attempts"), (1, "1 attempt"), (12345, "12,345 attempts")]
)
def test_count(number: int, text: str) -> None:
    assert count(number, "attempt") == text


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe 1998, table I, and R's prop.test(..., correct = FALSE).
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_interval_equals_the_published_values(
    successes: int, trials: int, low: float, high: float
) -> None:
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 5000), st.data())
def test_wilson_interval_holds_the_rate_and_stays_in_range(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    interval = wilson_interval(successes, trials)
    assert interval is not None
    low, high = interval
    assert 0 <= low <= successes / trials <= high <= 1
    assert low < high


def test_wilson_interval_without_trials_is_undefined() -> None:
    assert wilson_interval(0, 0) is None


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (-1, 5), (6, 5)])
def test_wilson_interval_refuses_nonsense(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="cannot have succeeded"):
        wilson_interval(successes, trials)
