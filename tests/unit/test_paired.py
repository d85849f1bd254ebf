"""The statistics of comparisons, against an independent computation of each."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy
import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scoring.metrics import bootstrap_interval, mcnemar_p_value


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
