"""AgentBench on the command line: agents that act, their transcripts, and refused categories."""

from __future__ import annotations

from collections.abc import Callable

from e2e.command_line import FinishedRun, Harness

DB = ("run", "-b", "agentbench", "--data", "bundled", "--filter-category", "db", "-n", "1")
STATE = "os/sample/states/0"


def test_the_oracle_solves_the_database_tasks(finished_run: Callable[..., FinishedRun]) -> None:
    oracle = finished_run(*DB, "--agent", "oracle")
    assert oracle.exit_code == 0, oracle.stderr
    assert (oracle.results["summary"]["total"], oracle.results["summary"]["resolved"]) == (1, 1)
    assert {attempt["category"] for attempt in oracle.results["attempts"]} == {"db"}


def test_an_empty_submission_solves_nothing(finished_run: Callable[..., FinishedRun]) -> None:
    null = finished_run(*DB, "--agent", "null")
    assert (null.results["summary"]["total"], null.results["summary"]["resolved"]) == (1, 0)
    assert {attempt["status"] for attempt in null.results["attempts"]} == {"failed"}


def test_an_unknown_category_is_refused_with_the_names_of_all(harness: Harness) -> None:
    stderr = harness.expect_refusal(
        "run", "-b", "agentbench", "--data", "bundled", "--filter-category", "kitchen"
    )
    assert "unknown category 'kitchen'" in stderr
    assert "card, db, house, kg, lateral, os, web" in stderr


def test_show_prints_every_turn_and_how_many_the_config_allows(harness: Harness) -> None:
    config = harness.folder / "config.yaml"
    config.write_text(f"benchmark: agentbench\ndata: bundled\ntask_ids: [{STATE}]\nrounds: 3\n")
    harness.succeed("run", "-c", config)
    run = harness.only_run().path
    shown = harness("show", run, STATE).stdout
    expected = ("You have 3 rounds", "bash", "exit code 0", "submit", f"{STATE}: passed")
    assert [text for text in expected if text not in shown] == []
    assert "8 rounds" not in shown
