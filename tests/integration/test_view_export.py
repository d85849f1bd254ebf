"""The static pages of many runs: whole without a server, and nothing in them loads or runs anything else."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsers import needs_browser
from playwright.sync_api import Browser, expect
from viewer_fixtures import SCRIPT, add_entries, make_prompt, make_record, read_page_data, write_run

from harness.core.errors import UsageError
from harness.reports.viewer.catalogue import Catalogue
from harness.reports.viewer.export import export_pages

# A name with characters that mean something in an address and in HTML.
ODD = "odd #1 & 100 % <b>"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    first = write_run(runs / ODD, [make_record(task) for task in range(4)])
    add_entries(first, 1, make_prompt(f"the prompt {SCRIPT}"))
    later = [make_record(0), make_record(4)]
    write_run(runs / "later", later, started_at="2026-08-02T10:00:00Z", benchmark=SCRIPT)
    (runs / "broken").mkdir()
    (runs / "broken" / "manifest.json").write_text("{")
    return runs


def export(runs: Path) -> tuple[Path, dict[str, str | None]]:
    target = runs.parent / "pages"
    return target, dict(export_pages(Catalogue(runs), target))


def test_each_run_has_its_page_and_its_records_and_a_broken_one_is_named(runs: Path) -> None:
    target, exported = export(runs)
    assert "is not JSON" in str(exported.pop("broken"))
    assert exported == {"later": None, ODD: None}
    assert not (target / "broken").exists()
    for name in ("attempts.jsonl", "manifest.json", "summary.json"):
        assert (target / ODD / name).read_bytes() == (runs / ODD / name).read_bytes()
    assert len([*(target / ODD / "transcripts").iterdir()]) == 1
    data = read_page_data((target / "index.html").read_text())
    assert data["links"][ODD] == f"{quote(ODD)}/report.html"


def test_a_folder_with_files_is_refused(runs: Path) -> None:
    with pytest.raises(UsageError, match="is not empty"):
        next(export_pages(Catalogue(runs), runs))


def test_a_link_in_a_run_folder_is_not_followed(runs: Path) -> None:
    secret = runs.parent / "secret"
    secret.write_text("key")
    (runs / "later" / "transcripts" / "x-0.jsonl").symlink_to(secret)
    target, exported = export(runs)
    assert exported["later"] is not None
    assert not (target / "later").exists()


@needs_browser
def test_the_pages_lead_from_the_list_to_an_attempt_and_back_without_a_server(
    runs: Path, browser: Browser
) -> None:
    target, _ = export(runs)
    page = browser.new_context(viewport={"width": 360, "height": 800}).new_page()
    faults: list[str] = []
    allowed = (target.as_uri(), "data:")
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda each: None if each.url.startswith(allowed) else faults.append(each.url))
    page.goto((target / "index.html").as_uri())
    page.get_by_role("button", name="rate").click()
    assert page.locator("tbody a").all_inner_texts() == ["later", ODD]
    assert Axe().run(page).response["violations"] == []
    page.get_by_role("link", name="models by benchmarks").click()
    page.get_by_role("row").filter(has_text="some-model").get_by_role("link").last.click()
    expect(page.locator(".headline")).to_contain_text("25.0 % resolved")
    page.get_by_role("link", name="Task/1").click()
    expect(page.locator(".transcript")).to_contain_text(f"the prompt {SCRIPT}")
    assert page.locator("img, iframe, object").count() == 0
    page.get_by_role("link", name="all runs").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.get_by_label("search").fill("odd mbpp")
    expect(page.locator("output")).to_have_text("1 of 2")
    assert faults == []
    page.goto((target / "index.html").as_uri() + "#/compare?baseline=a&candidate=b")
    expect(page.get_by_role("alert")).to_contain_text("This page does not have this part.")
