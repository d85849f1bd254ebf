"""Every report shows the conditions of a run without which its rate misleads."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from attempt_records import make_attempt, make_manifest
from case_checks import each_case

from harness.reports.formats import load_format
from harness.reports.remarks import list_conditions
from harness.reports.run_folder import read_run
from harness.runs.records import to_json
from harness.runs.store import ATTEMPTS, MANIFEST, SUMMARY

CHANGE = {"field": "image_tags.python", "before": "sha-old", "after": "sha-new", "accepted_at": "2026-01-01"}
CONFIG = {"sample_size": 50, "sampling": "random", "seed": 7, "shard": "2/8", "filter_category": ["db"]}


def write_run(folder: Path, config: dict[str, Any], **values: Any) -> None:
    summary = {"total": 1, "attempts": 1, "resolved": 1, "rate": 1.0, "pass_at_k": {"1": 1.0}}
    documents = {
        MANIFEST: make_manifest(config={"benchmark": "b", **config}, **values),
        SUMMARY: {
            **summary,
            "source": "path",
            "duration_seconds": 1.5,
            "statuses": {"passed": 1},
            "by_category": {},
            "integrity": {},
            "metrics": {},
            "scores": {},
            "superseded": {"attempts": 3, "resolved": 2},
        },
        ATTEMPTS: json.loads(to_json(make_attempt())),
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document) + "\n")


@each_case("name", ["table", "markdown", "html", "junit", "csv", "json"])
def test_every_report_shows_the_selection_the_seed_accepted_changes_and_repeated_verdicts(
    name: str, tmp_path: Path
) -> None:
    write_run(tmp_path, CONFIG, accepted_changes=[CHANGE])
    stream = io.StringIO()
    load_format(name)(read_run(tmp_path), stream)
    written = " ".join(stream.getvalue().split())
    for part in ("2/8", "50", "7", "sha-old", "sha-new", "db"):
        assert part in written
    assert any(each in written for each in ("3 attempts had a verdict", "superseded", "repeated_attempts"))


@each_case(
    ("config", "conditions"),
    [
        ({}, {}),
        ({"seed": 0, "sample_size": None, "shard": None, "task_ids": []}, {}),
        ({"seed": 7}, {"seed": "7"}),
        (
            {"seed": 0, "sample_size": 5, "sampling": "stratified"},
            {"selected": "at most 5 of the tasks, drawn at random from each category", "seed": "0"},
        ),
        ({"sample_size": 5, "sampling": "first"}, {"selected": "at most 5 of the tasks, the first ones"}),
        ({"task_ids": ["a", "b"]}, {"selected": "2 named tasks"}),
        ({"shard": "2/8"}, {"selected": "only shard 2/8, which is not the whole run"}),
    ],
)
def test_a_condition_is_shown_only_where_it_changes_the_rate(
    config: dict[str, Any], conditions: dict[str, str]
) -> None:
    assert dict(list_conditions({"config": config})) == conditions


@each_case("value", [None, 5, "\x1b[2J", [3], {"a": 1}, [[]]])
def test_a_manifest_with_other_types_is_described_without_a_failure(value: Any) -> None:
    names = ("seed", "sample_size", "sampling", "stratify_by", "shard", "task_ids", "filter_tags")
    config = dict.fromkeys(names, value)
    found = dict(list_conditions({"config": config, "accepted_changes": [value, {"field": value}]}))
    assert "\x1b" not in str(found.values())
    assert list(list_conditions({"config": value, "accepted_changes": value})) == []
