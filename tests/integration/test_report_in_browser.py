from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attempt_records import render_html
from browsers import BROWSER, needs_browser

from harness.core.types import AttemptRecord, MetricSummary, Status, Summary

pytestmark = needs_browser

WIDTHS = (320, 400, 720, 1000, 1600)
LONG = "a-word-without-an-end" * 40
WORDS = "words and words " * 60
ATTEMPT = AttemptRecord(
    task_id="HumanEval/0",
    attempt=1,
    sample_line=7,
    category="string",
    resolved=False,
    status=Status.FAILED,
    score=0.0,
    metrics={"phase": "evaluator"},
    agent_output="def f():\n    return 1",
    expected_output="2",
    duration_seconds=0.31,
    error="assert f() == 2",
)
ATTEMPTS = [
    *(replace(ATTEMPT, status=status) for status in Status),
    replace(
        ATTEMPT,
        task_id=LONG,
        category=LONG,
        error=LONG,
        agent_output=f"{LONG}\n\t{WORDS}",
        metrics={LONG: LONG},
    ),
    replace(ATTEMPT, task_id=WORDS, error=WORDS, category="קטגוריה"),
]
ROW = {"total": 2_000, "resolved": 1_000, "rate": 0.5}
PLAIN = Summary(
    total=820,
    attempts=820,
    resolved=1,
    rate=0.25,
    pass_at_k={1: 0.25, 10: None},
    statuses=dict.fromkeys(Status, 1_000),
    by_category={},
)
SUMMARIES = {
    "plain": PLAIN,
    "empty": Summary(0, 0, 0, 0.0, {}, {}, {}),
    "categories": replace(PLAIN, by_category={"os": ROW, "lateral-thinking-puzzle": ROW, LONG: ROW}),
    "metrics": replace(
        PLAIN, metrics={name: MetricSummary(0.7, 0.6, 0.8, "bootstrap", 9) for name in ("f1", LONG)}
    ),
    "scores": replace(
        PLAIN,
        scores={
            "categories": {
                name: {"score": 0.3, "measure": "success rate", "kinds": {"select": {"score": 0.4}}}
                for name in ("os", LONG)
            },
            "overall": {"score": 2.31, "method": "weighted"},
        },
        resolved_strict={"tasks": 120, "resolved": 40, "resolved_strict": 38, "differ": 2},
        quarantined={"agentbench/os/8": WORDS, LONG: LONG},
        integrity={"broke the tests' protocol": 2, LONG: 1},
    ),
}
# Opens every page in a frame of each width, and writes what it measures where `--dump-dom` shows it.
MEASURE = """
<!doctype html><meta charset="utf-8"><pre id="found"></pre><script>
  const found = [];
  for (const [name, width] of JOBS) {
    const frame = document.createElement("iframe");
    frame.width = width; frame.height = 800; frame.src = name + ".html";
    frame.onload = () => {
      const page = frame.contentDocument;
      page.querySelectorAll("details").forEach(each => each.open = true);
      // A cell that is not in columns is as wide as its text.
      const cells = [...page.querySelectorAll("th, td")].filter(each => each.textContent.length > 3
        && frame.contentWindow.getComputedStyle(each).display === "table-cell");
      found.push({
        name, width, inner: frame.contentWindow.innerWidth, scroll: page.documentElement.scrollWidth,
        narrowest: Math.min(...cells.map(each => each.clientWidth || Infinity), width),
      });
      if (found.length === JOBS.length) document.querySelector("#found").textContent = JSON.stringify(found);
    };
    document.body.append(frame);
  }
</script>
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the widths of each page, its window and its narrowest table cell, as a browser lays them out."""
    folder = tmp_path_factory.mktemp("pages")
    for name, summary in SUMMARIES.items():
        config = {
            "benchmark": "humaneval" if name == "plain" else LONG,
            "agent": LONG,
            "model": "日本語" * 60,
        }
        manifest = {"config": {**config, "data": LONG}, LONG: LONG, "source": {"kind": "bundled"}}
        page = render_html(manifest=manifest, summary=summary, attempts=ATTEMPTS)
        (folder / f"{name}.html").write_text(page)
    jobs = json.dumps([(name, width) for name in SUMMARIES for width in WIDTHS])
    (folder / "measure.html").write_text(MEASURE.replace("JOBS", jobs))
    return read_measurements(folder / "measure.html")


def read_measurements(page: Path) -> list[dict[str, Any]]:
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    shown = subprocess.run(
        [BROWSER, *options, profile, "--virtual-time-budget=60000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    match = re.search(r'<pre id="found">(.+?)</pre>', shown, re.DOTALL)
    assert match is not None, shown[-2000:]
    found: list[dict[str, Any]] = json.loads(match[1])
    return found


def test_no_page_is_wider_than_its_window(measured: list[dict[str, Any]]) -> None:
    assert len(measured) == len(SUMMARIES) * len(WIDTHS)
    assert [
        each for each in measured if each["scroll"] > each["inner"] or each["inner"] != each["width"]
    ] == []


def test_no_cell_is_so_narrow_that_it_sets_one_letter_a_line(measured: list[dict[str, Any]]) -> None:
    assert [each for each in measured if each["narrowest"] < 60] == []
