"""The intervals of a rate or a mean from a few tasks."""

from __future__ import annotations

import math
import random

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scoring.metrics import bootstrap_interval, wilson_interval


@each_case(
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


@each_case(("successes", "trials"), [(1, 0), (-1, 5), (6, 5)])
def test_wilson_interval_refuses_nonsense(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="cannot have succeeded"):
        wilson_interval(successes, trials)


SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(SHARES)
def test_bootstrap_interval_stays_within_the_values(values: list[float]) -> None:
    interval = bootstrap_interval(values, seed=1, resamples=40)
    assert interval is not None
    low, high = interval
    assert low <= high
    # The mean of equal floats may differ in the last bit.
    assert min(values) - 1e-12 <= low
    assert high <= max(values) + 1e-12


def test_bootstrap_interval_depends_on_the_seed_alone() -> None:
    values = [number**0.5 for number in range(100)]
    random.seed(1)
    first = bootstrap_interval(values, seed=7)
    random.seed(2)
    state = random.getstate()
    assert bootstrap_interval(values, seed=7) == first
    assert random.getstate() == state
    assert bootstrap_interval(values, seed=8) != first


def test_bootstrap_interval_is_about_two_standard_errors_wide() -> None:
    generator = random.Random(5)
    values = [generator.random() for _ in range(500)]
    mean = math.fsum(values) / 500
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / 500 / 500)
    low, high = bootstrap_interval(values, seed=0) or (0, 0)
    assert low == pytest.approx(mean - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(mean + 1.96 * error, abs=0.2 * error)


def test_an_interval_without_values_is_undefined() -> None:
    assert wilson_interval(0, 0) is None
    assert bootstrap_interval([], seed=0) is None


def test_bootstrap_interval_of_equal_values_is_that_value() -> None:
    assert bootstrap_interval([0.1] * 10, seed=0) == (0.1, 0.1)


def test_bootstrap_interval_refuses_too_few_resamples() -> None:
    with pytest.raises(ValueError, match="too few"):
        bootstrap_interval([0.0, 1.0], seed=0, resamples=39)
