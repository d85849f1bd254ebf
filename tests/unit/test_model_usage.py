"""The use of models: read from attempts, summed over a run, and shown."""

from __future__ import annotations

import io
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from attempt_records import render_html
from viewer_fixtures import index_records, read_page_data, read_page_texts

from harness.core.types import AttemptRecord, DataSource, Status, Summary, Task
from harness.reports.attempt_figures import describe_cost, describe_usage
from harness.reports.table import print_record_details, print_summary
from harness.runs.records import PlannedAttempt
from harness.runs.store import RunStore
from harness.runs.stored_result import USAGE, read_usage, sum_usage
from harness.runs.summary import summarize, summarize_records, summary_json

METRICS: dict[str, Any] = {
    "model_requests": 6,
    "model_retries": 0,
    "cached_replies": 0,
    "input_tokens": 1700,
    "output_tokens": 450,
    "reasoning_tokens": None,
    "cached_tokens": 0,
    "cost": 0.1,
    "model_seconds": 20.5,
    "waiting_seconds": 0.0,
    "sandbox_seconds": 6.0,
    "context_truncated": 1,
    "cut_replies": 0,
}
RECORD = AttemptRecord("t", 0, None, None, True, Status.PASSED, 1.0, METRICS, "", "", 27.0, None)
OTHER = replace(RECORD, task_id="u", metrics={**METRICS, "cost": 0.2})
SOURCE = DataSource("path", "p", "0" * 64, 2)


def summarized(*records: AttemptRecord) -> Summary:
    return summarize_records(index_records(*records), (1,), tasks=len(records), attempts=len(records))


def test_a_summary_has_the_sums_over_all_attempts() -> None:
    later = replace(RECORD, attempt=1)
    assert summarized(RECORD, OTHER, later).model == {
        "model_requests": 18,
        "model_retries": 0,
        "cached_replies": 0,
        "input_tokens": 5100,
        "output_tokens": 1350,
        "reasoning_tokens": None,
        "cached_tokens": 0,
        "cost": 0.4,
        "model_seconds": 61.5,
        "waiting_seconds": 0.0,
        "sandbox_seconds": 18.0,
        "context_truncated": 3,
        "cut_replies": 0,
    }


def test_a_sum_that_lacks_one_part_is_unknown_and_not_smaller() -> None:
    unknown = replace(OTHER, metrics={**METRICS, "cost": None, "input_tokens": None})
    found = summarized(RECORD, unknown).model
    assert (found["cost"], found["input_tokens"], found["output_tokens"]) == (None, None, 900)


def test_attempts_that_asked_no_model_add_nothing() -> None:
    assert summarized(RECORD, replace(OTHER, metrics={})).model["cost"] == 0.1
    assert summarized(replace(RECORD, metrics={})).model == {}
    assert "model" not in summary_json(summarized(replace(RECORD, metrics={})))


def test_a_reply_from_the_cache_leaves_nothing_unknown() -> None:
    cached = {**METRICS, **dict.fromkeys(USAGE[3:8]), "model_requests": 0, "cached_replies": 6}
    assert summarized(RECORD, replace(OTHER, metrics=cached)).model["cost"] == 0.1


def test_amounts_that_are_no_numbers_are_unknown() -> None:
    assert read_usage({"model_requests": "6"}) is None
    usage = sum_usage([read_usage({**METRICS, "cost": "much", "input_tokens": -5, "output_tokens": True})])
    assert (usage["cost"], usage["input_tokens"], usage["output_tokens"]) == (None, None, None)


def test_a_repeated_attempt_was_paid_for_twice(tmp_path: Path) -> None:
    lost = replace(RECORD, status=Status.INFRA_ERROR, resolved=False, score=None)
    with closing(RunStore(tmp_path)) as store:
        store.append(lost)
        store.append(RECORD)
    with closing(RunStore(tmp_path)) as store:
        plan = [PlannedAttempt(Task("t", "b", "python", ""), 0, None)]
        found = summarize(plan, store.results, (1,))
    assert (found.resolved, found.model["model_requests"], found.model["cost"]) == (1, 12, 0.2)
    assert summarize_records(index_records(lost, RECORD), (1,), tasks=1, attempts=1).model == found.model


def test_unknown_amounts_are_named_in_the_text() -> None:
    model = {**summarized(RECORD, OTHER).model, "cost": None}
    assert describe_usage(model) == (
        "12 requests, 3,400 tokens in, 900 out, cost unknown, "
        "41 s waiting for the model, 12 s in sandboxes or their queue"
    )
    nothing = dict.fromkeys(USAGE)
    assert describe_usage(nothing) == (
        "0 requests, tokens unknown, cost unknown, "
        "unknown time waiting for the model, unknown time in sandboxes or their queue"
    )


