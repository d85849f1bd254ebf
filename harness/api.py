"""A whole run, and the comparison of two, from Python."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from typing_extensions import Unpack

from harness.core.errors import UsageError
from harness.core.types import AttemptRecord, Submission, Summary
from harness.reports.html import describe_rate, render_result, write_report
from harness.reports.notebook import choose_display
from harness.runs.agents.agent import AttemptContext, UserAgent
from harness.runs.comparison import DEFAULT_RESAMPLES, Comparison, compare_runs
from harness.runs.progress import RunObserver
from harness.runs.run import Run, open_run
from harness.runs.run_names import find_run
from harness.runs.run_starts import plan_run
from harness.runs.settings.keywords import RunOptions as RunOptions
from harness.sandbox.backends import BackendName
from harness.sandbox.backends.base import Backend

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """The result of a run: its folder, its summary, and its attempts in task order."""

    folder: Path
    summary: Summary
    # Each record is read from the run folder whenever it is used, because a run may have very many.
    attempts: Sequence[AttemptRecord]
    # Whether the tasks are the bundled sample, whose figures are not results of the benchmark.
    is_bundled: bool = False

    def to_frame(self) -> pandas.DataFrame:
        """Return the attempts as a pandas frame: a row for each, and a column for each field and metric.

        Raises UsageError if pandas is not installed.
        """
        from harness.reports.notebook import build_frame

        return build_frame(self.attempts)

    def __repr__(self) -> str:
        notice = "bundled sample, " if self.is_bundled else ""
        return f"<RunResult: {notice}{describe_rate(self.summary)}, {self.folder}>"

    def _repr_html_(self) -> str:
        """Return the result as notebooks show it."""
        return render_result(self.summary, self.folder, is_bundled=self.is_bundled)


RunAgent: TypeAlias = (
    str | UserAgent | type[UserAgent] | Callable[[AttemptContext], Awaitable[Submission | str]]
)
"""The name of an agent, or an agent of the user."""


class RunningHost(Protocol):
    """A host that makes runs, as `harness.connect` and `harness.open_host` return it."""

    @property
    def run(self) -> Callable[..., Awaitable[RunResult]]:
        """Run a benchmark, or resume a run, and return its result."""


async def run(
    benchmark: str | None = None,
    *,
    resume: str | Path | RunResult | None = None,
    agent: RunAgent | None = None,
    observer: RunObserver | None = None,
    backend: Backend | BackendName | None = None,
    progress: bool | None = None,
    hosts: Sequence[RunningHost] = (),
    **options: Unpack[RunOptions],
) -> RunResult:
    """Run a benchmark, write a run folder, and return the result. A cancellation ends the run cleanly.

    Args:
        benchmark: the name of a benchmark, or the path of your own. A resumed run needs none.
        resume: the run to finish: a run folder, its name in `runs`, `latest`, or a result of `run`. Attempts
            with a verdict are kept.
        agent: the name of an agent, or your own agent: an `async def` that takes an AttemptContext and
            returns a Submission or the text of a reply, or a class or an object with such a method `attempt`.
            A resumed run has its agent, but your own agent must be given again.
        observer: gets the events of the run instead of the progress display.
        progress: whether to show the progress on standard error, None for only in a notebook. Warnings are
            always shown.
        backend: starts the sandboxes, or the name of one to connect to. Without it, the config decides.
        hosts: the services that grade the submissions, as `connect` returns them, none for this machine.
        options: the other keys of the config, such as `data`, `sample_size`, `n_samples`, `max_concurrent`
            and `output_dir`.

    Raises:
        UsageError: for an option that cannot be used, and for a run that cannot be resumed with it.
        DataError: for data that cannot be used.
        EngineUnavailableError: if Docker does not respond. `harness setup` starts it.
        ImageMissingError: if an image is missing. `harness setup` builds it.
        RunStoppedError: if the engine stays away or loses an image. Finished attempts are in the run folder.
        StorageError: if the run folder cannot be written.
    """
    if hosts:
        first, *others = hosts
        return await first.run(
            benchmark,
            resume=resume,
            agent=agent,
            observer=observer,
            progress=progress,
            **({"hosts": others} if others else {}),
            **options,
        )
    watcher = choose_observer(observer, progress)
    chosen: dict[str, Any] = dict(options)
    if isinstance(backend, str):
        chosen["backend"], backend = backend, None
    planned = plan_run(
        benchmark, resume=find_resumed(resume), agent=agent, options=chosen, notify=watcher.note
    )
    async with open_run(planned.selection, planned.start, backend=backend, notify=watcher.note) as current:
        return await finish_run(current, watcher)


def find_resumed(resume: str | Path | RunResult | None) -> Path | None:
    """Return the folder of the run that `run` resumes. Raises UsageError if there is none."""
    if isinstance(resume, RunResult):
        return resume.folder
    return None if resume is None else find_run(resume, None)


def choose_observer(observer: RunObserver | None, progress: bool | None) -> RunObserver:
    """Return the observer of a run. Raises UsageError if both arguments of `run` are given."""
    if observer is not None and progress is not None:
        raise UsageError("observer and progress exclude each other, because an observer replaces the display")
    return observer or choose_display(sys.stderr, progress)


async def finish_run(current: Run, observer: RunObserver) -> RunResult:
    """Make the attempts of an open run, write its report, and return its result. Raises as `run` does."""
    await current.execute(observer)
    write_report(current)
    attempts = current.store.attempts(current.selection.plan)
    is_bundled = current.manifest["source"] == "bundled"
    return RunResult(current.folder, current.summary, attempts, is_bundled=is_bundled)


RunName: TypeAlias = str | Path | RunResult
"""A run folder, its name in `runs`, `latest`, or the result of `run`."""


def compare(
    baseline: RunName | Sequence[RunName],
    candidate: RunName | Sequence[RunName],
    *,
    only_common_tasks: bool = False,
    cluster_by: str | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
    regression_threshold: float | None = None,
    output_dir: str | Path | None = None,
    accept: Collection[str] = (),
) -> Comparison:
    """Return the comparison of a candidate with a baseline, paired by task. docs/compare.md has the rules.

    Args:
        baseline: a run, or several runs that repeat it. The first of them is compared task by task.
        candidate: a run, or several runs that repeat it.
        only_common_tasks: whether to leave out tasks that a run lacks, instead of counting them as failed.
        cluster_by: the field whose values cluster the tasks for the intervals, None for the one of the runs.
        resamples: the number of resamples for the 95 % interval.
        seed: the seed of the resamples.
        regression_threshold: the fall of the rate, from 0 to 1, that does not count as a regression.
        output_dir: the folder of runs that are given by name, None for `runs`.
        accept: `grading_version` to compare runs whose verdicts come from different gradings.

    Raises:
        UsageError: for a run that cannot be read or compared, and for a number out of its range.
    """
    place = None if output_dir is None else Path(output_dir)

    def find(runs: RunName | Sequence[RunName]) -> list[Path]:
        named = [runs] if isinstance(runs, (str, Path, RunResult)) else runs
        return [run.folder if isinstance(run, RunResult) else find_run(run, place) for run in named]

    return compare_runs(
        find(baseline),
        find(candidate),
        only_common_tasks=only_common_tasks,
        cluster_by=cluster_by,
        resamples=resamples,
        seed=seed,
        regression_threshold=regression_threshold,
        accept=accept,
    )
