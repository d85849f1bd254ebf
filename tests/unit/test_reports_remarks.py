"""The remarks of a report next to the rate."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from attempt_records import render_html
from viewer_fixtures import read_page_texts

from harness.benchmarks.agentbench.tasks import categories, scores
from harness.benchmarks.benchmark import TaskResult
from harness.benchmarks.category import Outcome
from harness.core.types import DataSource, Status, Summary
from harness.reports.remarks import list_model_remarks, list_remarks
from harness.reports.table import print_summary
from harness.runs.stored_result import add_server_use, sum_server_use

PLAIN = Summary(1, 1, 1, 1.0, {1: 1.0}, {Status.PASSED: 1}, {})


def outcome(category: str, resolved: bool, kind: str | None = None) -> Outcome:
    return Outcome(category, TaskResult(resolved, float(resolved)), kind)


def remarks(**changed: Any) -> dict[str, str]:
    summary = replace(PLAIN, **changed)
    return dict([*list_remarks(summary), *list_model_remarks(summary)])


def printed(summary: Summary) -> str:
    stream, source = io.StringIO(), DataSource("path", "x", "0" * 64, 1)
    print_summary(summary, title="t", source=source, duration_seconds=1, stream=stream)
    return " ".join(stream.getvalue().split())


def test_most_benchmarks_have_no_remark() -> None:
    assert remarks() == {}


def test_a_context_that_the_server_cut_is_reported() -> None:
    assert remarks(model={"context_truncated": 0}) == {}
    found = remarks(model={"context_truncated": 2})
    assert found["context"].startswith("the server cut it 2 times without an error")


def test_replies_that_ended_at_the_token_limit_are_counted_in_the_table_and_on_the_page() -> None:
    assert remarks(model={"cut_replies": 0}) == remarks(model={"cut_replies": None}) == {}
    assert remarks(model={"cut_replies": 1})["cut off"].startswith("1 reply ended at the token limit")
    summary = replace(PLAIN, model={"cut_replies": 3})
    assert "3 replies ended at the token limit" in printed(summary)
    assert "3 replies ended at the token limit" in render_html(manifest={}, summary=summary, attempts=[])


def test_a_budget_is_shown_with_its_use_also_for_a_stopped_run() -> None:
    budget: dict[str, dict[str, float | None]] = {
        "output_tokens": {"allowed": 5000, "used": None},
        "total_tokens": {"allowed": 10_000, "used": 10_950},
        "cost": {"allowed": 2.5, "used": 0.75},
    }
    summary = replace(PLAIN, statuses={Status.CANCELLED: 1}, budget=budget)
    text = (
        "5,000 output tokens, used unknown; "
        "10,000 total tokens, used 10,950 (requests under way are not cut off); cost 2.50, used 0.75"
    )
    assert f"budget {text} duration" in printed(summary)
    assert text in render_html(manifest={}, summary=summary, attempts=[])


def test_an_agent_that_never_asked_its_model_is_reported() -> None:
    assert remarks(asking={"attempts": 22, "asked": 0}) == {
        "agent": "the agent asked the model in 0 of 22 attempts"
    }
    assert remarks(asking={"attempts": 22, "asked": 1}) == remarks(asking={"attempts": 0, "asked": 0}) == {}


def test_each_category_has_its_score_and_its_measure() -> None:
    found = remarks(
        scores=scores([outcome("os", True), outcome("db", False, "SELECT"), outcome("db", True, "UPDATE")])
    )
    assert found["score os"] == "100.0 %  (success rate)"
    assert found["score db"].startswith("50.0 %  (mean of the accuracies")
    assert "SELECT 0.0 %, UPDATE 100.0 %, no INSERT" in found["score db"]


def test_a_partial_score_names_the_categories_that_are_missing() -> None:
    found = remarks(scores=scores([outcome("os", True), outcome("db", False, "SELECT")]))
    missing = "kg, web, card, lateral, house"
    assert found["score overall"] == f"4.63  (partial, because these did not run: {missing})"


def test_the_weighted_score_is_called_so_and_is_no_percentage() -> None:
    found = remarks(scores=scores([outcome(name, True) for name in categories()]))
    assert "weighted" in found["score overall"]
    assert "%" not in found["score overall"]


def test_strict_verdicts_stand_next_to_the_published_ones() -> None:
    found = remarks(resolved_strict={"tasks": 3, "resolved": 2, "resolved_strict": 1, "differ": 1})[
        "strictly"
    ]
    assert found.startswith("1 of 3 tasks")
    assert "published rule resolves 2; 1 differs" in found


def test_quarantined_tasks_are_counted_and_named_in_both_reports() -> None:
    summary = replace(PLAIN, quarantined={"os/dev/8": "<its check>"})
    assert "quarantined 1 task that no grader can rely on: os/dev/8" in printed(summary)
    assert "os/dev/8\n<its check>" in read_page_texts(render_html(manifest={}, summary=summary, attempts=[]))


def test_the_use_of_an_mcp_server_is_reported() -> None:
    tools = {
        "rare": {"calls": 1, "errors": 1, "seconds": 0.25},
        "often\x1b": {"calls": 12, "errors": 0, "seconds": 3.0},
        "never": {"calls": 0, "errors": 0, "seconds": 0.0},
    }
    found = remarks(
        mcp={
            "files": {"failed_starts": 2, "start_error": "no file\x1b", "tools": tools},
            "web": {"failed_starts": 0, "tools": {}},
        }
    )
    assert found["mcp files"].startswith("2 failed starts (the first: no file\\x1b); often\\x1b 12 calls, ")
    assert "rare 1 call (1 error), " in found["mcp files"]
    assert "never" not in found["mcp files"]
    assert found["mcp web"] == "no calls"


def test_the_use_of_mcp_servers_is_summed_over_tries_and_attempts() -> None:
    one = {
        "files": {
            "failed_starts": 1,
            "start_error": "it is gone",
            "tools": {"read": {"calls": 1, "errors": 1, "seconds": 0.1}},
        }
    }
    other = {"files": {"failed_starts": 0, "tools": {"read": {"calls": 2, "errors": 0, "seconds": 0.2}}}}
    assert add_server_use(one, None) == one
    assert sum_server_use([one, None, add_server_use(one, other)]) == {
        "files": {
            "failed_starts": 2,
            "start_error": "it is gone",
            "tools": {"read": {"calls": 4, "errors": 2, "seconds": 0.4}},
        }
    }
