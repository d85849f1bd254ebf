"""The declarations of every environment."""

from __future__ import annotations

from dataclasses import replace

from case_checks import each_case

from harness.environments import EnvironmentSpec, environment_specs
from harness.runs.config import load_config
from harness.runs.selection import select
from harness.runs.settings.attempts import MAX_TIMEOUT_SECONDS, MIN_TIMEOUT_SECONDS
from harness.sandbox.limits import Limits


@each_case("environment", environment_specs().values(), ids=lambda environment: environment.name)
def test_default_time_limit_is_valid_in_a_config(environment: EnvironmentSpec) -> None:
    assert MIN_TIMEOUT_SECONDS <= environment.timeout_seconds <= MAX_TIMEOUT_SECONDS


def test_a_python_task_has_180_seconds() -> None:
    selection = select(load_config(None, {"benchmark": "mbpp", "data": "bundled"}), notify=print)
    assert selection.timeout_seconds == 180


def test_a_config_overrides_the_environment() -> None:
    options = {"benchmark": "mbpp", "data": "bundled", "timeout_seconds": 240}
    assert select(load_config(None, options), notify=print).timeout_seconds == 240


def test_a_config_changes_only_the_limits_that_it_names() -> None:
    selection = select(
        load_config(None, {"benchmark": "mbpp", "data": "bundled", "limits": {"cpus": 2.0}}), notify=print
    )
    environment = replace(environment_specs()["python"], limits=Limits(memory_mb=2048))
    assert (selection.limits(environment).cpus, selection.limits(environment).memory_mb) == (2.0, 2048)


def test_a_stored_config_names_only_the_limits_that_were_set() -> None:
    config = load_config(None, {"benchmark": "mbpp", "limits": {"cpus": 2.0}})
    assert config.model_dump(mode="json")["limits"] == {"cpus": 2.0}
