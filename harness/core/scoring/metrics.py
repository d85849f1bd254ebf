"""The metrics that a benchmark declares, and their mean over a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from harness.core.types import MetricSummary

MAJORITY = "maj@"
"""The name of the metric of majorities, before the number of attempts at a task."""
# The 97.5 % quantile of the normal distribution: 2.5 % are left out on either side.
_Z95 = 1.959963984540054
# The most numbers that a bootstrap draws at once, so that its memory does not grow with the resamples.
_DRAWN_AT_ONCE = 1 << 20
# With more different values than this, a draw of every value is faster than a count of each.
_MOST_KINDS = 1000


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Return the unbiased estimate of pass@k of one task, from `n` attempts with `c` passes.

    The estimate is 1 - C(n-c, k) / C(n, k), from 0 to 1: the share of all choices of k attempts that contain
    a pass. Returns None if n < k, because then there is no such choice.

    Raises ValueError unless k >= 1 and 0 <= c <= n. Source: Chen et al. 2021 (arXiv 2107.03374), eq. 1.
    """
    _check_k(k)
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} attempts cannot have passed")
    if n < k:
        return None
    # Integers are exact and their quotient is rounded once. Products of floats would drift.
    choices = math.comb(n, k)
    return (choices - math.comb(n - c, k)) / choices


def mean_pass_hat_k(counts: Sequence[tuple[int, int]], k: int) -> float | None:
    """Return the mean pass^k of tasks, each given as (n attempts, c passed).

    It is None where `mean_pass_at_k` is.
    The value of a task is C(c, k) / C(n, k): the share of all choices of k attempts that all pass.
    Raises ValueError as `pass_at_k` does. Source: Yao et al. 2024 (arXiv 2406.12045), section 3.
    """
    # All k attempts pass unless one of them fails.
    failing = mean_pass_at_k([(n, n - c) for n, c in counts], k)
    return None if failing is None else 1 - failing


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float | None:
    """Return the mean pass@k of tasks, each given as (n attempts, c passed).

    Returns None if a task has n < k or if there are no tasks. Without such tasks the mean would be that of a
    subset that nobody chose, and it would flatter, because n is smallest where attempts were lost.

    Raises ValueError as `pass_at_k` does.
    """
    _check_k(k)
    values = [pass_at_k(n, c, k) for n, c in counts]
    defined = [value for value in values if value is not None]
    if not values or len(defined) < len(values):
        return None
    return math.fsum(defined) / len(defined)


