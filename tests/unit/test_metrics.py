"""pass@k, the intervals of rates and means, and the statistics of comparisons."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy
import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scoring.metrics import (
    bootstrap_interval,
    mcnemar_p_value,
    mean_pass_at_k,
    pass_at_k,
    wilson_interval,
)


def brute_force(n: int, c: int, k: int) -> float:
    """Return pass@k by its definition: the share of k-subsets of n attempts with one of the c passes."""
    subsets = list(itertools.combinations(range(n), k))
    return float(Fraction(sum(min(subset) < c for subset in subsets), len(subsets)))


@each_case("n", range(1, 9))
def test_pass_at_k_equals_the_enumeration_of_all_subsets(n: int) -> None:
    for c in range(n + 1):
        for k in range(1, n + 1):
            assert pass_at_k(n, c, k) == brute_force(n, c, k)


def test_pass_at_k_is_exact_for_thousands_of_attempts() -> None:
    n, c, k = 5000, 3, 2000
    exact = 1 - Fraction(math.prod(range(n - c - k + 1, n - k + 1)), math.prod(range(n - c + 1, n + 1)))
    assert pass_at_k(n, c, k) == float(exact)
    # A sum of logarithms or 1 - product would lose this one: the true value is about 4e-7.
    assert pass_at_k(5_000_000, 1, 2) == 4e-7


@each_case(("n", "k"), [(0, 1), (1, 2), (9, 10)])
def test_pass_at_k_is_undefined_with_fewer_than_k_attempts(n: int, k: int) -> None:
    assert pass_at_k(n, n, k) is None


@each_case(("n", "c", "k"), [(5, 6, 1), (5, -1, 1), (-1, 0, 1), (5, 2, 0), (5, 2, -3), (0, 1, 5)])
def test_pass_at_k_refuses_nonsense(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=r"cannot have passed|at least 1"):
        pass_at_k(n, c, k)


@given(st.integers(1, 300), st.data())
def test_pass_at_k_stays_in_range_and_grows_with_k_and_with_c(n: int, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n - 1))
    k = data.draw(st.integers(1, n))
    value = pass_at_k(n, c, k)
    more_passed = pass_at_k(n, c + 1, k)
    more_tries = pass_at_k(n, c, min(k + 1, n))
    assert value is not None
    assert more_passed is not None
    assert more_tries is not None
    assert 0 <= value <= more_tries <= 1
    assert value <= more_passed <= 1


def test_mean_weighs_tasks_alike_whatever_their_attempts() -> None:
    assert mean_pass_at_k([(10, 10), (2, 0)], 1) == 0.5


def test_mean_is_undefined_without_tasks_or_if_one_task_has_too_few_attempts() -> None:
    assert mean_pass_at_k([], 1) is None
    assert mean_pass_at_k([(10, 10), (9, 9)], 10) is None


@each_case(("counts", "k"), [([], 0), ([(1, 0), (3, 4)], 2)])
def test_mean_refuses_nonsense_even_if_the_result_is_undefined(counts: list[tuple[int, int]], k: int) -> None:
    with pytest.raises(ValueError, match=r"cannot have passed|at least 1"):
        mean_pass_at_k(counts, k)


# --- Intervals


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


# --- Comparisons


def binomial_p_value(gained: int, lost: int) -> float:
    """Return the two-sided p-value of equal chances in exact integers: twice the smaller tail, at most 1."""
    changed = gained + lost
    ways = tail = 1
    for number in range(min(gained, lost)):
        ways = ways * (changed - number) // (number + 1)
        tail += ways
    return float(min(Fraction(2 * tail, 2**changed), Fraction(1)))


@given(gained=st.integers(0, 400), lost=st.integers(0, 400))
def test_the_p_value_is_that_of_the_two_sided_binomial_test(gained: int, lost: int) -> None:
    assert mcnemar_p_value(gained, lost) == pytest.approx(binomial_p_value(gained, lost), rel=1e-9)


@each_case(("gained", "lost"), [(5_200, 4_800), (900, 100)])
def test_the_p_value_of_many_changes_is_exact(gained: int, lost: int) -> None:
    assert 0 < mcnemar_p_value(gained, lost) == pytest.approx(binomial_p_value(gained, lost), rel=1e-9)


def test_the_p_value_equals_a_published_one() -> None:
    # Ten changed tasks of which one is a gain: 2 * (1 + 10) / 1024.
    assert mcnemar_p_value(1, 9) == 22 / 1024
    assert mcnemar_p_value(0, 0) == 1.0
    assert mcnemar_p_value(7, 7) == 1.0
    assert mcnemar_p_value(100_000, 0) == 0.0


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 gained"):
        mcnemar_p_value(-1, 3)


def paired_outcomes(tasks: int, attempts: int, seed: int) -> tuple[list[float], list[float]]:
    """Return the rates of two sides at the same tasks, whose difficulty both share."""
    generator = random.Random(seed)
    difficulties = [generator.random() for _ in range(tasks)]

    def attempt(bonus: float) -> list[float]:
        return [
            sum(generator.random() < difficulty + bonus for _ in range(attempts)) / attempts
            for difficulty in difficulties
        ]

    return attempt(0), attempt(0.1)


# The last case has more different values than the first way of drawing takes.
@each_case(("tasks", "attempts"), [(120, 1), (120, 8), (3000, 0)])
def test_the_interval_is_the_paired_percentile_bootstrap(tasks: int, attempts: int) -> None:
    if attempts:
        before, after = paired_outcomes(tasks, attempts, seed=3)
    else:
        generator = random.Random(4)
        before = [generator.random() for _ in range(tasks)]
        after = [0.5 * value + 0.6 * generator.random() for value in before]
    differences = [new - old for old, new in zip(before, after, strict=True)]
    found = bootstrap_interval(differences, seed=0, resamples=4000)
    assert found is not None
    draws = numpy.random.default_rng(1)
    values = numpy.array(differences)
    chosen = [values[draws.integers(tasks, size=(100, tasks))].mean(axis=1) for _ in range(40)]
    resampled = numpy.concatenate(chosen)
    expected = numpy.percentile(resampled, [2.5, 97.5])
    # Two bootstraps of 4,000 resamples differ by some hundredths of a standard error.
    assert found == pytest.approx(expected, abs=0.15 * numpy.std(resampled))


def test_pairs_narrow_the_interval_of_equal_difficulties() -> None:
    before, after = paired_outcomes(200, 8, seed=5)
    paired = bootstrap_interval([new - old for old, new in zip(before, after, strict=True)], seed=0)
    shuffled = sorted(after)
    apart = bootstrap_interval([new - old for old, new in zip(before, shuffled, strict=True)], seed=0)
    assert paired is not None
    assert apart is not None
    assert paired[1] - paired[0] < apart[1] - apart[0]


def test_the_resamples_do_not_depend_on_how_many_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(6)
    few = [generator.choice([-1.0, 0.0, 0.5, 1.0]) for _ in range(300)]
    many = [generator.random() for _ in range(1500)]
    whole = [bootstrap_interval(values, seed=1, resamples=300) for values in (few, many)]
    monkeypatch.setattr("harness.core.scoring.metrics._DRAWN_AT_ONCE", 7000)
    assert [bootstrap_interval(values, seed=1, resamples=300) for values in (few, many)] == whole
