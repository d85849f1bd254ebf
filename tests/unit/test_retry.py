"""Retries: which attempts they repeat, and how superseded verdicts are counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from case_checks import each_case
from viewer_fixtures import index_records

from harness.core.errors import UsageError
from harness.core.types import AttemptRecord, Status, Task
from harness.runs.config import RunConfig
from harness.runs.records import PlannedAttempt
from harness.runs.resume import change_resumed_config
from harness.runs.run import Retry, list_remaining
from harness.runs.stored_result import StoredResult
from harness.runs.summary import summarize_records, summary_json

RECORD = AttemptRecord("t/1", 0, None, None, False, Status.FAILED, 0.0, {}, "", "", 0.5, None)
SUPERSEDING = replace(RECORD, status=Status.CANCELLED, score=None, metrics={"superseded": "failed"})
PASSED = replace(RECORD, status=Status.PASSED, resolved=True, score=1.0)


def result(status: Status, superseded: int = 0) -> StoredResult:
    return StoredResult(status, status is Status.PASSED, None, superseded=superseded)


@each_case("status", list(Status))
def test_a_retry_of_failures_repeats_every_verdict_but_passed(status: Status) -> None:
    repeated = Retry(failed=True).selects(result(status))
    assert repeated == (status.has_score and status is not Status.PASSED)


@each_case("status", list(Status))
def test_a_retry_of_infra_errors_repeats_nothing_else(status: Status) -> None:
    without_verdict = status in (Status.INFRA_ERROR, Status.GRADER_ERROR)
    assert Retry(infra=True).selects(result(status)) == without_verdict


def test_a_retry_of_failures_repeats_what_a_killed_one_has_superseded() -> None:
    assert Retry(failed=True).selects(result(Status.CANCELLED, superseded=1))


def test_without_a_retry_all_attempts_without_a_verdict_remain() -> None:
    task = Task(id="t/1", benchmark="b", environment="python", prompt="")
    plan = [PlannedAttempt(task, number, None) for number in range(4)]
    statuses = [Status.FAILED, Status.INFRA_ERROR, Status.CANCELLED]
    results = {("t/1", number): result(status) for number, status in enumerate(statuses)}
    assert list_remaining(plan, results, None) == [("t/1", 1), ("t/1", 2), ("t/1", 3)]
    assert list_remaining(plan, results, Retry(failed=True, infra=True)) == [("t/1", 0), ("t/1", 1)]


def test_each_superseded_verdict_is_counted_once() -> None:
    index = index_records(RECORD, SUPERSEDING, RECORD, SUPERSEDING, PASSED, replace(PASSED, attempt=1))
    assert [found.superseded for found in index.values()] == [2, 0]
    assert index.count_superseded() == 2


def test_an_attempt_repeated_after_an_infra_error_supersedes_no_verdict() -> None:
    lost = replace(RECORD, status=Status.INFRA_ERROR, score=None)
    assert index_records(lost, PASSED).count_superseded() == 0


def test_a_summary_counts_the_last_try_and_names_the_superseded_ones() -> None:
    summary = summarize_records(index_records(RECORD, SUPERSEDING, PASSED), [1], tasks=1, attempts=1)
    assert (summary.resolved, summary.statuses) == (1, {Status.PASSED: 1})
    assert summary_json(summary)["superseded"] == {"attempts": 1, "resolved": 1}


# --- settings of a resumed run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "manifest.json").write_text(
        '{"schema_version": 1, "run_id": "r", "benchmark": "b", "agent": "chat", "source": "hub", '
        '"data": {"kind": "hub", "location": "l", "sha256": "s", "rows": 1}, "images": {}, "config": '
        '{"generation": {"temperature": 0.5}, "isolation": "task"}}'
    )
    return tmp_path


RECORDED = RunConfig.model_validate(
    {"benchmark": "b", "agent": "chat", "model": "m", "generation": {"temperature": 0.5, "max_tokens": 9}}
)


def give(**settings: object) -> RunConfig:
    return RunConfig.model_validate({"benchmark": "b", "agent": "chat", **settings})


def test_equal_settings_change_nothing(folder: Path) -> None:
    config, changes = change_resumed_config(folder, RECORDED, give(model="m", n_samples=1), [])
    assert (config, changes) == (RECORDED, [])


def test_a_setting_of_a_group_leaves_the_others_of_the_group(folder: Path) -> None:
    given = give(generation={"temperature": 0.7})
    config, (change,) = change_resumed_config(folder, RECORDED, given, ["config.generation"])
    assert (change.field, change.before, change.after) == ("config.generation.temperature", 0.5, 0.7)
    assert (config.generation.temperature, config.generation.max_tokens) == (0.7, 9)


def test_concurrency_and_budget_change_without_a_question(folder: Path) -> None:
    given = give(max_concurrent=3, run_budget={"output_tokens": 5})
    config, changes = change_resumed_config(folder, RECORDED, given, [])
    assert changes == []
    assert (config.max_concurrent, config.run_budget.output_tokens) == (3, 5)


@each_case("setting", [{"n_samples": 2}, {"seed": 1}, {"shard": "1/2"}, {"sample_size": 2}])
def test_a_setting_of_the_plan_cannot_be_accepted(folder: Path, setting: dict[str, object]) -> None:
    (name,) = setting
    with pytest.raises(UsageError, match=rf"config\.{name} was .* a resumed run cannot change") as caught:
        change_resumed_config(folder, RECORDED, give(**setting), [f"config.{name}"])
    assert caught.value.hint == "start a new run, because the recorded attempts do not fit this setting"


def test_a_change_that_is_not_accepted_is_refused_with_both_values(folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        change_resumed_config(folder, RECORDED, give(isolation="attempt"), [])
    assert caught.value.message == (
        f'{folder}: config.isolation was "task" when this run started, and is "attempt" now'
    )
    assert (caught.value.hint or "").endswith("or add: --accept config.isolation")
