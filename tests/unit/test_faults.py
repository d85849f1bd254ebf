"""The time that a run waits for a lost engine."""

from __future__ import annotations

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.host.retries import WAIT_VARIABLE, read_wait_seconds


@each_case(("text", "seconds"), [("", 60.0), ("0", 0.0), ("2.5", 2.5), ("86400", 86_400.0)])
def test_the_environment_sets_the_time_to_wait(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, text)
    assert read_wait_seconds() == seconds


@each_case("text", ["-1", "soon", "inf", "nan", "86401"])
def test_an_invalid_time_to_wait_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, text)
    with pytest.raises(UsageError, match=f"{WAIT_VARIABLE} must be from 0 to 86400 seconds"):
        read_wait_seconds()
