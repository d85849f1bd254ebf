"""The comparison of runs, from run folders that the tests write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

import harness
from harness.core.errors import UsageError
from harness.core.types import AttemptRecord, Status
from harness.reports.run_folder import read_run
from harness.runs.comparison import ChangedTask, Comparison, compare_runs
from harness.runs.manifest import read_model_name
from harness.runs.records import to_json
from harness.runs.store import RunStore, read_manifest
from harness.runs.trust import describe_resume

RECORD = AttemptRecord("t", 0, None, None, True, Status.PASSED, 1.0, {}, "out", "out", 0.25, None)
MANIFEST: dict[str, Any] = {
    "schema_version": 1,
    "benchmark": "mbpp",
    "agent": "chat",
    "source": "path",
    "data": {"kind": "path", "location": "p", "sha256": "0" * 64, "rows": 4},
    "images": {},
    "seed": 0,
}
CONFIG = {"benchmark": "mbpp", "model": "qwen", "n_samples": 1, "sample_size": None}
# One letter for each attempt.
STATUSES = {"p": Status.PASSED, "f": Status.FAILED, "t": Status.TIMEOUT, "i": Status.INFRA_ERROR}
LOCAL = {"local": {"model": "qwen2.5-coder", "base_url": "http://localhost/v1"}}


def record(task_id: str, number: int, letter: str, **metrics: Any) -> AttemptRecord:
    """Return the record of an attempt whose status is that of the letter."""
    status = STATUSES[letter]
    score = float(letter == "p") if status.has_score else None
    return replace(
        RECORD,
        task_id=task_id,
        attempt=number,
        status=status,
        resolved=letter == "p",
        score=score,
        metrics=metrics,
    )


def list_records(outcomes: Mapping[str, str]) -> list[AttemptRecord]:
    return [
        record(task_id, number, letter)
        for task_id, letters in outcomes.items()
        for number, letter in enumerate(letters)
    ]


def write_run(
    folder: Path,
    outcomes: Mapping[str, str] | Sequence[AttemptRecord],
    *,
    planned: tuple[int, int] | None = None,
    config: Mapping[str, Any] | None = None,
    **manifest: Any,
) -> Path:
    """Write a run folder with these attempts, and return it. It is unfinished if it lacks some of `planned`.

    Args:
        folder: the new folder.
        outcomes: a letter of STATUSES for each attempt, by task, or the records.
        planned: the number of tasks and of attempts, None for those that there are.
        config: further settings.
        manifest: further fields of the manifest.
    """
    folder.mkdir(parents=True)
    records = list_records(outcomes) if isinstance(outcomes, Mapping) else list(outcomes)
    keys = {(each.task_id, each.attempt) for each in records}
    tasks, attempts = planned or (len({task_id for task_id, _ in keys}), len(keys))
    values = {
        **MANIFEST,
        "run_id": folder.name,
        "planned": {"tasks": tasks, "attempts": attempts},
        "config": {**CONFIG, **(config or {})},
        **manifest,
    }
    (folder / "manifest.json").write_text(json.dumps(values))
    (folder / "attempts.jsonl").write_text("".join(to_json(each) + "\n" for each in records))
    if len(keys) == attempts:
        (folder / "summary.json").write_text(json.dumps({"duration_seconds": 2.0}))
    return folder


def compare(tmp_path: Path, before: Any, after: Any, **options: Any) -> Comparison:
    baseline = write_run(tmp_path / "a", before)
    candidate = write_run(tmp_path / "b", after)
    return compare_runs([baseline], [candidate], **options)


def test_tasks_are_paired_by_id_and_named_if_they_change(tmp_path: Path) -> None:
    found = compare(
        tmp_path,
        {"x": "p", "y": "f", "z": "p", "w": "f"},
        {"w": "p", "z": "t", "y": "p", "x": "p"},
    )
    assert [task.task_id for task in found.gained] == ["w", "y"]
    assert [task.task_id for task in found.lost] == ["z"]
    assert (found.baseline.rate, found.candidate.rate, found.difference) == (0.5, 0.75, 0.25)
    assert found.p_value == 1.0
    low, high = found.interval
    assert low <= found.difference <= high
    assert found.score_difference is None, "scores only repeat the statuses"


def test_a_task_that_is_missing_on_one_side_counts_as_failed_there(tmp_path: Path) -> None:
    found = compare(tmp_path, {"x": "p", "y": "p"}, {"x": "p", "z": "p", "w": "f"})
    assert found.tasks == 4
    assert (found.baseline.missing, found.candidate.missing) == (("w", "z"), ("y",))
    assert (found.baseline.rate, found.candidate.rate) == (0.5, 0.5)
    assert found.gained == (ChangedTask("z", 0, 0, 1, 1),)
    assert found.lost == (ChangedTask("y", 1, 1, 0, 0),)


def test_verdicts_of_two_gradings_are_not_compared_unless_that_is_accepted(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, {"x": "p", "y": "f"}) for name in ("a", "b")]
    manifest = json.loads((runs[1] / "manifest.json").read_text())
    (runs[1] / "manifest.json").write_text(json.dumps({**manifest, "grading_version": 2}))
    with pytest.raises(UsageError, match=r"grading version 2 of mbpp, but .* version 1") as refused:
        compare_runs(runs[:1], runs[1:], resamples=40)
    assert "--accept grading_version" in str(refused.value.hint)
    found = compare_runs(runs[:1], runs[1:], resamples=40, accept=["grading_version"])
    assert [each.name for each in found.differences if each.is_unfair] == ["grading_version"]
    with pytest.raises(UsageError, match="unknown field for --accept 'limits'"):
        compare_runs(runs[:1], runs[1:], resamples=40, accept=["limits"])


def test_missing_tasks_can_be_left_out(tmp_path: Path) -> None:
    found = compare(tmp_path, {"x": "p", "y": "p"}, {"x": "p", "z": "p", "w": "f"}, only_common_tasks=True)
    assert (found.tasks, found.left_out_tasks) == (1, 3)
    assert (found.baseline.missing, found.lost) == ((), ())
    with pytest.raises(UsageError, match="no task in common"):
        compare_runs(
            [write_run(tmp_path / "c", {"q": "p"})], [tmp_path / "a"], only_common_tasks=True, resamples=40
        )


def test_all_figures_are_of_the_common_tasks_if_others_are_left_out(tmp_path: Path) -> None:
    many = {f"t{number}": "ppfff" for number in range(20)}
    found = compare(tmp_path, {"t1": "pfffi", "other": "p"}, many, only_common_tasks=True)
    both = found.baseline, found.candidate
    sides = [(side.attempts, side.without_verdict, dict(side.statuses)) for side in both]
    assert sides == [
        (5, 1, {Status.PASSED: 1, Status.FAILED: 3, Status.INFRA_ERROR: 1}),
        (5, 0, {Status.PASSED: 2, Status.FAILED: 3}),
    ]
    assert [run.planned_tasks for side in both for run in side.runs] == [1, 1]
    assert found.baseline.duration_seconds is None, "the wall time of a part is not known"


def test_the_rate_of_a_side_and_its_interval_are_those_of_its_report(tmp_path: Path) -> None:
    outcomes = {"x": "fpppp", "y": "pp", "z": "f", "w": "pfi"}
    found = compare(tmp_path, outcomes, {"x": "p"}).baseline
    (tmp_path / "a" / "summary.json").unlink()  # its numbers are then computed from the attempts
    report = read_run(tmp_path / "a").summary
    assert (found.rate, found.interval) == (report.rate, report.rate_interval)


def test_tasks_of_one_category_are_drawn_together(tmp_path: Path) -> None:
    def write(name: str, passed: str) -> Path:
        kinds = [(kind, f"{kind}{number}") for kind in "abcd" for number in range(9)]
        records = list_records({task_id: "p" if kind in passed else "f" for kind, task_id in kinds})
        return write_run(tmp_path / name, [replace(each, category=each.task_id[0]) for each in records])

    before, after = write("a", "a"), write("b", "abc")
    plain, clustered = (
        compare_runs([before], [after], cluster_by=name, resamples=400) for name in (None, "category")
    )
    assert (plain.clusters, plain.cluster_by) == (36, "task")
    assert (clustered.clusters, clustered.cluster_by) == (4, "category")
    assert clustered.difference == plain.difference == 0.5
    assert clustered.interval[1] - clustered.interval[0] > plain.interval[1] - plain.interval[0]
    assert clustered.baseline.interval.low < plain.baseline.interval.low
    with pytest.raises(UsageError, match="--cluster-by book: the runs have not recorded this field"):
        compare_runs([before], [after], cluster_by="book", resamples=40)


def test_attempts_without_a_verdict_count_as_failed(tmp_path: Path) -> None:
    found = compare(tmp_path, {"x": "p", "y": "p"}, {"x": "p", "y": "i"})
    assert (found.candidate.rate, found.candidate.without_verdict, found.without_verdict) == (0.5, 1, 1)
    assert [task.task_id for task in found.lost] == ["y"]


def test_the_attempts_that_a_stopped_run_lacks_count_as_failed(tmp_path: Path) -> None:
    baseline = write_run(tmp_path / "a", {"x": "pp", "y": "pp", "z": "pp"})
    stopped = write_run(tmp_path / "b", {"x": "pp", "y": "p"}, planned=(3, 6), config={"n_samples": 2})
    found = compare_runs([baseline], [stopped])
    assert found.candidate.rate == pytest.approx((1 + 0.5 + 0) / 3)
    assert found.candidate.without_verdict == 3
    assert found.candidate.duration_seconds is None
    assert found.candidate.statuses[Status.CANCELLED] == 3


def test_tasks_that_two_stopped_runs_never_reached_are_in_the_denominator(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / name, {"x": letter, "y": "p"}, planned=(10, 10))
        for name, letter in (("a", "p"), ("b", "f"))
    ]
    found = compare_runs(runs[:1], runs[1:])
    assert (found.tasks, found.unnamed_tasks) == (10, 8)
    assert (found.baseline.rate, found.candidate.rate) == (0.2, 0.1)


def test_a_run_under_way_is_compared_as_far_as_it_is(tmp_path: Path) -> None:
    baseline = write_run(tmp_path / "a", {"x": "p"})
    candidate = write_run(tmp_path / "b", {"x": "p"}, planned=(2, 2))
    with closing(RunStore(candidate)):
        found = compare_runs([baseline], [candidate])
    assert found.candidate.runs[0].is_running
    assert not found.baseline.runs[0].is_running


def test_several_attempts_give_a_share_of_each_task_and_the_first_decides_the_changes(tmp_path: Path) -> None:
    found = compare(tmp_path, {"x": "pfff", "y": "fppp"}, {"x": "fppp", "y": "fpff"})
    assert (found.baseline.rate, found.candidate.rate) == (0.5, 0.5)
    assert found.lost == (ChangedTask("x", 1, 4, 3, 4),)
    assert found.gained == ()
    assert (found.baseline.resolved, found.candidate.resolved) == (1, 0)


def test_each_task_weighs_the_same_however_many_attempts_it_has(tmp_path: Path) -> None:
    found = compare(tmp_path, {"x": "pppp", "y": "f"}, {"x": "p", "y": "ffff"})
    assert (found.baseline.rate, found.candidate.rate) == (0.5, 0.5)


def test_only_the_last_try_of_an_attempt_counts_but_each_was_paid_for(tmp_path: Path) -> None:
    cost = {"model_requests": 1, "cost": 0.25, "input_tokens": 10, "output_tokens": None}
    tries = [record("x", 0, "i", **cost), record("x", 0, "p", **cost)]
    found = compare(tmp_path, tries, {"x": "p"})
    assert found.baseline.rate == 1.0
    assert found.baseline.without_verdict == 0
    assert (found.baseline.usage["cost"], found.baseline.usage["input_tokens"]) == (0.5, 20)
    assert found.baseline.usage["output_tokens"] is None, "unknown is never 0"
    assert found.baseline.attempt_seconds == 0.5
    assert found.candidate.usage == {}


def test_partial_scores_have_a_difference_and_an_interval(tmp_path: Path) -> None:
    half = [replace(record(name, 0, "f"), score=0.5) for name in ("x", "y")]
    found = compare(tmp_path, half, {"x": "p", "y": "f"})
    assert found.score_difference == 0.0
    assert found.score_interval == (-0.5, 0.5)
    assert (found.baseline.score, found.baseline.rate) == (0.5, 0.0)


def test_repeated_runs_give_the_noise_floor(tmp_path: Path) -> None:
    outcomes = [{"x": "p", "y": "p"}, {"x": "p", "y": "f"}, {"x": "f", "y": "f"}]
    baseline = [write_run(tmp_path / f"a{place}", each) for place, each in enumerate(outcomes)]
    candidate = [write_run(tmp_path / "b", {"x": "f", "y": "f"})]
    found = compare_runs(baseline, candidate)
    noise = found.baseline.noise
    assert noise is not None
    assert noise.rates == (1.0, 0.5, 0.0)
    assert (noise.spread, noise.standard_deviation) == (1.0, 0.5)
    assert [noise.mean_flips, noise.most_flips] == pytest.approx([4 / 3, 2])
    assert (found.baseline.rate, found.candidate.noise) == (0.5, None)
    assert (found.noise_spread, found.noise_flips, found.exceeds_noise) == (1.0, 2, False)
    assert len(found.lost) == 2, "the first baseline run decides"


def test_a_difference_above_the_noise_exceeds_it(tmp_path: Path) -> None:
    baseline = [write_run(tmp_path / name, {"x": "p", "y": "p"}) for name in ("a", "b")]
    found = compare_runs(baseline, [write_run(tmp_path / "c", {"x": "p", "y": "f"})])
    assert (found.noise_spread, found.exceeds_noise) == (0.0, True)


# As floats, 0.8 - 0.7 is more than 0.1, and 0.3 - 0.1 less than 0.2.
@each_case(
    ("passed", "threshold", "is_regression"),
    [
        ((8, 7), 0.1, False),
        ((8, 7), 0.0999, True),
        ((3, 1), 0.2, False),
        ((7, 8), 0.0, False),
        ((8, 8), 0.0, False),
    ],
)
def test_a_fall_by_exactly_the_threshold_is_no_regression(
    tmp_path: Path, passed: tuple[int, int], threshold: float, is_regression: bool
) -> None:
    before, after = ({str(task): "pf"[task >= number] for task in range(10)} for number in passed)
    found = compare(tmp_path, before, after, regression_threshold=threshold)
    assert found.is_regression is is_regression


def test_the_same_seed_gives_the_same_interval(tmp_path: Path) -> None:
    before = {str(task): "pf"[task % 3 == 0] for task in range(60)}
    after = {str(task): "pf"[task % 4 == 0] for task in range(60)}
    first = compare(tmp_path, before, after, seed=1, resamples=40)
    runs = [tmp_path / "a"], [tmp_path / "b"]
    assert compare_runs(*runs, seed=1, resamples=40).interval == first.interval
    assert compare_runs(*runs, seed=2, resamples=40).interval != first.interval


def differences(tmp_path: Path, *manifests: Mapping[str, Any]) -> dict[str, bool]:
    runs = [write_run(tmp_path / str(place), {"x": "p"}, **each) for place, each in enumerate(manifests)]
    found = compare_runs(runs[:-1], runs[-1:], resamples=40)
    return {each.name: each.is_unfair for each in found.differences}


def test_differences_of_conditions_are_unfair_and_those_of_agents_are_not(tmp_path: Path) -> None:
    other = {
        "agent": "command",
        "seed": 1,
        "data": {**MANIFEST["data"], "sha256": "1" * 64},
        "limits": {"python": {"memory_mb": 512}},
        "split": "test",
        "config": {
            "model": "llama",
            "generation": {"temperature": 1.0},
            "task_ids": ["x"],
            "output_dir": "o",
        },
    }
    assert differences(tmp_path, {}, other) == {
        "agent": False,
        "config.model": False,
        "config.generation.temperature": False,
        "config.task_ids": True,
        "data.sha256": True,
        "limits.python.memory_mb": True,
        "seed": True,
        "split": True,
    }


def test_a_setting_that_differs_between_repeated_runs_is_unfair_but_their_seed_is_not(tmp_path: Path) -> None:
    found = differences(tmp_path, {"agent": "a"}, {"agent": "b", "seed": 1}, {"agent": "a"})
    assert found == {"agent": True, "seed": False}


def test_runs_of_other_benchmarks_and_runs_that_are_named_twice_are_refused(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"x": "p"})
    other = write_run(tmp_path / "b", {"x": "p"}, benchmark="humaneval")
    copy = write_run(tmp_path / "c", {"x": "p"}, run_id="a")
    with pytest.raises(UsageError, match=r"is a run of humaneval, but .* is one of mbpp"):
        compare_runs([one], [other])
    with pytest.raises(UsageError, match="is named twice"):
        compare_runs([one], [tmp_path / "b" / ".." / "a"])
    with pytest.raises(UsageError, match="is named twice"):
        compare_runs([one], [one])
    with pytest.raises(UsageError, match="is a copy of"):
        compare_runs([one], [copy])


BROKEN: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a later schema": ({"schema_version": 9}, "has schema_version 9"),
    "a plan that is not a number": ({"planned": ("many", 1)}, "planned.tasks"),
    "a plan that fits no memory": ({"planned": (10**15, 1)}, "must be at most"),
    "attempts that are not a number": ({"config": {"n_samples": -1}}, "n_samples"),
}


@each_case("case", BROKEN)
def test_a_manifest_that_cannot_be_used_is_refused(tmp_path: Path, case: str) -> None:
    fields, reason = BROKEN[case]
    one = write_run(tmp_path / "a", {"x": "p"})
    with pytest.raises(UsageError, match=reason):
        compare_runs([one], [write_run(tmp_path / "b", {"x": "p"}, **fields)])


def test_a_folder_that_is_no_run_and_a_run_without_attempts_are_refused(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"x": "p"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="is not a run folder"):
        compare_runs([one], [tmp_path / "empty"])
    killed = write_run(tmp_path / "b", {}, planned=(2, 2))
    with pytest.raises(UsageError, match="has no attempt"):
        compare_runs([one], [killed])
    (killed / "attempts.jsonl").unlink()
    with pytest.raises(UsageError, match="has no attempt") as caught:
        compare_runs([one], [killed])
    assert caught.value.hint == f"make some: {describe_resume(killed, read_manifest(killed))}"


@each_case(
    ("change", "reason"),
    [
        ({"score": 1e300}, "has the score 1e\\+300"),
        ({"duration_seconds": 1e300}, "'duration_seconds' .* cannot be right"),
        ({"metrics": {"model_requests": 1, "input_tokens": 10**200}}, "'input_tokens' .* cannot be right"),
    ],
)
def test_amounts_that_no_run_can_have_are_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    one = write_run(tmp_path / "a", {"x": "p"})
    wrong = replace(record("x", 0, "p"), **change)
    with pytest.raises(UsageError, match=reason):
        compare_runs([one], [write_run(tmp_path / "b", [wrong])])


@each_case(
    "option",
    [{"resamples": 39}, {"resamples": 10**9}, {"seed": -1}, {"regression_threshold": float("nan")}],
    ids=str,
)
def test_a_number_out_of_its_range_is_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be from"):
        compare(tmp_path, {"x": "p"}, {"x": "p"}, **option)


def test_python_compares_runs_by_name_and_path(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", {"x": "p"})
    write_run(tmp_path / "b", {"x": "f"})
    write_run(tmp_path / "c", {"x": "f"})
    found = harness.compare(one, ["b", tmp_path / "c"], output_dir=tmp_path, regression_threshold=0.5)
    assert found.is_regression
    assert [run.folder.name for run in found.candidate.runs] == ["b", "c"]


def test_changed_tasks_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    ids = ["x/10", "x/9", "x/2b", "w/11", f"x/{'1' * 5000}"]
    before = write_run(tmp_path / "before", [record(task_id, 0, "p") for task_id in ids])
    after = write_run(tmp_path / "after", [record(task_id, 0, "f") for task_id in reversed(ids)])
    lost = [task.task_id for task in compare_runs([before], [after]).lost]
    assert lost == ["w/11", "x/9", "x/10", ids[-1], "x/2b"]


@each_case(
    ("config", "name"),
    [
        ({"model": "gpt-5-mini", "endpoints": {}}, "gpt-5-mini"),
        ({"model": "local", "endpoints": LOCAL}, "qwen2.5-coder"),
        ({"model": "other", "endpoints": LOCAL}, "other"),
        ({"model": None, "endpoints": LOCAL}, None),
        ({}, None),
        ({"model": ["local"], "endpoints": 3}, None),
    ],
)
def test_an_endpoint_is_replaced_by_its_model(config: dict[str, Any], name: str | None) -> None:
    assert read_model_name(config) == name
