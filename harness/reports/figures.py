"""Numbers as text: percentages, durations, rates and counts, the same in every report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.core.scoring.metrics import MAJORITY, wilson_interval
from harness.core.text import escape_terminal
from harness.core.types import MetricSummary, Status, Summary
from harness.runs.progress import ActiveAttempt, count_places, count_stages

# The label of the headline's number wherever figures are listed.
RATE = "rate"
# An attempt under way that is younger is not worth a line.
_OLD_SECONDS = 10.0
_ID_CHARACTERS = 60


def percent(share: float) -> str:
    """Return a share (0 to 1) in percent with one decimal. It is never rounded to 0 % or 100 %."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Return a number of seconds as text with at most two units: `4.2 s`, `3 min 12 s`, `2 h 05 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def speed(per_second: float) -> str:
    """Return a rate of events per second as text. A slow rate is shown per minute or per hour."""
    if per_second >= 0.95:
        return f"{per_second:.1f}/s"
    if per_second * 60 >= 0.95:
        return f"{per_second * 60:.1f}/min"
    return f"{per_second * 3600:.1f}/h"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 attempt`, `1,000 attempts`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def interval(found: MetricSummary) -> str:
    """Return the 95 % interval of a metric as text, with the name of the method."""
    how = found.interval.capitalize() if found.interval == "wilson" else found.interval
    return f"95 % interval {percent(found.low)} to {percent(found.high)}, {how}"


def tampering(integrity: Mapping[str, int]) -> str:
    """Return the number of attempts with signs of tampering, and the signs, or "" if there are none."""
    number = sum(integrity.values())
    if not number:
        return ""
    signs = ", ".join(f"{sign} ({times:,})" for sign, times in integrity.items())
    return f"{count(number, 'attempt')} {'shows' if number == 1 else 'show'} signs of tampering: {signs}"


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of attempts at one moment.

    It is immutable, because a thread draws it while another one counts.
    """

    attempts: int
    earlier: int = 0
    """The attempts that were finished by the run that this one resumes."""
    passed: int = 0
    failed: int = 0
    other: int = 0

    def plus(self, status: Status) -> Tally:
        """Return this tally with one more attempt that has ended."""
        if status is Status.PASSED:
            return replace(self, passed=self.passed + 1)
        if status is Status.FAILED:
            return replace(self, failed=self.failed + 1)
        return replace(self, other=self.other + 1)

    @property
    def fresh(self) -> int:
        """The attempts that ended in this run. Only these count towards its speed."""
        return self.passed + self.failed + self.other

    @property
    def done(self) -> int:
        return self.earlier + self.fresh

    def progress(self) -> str:
        """Return `412/974 attempts`, with the number of those that an earlier run finished."""
        earlier = f" ({self.earlier} from before)" if self.earlier else ""
        return f"{self.done}/{self.attempts} attempts{earlier}"

    def outcome(self) -> str:
        """Return `passed 3, failed 1, other 0` for the attempts of this run.

        The statuses of earlier attempts are not known here. So the text begins with `now` if there are any,
        and is empty if there are no others.
        """
        if self.earlier and not self.fresh:
            return ""
        now = "now " if self.earlier else ""
        return f"{now}passed {self.passed}, failed {self.failed}, other {self.other}"

    def pace(self, seconds: float) -> str:
        """Return speed and time left after `seconds` of running, or "" before the first attempt has ended."""
        if not self.fresh or seconds <= 0:
            return ""
        per_second = self.fresh / seconds
        left = max(self.attempts - self.done, 0) / per_second
        return f"{speed(per_second)}, {duration(left)} left" if left else speed(per_second)

    def result(self, seconds: float) -> str:
        """Return the speed and the duration of a run that has ended."""
        took = f"in {duration(seconds)}"
        return f"{speed(self.fresh / seconds)}, {took}" if self.fresh and seconds > 0 else took


def describe_coverage(summary: Summary) -> str:
    """Return `119 samples for 87 of 164 tasks; 77 tasks without a sample count as failed`."""
    return f"{count(summary.coverage['samples'], 'sample')} {describe_covered_tasks(summary)}"


def describe_covered_tasks(summary: Summary) -> str:
    """Return `for 87 of 164 tasks`, and the number of tasks without a sample if there are any."""
    missing = summary.coverage["missing"]
    text = f"for {summary.coverage['tasks']:,} of {count(summary.total, 'task')}"
    if missing:
        verb = "counts" if missing == 1 else "count"
        text += f"; {count(missing, 'task')} without a sample {verb} as failed"
    return text


@dataclass(frozen=True, slots=True)
class Headline:
    """The number to read first, as texts of one line each."""

    figure: str
    """`71.2 % resolved`, or the progress of a run that has no rate yet."""
    interval: str
    """The 95 % interval and its method, "" if there is none."""
    meaning: str
    """The counts behind the number."""
    coverage: str = ""
    """The number of samples and of tasks without one, "" unless the run grades samples.

    A report shows it before the figure, because a task without a sample counts as failed.
    """

    def __str__(self) -> str:
        spread = f" ({self.interval})" if self.interval else ""
        coverage = f"; {self.coverage}" if self.coverage else ""
        return f"{self.figure}{spread}: {self.meaning}{coverage}"


def describe_headline(summary: Summary, *, is_running: bool = False) -> Headline:
    """Return the headline of a run.

    A stopped run has no rate, because the tasks that are left would count as failed.
    """
    unmade = summary.statuses.get(Status.CANCELLED, 0)
    if unmade:
        done = f"{summary.attempts - unmade:,} of {summary.attempts:,}"
        progress = f"running: {done} attempts" if is_running else f"stopped after {done}"
        return Headline(progress, "", f"{summary.statuses.get(Status.PASSED, 0):,} passed so far")
    if not summary.total:
        return Headline("no tasks", "", "the run has selected none")
    coverage = describe_coverage(summary) if summary.coverage else ""
    spread = describe_rate_interval(summary)
    if not has_several_attempts(summary):
        counts = f"{summary.resolved:,} of {count(summary.total, 'task')}, by one attempt at each"
        return Headline(f"{percent(summary.rate)} resolved", spread, counts, coverage)
    passed = f"{summary.statuses.get(Status.PASSED, 0):,} of {count(summary.attempts, 'attempt')} passed"
    meaning = f"pass@1: {passed}, as the mean over {count(summary.total, 'task')} of the share that passed"
    return Headline(f"{percent(summary.rate)} resolved", spread, meaning, coverage)


def describe_rate_interval(summary: Summary) -> str:
    """Return the 95 % interval of the rate as text, with its method and its clusters, "" without one."""
    spread = summary.rate_interval
    if spread is None:
        return ""
    by_task = spread.cluster_by == "task"
    is_plain = by_task and not has_several_attempts(summary)
    field = "task" if by_task else escape_terminal(spread.cluster_by, 100)
    method = "Wilson" if is_plain else f"Wilson, clustered by {field}"
    if not by_task:
        method += f", {count(spread.clusters, 'cluster')}"
    return f"95 % interval {describe_range(spread.low, spread.high)}, {method}"


def describe_range(low: float, high: float) -> str:
    """Return the ends of an interval as text: `30.1 % to 95.4 %`."""
    return f"{percent(low)} to {percent(high)}"


def find_category_interval(row: Mapping[str, float | int]) -> tuple[float, float]:
    """Return the 95 % interval of a category's rate. A category of an earlier version has Wilson's."""
    if "low" in row and "high" in row:
        return row["low"], row["high"]
    return wilson_interval(int(row["resolved"]), int(row["total"])) or (0.0, 1.0)


def has_several_attempts(summary: Summary) -> bool:
    """Return whether a task has more than one attempt, so that the rate counts more than the first."""
    return summary.attempts > summary.total


def describe_first_attempts(summary: Summary) -> str:
    """Return the rate of the first attempts alone as text."""
    share = percent(summary.first_attempt_rate)
    return f"{share}  ({summary.resolved:,} of {count(summary.total, 'task')})"


def list_scores(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield the rate, pass@k and the metrics of a finished run, each as a label and a text of one line."""
    several = has_several_attempts(summary)
    spread = describe_rate_interval(summary)
    yield RATE, percent(summary.rate) + (f"  ({spread})" if spread else "")
    if several:
        yield "first attempt", describe_first_attempts(summary)
    for k, value in sorted(summary.pass_at_k.items()):
        yield f"pass@{k}", describe_pass_at_k(summary, k, value)
    for name, metric in summary.metrics.items():
        # A benchmark's own metric counts the first attempt at each task.
        of = ", first attempts" if several and not name.startswith(MAJORITY) else ""
        yield name, f"{percent(metric.mean)}  ({interval(metric)}{of})"


def describe_pass_at_k(summary: Summary, k: int, value: float | None) -> str:
    """Return pass@k as text, with the reason where pass@1 differs from the rate."""
    if value is None:
        return f"undefined: needs n >= {k}"
    lost = sum(number for status, number in summary.statuses.items() if not status.has_score)
    differs = k == 1 and lost and value != summary.rate
    return percent(value) + ("  (without the attempts that have no verdict)" if differs else "")


def label_resolved(summary: Summary) -> str:
    """Return the heading of the resolved tasks, which the first attempts decide if there are several."""
    return "resolved first" if has_several_attempts(summary) else "resolved"


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
    old = [attempt for attempt in active[:most] if now - attempt.started >= _OLD_SECONDS]
    return [_describe(attempt, now - attempt.started) for attempt in old]


def _describe(attempt: ActiveAttempt, seconds: float) -> str:
    number = f", attempt {attempt.number}" if attempt.number else ""
    place = "" if attempt.place is None else f" on {escape_terminal(attempt.place, _ID_CHARACTERS)}"
    name = escape_terminal(attempt.task_id, _ID_CHARACTERS)
    return f"{name}{number}: {duration(seconds)}, {attempt.stage}{place}"
