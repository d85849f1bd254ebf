"""AgentBench's scores, upstream's statuses of attempts, and the list of bad tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import load_benchmark
from harness.benchmarks.agentbench.tasks import (
    categories,
    category_of,
    scores,
    status_metrics,
    upstream_status,
)
from harness.benchmarks.benchmark import TaskResult
from harness.benchmarks.category import Outcome
from harness.core.types import Status, Verdict
from harness.environments.os.soundness import why_quarantined


def outcome(category: str, resolved: bool, kind: str | None = None) -> Outcome:
    return Outcome(category, TaskResult(resolved, float(resolved)), kind)


def database(**kinds: list[bool]) -> list[Outcome]:
    return [outcome("db", resolved, kind) for kind, each in kinds.items() for resolved in each]


def test_the_shell_is_scored_by_its_success_rate() -> None:
    found = scores([outcome("os", True), outcome("os", False), outcome("os", True), outcome("os", True)])
    assert found["categories"]["os"] == {"score": 0.75, "measure": "success rate", "tasks": 4}


def test_the_database_is_scored_by_the_mean_of_three_kinds_however_many_tasks_each_has() -> None:
    outcomes = database(SELECT=[True] * 8, INSERT=[False], UPDATE=[True, False])
    found = scores(outcomes)["categories"]["db"]
    assert found["score"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert found["kinds"]["UPDATE"] == {"score": 0.5, "tasks": 2}
    assert found["missing_kinds"] == []


def test_deletes_are_reported_and_not_counted() -> None:
    found = scores(database(SELECT=[True], INSERT=[True], UPDATE=[True], DELETE=[False]))["categories"]["db"]
    assert found["score"] == 1.0
    assert found["kinds"]["DELETE"] == {"score": 0.0, "tasks": 1}
    assert found["tasks"] == 4


def test_a_kind_that_did_not_run_is_named() -> None:
    found = scores(database(SELECT=[True], UPDATE=[False]))["categories"]["db"]
    assert (found["score"], found["missing_kinds"]) == (0.5, ["INSERT"])


def test_overall_is_partial_if_some_categories_did_not_run() -> None:
    overall = scores([outcome("os", True), *database(SELECT=[False], INSERT=[False], UPDATE=[False])])[
        "overall"
    ]
    missing = ["kg", "web", "card", "lateral", "house"]
    score = pytest.approx((100 / categories()["os"].weight + 0) / 2)
    assert overall == {"score": score, "method": "partial", "missing": missing}


def test_overall_is_weighted_as_in_the_paper_if_all_ran() -> None:
    outcomes = [outcome(name, name == "os") for name in categories()]
    overall = scores(outcomes)["overall"]
    assert overall == {"score": pytest.approx(100 / 10.8 / 7), "method": "weighted", "missing": []}


def test_the_weights_are_those_of_the_paper() -> None:
    weights = {name: category.weight for name, category in categories().items()}
    others = {"card": 12.0, "lateral": 3.5, "house": 13.0, "web": 30.7}
    assert weights == {"os": 10.8, "db": 13.0, "kg": 13.9, **others}


def test_a_run_of_nothing_has_no_score() -> None:
    assert scores([])["overall"]["score"] is None


@each_case(
    ("status", "metrics", "word"),
    [
        (Status.PASSED, {}, "completed"),
        (Status.FAILED, {}, "completed"),
        (Status.LIMIT_REACHED, {"limit": "rounds"}, "task limit reached"),
        (Status.LIMIT_REACHED, {"limit": "context"}, "context limit"),
        (Status.TIMEOUT, {"phase": "agent"}, "task limit reached"),
        (Status.TIMEOUT, {"phase": "evaluator"}, "task error"),
        (Status.AGENT_ERROR, {}, "validation failed"),
        (Status.AGENT_ERROR, {"fault": "action"}, "invalid action"),
        (Status.INFRA_ERROR, {}, "task error"),
        (Status.CANCELLED, {}, "unknown"),
    ],
)
def test_a_status_has_upstreams_name(status: Status, metrics: dict[str, Any], word: str) -> None:
    assert upstream_status(status, metrics) == word


def test_upstreams_status_is_one_of_the_metrics() -> None:
    mbpp = load_benchmark("mbpp", data="bundled")
    benchmark = replace(mbpp, definition=replace(mbpp.definition, extra_metrics=status_metrics))
    verdict = Verdict(Status.LIMIT_REACHED, 0.0, limit="rounds")
    assert benchmark.add_metrics(verdict).recorded_metrics == {
        "limit": "rounds",
        "agentbench_status": "task limit reached",
    }
    assert mbpp.add_metrics(verdict) == verdict


def test_every_status_has_a_name_of_upstream() -> None:
    for status in Status:
        assert upstream_status(status, {})


@each_case("task_id", ["os/dev/8", "os/4/N11", "os/4/Q09/0", "os/6/new/8", "os/7/bootstrap/75"])
def test_a_bad_task_has_its_reason(task_id: str) -> None:
    assert why_quarantined(task_id)


@each_case("task_id", ["os/dev/80", "os/dev/7", "os/7/bootstrap/5", "db/dev/8", "os/sample/a/0"])
def test_a_task_next_to_a_bad_one_is_sound(task_id: str) -> None:
    assert why_quarantined(task_id) is None


@each_case(
    ("name", "category"),
    [
        ("OS", "os"),
        ("Operating System", "os"),
        ("web_shopping", "web"),
        ("house-holding", "house"),
        ("knowledge_graph", "kg"),
        ("CG", "card"),
        ("aquawar", "card"),
        ("AF", "house"),
        ("m2w", "mind2web"),
        ("x", None),
    ],
)
def test_a_category_has_the_names_that_people_write(name: str, category: str | None) -> None:
    assert category_of(name) == category


def test_flat_records_are_scored_by_their_answers_alone() -> None:
    flat = [
        Outcome(name, TaskResult(right, float(right)), is_flat=True)
        for name in ("card", "db", "kg")
        for right in (True, False)
    ]
    found = scores(flat)["categories"]
    assert {name: (each["score"], each["measure"]) for name, each in found.items()} == dict.fromkeys(
        ("db", "kg", "card"), (0.5, "share of right answers")
    )


def test_flat_records_and_games_of_one_category_are_weighted_by_their_numbers() -> None:
    won = Outcome("card", TaskResult(True, 1.0, {"won": 1.0, "damage": 1600.0}))
    wrong = Outcome("card", TaskResult(False, 0.0), is_flat=True)
    found = scores([won, wrong, wrong, wrong])["categories"]["card"]
    assert (found["score"], found["tasks"]) == (0.25, 4)
    assert found["measure"].endswith("share of right answers for 3 flat records")
