"""The progress of a run in a notebook: a bar if the notebook can show one, plain lines otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TextIO

from harness.core.errors import UsageError, describe_installation
from harness.core.text import escape_terminal
from harness.core.types import AttemptRecord
from harness.reports.console import NOTE_LIMIT
from harness.reports.figures import Tally, describe_stages
from harness.reports.progress import NotesOnly, PlainProgress, progress_display
from harness.runs.progress import RunObserver, RunProgress

if TYPE_CHECKING:
    import pandas


_SECONDS_BETWEEN_STAGES = 1.0
# The whole texts may not fit into memory, and records are read without them.
_LEFT_OUT = ("metrics", "agent_output_full", "submission")
_COLUMNS = tuple(each.name for each in fields(AttemptRecord) if each.name not in _LEFT_OUT)


def choose_display(stream: TextIO, progress: bool | None) -> RunObserver:
    """Return the observer that shows the progress of a run that Python started.

    Args:
        stream: where notes and plain lines go.
        progress: whether to show the progress, None for only in a notebook.
    """
    if is_notebook() and progress is not False:
        return NotebookProgress(stream) if _has_widgets() else PlainProgress(stream)
    return progress_display(stream, quiet=not progress)


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook. It imports nothing."""
    # A process that has not imported IPython is not a kernel.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _has_widgets() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("ipywidgets", "tqdm"))


class NotebookProgress(NotesOnly):
    """Shows a bar of tqdm with the numbers of attempts that passed and failed, and of those in each stage.

    Notes go to the stream.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._bar: Any = None
        self._tally = Tally(0)
        self._progress = RunProgress()
        self._timer: asyncio.TimerHandle | None = None

    def show_progress(self, progress: RunProgress) -> None:
        self._progress = progress

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        from tqdm.notebook import tqdm

        self.on_end()
        self._tally = Tally(attempts, earlier=finished)
        self._bar = tqdm(total=attempts, initial=finished, unit="attempt")
        with contextlib.suppress(RuntimeError):  # without an event loop no attempt is under way
            self._set_timer(asyncio.get_running_loop())

    def on_attempt(self, record: AttemptRecord) -> None:
        if self._bar is None:
            return
        self._tally = self._tally.plus(record.status)
        # tqdm draws at most ten times a second, and this text with the bar.
        self._describe(refresh=False)
        self._bar.update()

    def show_stages(self) -> None:
        """Draw the stages anew, because no attempt may end for minutes."""
        if self._bar is not None:
            self._describe(refresh=True)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        def draw() -> None:
            self.show_stages()
            self._set_timer(loop)

        self._timer = loop.call_later(_SECONDS_BETWEEN_STAGES, draw)

    def _describe(self, *, refresh: bool) -> None:
        stages = describe_stages(self._progress.list_active())
        text = "; ".join(filter(None, (self._tally.outcome(), stages)))
        self._bar.set_postfix_str(escape_terminal(text, NOTE_LIMIT), refresh=refresh)

    def on_end(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


def build_frame(attempts: Iterable[AttemptRecord]) -> pandas.DataFrame:
    """Return a frame with a row for each attempt, in their order.

    The columns are the fields of a record, with the status as text, and `metrics.NAME` for each metric. An
    attempt that lacks a metric has an empty cell.

    Raises UsageError if pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise UsageError(
            "a frame needs pandas, which is not installed", hint=describe_installation("notebook")
        ) from error
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    metrics: dict[str, dict[int, Any]] = {}
    rows = 0
    for record in attempts:
        for name in _COLUMNS:
            value = getattr(record, name)
            columns[name].append(value.value if name == "status" else value)
        for name, value in record.metrics.items():
            metrics.setdefault(name, {})[rows] = value
        rows += 1
    for name in sorted(metrics):
        columns[f"metrics.{name}"] = [metrics[name].get(row) for row in range(rows)]
    return pandas.DataFrame(columns)
