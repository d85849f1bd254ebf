"""The attempts under way as text: how many are in each stage, and which are the oldest."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.progress import ActiveAttempt, count_places, count_stages
from harness.reports.figures import duration
from harness.text import escape_terminal

# An attempt that is younger is not worth a line.
OLD_SECONDS = 10.0
_ID_CHARACTERS = 60


def describe_stages(active: Sequence[ActiveAttempt]) -> str:
    """Return `waiting for model 12, acting 3, grading 1`, or "" if no attempt is under way."""
    return ", ".join(f"{stage} {number}" for stage, number in count_stages(active).items())


def describe_places(active: Sequence[ActiveAttempt]) -> str:
    """Return `node a 3, node b 2`, the attempts of each node, or "" if this process makes them."""
    return ", ".join(
        f"{escape_terminal(place, _ID_CHARACTERS)} {number}" for place, number in count_places(active).items()
    )


def describe_oldest(active: Sequence[ActiveAttempt], now: float, most: int) -> list[str]:
    """Return a text for each of the oldest attempts, such as `os/dev/1: 8 min 12 s, acting`.

    Args:
        active: the attempts under way, the oldest first.
        now: the time of the monotonic clock.
        most: the number of texts.
    """
    old = [attempt for attempt in active[:most] if now - attempt.started >= OLD_SECONDS]
    return [_describe(attempt, now - attempt.started) for attempt in old]


def _describe(attempt: ActiveAttempt, seconds: float) -> str:
    number = f", attempt {attempt.number}" if attempt.number else ""
    place = "" if attempt.place is None else f" on {escape_terminal(attempt.place, _ID_CHARACTERS)}"
    name = escape_terminal(attempt.task_id, _ID_CHARACTERS)
    return f"{name}{number}: {duration(seconds)}, {attempt.stage}{place}"
