"""docs/run-folder.md names every field that a run writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.command_line import FinishedRun

PAGE = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text()
NAMED = set(re.findall(r"`([a-z_0-9]+)`", PAGE))


@pytest.fixture
def acted(finished_run: Callable[..., FinishedRun]) -> FinishedRun:
    """Make a run in an environment, so that transcripts have calls of tools."""
    return finished_run("run", "-b", "agentbench", "--data", "bundled", "-t", "os/sample/answers/0")


def test_the_page_names_every_field_that_a_run_writes(acted: FinishedRun) -> None:
    run, results = acted.folder, acted.results
    lines = [line for path in run.path.glob("transcripts/*") for line in path.read_text().splitlines()]
    fields = {
        "attempts": {field for attempt in run.attempts for field in attempt},
        "metrics": {name for each in run.attempts for name in each["metrics"]} - {"agentbench_status"},
        "summary": {*run.summary},
        "manifest": {*run.manifest},
        "transcripts": {field for line in lines for field in json.loads(line)},
        "results": {*results["run"]},
    }
    assert len(fields["attempts"]) > 10
    assert "tool" in fields["transcripts"]
    assert results.keys() == {"schema_version", "run", "summary", "attempts"}
    assert {part: found - NAMED for part, found in fields.items() if found - NAMED} == {}
