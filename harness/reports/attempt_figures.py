"""Figures over all attempts of a run, gathered while its records are read once."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush

from harness.core.scoring.metrics import pass_at_k
from harness.core.types import AttemptRecord, Status
from harness.reports.figures import count, duration
from harness.reports.recorded_attempts import read_time

MOST_POINTS = 50
"""The most values of k in a curve of pass@k."""
MOST_BARS = 1000
"""The most attempts that a timeline shows one by one."""
_BINS = 200
# The bounds of durations in seconds.
_BOUNDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
# A record may be changed by hand. No chart has room for more seconds.
_LONGEST = 1e9
_STATUSES = tuple(Status)
UNKNOWN = "unknown"
# Every request passes our own queue. A shorter wait there is not worth a mention.
SHOWN_WAIT_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Bar:
    """An attempt in a timeline, in seconds since the first attempt began."""

    lane: int
    """The place where attempts ran one after another."""
    start: float
    seconds: float
    status: Status
    name: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The attempts of a run over its time."""

    began: datetime
    seconds: float
    bars: Sequence[Bar]
    """The attempts one by one, none if there are more than MOST_BARS."""
    busy: Sequence[float]
    """The mean number of attempts under way in each of equal parts of the time."""

    @property
    def lanes(self) -> int:
        return max((bar.lane for bar in self.bars), default=-1) + 1


@dataclass(frozen=True, slots=True)
class Durations:
    """The durations of attempts in seconds."""

    median: float
    ninetieth: float
    """Nine of ten attempts are not longer."""
    longest: float
    bins: Sequence[tuple[float, float | None, int]]
    """The least and the greatest duration of a bin (None without a bound), and the number of its attempts."""


class AttemptFigures:
    """Figures of records as they pass by. Memory holds a few numbers for each attempt."""

    def __init__(self, *, several_attempts: bool) -> None:
        self._several = several_attempts
        # By task id, the number of attempts with a verdict in the upper and of passes in the lower 32 bits.
        self._counts: dict[str, int] = {}
        self._durations = array("d")
        self._starts = array("d")
        # The status of each attempt that has a start, by its place in the list of statuses.
        self._statuses = array("B")
        self._lengths = array("d")
        self._names: list[str] = []

    def watch(self, records: Iterable[AttemptRecord]) -> Iterator[AttemptRecord]:
        """Yield the records, and take their figures."""
        for record in records:
            self._add(record)
            yield record

    def _add(self, record: AttemptRecord) -> None:
        seconds = min(max(0.0, record.duration_seconds), _LONGEST)
        self._durations.append(seconds)
        if self._several and record.status.has_score:
            counts = self._counts.get(record.task_id, 0)
            self._counts[record.task_id] = counts + (1 << 32) + record.resolved
        began = read_time(record.started_at)
        if began is not None:
            self._starts.append(began)
            self._lengths.append(seconds)
            self._statuses.append(_STATUSES.index(record.status))
            if len(self._names) <= MOST_BARS:
                self._names.append(record.task_id + (f" #{record.attempt}" if record.attempt else ""))

    def pass_curve(self, tasks: int) -> list[tuple[int, float]]:
        """Return pass@k for each k up to the attempts of the task with the fewest, [] if that is one.

        `tasks` is the number of tasks of the run. A task without a verdict leaves every k undefined.
        """
        counted = Counter(divmod(counts, 1 << 32) for counts in self._counts.values())
        most = min((n for n, _ in counted), default=0)
        if most < 2 or len(self._counts) < tasks:
            return []
        curve = []
        for k in _choose_ks(most):
            total = sum((pass_at_k(n, c, k) or 0.0) * number for (n, c), number in counted.items())
            curve.append((k, total / len(self._counts)))
        return curve

    def durations(self) -> Durations | None:
        """Return the distribution of the durations, None without an attempt."""
        if not self._durations:
            return None
        ordered = sorted(self._durations)
        numbers = Counter(bisect_left(_BOUNDS, seconds) for seconds in ordered)
        bounds = (0.0, *_BOUNDS, None)
        first, last = min(numbers), max(numbers)
        bins = [(bounds[place] or 0.0, bounds[place + 1], numbers[place]) for place in range(first, last + 1)]
        return Durations(_quantile(ordered, 0.5), _quantile(ordered, 0.9), ordered[-1], bins)

    def timeline(self) -> Timeline | None:
        """Return the attempts over time, None if no record has the time when its attempt began.

        A resumed run has gaps, because nothing ran in between.
        """
        if not self._starts:
            return None
        began = min(self._starts)
        ends = max(start + length for start, length in zip(self._starts, self._lengths, strict=True))
        seconds = max(ends - began, 0.001)
        bars = self._place_bars(began) if len(self._starts) <= MOST_BARS else []
        return Timeline(
            datetime.fromtimestamp(began, tz=UTC), seconds, bars, self._count_busy(began, seconds)
        )

    def _place_bars(self, began: float) -> list[Bar]:
        """Return the attempts, each in the first lane that is free when it begins."""
        bars = []
        busy: list[tuple[float, int]] = []
        free: list[int] = []
        order = sorted(range(len(self._starts)), key=self._starts.__getitem__)
        for place in order:
            start, length = self._starts[place], self._lengths[place]
            while busy and busy[0][0] <= start:
                heappush(free, heappop(busy)[1])
            lane = heappop(free) if free else len(busy)
            heappush(busy, (start + length, lane))
            status = _STATUSES[self._statuses[place]]
            bars.append(Bar(lane, start - began, length, status, self._names[place]))
        return bars

    def _count_busy(self, began: float, seconds: float) -> list[float]:
        """Return the mean number of attempts in each part of the time."""
        width = seconds / _BINS
        # Seconds in the parts where attempts begin or end, and the change of the number of whole parts.
        partly, change = [0.0] * _BINS, [0] * (_BINS + 1)
        for start, length in zip(self._starts, self._lengths, strict=True):
            low, high = (start - began) / width, (start - began + length) / width
            first, last = min(int(low), _BINS - 1), min(int(high), _BINS - 1)
            if first == last:
                partly[first] += high - low
                continue
            partly[first] += first + 1 - low
            partly[last] += high - last
            change[first + 1] += 1
            change[last] -= 1
        under_way, busy = 0, []
        for place in range(_BINS):
            under_way += change[place]
            busy.append(under_way + partly[place])
        return busy


