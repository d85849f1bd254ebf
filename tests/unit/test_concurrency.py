"""The number of attempts and gradings at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from case_checks import each_case

from harness.runs.agents import agents
from harness.runs.faults import (
    MOST_ATTEMPTS,
    WITHOUT_SANDBOX,
    choose_concurrency,
    choose_gate_places,
)
from harness.sandbox.limits import EXTRA, count_gate_places


@each_case(
    ("agent", "wanted", "sandboxes", "concurrency"),
    [
        pytest.param({}, None, True, MOST_ATTEMPTS, id="one that waits for a model"),
        pytest.param({}, 7, True, 7, id="as many as are wanted"),
        pytest.param({"max_concurrent": 1}, 7, True, 1, id="no more than the agent bears"),
        pytest.param({"waits": False}, None, True, count_gate_places(), id="by cores where nothing waits"),
        pytest.param({"waits": False}, None, False, WITHOUT_SANDBOX, id="by the disk without sandboxes"),
        pytest.param({"waits": False}, 50, True, 50, id="what is wanted goes first"),
    ],
)
def test_attempts_at_once_follow_from_the_agent(
    agent: dict[str, Any], wanted: int | None, sandboxes: bool, concurrency: int
) -> None:
    assert choose_concurrency(wanted, SimpleNamespace(**agent), sandboxes=sandboxes) == concurrency


def test_a_run_whose_tasks_share_sandboxes_has_one_for_each_core() -> None:
    agent = SimpleNamespace(waits=False)
    assert choose_concurrency(None, agent, sandboxes=True, isolation="run") == count_gate_places() - EXTRA
    assert choose_concurrency(7, agent, sandboxes=True, isolation="run") == 7


@each_case(
    ("agent", "wanted", "places"),
    [
        pytest.param({}, 500, count_gate_places(), id="by cores however many wait for a model"),
        pytest.param({"waits": False}, 500, 500, id="as many as are wanted where nothing waits"),
        pytest.param({"waits": False}, None, count_gate_places(), id="by cores where nothing is wanted"),
    ],
)
def test_gradings_at_once_follow_from_the_cores(
    agent: dict[str, Any], wanted: int | None, places: int
) -> None:
    assert choose_gate_places(wanted, SimpleNamespace(**agent)) == places


def test_agents_that_submit_at_once_declare_it() -> None:
    assert {name for name, agent in agents().items() if not getattr(agent, "waits", True)} == {
        "null",
        "oracle",
        "predictions",
        "replay",
    }
