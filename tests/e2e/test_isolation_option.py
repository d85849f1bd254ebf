"""The option `--isolation`: its report, its refusals, and an audit with sandboxes that all tasks share."""

from __future__ import annotations

import json

import pytest
from e2e.command_line import Harness
from effort import THOROUGH

pytestmark = pytest.mark.timeout(600)

SHOWN = "run: tasks shared sandboxes (python)"
LEARNER = "learn-from-the-container"
LEARNER_SAMPLES = 24  # of each task. Each sample passes on what it has observed.
# tests/security/test_learning_over_samples.py always tries learners in sandboxes that samples share.
ATTACKS = ("remember-in-files", *(("sys-exit", "equal-to-everything", LEARNER) if THOROUGH else ()))


def test_a_run_whose_tasks_share_sandboxes_says_so_and_keeps_its_isolation(harness: Harness) -> None:
    ended = harness("run", "-b", "humaneval", "--data", "bundled", "--isolation", "run", "-n", "2")
    assert ended.returncode == 0, ended.stderr
    assert SHOWN in ended.stdout
    assert SHOWN in harness("show", "latest").stdout
    resumed = harness("run", "--resume", "latest", "--isolation", "attempt")
    assert resumed.returncode == 2
    assert 'config.isolation was "run" when this run started, and is "attempt" now' in resumed.stderr


def test_an_environment_in_which_agents_act_refuses_to_share_sandboxes(harness: Harness) -> None:
    arguments = ("-b", "agentbench", "--data", "bundled", "--filter-category", "os", "--isolation", "run")
    ended = harness("run", *arguments)
    assert ended.returncode == 2
    assert "does not read --isolation run" in ended.stderr


def test_neither_cheats_nor_learners_forge_a_verdict_in_sandboxes_that_all_tasks_share(
    harness: Harness,
) -> None:
    named = [part for name in ATTACKS for part in ("--attack", name)]
    results = harness.folder / "audit.json"
    options = ("--data", "bundled", "--isolation", "run", "-n", "2", "-o", results)
    ended = harness("audit", "humaneval", *options, *named)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads(results.read_text())["summary"]
    assert summary["forged"] == summary["failed_references"] == summary["containers_left"] == 0
    assert summary["attempts"] > 2 * (LEARNER_SAMPLES if THOROUGH else len(ATTACKS))
