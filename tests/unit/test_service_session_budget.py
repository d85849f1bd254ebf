"""The bounds on sandboxes that clients hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.service.errors import BusyError, InvalidRequestError, ShareUsedError
from harness.service.sandboxes.shares import SessionBudget
from harness.service.settings import ServiceLimits

LIMITS = replace(ServiceLimits(), sessions=3, client_sessions=2, session_memory_share=0.5)


def make_budget() -> SessionBudget:
    return SessionBudget(LIMITS, memory_mb=4096, processes=4000)


def test_a_client_has_a_share() -> None:
    budget = make_budget()
    with budget.hold("a", 1), budget.hold("a", 1):
        with pytest.raises(ShareUsedError):
            budget.require_room("a", 1)
        budget.require_room("b", 1)


def test_all_clients_together_are_bounded() -> None:
    budget = make_budget()
    with budget.hold("a", 1), budget.hold("a", 1), budget.hold("b", 1), pytest.raises(BusyError):
        budget.require_room("b", 1)


def test_the_memory_of_all_clients_is_bounded() -> None:
    budget = make_budget()
    with budget.hold("a", 2000):
        budget.require_room("b", 48)
        with pytest.raises(BusyError, match=r"2,000 MiB.*2,048 MiB"):
            budget.require_room("b", 49)


def test_a_sandbox_that_never_fits_is_a_wrong_request() -> None:
    with pytest.raises(InvalidRequestError, match="2,048"):
        make_budget().require_room("a", 2049)


def test_an_ended_session_frees_its_place_and_memory() -> None:
    budget = make_budget()
    for _ in range(5):
        with budget.hold("a", 2048):
            assert budget.count == 1
    assert budget.count == 0


def test_no_client_takes_the_memory_of_all() -> None:
    budget = SessionBudget(LIMITS, memory_mb=40_000, processes=4000)
    with budget.hold("a", 6000):
        with pytest.raises(ShareUsedError, match=r"6,000 MiB.*10,000 MiB"):
            budget.require_room("a", 4001)
        budget.require_room("b", 10_000)
    with pytest.raises(InvalidRequestError, match="10,000"):
        budget.require_room("a", 10_001)


def test_the_processes_of_the_machine_are_left_for_others() -> None:
    budget = make_budget()
    with budget.hold("a", 1, 900):
        with pytest.raises(ShareUsedError, match=r"900 processes.*1,000"):
            budget.require_room("a", 1, 101)
        with budget.hold("b", 1, 1000), pytest.raises(BusyError, match=r"1,900 processes.*2,000"):
            budget.require_room("c", 1, 101)
    budget.require_room("a", 1, 1000)
