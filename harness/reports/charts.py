"""The charts of the HTML report as texts and SVG lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from harness.core.types import Status
from harness.reports.attempt_figures import Durations, Timeline
from harness.reports.figures import count, duration, percent

_LEAST_POINTS = 3
_LANE, _MOST_HEIGHT, _AREA_HEIGHT, _WIDTH = 12, 480, 120, 1000


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve of pass@k. `line` and `area` are points in a square of 100."""

    label: str
    most: str
    line: str
    area: str
    figures: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Bins:
    """The durations: the label, and for each bin its name, its number and the width of its bar."""

    label: str
    bins: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """An attempt as a rectangle."""

    x: str
    y: str
    width: str
    height: str
    status: Status
    title: str


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """A timeline: a bar for each attempt, or an area for the number of attempts under way."""

    label: str
    height: int
    bars: Sequence[TimelineBar]
    area: str
    began: str
    ended: str


def draw_curve(curve: Sequence[tuple[int, float]]) -> Curve | None:
    """Return a curve of pass@k, None with too few points for a line that shows more than the figures."""
    if len(curve) < _LEAST_POINTS:
        return None
    most = curve[-1][0]
    points = [f"{100 * (k - 1) / max(most - 1, 1):.2f},{100 - 100 * value:.2f}" for k, value in curve]
    label = f"from {percent(curve[0][1])} at k = 1 to {percent(curve[-1][1])} at k = {most:,}"
    line = " ".join(points)
    figures = [(f"{k:,}", percent(value)) for k, value in curve]
    return Curve(label, f"{most:,}", line, f"0,100 {line} 100,100", figures)


def draw_durations(found: Durations | None) -> Bins | None:
    """Return the durations as a table with bars, None without an attempt."""
    if found is None:
        return None
    label = (
        f"half of the attempts took at most {duration(found.median)}, nine of ten at most "
        f"{duration(found.ninetieth)}, the longest {duration(found.longest)}"
    )
    largest = max(number for _, _, number in found.bins)
    bins = [
        (_name_bin(low, high), f"{number:,}", f"{100 * number / largest:.2f}%")
        for low, high, number in found.bins
    ]
    return Bins(label, bins)


def draw_timeline(timeline: Timeline | None) -> TimelineChart | None:
    """Return the timeline as rectangles or as an area, None for a run without times."""
    if timeline is None:
        return None
    if timeline.bars:
        height = min(timeline.lanes * _LANE, _MOST_HEIGHT)
        label = (
            f"{count(len(timeline.bars), 'attempt')} in {duration(timeline.seconds)}, at most "
            f"{timeline.lanes:,} at once; an attempt includes the wait for a sandbox, and its grading"
        )
        return TimelineChart(label, height, _place_bars(timeline, height), "", *_label_ends(timeline))
    most = max(timeline.busy)
    label = f"attempts under way in {duration(timeline.seconds)}, at most {most:,.1f} on average at one time"
    last = len(timeline.busy) - 1
    points = " ".join(
        f"{_WIDTH * place / last:.1f},{_AREA_HEIGHT * (1 - busy / max(most, 1e-9)):.2f}"
        for place, busy in enumerate(timeline.busy)
    )
    area = f"0,{_AREA_HEIGHT} {points} {_WIDTH},{_AREA_HEIGHT}"
    return TimelineChart(label, _AREA_HEIGHT, [], area, *_label_ends(timeline))


def _place_bars(timeline: Timeline, height: int) -> list[TimelineBar]:
    scale, lane = _WIDTH / timeline.seconds, height / timeline.lanes
    return [
        TimelineBar(
            x=f"{bar.start * scale:.2f}",
            y=f"{bar.lane * lane:.2f}",
            # An attempt that is too short to see is still there.
            width=f"{max(bar.seconds * scale, 1):.2f}",
            height=f"{lane:.2f}",
            status=bar.status,
            title=f"{bar.name}: {bar.status.replace('_', ' ')}, {duration(bar.seconds)}",
        )
        for bar in timeline.bars
    ]


def _label_ends(timeline: Timeline) -> tuple[str, str]:
    try:
        ended = timeline.began + timedelta(seconds=timeline.seconds)
    except OverflowError:
        ended = timeline.began
    return _format(timeline.began), _format(ended)


def _format(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _name_bin(low: float, high: float | None) -> str:
    if high is None:
        return f"over {duration(low)}"
    return f"up to {duration(high)}"
