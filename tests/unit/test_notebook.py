"""The result of a run in Python: its short form, its HTML, its frame, and the display of its progress."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tqdm
from case_checks import each_case

from harness import RunResult, UsageError, run
from harness.core.errors import describe_installation
from harness.core.types import AttemptRecord, RateInterval, Status, Summary, Task
from harness.reports import notebook
from harness.reports.notebook import NotebookProgress, choose_display, is_notebook
from harness.reports.progress import NotesOnly, PlainProgress
from harness.runs.progress import RunProgress, ShowsProgress
from harness.runs.records import PlannedAttempt

RECORD = AttemptRecord(
    "t", 0, None, "c", True, Status.PASSED, 1.0, {"cpu_seconds": 0.5}, "out", "out", 0.25, None
)
SUMMARY = Summary(
    total=4,
    attempts=4,
    resolved=3,
    rate=0.75,
    pass_at_k={1: 0.75},
    statuses={Status.PASSED: 3, Status.FAILED: 1, Status.TIMEOUT: 0},
    by_category={
        "<script>": {"total": 1, "resolved": 1, "rate": 1.0},
        "b": {"total": 3, "resolved": 2, "rate": 2 / 3},
    },
    rate_interval=RateInterval(0.3006, 0.9544, 4),
    first_attempt_rate=0.75,
)
HEADLINE = "75.0 % resolved (95 % interval 30.1 % to 95.4 %, Wilson): 3 of 4 tasks, by one attempt at each"
RESULT = RunResult(Path("runs/<b>\x1b"), SUMMARY, [RECORD, replace(RECORD, attempt=1, metrics={"rounds": 3})])


def in_kernel(monkeypatch: pytest.MonkeyPatch, *, widgets: bool) -> None:
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(notebook, "_has_widgets", lambda: widgets)


def test_the_short_form_is_the_rate_with_its_interval() -> None:
    assert repr(RESULT).startswith(f"<RunResult: {HEADLINE}, runs/")


def test_the_html_escapes_every_name() -> None:
    html = RESULT._repr_html_()
    assert f"<strong>{HEADLINE}</strong>" in html
    assert set(re.findall(r"</?(\w+)", html)) == {"div", "strong", "table", "tr", "th", "td", "small"}
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html
    assert "timeout" not in html


def test_a_result_of_the_bundled_sample_is_marked() -> None:
    bundled = replace(RESULT, is_bundled=True)
    assert repr(bundled).startswith("<RunResult: bundled sample, 75.0 % resolved")
    assert "These figures are not a result" in bundled._repr_html_()
    assert "bundled" not in repr(RESULT) + RESULT._repr_html_()


def test_the_html_of_many_categories_is_short() -> None:
    row: dict[str, float | int] = {"total": 1, "resolved": 1, "rate": 1.0}
    many = replace(SUMMARY, by_category={f"c{number}": row for number in range(1000)})
    html = RunResult(Path("r"), many, [])._repr_html_()
    assert "970 more categories" in html
    assert html.count("<tr>") == 2 + 1 + 30 + 1


def test_a_frame_has_a_row_for_each_attempt_and_a_column_for_each_metric() -> None:
    frame = RESULT.to_frame()
    assert list(frame["status"]) == ["passed", "passed"]
    assert list(frame["attempt"]) == [0, 1]
    assert frame["metrics.cpu_seconds"].tolist()[0] == 0.5
    assert frame["metrics.cpu_seconds"].isna().tolist() == [False, True]
    assert not {"metrics", "submission", "agent_output_full"} & set(frame.columns)


def test_a_frame_of_no_attempts_has_the_columns() -> None:
    frame = RunResult(Path("r"), SUMMARY, []).to_frame()
    assert len(frame) == 0
    assert "task_id" in frame.columns


def test_a_frame_without_pandas_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pandas, which is not installed") as caught:
        RESULT.to_frame()
    assert caught.value.hint == describe_installation("notebook")


def test_a_kernel_is_a_notebook_and_a_terminal_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not is_notebook()
    terminal: Any = SimpleNamespace(get_ipython=lambda: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert not is_notebook()
    in_kernel(monkeypatch, widgets=True)
    assert is_notebook()


@each_case(
    ("widgets", "progress", "expected"),
    [
        (True, None, NotebookProgress),
        (False, None, PlainProgress),
        (True, False, NotesOnly),
        (True, True, NotebookProgress),
        # A program that is not in a kernel shows its progress only on request.
        (None, None, NotesOnly),
        (None, True, PlainProgress),
        (None, False, NotesOnly),
    ],
)
def test_a_notebook_gets_a_bar_if_it_can_show_one(
    monkeypatch: pytest.MonkeyPatch, widgets: bool | None, progress: bool | None, expected: type
) -> None:
    if widgets is None:
        monkeypatch.delitem(sys.modules, "IPython", raising=False)
    else:
        in_kernel(monkeypatch, widgets=widgets)
    assert type(choose_display(io.StringIO(), progress)) is expected


async def test_an_observer_and_progress_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="observer and progress exclude each other"):
        await run("gsm8k", observer=NotesOnly(io.StringIO()), progress=True)


async def test_the_bar_of_a_notebook_shows_the_stages_of_attempts_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = io.StringIO()
    module = SimpleNamespace(tqdm=partial(tqdm.tqdm, file=drawn, ncols=200))
    monkeypatch.setitem(sys.modules, "tqdm.notebook", module)
    progress, display = RunProgress(), NotebookProgress(io.StringIO())
    display.show_progress(progress)
    display.on_start(attempts=3, finished=0, concurrency=3)
    planned = [PlannedAttempt(Task(name, "b", "python", ""), 0, None) for name in "ab"]
    with progress.begin(planned[0]) as first, progress.begin(planned[1]) as second, first.ask_model():
        second.begin_grading()
        display.on_attempt(RECORD)
        display.show_stages()
    display.on_end()
    assert "passed 1, failed 0, other 0; waiting for model 1, grading 1" in drawn.getvalue()
    assert isinstance(display, ShowsProgress)
