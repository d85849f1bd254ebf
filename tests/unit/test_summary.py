"""The numbers of a run: the counts by status, and the denominator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from case_checks import each_case

from harness.benchmarks import Benchmark, load_benchmark
from harness.benchmarks.benchmark import TaskResult
from harness.core.errors import UsageError
from harness.core.scoring.metrics import Interval, Metric, wilson_interval
from harness.core.types import Status, Summary, Task
from harness.runs.plan import name_clusters
from harness.runs.records import PlannedAttempt
from harness.runs.stored_result import StoredResult
from harness.runs.summary import describe_rate, summarize, summary_json

P, F, I, C = Status.PASSED, Status.FAILED, Status.INFRA_ERROR, Status.CANCELLED  # noqa: E741


def summary(
    outcomes: dict[str, list[Status | None]],
    ks: tuple[int, ...] = (1,),
    categories: dict[str, str] | None = None,
) -> Summary:
    """Return the summary of tasks whose attempts ended so. None stands for an attempt that never ran."""
    plan = []
    kept = {}
    for task_id, statuses in outcomes.items():
        task = Task(task_id, "b", "python", "", category=(categories or {}).get(task_id))
        for number, status in enumerate(statuses):
            plan.append(PlannedAttempt(task, number, None))
            if status is not None:
                kept[task_id, number] = StoredResult(status, status is P, task.category)
    return summarize(plan, kept, ks)


def test_task_is_resolved_by_its_first_attempt_alone() -> None:
    found = summary({"a": [P, F], "b": [F, F]})
    assert (found.total, found.attempts, found.resolved, found.first_attempt_rate) == (2, 4, 1, 0.5)


@each_case(
    ("outcomes", "resolved", "rate"),
    [
        ({"a": [P, F], "b": [P, F], "c": [F, F], "d": [F, F]}, 2, 0.25),
        ({"a": [F, P], "b": [F, P], "c": [F, P], "d": [P, F]}, 1, 0.5),
        ({"a": [F, P, P], "b": [F, P, P], "c": [F, P, P], "d": [F, P, P]}, 0, 2 / 3),
        ({"a": [I, P], "b": [P, I], "c": [P, C], "d": [None, P]}, 2, 0.5),
        ({"a": [P, P, P, P], "b": [F], "c": [F], "d": [F]}, 1, 0.25),
    ],
)
def test_the_rate_is_the_mean_over_tasks_of_the_share_of_attempts_that_passed(
    outcomes: dict[str, list[Status | None]], resolved: int, rate: float
) -> None:
    categories = dict.fromkeys(outcomes, "x")
    found = summary(outcomes, categories=categories)
    assert (found.resolved, found.rate, found.first_attempt_rate) == (resolved, rate, resolved / 4)
    row = found.by_category["x"]
    assert (row["total"], row["resolved"], row["rate"]) == (4, resolved, rate)
    assert found.rate_interval is not None
    assert (row["low"], row["high"]) == (found.rate_interval.low, found.rate_interval.high)


def test_attempts_that_only_repeat_each_other_narrow_no_interval() -> None:
    once = summary({"a": [P], "b": [F], "c": [P]}).rate_interval
    often = summary({"a": [P] * 9, "b": [F] * 9, "c": [P] * 9}).rate_interval
    assert once is not None
    assert often is not None
    assert (once.low, once.high) == wilson_interval(2, 3)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_tasks_of_one_cluster_count_as_one_unit() -> None:
    tasks = [Task(name, "b", "python", "", labels={"book": name[0]}) for name in ("a1", "a2", "b1", "b2")]
    plan = name_clusters([PlannedAttempt(task, 0, None) for task in tasks], "book")
    kept = {
        planned.key: StoredResult(P if planned.cluster == "a" else F, planned.cluster == "a", None)
        for planned in plan
    }
    found = summarize(plan, kept, (1,), cluster_by="book")
    plain = summarize(plan_without_clusters(plan), kept, (1,))
    assert found.rate_interval is not None
    assert plain.rate_interval is not None
    assert (found.rate, found.rate_interval.clusters, found.rate_interval.cluster_by) == (0.5, 2, "book")
    assert found.rate_interval.low < plain.rate_interval.low
    assert describe_rate(found)["clustered_by"] == "book"


def plan_without_clusters(plan: list[PlannedAttempt]) -> list[PlannedAttempt]:
    return [replace(planned, cluster=None) for planned in plan]


def test_a_field_that_no_task_has_clusters_nothing() -> None:
    plan = [PlannedAttempt(Task("a", "b", "python", "", category="x"), 0, None)]
    with pytest.raises(UsageError, match="no selected task has a colour to cluster by") as caught:
        name_clusters(plan, "colour")
    assert caught.value.hint == "--cluster-by takes what the tasks have: category"


def test_every_selected_task_is_in_the_denominator() -> None:
    found = summary({"a": [P], "b": [I], "c": [None], "d": [C]})
    assert (found.total, found.resolved, found.rate) == (4, 1, 0.25)


def test_every_attempt_is_counted_under_one_status() -> None:
    found = summary({"a": [P, F], "b": [Status.TIMEOUT, I], "c": [None]})
    assert found.statuses == {P: 1, F: 1, Status.TIMEOUT: 1, I: 1, C: 1}
    assert sum(found.statuses.values()) == found.attempts


def test_attempt_that_never_ran_counts_as_cancelled() -> None:
    assert summary({"a": [None]}).statuses == {C: 1}


def test_pass_at_k_is_the_mean_over_tasks() -> None:
    found = summary({"a": [P, F, F], "b": [P, P, P]}, ks=(1, 2))
    assert found.pass_at_k == {1: pytest.approx((1 / 3 + 1) / 2), 2: pytest.approx((2 / 3 + 1) / 2)}


def test_pass_at_k_is_undefined_if_a_task_has_fewer_attempts() -> None:
    assert summary({"a": [P, P], "b": [P]}, ks=(1, 2)).pass_at_k == {1: 1.0, 2: None}


@each_case("lost", [I, C, None])
def test_pass_at_k_takes_only_attempts_that_have_a_verdict(lost: Status | None) -> None:
    assert summary({"a": [P, lost]}, ks=(1, 2)).pass_at_k == {1: 1.0, 2: None}


def test_pass_at_k_is_given_once_for_each_k_in_order() -> None:
    assert list(summary({"a": [P]}, ks=(5, 1, 5)).pass_at_k) == [1, 5]


def test_each_category_has_its_own_numbers() -> None:
    found = summary({"a": [P], "b": [F], "c": [P]}, categories={"a": "x", "b": "x", "c": "w"})
    rows = {name: (row["total"], row["resolved"], row["rate"]) for name, row in found.by_category.items()}
    assert rows == {"w": (1, 1, 1.0), "x": (2, 1, 0.5)}
    assert list(found.by_category) == ["w", "x"]


def test_tasks_without_a_category_are_in_none() -> None:
    assert summary({"a": [P], "b": [P]}, categories={"a": "x"}).by_category["x"]["total"] == 1


def test_no_attempts_are_no_division_by_zero() -> None:
    found = summary({})
    assert (found.total, found.rate, found.pass_at_k) == (0, 0.0, {1: None})


def test_json_has_exactly_the_fields_of_the_contract() -> None:
    written = json.loads(json.dumps(summary_json(summary({"a": [P], "b": [I]}, ks=(1, 10)))))
    headline = {"value", "low", "high", "interval", "confidence", "clusters", "clustered_by", "meaning"}
    assert written.pop("headline").keys() == headline
    assert written == {
        "schema_version": 2,
        "first_attempt_rate": 0.5,
        "total": 2,
        "attempts": 2,
        "resolved": 1,
        "rate": 0.5,
        "pass_at_k": {"1": None, "10": None},
        "statuses": {"passed": 1, "infra_error": 1},
        "by_category": {},
        "integrity": {},
        "metrics": {},
    }


def test_attempts_with_signs_of_tampering_are_counted_by_sign_the_commonest_first() -> None:
    tasks = [Task(name, "b", "python", "") for name in "abcd"]
    plan = [PlannedAttempt(task, 0, None) for task in tasks]
    signs = ("rare", "common", None, "common")
    kept = {
        planned.key: StoredResult(F, False, None, sign) for planned, sign in zip(plan, signs, strict=True)
    }
    found = summarize(plan, kept, (1,)).integrity
    assert list(found.items()) == [("common", 2), ("rare", 1)]


def test_an_attempt_that_never_ran_shows_no_sign() -> None:
    assert summary({"a": [None]}).integrity == {}


METRICS = (Metric("em", "a rate"), Metric("f1", "a mean", Interval.BOOTSTRAP))


def with_metrics(values: dict[str, tuple[float, ...] | None]) -> Summary:
    """Return the summary of tasks with one attempt each with these metrics. None is one that never ran."""
    plan = [PlannedAttempt(Task(task_id, "b", "text", ""), 0, None) for task_id in values]
    kept = {
        (task_id, 0): StoredResult(F, False, None, metrics=found)
        for task_id, found in values.items()
        if found is not None
    }
    return summarize(plan, kept, (1,), METRICS)


def test_metrics_are_means_over_all_tasks_with_their_kind_of_interval() -> None:
    found = with_metrics({"a": (1.0, 1.0), "b": (0.0, 0.5), "c": None, "d": (0.0, 0.1)}).metrics
    assert list(found) == ["em", "f1"]
    assert (found["em"].mean, found["em"].interval, found["em"].tasks) == (0.25, "wilson", 4)
    assert (found["em"].low, found["em"].high) == wilson_interval(1, 4)
    assert found["f1"].mean == pytest.approx(0.4)
    assert found["f1"].interval == "bootstrap"
    assert found["f1"].low < 0.4 < found["f1"].high


def test_metrics_of_no_tasks_are_left_out() -> None:
    assert with_metrics({}).metrics == {}


def test_a_stricter_verdict_is_counted_next_to_the_published_one() -> None:
    plan = [PlannedAttempt(Task(name, "b", "text", ""), 0, None) for name in "abcd"]
    kept = {
        ("a", 0): StoredResult(P, True, None, None, True),
        ("b", 0): StoredResult(P, True, None, None, False),
        ("c", 0): StoredResult(F, False, None, None, False),
        ("d", 0): StoredResult(P, True, None),
    }
    found = summarize(plan, kept, (1,))
    assert found.resolved == 3
    assert found.resolved_strict == {"tasks": 3, "resolved": 2, "resolved_strict": 1, "differ": 1}


def test_quarantined_tasks_are_named_and_not_in_the_denominator() -> None:
    plan = [PlannedAttempt(Task("a", "b", "python", ""), 0, None)]
    found = summarize(plan, {("a", 0): StoredResult(P, True, None)}, (1,), quarantined={"x": "wrong gold"})
    assert (found.total, found.rate, found.quarantined) == (1, 1.0, {"x": "wrong gold"})
    assert summary_json(found)["quarantined"] == {"x": "wrong gold"}


def test_a_benchmark_adds_its_own_scores_over_first_attempts() -> None:
    def scores(_benchmark: Benchmark, results: Mapping[str, TaskResult]) -> Mapping[str, object]:
        return {"mine": sum(result.resolved for result in results.values())}

    mbpp = load_benchmark("mbpp", data="bundled")
    benchmark = replace(mbpp, definition=replace(mbpp.definition, scores=scores))
    plan = [PlannedAttempt(Task(name, "b", "python", ""), number, None) for name in "ab" for number in (0, 1)]
    kept = {("a", 0): StoredResult(P, True, None), ("b", 1): StoredResult(P, True, None)}
    found = summarize(plan, kept, (1,), benchmark=benchmark)
    assert summary_json(found)["scores"] == {"mine": 1}


def test_the_summary_omits_parts_that_a_benchmark_lacks() -> None:
    assert not {"scores", "quarantined", "resolved_strict"} & summary_json(summary({"a": [P]})).keys()


def test_the_headline_comes_first_and_has_the_interval_of_the_rate() -> None:
    values = summary_json(summary({"a": [P], "b": [P], "c": [F], "d": [I]}))
    assert next(iter(values)) == "headline"
    headline = values["headline"]
    assert (headline["value"], headline["interval"], headline["confidence"]) == (0.5, "wilson", 0.95)
    assert (headline["low"], headline["high"]) == wilson_interval(2, 4)


@each_case("outcomes", [{}, {"a": [P], "b": [None]}])
def test_a_run_without_tasks_and_a_stopped_run_have_no_headline_number(
    outcomes: dict[str, list[Status | None]],
) -> None:
    headline = summary_json(summary(outcomes))["headline"]
    assert (headline["value"], headline["low"], headline["high"]) == (None, None, None)