def test_details_are_added_where_there_are_any() -> None:
    model = {
        **METRICS,
        "model_retries": 1,
        "cached_replies": 2,
        "cut_replies": 3,
        "reasoning_tokens": 300,
        "cached_tokens": 1024,
        "waiting_seconds": 3.0,
    }
    assert describe_usage(model) == (
        "6 requests (2 replies from the cache, 3 replies cut off, 1 retry), 1,700 tokens in (1,024 cached), "
        "450 out (300 reasoning), cost 0.1, 20 s (3.0 s in our own queue) waiting for the model, "
        "6.0 s in sandboxes or their queue"
    )


def test_a_cost_keeps_its_digits() -> None:
    assert [describe_cost(cost) for cost in (0, 0.000123, 0.5, 1234.567, None)] == [
        *("0.00", "0.000123", "0.5", "1,234.57", "unknown")
    ]


def test_the_table_the_attempt_and_the_page_show_the_use() -> None:
    summary = summarized(RECORD, OTHER)
    stream = io.StringIO()
    print_summary(summary, title="t", source=SOURCE, duration_seconds=1, stream=stream)
    print_record_details(RECORD, folder=Path("run"), stream=stream)
    text = stream.getvalue()
    assert "model     12 requests, 3,400 tokens in, 900 out, cost 0.3\n" in text
    assert "          41 s waiting for the model, 12 s in sandboxes or their queue\n" in text
    assert "  model: 6 requests, 1,700 tokens in, 450 out, cost 0.1, 20 s waiting" in text
    page = render_html(manifest={}, summary=summary, attempts=[RECORD], duration_seconds=60)
    cards = {card[0]: card[1:] for card in read_page_data(page)["run"]["cards"]}
    assert cards["requests"][:2] == ["12", "3,400 tokens in, 900 out"]
    assert cards["cost"][0] == "0.3"
    assert cards["duration"][1] == "41 s waiting for the model, 12 s in sandboxes or their queue"


def test_without_a_model_no_report_mentions_it() -> None:
    summary = summarized(replace(RECORD, metrics={}))
    stream = io.StringIO()
    print_summary(summary, title="t", source=SOURCE, duration_seconds=1, stream=stream)
    page = render_html(manifest={}, summary=summary, attempts=[])
    assert "requests" not in stream.getvalue() + read_page_texts(page)


def test_coverage_comes_before_the_score() -> None:
    missing = replace(RECORD, task_id="m", metrics={}, status=Status.AGENT_ERROR, resolved=False, error="no")
    wrong = replace(missing, task_id="w", sample_line=2, status=Status.FAILED, error="wrong")
    good = replace(RECORD, sample_line=1, metrics={})
    summary = summarize_records(
        index_records(missing, good, wrong), (1,), tasks=3, attempts=3, has_samples=True
    )
    assert summary_json(summary)["coverage"] == {"samples": 2, "tasks": 2, "missing": 1}
    stream = io.StringIO()
    print_summary(
        summary,
        title="t",
        source=SOURCE,
        duration_seconds=1,
        stream=stream,
        run_dir=Path("runs/1"),
        attempts=[missing, good, wrong],
    )
    text = stream.getvalue()
    line = "coverage  2 samples for 2 of 3 tasks; 1 task without a sample counts as failed\n"
    assert text.index(line) < text.index("resolved  1")
    assert text.index("2 samples for 2 of 3 tasks") < text.index("95 % interval")
    assert text.index("\nw  ") < text.index("\nm  ")
    assert "show a failure: harness show runs/1 w\n" in text
    page = render_html(manifest={}, summary=summary, attempts=[])
    _, interval, _, coverage = read_page_data(page)["run"]["headline"]
    assert interval.startswith("95 % interval")
    assert "for 2 of 3 tasks; 1 task without a sample" in coverage


def test_a_run_that_is_not_finished_has_no_coverage_yet() -> None:
    good = replace(RECORD, sample_line=1, metrics={})
    assert summarize_records(index_records(good), (1,), tasks=3, attempts=3, has_samples=True).coverage == {}
    assert "coverage" not in json.loads(json.dumps(summary_json(summarized(good))))


def test_the_table_names_what_it_counts_if_tasks_have_several_attempts() -> None:
    later = replace(RECORD, attempt=1, resolved=False, status=Status.FAILED)
    stream = io.StringIO()
    summary = summarize_records(index_records(RECORD, later), (1,), tasks=1, attempts=2)
    print_summary(summary, title="t", source=SOURCE, duration_seconds=1, stream=stream)
    assert "resolved       1 attempt\n" in stream.getvalue()
    assert "first attempt  100.0 %  (1 of 1 task)\n" in stream.getvalue()
    assert "pass@1         50.0 %\n" in stream.getvalue()
