"""The HTML report as people use it in a browser: search, sort, filter and drill down."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from attempt_records import render_html
from axe_playwright_python.sync_playwright import Axe
from browsers import Open, needs_browser
from effort import THOROUGH
from playwright.sync_api import Browser, Page, expect

from harness.core.types import AttemptRecord, Status, Summary
from harness.runs.transcripts import TRANSCRIPTS, transcript_name

pytestmark = needs_browser

WIDTHS = (360, 900, 1600)
SCHEMES = ("light", "dark")
# The narrowest and the widest by default, and each width in each scheme with HARNESS_TESTS=thorough.
LOOKS = [*itertools.product(WIDTHS, SCHEMES)] if THOROUGH else [(360, "light"), (1600, "dark")]
SCRIPT = "<script>document.title = 'taken over'</script><img src='http://198.51.100.1/x' onerror='x()'>"
TASKS = 12
PLACES = ("", "#/run?show=grid", "#/task?task=Task%2F5", "#/attempt?task=Task%2F5&attempt=0")
STATUSES = (Status.PASSED, Status.FAILED, Status.TIMEOUT, Status.MEMORY_LIMIT)


@dataclass(frozen=True, slots=True)
class Report:
    """A report that is open in a browser."""

    page: Page

    @property
    def shown(self) -> list[str]:
        """The ids of the attempts in sight."""
        return self.page.locator(".attempts-table tbody a").all_inner_texts()

    def sort(self, by: str) -> None:
        self.page.locator(".attempts-table thead").get_by_role("button", name=by).click()
        expect(self.page.locator(f"thead th.{by}")).to_have_attribute("aria-sort", re.compile("ending"))

    def expect_found(self, text: str) -> None:
        expect(self.page.locator("output")).to_have_text(text)


def make_records() -> list[AttemptRecord]:
    """Return two attempts at each task, whose numbers are not in the order of their texts."""
    return [
        AttemptRecord(
            task_id=f"Task/{task}",
            attempt=attempt,
            sample_line=None,
            category="graphs" if task % 3 else "strings",
            resolved=STATUSES[task % 4] is Status.PASSED,
            status=STATUSES[task % 4],
            score=float(task % 4 == 0),
            metrics={"rounds": 1} if task == 5 else {},
            agent_output=f"def answer_{task}(): ...",
            expected_output="42",
            duration_seconds=float((task * 7) % TASKS) + attempt / 2,
            error=None if task % 4 == 0 else f"assert {task} == 42 {SCRIPT}",
            submission=f"program {task}",
            started_at=f"2026-08-01T09:30:{task:02}.000Z",
        )
        for attempt in range(2)
        for task in range(TASKS)
    ]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / TRANSCRIPTS).mkdir()
    entries = {
        "Task/5": [
            {"schema_version": 1, "prompt": "the prompt of task five"},
            {"round": 1, "tool": "bash", "arguments": {"command": "ls"}, "observation": SCRIPT, "seconds": 1},
        ],
        "Task/4": [{"schema_version": 1, "prompt": "the prompt of task four"}],
    }
    for task_id, lines in entries.items():
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / TRANSCRIPTS / transcript_name(task_id, 0)).write_text(text)
    records = make_records()
    passed = sum(record.resolved for record in records)
    summary = Summary(
        total=TASKS,
        attempts=len(records),
        resolved=passed // 2,
        rate=passed / len(records),
        pass_at_k={1: passed / len(records)},
        statuses={status: sum(each.status is status for each in records) for status in STATUSES},
        by_category={
            "graphs": {"total": 8, "resolved": 2, "rate": 0.25},
            "strings": {"total": 4, "resolved": 1, "rate": 0.25},
        },
        model={"model_requests": 24, "input_tokens": 900, "output_tokens": 80, "cost": 0.5},
    )
    manifest = {"config": {"benchmark": SCRIPT, "agent": "chat", "model": "some-model"}}
    text = render_html(manifest=manifest, summary=summary, attempts=records, folder=folder)
    (folder / "report.html").write_text(text)
    return folder / "report.html"


@contextmanager
def open_report(page: Page, open_page: Open, file: Path, **looks: Any) -> Iterator[Report]:
    """Yield the open report. Raises AssertionError for an error in it, or a request to anywhere else."""
    with open_page(file.as_uri(), (file.as_uri(), "data:"), **looks) as faults:
        yield Report(page)
        assert faults == []


@pytest.fixture
def report(page: Page, open_page: Open, page_file: Path) -> Iterator[Report]:
    with open_report(page, open_page, page_file) as report:
        yield report


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(
    page: Page, open_page: Open, page_file: Path, width: int, scheme: str
) -> None:
    with open_report(page, open_page, page_file, width=width, scheme=scheme) as report:
        for place in PLACES:
            report.page.goto(page_file.as_uri() + place)
            assert report.page.evaluate("document.documentElement.scrollWidth") <= width
            report.page.evaluate(
                "document.querySelectorAll('details').forEach(each => { each.open = true; })"
            )
            found = Axe().run(report.page).response["violations"]
            assert [(place, each["id"], node["html"]) for each in found for node in each["nodes"]] == []


def test_a_script_in_the_texts_of_a_run_stays_text(report: Report, page_file: Path) -> None:
    for place in PLACES:
        report.page.goto(page_file.as_uri() + place)
        assert report.page.title() != "taken over"
        assert report.page.locator("img").count() == 0
        assert report.page.locator("script").count() == 2
    report.page.goto(page_file.as_uri())
    assert report.page.locator("h1").inner_text() == SCRIPT


def test_the_search_finds_words_in_all_texts_of_an_attempt(report: Report) -> None:
    report.page.get_by_label("search").fill("ANSWER_11 assert")
    report.expect_found("2 of 24")
    assert report.shown == ["Task/11", "Task/11 #1"]
    report.page.get_by_label("search").fill("no such words")
    report.expect_found("0 of 24")
    assert report.shown == []


def test_status_category_and_search_are_combined(report: Report) -> None:
    report.page.get_by_role("combobox", name="status").select_option("timeout")
    report.expect_found("6 of 24")
    assert report.shown == ["Task/2", "Task/6", "Task/10", "Task/2 #1", "Task/6 #1", "Task/10 #1"]
    report.page.get_by_role("combobox", name="category").select_option("strings")
    report.expect_found("2 of 24")
    assert report.shown == ["Task/6", "Task/6 #1"]
    report.page.get_by_label("search").fill("#1")
    report.expect_found("1 of 24")
    assert report.shown == ["Task/6 #1"]


def test_the_attempts_are_sorted_by_task_as_numbers_and_back(report: Report) -> None:
    report.sort("task")
    assert report.shown[:3] == ["Task/0", "Task/0 #1", "Task/1"]
    assert report.shown[-1] == "Task/11 #1"
    report.sort("task")
    assert report.shown[0] == "Task/11 #1"


def test_the_attempts_are_sorted_by_duration(report: Report) -> None:
    report.sort("duration")
    ordered = sorted(make_records(), key=lambda record: -record.duration_seconds)
    assert [shown.split(" ")[0] for shown in report.shown] == [record.task_id for record in ordered]


def test_an_attempt_opens_by_the_keyboard_and_shows_its_texts(report: Report) -> None:
    report.page.get_by_label("search").fill("Task/4")
    report.expect_found("2 of 24")
    report.page.get_by_label("search").blur()
    report.page.keyboard.press("j")
    report.page.keyboard.press("Enter")
    for text in ("the prompt of task four", "program 4", "2026-08-01 09:30:04"):
        expect(report.page.locator("main")).to_contain_text(text)
    report.page.keyboard.press("u")
    report.expect_found("2 of 24")


def test_the_transcript_of_an_attempt_that_acted_is_on_its_page(report: Report) -> None:
    report.page.get_by_label("search").fill("prompt of task five")
    report.expect_found("1 of 24")
    report.page.get_by_role("link", name="Task/5").click()
    expect(report.page.locator(".transcript .call")).to_contain_text(SCRIPT)
    expect(report.page.get_by_role("link", name="all runs")).to_be_hidden()


def test_the_grid_of_a_report_leads_to_the_page_of_a_task(report: Report) -> None:
    report.page.get_by_role("button", name="grid").click()
    expect(report.page.locator(".grid tbody tr")).to_have_count(TASKS)
    report.page.get_by_role("link", name="Task/5", exact=True).click()
    expect(report.page.locator(".attempts-table tbody tr")).to_have_count(2)
    expect(report.page.locator(".prose")).to_contain_text("the prompt of task five")


def test_the_charts_have_a_text_for_those_who_do_not_see_them(report: Report) -> None:
    for name in ("24 attempts in", "attempts by status"):
        assert report.page.get_by_role("img", name=name).count() == 1


def test_without_scripts_the_page_has_the_headline(browser: Browser, page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    expect(page.get_by_text("25.0 % resolved")).to_be_visible()
    context.close()