def _choose_ks(most: int) -> list[int]:
    """Return values of k from 1 to `most`: each of them, or about MOST_POINTS at growing distances."""
    if most <= MOST_POINTS:
        return [*range(1, most + 1)]
    return sorted({round(most ** (place / (MOST_POINTS - 1))) for place in range(MOST_POINTS)})


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the least value that is not below the given share of all values."""
    place = -int(-share * len(ordered) // 1) - 1
    return ordered[max(place, 0)]


_Model = Mapping[str, int | float | None]


def describe_usage(model: _Model) -> str:
    """Return the requests, the tokens, the cost and the times in one line."""
    return f"{describe_requests(model)}, {describe_times(model)}"


def describe_requests(model: _Model) -> str:
    """Return `12 requests, 3,400 tokens in, 900 out, cost unknown`."""
    details = ", ".join(_list_request_details(model))
    requests = _add(details, count(_whole(model, "model_requests"), "request"))
    return f"{requests}, {describe_tokens(model)}, cost {describe_cost(model.get('cost'))}"


def describe_tokens(model: _Model) -> str:
    """Return the input and output tokens, with the part that was cached or spent on reasoning."""
    into, out = model.get("input_tokens"), model.get("output_tokens")
    if into is None and out is None:
        return f"tokens {UNKNOWN}"
    return (
        f"{_add(_part(model, 'cached_tokens', 'cached'), f'{_number(into)} tokens in')}, "
        f"{_add(_part(model, 'reasoning_tokens', 'reasoning'), f'{_number(out)} out')}"
    )


def describe_cost(cost: int | float | None) -> str:
    """Return a cost in the currency of the price table, with at least three significant digits."""
    if cost is None:
        return UNKNOWN
    return f"{cost:,.2f}" if cost >= 1 or cost == 0 else f"{cost:.3g}"


def describe_times(model: _Model) -> str:
    """Return the time of waiting for the model, and the time in sandboxes with the wait for one."""
    queued = model.get("waiting_seconds") or 0
    detail = f"{duration(queued)} in our own queue" if queued >= SHOWN_WAIT_SECONDS else ""
    waited = _add(detail, _seconds(model, "model"))
    return f"{waited} waiting for the model, {_seconds(model, 'sandbox')} in sandboxes or their queue"


def _list_request_details(model: _Model) -> Iterator[str]:
    cached, retries = _whole(model, "cached_replies"), _whole(model, "model_retries")
    if cached:
        yield f"{cached:,} {'reply' if cached == 1 else 'replies'} from the cache"
    if cut := _whole(model, "cut_replies"):
        yield f"{cut:,} {'reply' if cut == 1 else 'replies'} cut off"
    if retries:
        yield f"{retries:,} {'retry' if retries == 1 else 'retries'}"


def _add(detail: str, text: str) -> str:
    return f"{text} ({detail})" if detail else text


def _part(model: _Model, name: str, noun: str) -> str:
    """Return the part of the tokens that a server reports apart, "" if there is none or it is unknown."""
    part = model.get(name)
    return f"{_number(part)} {noun}" if part else ""


def _whole(model: _Model, name: str) -> int:
    return int(model.get(name) or 0)


def _number(amount: int | float | None) -> str:
    return UNKNOWN if amount is None else f"{int(amount):,}"


def _seconds(model: _Model, name: str) -> str:
    amount = model.get(f"{name}_seconds")
    return f"{UNKNOWN} time" if amount is None else duration(amount)
