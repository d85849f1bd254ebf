from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from harness import AttemptContext, run
from harness.core.scoring.numbers import same_number
from harness.core.types import AttemptRecord, Task
from harness.environments.text import short_answers
from harness.reports.figures import describe_oldest, describe_stages
from harness.runs.progress import (
    ActiveAttempt,
    CategorySize,
    RunProgress,
    ShowsProgress,
    Stage,
    count_stages,
    measure_categories,
)
from harness.runs.records import PlannedAttempt


def planned(name: str, category: str | None = None, number: int = 0) -> PlannedAttempt:
    task = Task(id=name, benchmark="b", prompt="", environment="python", category=category)
    return PlannedAttempt(task, number, None)


def in_stage(stage: Stage, started: float = 0.0, name: str = "t") -> ActiveAttempt:
    attempt = ActiveAttempt(name, 0, started)
    attempt.enter(stage)
    return attempt


def test_an_attempt_waits_for_its_model_while_any_request_is_under_way() -> None:
    attempt = in_stage(Stage.ACTING)
    seen = []
    with attempt.ask_model():
        with attempt.ask_model():
            pass
        seen.append(attempt.stage)
    assert [*seen, attempt.stage] == [Stage.MODEL, Stage.ACTING]


def test_a_request_that_fails_leaves_the_stage_of_before() -> None:
    attempt = in_stage(Stage.GRADING)
    with contextlib.suppress(ValueError), attempt.ask_model():
        raise ValueError
    assert attempt.stage is Stage.GRADING


def test_the_oldest_attempts_come_first_and_ended_ones_are_gone() -> None:
    progress = RunProgress()
    with progress.begin(planned("first")):
        with progress.begin(planned("second")), progress.begin(planned("first", number=1)):
            assert [(each.task_id, each.number) for each in progress.list_active()] == [
                ("first", 0),
                ("second", 0),
                ("first", 1),
            ]
        assert [each.task_id for each in progress.list_active()] == ["first"]
    assert progress.list_active() == []


def test_stages_are_counted_in_their_order() -> None:
    active = [in_stage(stage) for stage in (Stage.QUEUED, Stage.GRADING, Stage.ACTING, Stage.GRADING)]
    assert count_stages(active) == {Stage.ACTING: 1, Stage.GRADING: 2, Stage.QUEUED: 1}
    assert describe_stages(active) == "acting 1, grading 2, queued 1"
    assert describe_stages([]) == ""


def test_categories_know_what_an_earlier_run_has_finished() -> None:
    plan = [planned("1", "os"), planned("2", "db"), planned("3", "os")]
    assert measure_categories(plan, plan[1:]) == {"os": CategorySize(2, 1), "db": CategorySize(1, 0)}


def test_a_single_category_is_the_run_itself() -> None:
    plan = [planned("1", "os"), planned("2", "os")]
    assert measure_categories(plan, plan) == {}


def test_tasks_without_a_category_count_together() -> None:
    plan = [planned("1"), planned("2", "os"), planned("3")]
    assert measure_categories(plan, plan) == {"": CategorySize(2, 0), "os": CategorySize(1, 0)}


def test_only_old_attempts_are_named_and_their_names_are_safe() -> None:
    active = [
        in_stage(Stage.ACTING, 100.0, "os/\x1b[2J1"),
        in_stage(Stage.GRADING, 150.0, "db/1"),
        in_stage(Stage.QUEUED, 195.0, "db/2"),
    ]
    assert describe_oldest(active, 200.0, 3) == ["os/\\x1b[2J1: 1 min 40 s, acting", "db/1: 50 s, grading"]
    assert len(describe_oldest(active, 200.0, 1)) == 1


def test_an_observer_needs_no_progress() -> None:
    class Plain:
        def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None: ...

    class Shows(Plain):
        def show_progress(self, progress: Any) -> None: ...

    assert not isinstance(Plain(), ShowsProgress)
    assert isinstance(Shows(), ShowsProgress)


class Watch:
    """An observer that keeps the progress of a run."""

    def __init__(self) -> None:
        self.progress = RunProgress()
        self.left: list[int] = []

    def show_progress(self, progress: RunProgress) -> None:
        self.progress = progress

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None: ...

    def on_attempt(self, record: AttemptRecord) -> None: ...

    def note(self, text: str) -> None: ...

    def on_end(self) -> None:
        self.left.append(len(self.progress.list_active()))


async def test_a_run_shows_the_attempts_whose_agents_act(tmp_path: Path) -> None:
    watch, seen = Watch(), []

    async def attempt(context: AttemptContext) -> str:
        seen.append([(each.task_id, str(each.stage)) for each in watch.progress.list_active()])
        return "0"

    result = await run(
        "gsm8k",
        agent=attempt,
        data="bundled",
        sample_size=1,
        n_samples=2,
        max_concurrent=1,
        output_dir=str(tmp_path),
        observer=watch,
    )
    name = result.attempts[0].task_id
    assert seen == [[(name, "acting")], [(name, "acting")]]
    assert watch.left == [0]


async def test_an_attempt_under_a_grader_is_grading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    watch = Watch()
    seen: list[Stage] = []

    def see(*values: Any) -> bool:
        seen.extend(each.stage for each in watch.progress.list_active())
        return same_number(*values)

    monkeypatch.setattr(short_answers, "same_number", see)
    await run(
        "gsm8k", agent="oracle", data="bundled", sample_size=1, output_dir=str(tmp_path), observer=watch
    )
    assert seen == [Stage.GRADING]
