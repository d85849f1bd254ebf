"""Limits have a range, and none of them can be switched off."""

from __future__ import annotations

import math

import pytest
from case_checks import each_case
from pydantic import ValidationError

from harness.environments import environment_spec
from harness.sandbox.limits import Limits


@each_case("cpus", [0, 0.009, 1e-9, -1, math.nan, math.inf])
def test_a_share_of_cpus_that_the_engine_would_ignore_is_refused(cpus: float) -> None:
    with pytest.raises(ValidationError, match="cpus"):
        Limits(cpus=cpus)


@each_case("value", [0, -1, math.nan, math.inf, 10**20, None])
def test_no_limit_can_be_none(value: float | None) -> None:
    for name in Limits.model_fields.keys() - {"uncounted_sockets"}:
        with pytest.raises(ValidationError, match=name):
            Limits.model_validate({name: value})


def test_uncounted_sockets_are_allowed_only_on_request() -> None:
    assert Limits().uncounted_sockets is False


@each_case("name", ["os", "db", "python"])
def test_an_environment_has_no_more_open_files_than_a_login(name: str) -> None:
    assert environment_spec(name).limits.open_files <= 1024
