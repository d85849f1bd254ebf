"""The tasks that an audit attacks, and the limits of its attacks."""

from __future__ import annotations

from collections import Counter

import pytest
from bundled import load_bundled
from case_checks import each_case

from harness.audit.run import LIMITS, AuditPlan, plan_audit, sample_every_kind
from harness.core.errors import UsageError
from harness.environments import environment_spec
from harness.runs.config import RunConfig
from harness.runs.plan import select_tasks

AGENTBENCH = load_bundled("agentbench")
MBPP = load_bundled("mbpp")


def planned(benchmark: str, attacked: int) -> AuditPlan:
    config = RunConfig(benchmark=benchmark, data="bundled")
    return plan_audit(config, attacked, notify=lambda text: None)


def targets(number: int) -> Counter[str]:
    tasks = sample_every_kind(AGENTBENCH, AGENTBENCH.tasks, number, 7)
    return Counter(type(AGENTBENCH.references[task.id].target).__name__ for task in tasks)


@each_case("seed", range(5))
def test_two_tasks_are_of_both_environments(seed: int) -> None:
    in_sandboxes = [task for task in AGENTBENCH.tasks if task.environment in ("os", "db")]
    tasks = sample_every_kind(AGENTBENCH, in_sandboxes, 2, seed)
    assert {task.environment for task in tasks} == {"os", "db"}


@each_case("number", [1, 2, 4])
def test_every_kind_of_target_has_a_task_however_few_are_asked_for(number: int) -> None:
    kinds = {type(reference.target).__name__ for reference in AGENTBENCH.references.values()}
    assert targets(number) == dict.fromkeys(kinds, 1)


def test_a_sample_has_as_many_tasks_as_it_should() -> None:
    kinds, most = len(targets(1)), len(AGENTBENCH.tasks)
    sizes = [targets(number).total() for number in range(1, most + 2)]
    assert sizes == [max(kinds, min(number, most)) for number in range(1, most + 2)]


def test_the_sample_of_tasks_of_one_kind_is_that_of_a_run() -> None:
    expected = select_tasks(MBPP, sample_size=3, seed=7)
    assert sample_every_kind(MBPP, MBPP.tasks, 3, 7) == expected


def test_programs_are_attacked_under_tight_limits_and_controlled_under_the_usual_ones() -> None:
    plan, spec = planned("mbpp", 1), environment_spec("python")
    assert plan.attack_run.limits(spec).wall_seconds == LIMITS.wall_seconds
    assert plan.control_run.limits(spec) == spec.limits


@each_case("name", ["os", "db"])
def test_agents_that_act_have_the_limits_of_their_environment(name: str) -> None:
    spec = environment_spec(name)
    assert planned("agentbench", 2).attack_run.limits(spec) == spec.limits


def test_an_audit_of_one_category_has_tasks_of_this_category_alone() -> None:
    config = RunConfig(benchmark="agentbench", data="bundled", filter_category=["digital_card_game"])
    plan = plan_audit(config, 5, notify=pytest.fail)
    for run in (plan.control_run, plan.attack_run):
        assert {attempt.task.category for attempt in run.plan} == {"card"}


def test_an_audit_refuses_a_model_as_the_judge() -> None:
    config = RunConfig(
        benchmark="agentbench",
        data="bundled",
        filter_category=["lateral"],
        options={"lateral": {"host": "narrator"}},
    )
    with pytest.raises(UsageError, match="an audit asks no model"):
        plan_audit(config, 1, notify=lambda _line: None)


def test_only_tasks_with_images_of_their_own_read_how_these_are_made() -> None:
    config = RunConfig(benchmark="swebench-verified", data="bundled", base_images={"*": "packages"})
    assert plan_audit(config, 1, notify=lambda text: None).config.base_images == {"*": "packages"}
    with pytest.raises(UsageError, match="'mbpp' does not read --base-image"):
        plan_audit(config.model_copy(update={"benchmark": "mbpp"}), 1, notify=lambda text: None)
