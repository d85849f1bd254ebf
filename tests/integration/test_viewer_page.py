"""The viewer as people use it in a browser: lists, drill-down, comparison, and a run under way."""

from __future__ import annotations

import itertools
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsers import Open, needs_browser
from effort import THOROUGH, one_in_two
from playwright.sync_api import Browser, Page, expect
from viewer_fixtures import (
    SCRIPT,
    add_entries,
    add_records,
    make_call,
    make_prompt,
    make_record,
    serve_viewer,
    write_run,
)

from harness.core.types import Status
from harness.runs.progress import STAGES, ActiveAttempt, Stage, format_stages
from harness.runs.run_files import replace_run_file
from harness.runs.store import RunStore

pytestmark = needs_browser

WIDTHS = (360, 900, 1600)
SCHEMES = ("light", "dark")
# The narrowest and the widest by default, and each width in each scheme with HARNESS_TESTS=thorough.
LOOKS = [*itertools.product(WIDTHS, SCHEMES)] if THOROUGH else [(360, "light"), (1600, "dark")]
TASKS = 60
PLACES = {
    "runs": "#/runs",
    "matrix": "#/matrix",
    "run": "#/run?run=before",
    "grid": "#/run?run=before&show=grid",
    "task": "#/task?run=before&task=Task%2F5",
    "attempt": "#/attempt?run=before&task=Task%2F5&attempt=0",
    "conversation": "#/attempt?run=before&task=Task%2F6&attempt=0",
    "comparison": "#/compare?baseline=before&candidate=after",
    "audit": "#/audit?audit=some-audit",
}


MARKDOWN = f"""A **plan** for `__init__`:

- [a link](javascript:alert(1)) and ![a picture](http://198.51.100.1/x.png)

```python
def answer(): return "text"  # remark
```

{SCRIPT}"""
LINES = "".join(f"line {number}\n" for number in range(200))
CONVERSATION = (
    make_prompt(MARKDOWN),
    {
        "kind": "model",
        "request": 1,
        "messages": [{"role": "user", "text": "begin"}],
        "reply": {
            "text": MARKDOWN,
            "reasoning": "first look",
            "tool_calls": [
                {"id": "1", "name": "bash", "arguments": '{"command": "step 1"}'},
                {"id": "2", "name": "web", "arguments": '{"url": "http://198.51.100.1/", "times": 2}'},
            ],
        },
        "seconds": 1,
    },
    make_call(1, LINES),
    {"kind": "model", "request": 2, "messages": [{"role": "tool", "text": "web page", "tool_call_id": "2"}]},
    {"output": "the answer"},
)


