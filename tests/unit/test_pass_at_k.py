from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scoring.metrics import mean_pass_at_k, pass_at_k


def brute_force(n: int, c: int, k: int) -> float:
    """Return pass@k by its definition: the share of k-subsets of n attempts with one of the c passes."""
    subsets = list(itertools.combinations(range(n), k))
    return float(Fraction(sum(min(subset) < c for subset in subsets), len(subsets)))


@each_case("n", range(1, 9))
def test_equals_the_enumeration_of_all_subsets(n: int) -> None:
    for c in range(n + 1):
        for k in range(1, n + 1):
            assert pass_at_k(n, c, k) == brute_force(n, c, k)


def test_is_exact_for_thousands_of_attempts() -> None:
    n, c, k = 5000, 3, 2000
    exact = 1 - Fraction(math.prod(range(n - c - k + 1, n - k + 1)), math.prod(range(n - c + 1, n + 1)))
    assert pass_at_k(n, c, k) == float(exact)
    # A sum of logarithms or 1 - product would lose this one: the true value is about 4e-7.
    assert pass_at_k(5_000_000, 1, 2) == 4e-7


@each_case(("n", "k"), [(0, 1), (1, 2), (9, 10)])
def test_is_undefined_with_fewer_than_k_attempts(n: int, k: int) -> None:
    assert pass_at_k(n, n, k) is None


@each_case(("n", "c", "k"), [(5, 6, 1), (5, -1, 1), (-1, 0, 1), (5, 2, 0), (5, 2, -3), (0, 1, 5)])
def test_refuses_nonsense(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=r"cannot have passed|at least 1"):
        pass_at_k(n, c, k)


@given(st.integers(1, 300), st.data())
def test_stays_in_range_and_grows_with_k_and_with_c(n: int, data: st.DataObject) -> None:
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