def _check_k(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")


def passes_by_majority(votes: Iterable[tuple[str | None, bool]]) -> bool:
    """Return whether the most frequent answer to a task passed (maj@n), the first of equally frequent ones.

    Args:
        votes: the answer of each attempt in order, None for an attempt without one, and whether it passed.

    Source: Wang et al. 2022 (arXiv 2203.11171), self-consistency.
    """
    given = [(answer, passed) for answer, passed in votes if answer is not None]
    if not given:
        return False
    (winner, _), *_ = Counter(answer for answer, _ in given).most_common(1)
    return any(passed for answer, passed in given if answer == winner)


def wilson_interval(successes: int, trials: int) -> tuple[float, float] | None:
    """Return the 95 % score interval of a proportion as (low, high) from 0 to 1, or None without trials.

    Unlike the normal approximation it holds for few trials and for rates near 0 and 1.
    Raises ValueError unless 0 <= successes <= trials. Source: Wilson 1927, JASA 22 (158), 209-212.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials} trials cannot have succeeded")
    return None if trials == 0 else _score_interval(successes / trials, trials)


def _score_interval(rate: float, trials: float) -> tuple[float, float]:
    z2 = _Z95**2
    centre = rate + z2 / (2 * trials)
    spread = _Z95 * math.sqrt(rate * (1 - rate) / trials + z2 / (4 * trials**2))
    scale = 1 + z2 / trials
    # At the ends the bound is exactly 0 or 1; rounding would miss it by a hair.
    low = 0.0 if rate == 0 else (centre - spread) / scale
    high = 1.0 if rate == 1 else (centre + spread) / scale
    return low, high


def clustered_interval(clusters: Iterable[tuple[float, int]], *, attempts: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean over tasks as (low, high) from 0 to 1, or None without tasks.

    Attempts at one task are alike, and so are tasks of one cluster, so they count as fewer trials than there
    are. The interval is Wilson's with the effective number of trials: the number of independent trials whose
    mean would vary as much as the mean of these clusters does. With one attempt at each task, and each task
    as its own cluster, this is the number of tasks, and the interval is `wilson_interval`'s. If the
    clusters do not vary at all, each cluster of a rate of 0 or 1 is one trial.

    Args:
        clusters: of each cluster the sum of its tasks' values, which are from 0 to 1, and the number of its
            tasks.
        attempts: the number of all attempts, which is the largest effective number.

    Source: Kish 1965, Survey Sampling, section 8.2 (the design effect); Korn and Graubard 1998, Survey
    Methodology 24 (2), 193-201 (an interval with the effective sample size).
    """
    counted = Counter(clusters)
    number = counted.total()
    tasks = sum(size * times for (_, size), times in counted.items())
    if not tasks:
        return None
    rate = min(math.fsum(value * times for (value, _), times in counted.items()) / tasks, 1.0)
    if not 0 < rate < 1 or number == 1:
        return _score_interval(rate, number)
    if number == tasks == attempts:
        return _score_interval(rate, tasks)
    squares = math.fsum(times * (value - rate * size) ** 2 for (value, size), times in counted.items())
    # Few clusters of several tasks would seem to vary less than they do.
    few = number / (number - 1) if number < tasks else 1.0
    variance = few * squares / tasks**2
    most = float(max(attempts, number))
    return _score_interval(rate, min(rate * (1 - rate) / variance, most) if variance else most)


def bootstrap_interval(
    values: Sequence[float], *, seed: int, resamples: int = 2000
) -> tuple[float, float] | None:
    """Return the 95 % percentile interval of the mean of `values` as (low, high), or None without values.

    The random generator is separate, so the same seed always gives the same interval. For an interval of the
    mean difference of pairs, pass the differences, because a resample then keeps each pair together.
    Raises ValueError for fewer than 40 resamples, because 2.5 % of them would be less than one.
    Source: Efron 1979, Annals of Statistics 7 (1), 1-26.
    """
    if resamples < 40:
        raise ValueError(f"{resamples} resamples are too few for a 95 % interval")
    if not values:
        return None
    different = sorted(Counter(values).items())
    if len(different) == 1:
        return values[0], values[0]
    import numpy

    count = len(values)
    # A resample is determined by how often it has each value, and a multinomial draws these counts at once.
    shares = [number / count for _, number in different]
    generator = numpy.random.default_rng(seed)
    kinds = numpy.array([value for value, _ in different])
    by_counts = len(different) <= _MOST_KINDS
    every = numpy.array(() if by_counts else values)
    at_once = max(_DRAWN_AT_ONCE // (len(kinds) if by_counts else count), 1)
    means: list[float] = []
    for made in range(0, resamples, at_once):
        number = min(at_once, resamples - made)
        if by_counts:
            means.extend((generator.multinomial(count, shares, size=number) @ kinds / count).tolist())
        else:
            drawn = generator.integers(count, size=(number, count), dtype=numpy.int32)
            means.extend(every[drawn].mean(axis=1).tolist())
    means.sort()
    outside = round(0.025 * resamples)
    return means[outside - 1], means[-outside]


def bootstrap_clusters(
    clusters: Sequence[tuple[float, int]], *, seed: int, resamples: int
) -> tuple[float, float] | None:
    """Return the 95 % percentile interval of a mean, drawn by clusters, or None without values.

    Each cluster is the sum of its values and their number. A resample keeps the values of a cluster together.
    The arguments, the error and the source are as in `bootstrap_interval`.
    """
    if resamples < 40:
        raise ValueError(f"{resamples} resamples are too few for a 95 % interval")
    if not clusters:
        return None
    import numpy

    sums, sizes = numpy.array(clusters, dtype=float).T
    generator = numpy.random.default_rng(seed)
    at_once = max(_DRAWN_AT_ONCE // len(clusters), 1)
    means: list[float] = []
    for made in range(0, resamples, at_once):
        number = min(at_once, resamples - made)
        drawn = generator.integers(len(clusters), size=(number, len(clusters)), dtype=numpy.int32)
        means.extend((sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)).tolist())
    means.sort()
    outside = round(0.025 * resamples)
    return means[outside - 1], means[-outside]


class Interval(StrEnum):
    """The method for the 95 % interval of a mean: `wilson` for values of 0 and 1, otherwise `bootstrap`."""

    WILSON = "wilson"
    BOOTSTRAP = "bootstrap"


@dataclass(frozen=True, slots=True)
class Metric:
    """A number from 0 to 1 that the verdicts of a benchmark have under `name`."""

    name: str
    description: str
    interval: Interval = Interval.WILSON


def metric_summary(metric: Metric, values: Sequence[float]) -> MetricSummary | None:
    """Return the mean of a metric over tasks with its 95 % interval, or None without tasks.

    The bootstrap has a fixed seed, so the same values always have the same interval.
    """
    if not values:
        return None
    return _summary(metric, tuple(values))


@lru_cache(maxsize=8)  # the bootstrap is slow, and each report of a run asks for the summary
def _summary(metric: Metric, values: tuple[float, ...]) -> MetricSummary | None:
    if metric.interval is Interval.WILSON:
        interval = wilson_interval(round(sum(values)), len(values))
    else:
        interval = bootstrap_interval(values, seed=0)
    if interval is None:
        return None
    mean = sum(values) / len(values)
    return MetricSummary(mean, interval[0], interval[1], metric.interval.value, len(values))


def mcnemar_p_value(gained: int, lost: int) -> float:
    """Return the exact two-sided p-value of McNemar's test, from 0 to 1.

    It is the probability that chance alone splits the changed tasks at least as unevenly as `gained` and
    `lost`, if each change is as likely to be a gain as a loss. Tasks with equal outcomes do not count. The
    result is 1 without a changed task.

    Raises ValueError for a negative number. Source: McNemar 1947, Psychometrika 12 (2), 153-157, with the
    binomial distribution instead of the normal approximation.
    """
    if gained < 0 or lost < 0:
        raise ValueError(f"{gained} gained and {lost} lost tasks cannot be counts")
    fewer, changed = min(gained, lost), gained + lost
    if 2 * fewer == changed:
        return 1.0
    # The largest term of the tail is a quotient of integers, which is rounded once. The other terms follow
    # from it. Their sum is exact to the last digits, although no float holds 2 ** changed.
    share = total = 1.0
    for number in range(fewer, 0, -1):
        share *= number / (changed - number + 1)
        total += share
        if share < total * 1e-18:
            break
    return min(2 * total * (math.comb(changed, fewer) / (1 << changed)), 1.0)