@dataclass
class Viewer:
    """A viewer that is open in a browser."""

    page: Page
    root: str
    # The answers that are expected to fail, of which Chromium writes a line to the console.
    allowed: tuple[str, ...] = ()

    def go(self, place: str) -> None:
        """Open a place of the viewer, and wait until it is shown."""
        self.page.goto(self.root + place)
        expect(self.page.locator("#main")).to_have_attribute("aria-busy", "false")

    @property
    def tasks(self) -> list[str]:
        return self.page.locator(".attempts-table tbody a").all_inner_texts()

    def expect_found(self, text: str) -> None:
        expect(self.page.locator("output")).to_have_text(text)

    def sort(self, by: str) -> None:
        self.page.locator(".attempts-table thead").get_by_role("button", name=by).click()
        head = self.page.locator(f"thead th.{by}")
        expect(head).to_have_attribute("aria-sort", re.compile("ascending|descending"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    records = [make_record(task, attempt) for attempt in range(2) for task in range(TASKS)]
    before = write_run(tmp_path / "before", records)
    add_entries(before, 5, make_prompt(f"the prompt of task five {SCRIPT}"), make_call(1, f"seen {SCRIPT}"))
    add_entries(before, 6, *CONVERSATION)
    after = [make_record(task, status=Status.PASSED) for task in range(TASKS)]
    write_run(tmp_path / "after", after, started_at="2026-08-01T11:00:00Z", agent=SCRIPT)
    audit = tmp_path / "some-audit"
    write_run(audit / "controls", [make_record(0)])
    (audit / "audit.json").write_text("{}")
    return tmp_path


@contextmanager
def open_viewer(page: Page, open_page: Open, runs: Path, **looks: Any) -> Iterator[Viewer]:
    """Yield the open viewer. Raises AssertionError for an error in it, or a request to anywhere else."""
    with serve_viewer(runs) as address:
        origin = "{0.scheme}://{0.netloc}/".format(urlsplit(address))
        with open_page(address, (origin,), **looks) as faults:
            viewer = Viewer(page, address.partition("?")[0])
            expect(page.locator("#main")).to_have_attribute("aria-busy", "false")
            yield viewer
            assert [fault for fault in faults if not fault.startswith(viewer.allowed or "\0")] == []


@pytest.fixture
def viewer(page: Page, open_page: Open, runs: Path) -> Iterator[Viewer]:
    with open_viewer(page, open_page, runs) as viewer:
        yield viewer


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(
    page: Page, open_page: Open, runs: Path, width: int, scheme: str
) -> None:
    with open_viewer(page, open_page, runs, width=width, scheme=scheme) as viewer:
        # The wide and dark page has the same parts as the narrow and light one.
        names = [*PLACES] if THOROUGH or scheme == "light" else one_in_two([*PLACES], 0)
        for name in names:
            viewer.go(PLACES[name])
            assert viewer.page.evaluate("document.documentElement.scrollWidth") <= width, name
            found = Axe().run(viewer.page).response["violations"]
            assert [(name, each["id"], node["html"]) for each in found for node in each["nodes"]] == []


def test_the_token_leaves_the_address_and_the_page_can_be_loaded_again(viewer: Viewer) -> None:
    assert "token" not in viewer.page.url
    viewer.page.reload()
    expect(viewer.page.get_by_role("link", name="before")).to_be_visible()
    assert viewer.page.evaluate("document.cookie") == ""


def test_without_the_token_another_browser_gets_nothing(viewer: Viewer, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    response = page.goto(viewer.root)
    assert response is not None
    assert response.status == 401
    context.close()


def test_a_script_in_the_texts_of_a_run_stays_text(viewer: Viewer) -> None:
    for place in PLACES.values():
        viewer.go(place)
        assert viewer.page.locator("img").count() == 0
        assert viewer.page.locator("script").count() == 2
        assert "taken over" not in viewer.page.title()
    viewer.go(PLACES["attempt"])
    expect(viewer.page.locator(".transcript")).to_contain_text(f"the prompt of task five {SCRIPT}")
    expect(viewer.page.locator(".transcript")).to_contain_text(f"seen {SCRIPT}")


def test_markdown_of_a_model_is_formatted_and_loads_nothing(viewer: Viewer) -> None:
    viewer.go(PLACES["conversation"])
    said = viewer.page.locator(".said.assistant")
    expect(said.locator("strong")).to_have_text("plan")
    expect(said.locator("p code")).to_have_text("__init__")
    expect(said.locator("pre .k").first).to_have_text("def")
    expect(said.locator("li")).to_contain_text("[image: a picture] (http://198.51.100.1/x.png)")
    expect(said).to_contain_text(SCRIPT)
    assert said.locator("a, img, script").count() == 0
    viewer.page.get_by_role("button", name="source").click()
    expect(said.locator("pre.raw")).to_contain_text("A **plan** for")
    expect(said.locator("strong")).to_be_hidden()


def test_a_call_is_shown_once_with_its_result(viewer: Viewer) -> None:
    viewer.go(PLACES["conversation"])
    calls = viewer.page.locator(".transcript .call")
    expect(calls.first).to_contain_text("step 1")
    assert calls.count() == 2
    expect(calls.first.get_by_text("bash 0.5 s")).to_be_visible()
    expect(calls.nth(1)).to_contain_text("http://198.51.100.1/")
    expect(calls.nth(1)).to_contain_text("web page")


def test_a_long_output_is_folded_until_it_is_opened(viewer: Viewer) -> None:
    viewer.go(PLACES["conversation"])
    folded = viewer.page.locator(".call .folded").first
    expect(folded).to_be_visible()
    viewer.page.get_by_role("button", name="show all 201 lines").click()
    expect(viewer.page.get_by_role("button", name="fold", exact=True)).to_be_visible()
    expect(viewer.page.locator(".call .folded")).to_have_count(0)


def test_the_outline_and_the_keys_lead_to_a_part_of_the_transcript(viewer: Viewer) -> None:
    viewer.go(PLACES["conversation"])
    outline = viewer.page.get_by_role("navigation", name="Outline").get_by_role("button")
    assert outline.all_inner_texts() == ["task", "request 1 bash, web", "request 2", "submission"]
    outline.nth(1).click()
    expect(viewer.page.locator("#part-2")).to_be_focused()
    viewer.page.keyboard.press("n")
    expect(viewer.page.locator("#part-3")).to_be_focused()


def test_the_search_in_a_transcript_leaves_the_parts_that_have_the_text(viewer: Viewer) -> None:
    viewer.go(PLACES["conversation"])
    viewer.page.get_by_label("find in it").fill("LINE 199")
    viewer.expect_found("1 part of 4")
    expect(viewer.page.locator(".entry:visible")).to_have_count(1)
    expect(viewer.page.locator(".call .folded")).to_have_count(0)
    viewer.page.get_by_label("find in it").fill("")
    expect(viewer.page.locator(".entry:visible")).to_have_count(4)


def test_an_attempt_names_its_model_tokens_cost_and_time(viewer: Viewer, runs: Path) -> None:
    metrics = {"model_requests": 2, "input_tokens": 1200, "output_tokens": 80, "cost": 0.25}
    write_run(runs / "asked", [make_record(0, metrics=metrics)])
    viewer.go("#/attempt?run=asked&task=Task%2F0&attempt=0")
    for text in ("model some-model", "tokens 1,200 tokens in, 80 out", "cost 0.25", "duration 0.0 s"):
        expect(viewer.page.locator(".by")).to_contain_text(text)


def test_the_grid_has_a_row_for_each_task_in_order_and_leads_to_its_page(viewer: Viewer) -> None:
    viewer.go(PLACES["grid"])
    rows = viewer.page.locator(".grid tbody tr")
    expect(rows).to_have_count(TASKS)
    assert rows.nth(10).inner_text().split() == ["Task/10", "T", "T", "0/2"]
    viewer.page.get_by_role("link", name="Task/5", exact=True).click()
    expect(viewer.page.get_by_role("heading", name="Task/5")).to_be_visible()
    expect(viewer.page.locator(".prose")).to_contain_text("the prompt of task five")
    viewer.page.get_by_role("link", name="#1").click()
    expect(viewer.page.get_by_role("heading", name="Task/5 #1")).to_be_visible()


@pytest.mark.parametrize("width", [360, 1600])
def test_the_runs_have_and_are_sorted_by_cost_duration_and_start(
    page: Page, open_page: Open, runs: Path, width: int
) -> None:
    with open_viewer(page, open_page, runs, width=width) as viewer:
        for head in ("cost", "duration", "started", "rate"):
            viewer.page.locator(".runs thead").get_by_role("button", name=head, exact=True).click()
            expect(viewer.page.locator(f".runs th.{head}")).to_have_attribute("aria-sort", re.compile("."))
        expect(viewer.page.locator(".runs tbody a").first).to_have_text("after")
        for cell in ("duration", "started"):
            expect(viewer.page.locator(f".runs tbody .{cell}").first).to_be_visible()


def test_the_models_by_benchmarks_lead_to_the_newest_run(viewer: Viewer) -> None:
    viewer.page.get_by_role("link", name="models by benchmarks").click()
    row = viewer.page.get_by_role("row").filter(has_text="some-model").filter(has_text="chat")
    row.get_by_role("link").click()
    expect(viewer.page.locator(".by")).to_contain_text("run before")


def test_the_runs_are_searched_and_opened(viewer: Viewer) -> None:
    viewer.page.get_by_label("search").fill("before mbpp")
    viewer.expect_found("1 of 2")
    viewer.page.locator("tbody").get_by_role("link", name="before").click()
    expect(viewer.page.locator(".headline")).to_contain_text("25.0 % resolved")


def test_the_search_finds_words_of_ids_and_errors(viewer: Viewer) -> None:
    viewer.go(PLACES["run"])
    viewer.page.get_by_label("search").fill("ASSERT task/11")
    viewer.expect_found("2 of 120")
    assert viewer.tasks == ["Task/11 #1", "Task/11"]
    viewer.page.get_by_label("search").fill("no such words")
    viewer.expect_found("0 of 120")
    assert viewer.tasks == []


def test_status_category_and_search_are_combined_and_kept_in_the_address(viewer: Viewer) -> None:
    viewer.go(PLACES["run"])
    viewer.page.get_by_role("combobox", name="status").select_option("timeout")
    viewer.expect_found("30 of 120")
    viewer.page.get_by_role("combobox", name="category").select_option("strings")
    viewer.expect_found("10 of 120")
    viewer.page.get_by_label("search").fill("#1")
    viewer.expect_found("5 of 120")
    shown = viewer.tasks
    viewer.page.reload()
    viewer.expect_found("5 of 120")
    assert viewer.tasks == shown


def test_the_attempts_are_sorted_by_task_as_numbers_and_back(viewer: Viewer) -> None:
    viewer.go(PLACES["run"])
    viewer.sort("task")
    expect(viewer.page.locator(".attempts-table tbody a").first).to_have_text("Task/0")
    assert viewer.tasks[:4] == ["Task/0", "Task/0 #1", "Task/1", "Task/1 #1"]
    viewer.sort("task")
    expect(viewer.page.locator(".attempts-table tbody a").first).to_have_text("Task/59 #1")


def test_pages_turn_by_the_keyboard(viewer: Viewer) -> None:
    viewer.go(PLACES["run"])
    assert len(viewer.tasks) == 100
    viewer.page.keyboard.press("n")
    expect(viewer.page.get_by_text("101 to 120 of 120")).to_be_visible()
    assert len(viewer.tasks) == 20
    viewer.page.keyboard.press("p")
    expect(viewer.page.get_by_text("1 to 100 of 120")).to_be_visible()


def test_an_attempt_is_opened_and_left_by_the_keyboard(viewer: Viewer) -> None:
    viewer.go("#/run?run=before&sort=task&descending=0&status=failed&search=task/5")
    viewer.expect_found("6 of 120")
    viewer.page.keyboard.press("j")
    viewer.page.keyboard.press("j")
    viewer.page.keyboard.press("k")
    viewer.page.keyboard.press("Enter")
    expect(viewer.page.get_by_role("heading", name="Task/5", exact=True)).to_be_visible()
    expect(viewer.page.locator("details.text pre").nth(1)).to_contain_text("program 5")
    viewer.page.keyboard.press("j")
    expect(viewer.page.get_by_role("heading", name="Task/5 #1")).to_be_visible()
    viewer.page.keyboard.press("u")
    viewer.expect_found("6 of 120")
    viewer.page.keyboard.press("/")
    expect(viewer.page.get_by_label("search")).to_be_focused()


def test_keys_are_explained_in_a_dialog(viewer: Viewer) -> None:
    viewer.page.keyboard.press("?")
    expect(viewer.page.get_by_role("dialog", name="Keys")).to_be_visible()
    viewer.page.keyboard.press("Escape")
    expect(viewer.page.get_by_role("dialog")).to_be_hidden()


def test_two_chosen_runs_are_compared_and_lead_to_their_attempts(viewer: Viewer) -> None:
    for name in ("after", "before"):
        viewer.page.get_by_label(f"compare {name}").check()
    viewer.page.get_by_role("button", name="compare", exact=True).click()
    expect(viewer.page.locator(".first")).to_contain_text("rate +75.0 points")
    expect(viewer.page.get_by_role("heading", name="gained: 45")).to_be_visible()
    viewer.page.get_by_role("link", name="Task/5 in the baseline").click()
    expect(viewer.page.locator(".by")).to_contain_text("failed")


def test_an_audit_leads_to_its_runs(viewer: Viewer) -> None:
    viewer.page.get_by_role("link", name="some-audit").click()
    viewer.page.get_by_role("link", name="some-audit/controls").click()
    expect(viewer.page.locator(".headline")).to_contain_text("100.0 % resolved")


def test_the_manifest_opens_below_the_run(viewer: Viewer) -> None:
    viewer.go(PLACES["run"])
    viewer.page.get_by_text("Manifest", exact=True).click()
    expect(viewer.page.get_by_role("row", name="config.model some-model")).to_be_visible()


def test_a_finished_run_has_its_charts_and_the_causes_of_its_failures(viewer: Viewer) -> None:
    viewer.go(PLACES["run"])
    expect(viewer.page.get_by_role("img", name="120 attempts in")).to_be_visible()
    expect(viewer.page.locator(".causes tr")).to_have_count(3)
    expect(viewer.page.get_by_role("heading", name="Durations")).to_be_visible()


def test_a_new_run_joins_the_list(viewer: Viewer, runs: Path) -> None:
    write_run(runs / "newest", [make_record(0)])
    expect(viewer.page.get_by_role("link", name="newest")).to_be_visible()


def test_long_lists_of_runs_have_pages(viewer: Viewer, runs: Path) -> None:
    for number in range(201):
        write_run(runs / f"more-{number:03}", [make_record(0)], started_at="2026-07-01T10:00:00Z")
    viewer.expect_found("203 of 203")
    expect(viewer.page.get_by_text("1 to 200", exact=True)).to_be_visible()
    viewer.page.keyboard.press("n")
    expect(viewer.page.get_by_role("link", name="more-000")).to_be_visible()
    viewer.page.get_by_label("search").fill("more-2")
    viewer.expect_found("1 of 203")


def test_attempts_under_way_have_an_age_and_the_run_the_time_that_is_left(viewer: Viewer, runs: Path) -> None:
    live = write_run(runs / "live", [make_record(0, category=None)], planned=3, is_finished=False)
    with closing(RunStore(live)):
        add_entries(live, 0, {**make_prompt("solve it"), "time": time.time() - 100}, attempt=1)
        viewer.go("#/run?run=live")
        expect(viewer.page.get_by_role("listitem").filter(has_text="Task/0 #1 for 1 min")).to_be_visible()
        expect(viewer.page.locator(".legend")).to_have_text("passed 1to come 2")
        expect(viewer.page.locator(".attempts-table th.category")).to_be_hidden()
        add_records(live, make_record(1, category=None))
        expect(viewer.page.get_by_text("at the pace since this page was opened")).to_be_visible()


def test_the_stages_of_a_run_under_way_are_followed(viewer: Viewer, runs: Path) -> None:
    live = write_run(runs / "live", [make_record(0)], planned=3, is_finished=False)
    with closing(RunStore(live)):
        add_entries(live, 0, make_prompt("solve it"), attempt=1)
        viewer.go("#/run?run=live")
        under_way = viewer.page.get_by_role("listitem").filter(has_text="Task/0 #1")
        for stage in (Stage.MODEL, Stage.GRADING):
            active = ActiveAttempt("Task/0", 1, 0.0, place=SCRIPT)
            active.enter(stage)
            replace_run_file(live, STAGES, format_stages([active]))
            expect(under_way).to_contain_text(f"{stage} on {SCRIPT}")
            expect(viewer.page.get_by_text(f"{stage} 1", exact=True)).to_be_visible()
        under_way.get_by_role("link").click()
        expect(viewer.page.locator(".by")).to_contain_text(f"under way, grading on {SCRIPT}")
    expect(viewer.page.locator(".by")).to_have_text("interrupted")


def test_a_run_under_way_is_followed_to_its_end(viewer: Viewer, runs: Path) -> None:
    live = write_run(runs / "live", [make_record(0)], planned=3, is_finished=False)
    with closing(RunStore(live)):
        viewer.go("#/run?run=live")
        expect(viewer.page.locator(".headline")).to_contain_text("running: 1 of 3 attempts")
        viewer.page.locator(".attempts-table tbody a").focus()
        add_records(live, make_record(1))
        expect(viewer.page.locator(".headline")).to_contain_text("running: 2 of 3 attempts")
        viewer.expect_found("2 of 2")
        # The row has moved down, and keeps the focus.
        expect(viewer.page.get_by_role("link", name="Task/0")).to_be_focused()
    expect(viewer.page.locator(".by")).to_contain_text("interrupted")


def test_the_turns_of_an_attempt_appear_as_they_happen(viewer: Viewer, runs: Path) -> None:
    live = write_run(runs / "live", [make_record(0)], planned=2, is_finished=False)
    with closing(RunStore(live)):
        add_entries(live, 1, make_prompt("solve it"))
        viewer.go("#/attempt?run=live&task=Task%2F1&attempt=0")
        expect(viewer.page.locator(".by")).to_contain_text("under way")
        expect(viewer.page.locator(".transcript")).to_contain_text("solve it")
        add_entries(live, 1, make_call(1, "first observation"))
        expect(viewer.page.locator(".transcript")).to_contain_text("first observation")
        add_entries(live, 1, make_call(2, "last observation"))
        add_records(live, make_record(1))
        expect(viewer.page.locator(".by")).to_contain_text("failed")
        expect(viewer.page.locator(".transcript")).to_contain_text("last observation")
        assert viewer.page.locator(".transcript .entry").count() == 3


def test_a_removed_run_is_reported_and_the_list_goes_on(viewer: Viewer, runs: Path) -> None:
    live = write_run(runs / "live", [make_record(0)], planned=2, is_finished=False)
    viewer.allowed = ("Failed to load resource: the server responded with a status of 410",)
    with closing(RunStore(live)):
        viewer.go("#/run?run=live")
        expect(viewer.page.locator(".headline")).to_contain_text("running")
        shutil.rmtree(live)
        expect(viewer.page.get_by_role("alert")).to_contain_text("the folder of this run was removed")
    viewer.page.get_by_role("link", name="all runs").click()
    expect(viewer.page.get_by_role("link", name="before")).to_be_visible()
    expect(viewer.page.get_by_role("alert")).to_be_hidden()
