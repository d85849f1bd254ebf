from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from attempt_records import make_record, render_html
from case_checks import each_case
from viewer_fixtures import read_page_data, read_page_texts

from harness.core.types import AttemptRecord, RateInterval, Status, Summary

MANIFEST = {
    "harness_version": "0.1.0",
    "config": {
        "benchmark": "humaneval",
        "agent": "chat",
        "model": "some-model",
        "limits": {"memory_mb": 1024},
    },
    "source": {"kind": "hub", "location": "openai/openai_humaneval", "sha256": "ab" * 32, "rows": 164},
}
SUMMARY = Summary(
    total=4,
    attempts=4,
    resolved=1,
    rate=0.25,
    pass_at_k={1: 0.25, 10: None},
    statuses={Status.PASSED: 1, Status.FAILED: 2, Status.INFRA_ERROR: 1},
    by_category={
        "string": {"total": 2, "resolved": 1, "rate": 0.5},
        "maths": {"total": 2, "resolved": 0, "rate": 0.0},
    },
    rate_interval=RateInterval(0.0456, 0.6994, 4),
    first_attempt_rate=0.25,
)
FAILED = make_record(
    "HumanEval/0",
    attempt=1,
    sample_line=7,
    category="string",
    metrics={"phase": "evaluator", "tests": {"passed": 3}},
    agent_output="def f():\n    return 1",
    expected_output="2",
    duration_seconds=0.31,
    error="assert f() == 2",
)
HOSTILE = (
    "</pre></details></main><script>alert(1)</script><img src=x onerror=alert(1)>"
    "\" onclick='alert(1)' x=\"</style><style>*{display:none}</style><!-- &lt; \x1b[31m\u202e\ud800\x00"
)
VOID = {"meta", "link"}


class Page(HTMLParser):
    """Every element of a page, and whether each was closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def render(
    manifest: dict[str, Any] = MANIFEST,
    summary: Summary = SUMMARY,
    attempts: Iterable[AttemptRecord] = (FAILED,),
) -> str:
    return render_html(manifest=manifest, summary=summary, attempts=attempts)


def test_the_page_is_well_formed_and_complete() -> None:
    page = render()
    assert Page(page).all("main") == [{"id": "main", "tabindex": "-1"}]
    texts = read_page_texts(page)
    for text in (
        "humaneval",
        "some-model",
        "25.0 %",
        "95 % interval 4.6 % to 69.9 %",
        "needs n >= 10",
        "no verdict",
        "HumanEval/0",
        "assert f() == 2",
        "def f():\n    return 1",
        "tests.passed\n3",
        "sample line\n7",
        "config.limits.memory_mb",
        "maths",
    ):
        assert text in texts


def test_the_duration_is_plain_text() -> None:
    page = render_html(manifest=MANIFEST, summary=summary_of(3), attempts=synthetic(3), duration_seconds=61.7)
    assert "duration\n1 min 02 s" in read_page_texts(page)
    assert r"\xa0" not in page


def test_the_page_loads_nothing_and_runs_only_our_script() -> None:
    page = Page(render())
    assert {tag for tag, _ in page.elements}.isdisjoint({"img", "iframe", "object", "base"})
    assert page.all("script") == [{"type": "application/json", "id": "data"}, {}]
    names = {name for _, attributes in page.elements for name in attributes}
    assert names.isdisjoint({"src", "style", "srcset", "action"})
    assert not any(name.startswith("on") for name in names)
    addresses = [str(attributes["href"]) for _, attributes in page.elements if "href" in attributes]
    assert all(address.startswith(("#", "data:image/svg+xml,")) for address in addresses)
    script = between(render(), "<script>", "</script>")
    assert not any(word in script for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval("))
    assert "url(" not in render()
    assert "@import" not in render()


def between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def test_the_policy_allows_this_style_sheet_and_this_script_and_nothing_else() -> None:
    text = render()
    style, script = (
        base64.b64encode(hashlib.sha256(between(text, f"<{tag}>", f"</{tag}>").encode()).digest()).decode()
        for tag in ("style", "script")
    )
    policies = [meta["content"] for meta in Page(text).all("meta") if "http-equiv" in meta]
    assert policies == [
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    ]


def test_hostile_text_changes_nothing_but_text() -> None:
    def frame(text: str) -> str:
        head, _, rest = text.partition('id="data">')
        return re.sub(r"<title>[^<]*|<main.*", "", head + rest.partition("</script>")[2])

    row = {"total": 2, "resolved": 1, "rate": 0.5}
    texts: dict[str, Any] = dict.fromkeys(
        ("task_id", "category", "agent_output", "expected_output", "error"), HOSTILE
    )
    after = render(
        {"config": {"benchmark": HOSTILE, "agent": HOSTILE, "model": HOSTILE}, HOSTILE: HOSTILE},
        replace(SUMMARY, by_category={HOSTILE: row, "y": row}),
        [replace(FAILED, **texts, metrics={HOSTILE: HOSTILE})],
    )
    assert frame(after) == frame(render())
    assert Page(after).all("script") == Page(render()).all("script")
    assert "<" not in between(after, 'id="data">', "</script>")
    assert r"\x1b[31m\u202e\ud800\x00" in read_page_texts(after)
    assert all(char == "\n" or char.isprintable() for char in after)
    after.encode()


def test_huge_texts_are_cut() -> None:
    page = render(attempts=[replace(FAILED, agent_output="<" * 1_000_000, error="&" * 1_000_000)])
    assert len(between(page, 'id="data">', "</script>")) < 60_000


@each_case(
    "manifest", [{"source": "bundled"}, {"source": {"kind": "bundled"}}, {"data": {"source": "bundled"}}]
)
def test_the_bundled_sample_is_loud(manifest: dict[str, Any]) -> None:
    assert read_page_data(render(manifest))["run"]["is_bundled"]
    assert not read_page_data(render())["run"]["is_bundled"]


def test_every_status_has_a_colour() -> None:
    style = between(render(), "<style>", "</style>")
    assert all(f".{status}" in style for status in Status)


def test_signs_of_tampering_are_called_out() -> None:
    text = read_page_texts(render(summary=replace(SUMMARY, integrity={"broke <it>": 1})))
    assert "1 attempt shows signs of tampering: broke <it> (1)" in text


def test_without_signs_of_tampering_no_report_mentions_it() -> None:
    assert "tampering" not in read_page_texts(render())


def test_a_run_that_was_stopped_has_no_rate() -> None:
    statuses = {Status.PASSED: 10, Status.FAILED: 4, Status.CANCELLED: 46}
    page = render(summary=replace(SUMMARY, total=60, attempts=60, resolved=10, statuses=statuses))
    run = read_page_data(page)["run"]
    assert run["headline"][:3] == ["stopped after 14 of 60", "", "10 passed so far"]
    assert not any("%" in text for card in run["cards"] for text in card)
    assert run["categories"] == []


def test_an_empty_run_has_a_page() -> None:
    assert "no tasks" in read_page_texts(render({}, Summary(0, 0, 0, 0.0, {}, {}, {}), []))


def synthetic(number: int, **changes: Any) -> Iterator[AttemptRecord]:
    """Yield many attempts, of which every tenth failed and every ten thousandth met an infra error."""
    for place in range(number):
        status = Status.PASSED if place % 10 else Status.FAILED
        if place % 10_000 == 5000:
            status = Status.INFRA_ERROR
        yield replace(FAILED, task_id=f"t/{place}", status=status, **changes)


def rows_of(text: str, status: Status) -> int:
    return sum(row["status"] == status for row in read_page_data(text)["attempts"])


def summary_of(number: int) -> Summary:
    statuses = Counter(record.status for record in synthetic(number))
    return replace(SUMMARY, total=number, attempts=number, statuses=dict(statuses))


LONG_TEXTS = {"agent_output": "\u6570<&" * 2000, "error": '"' * 5000, "expected_output": "\u202e" * 5000}
MANY_METRICS = {"category": "&" * 5000, "metrics": {f"metric-{place}": "<" * 50 for place in range(50)}}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("number", "changes"),
    [
        pytest.param(20_000, {}, id="usual"),
        pytest.param(10_000, LONG_TEXTS, id="long-texts"),
        pytest.param(10_000, MANY_METRICS, id="many-metrics"),
    ],
)
def test_a_report_of_many_attempts_is_below_ten_megabytes(number: int, changes: dict[str, Any]) -> None:
    text = render(summary=summary_of(number), attempts=synthetic(number, **changes))
    assert len(text.encode()) < 10_000_000
    rows = {status: rows_of(text, status) for status in (Status.PASSED, Status.FAILED, Status.INFRA_ERROR)}
    shown = sum(rows.values())
    assert 0 < shown < number
    assert f"{shown:,} of {number:,} attempts are shown." in text
    assert f"passed {rows[Status.PASSED]:,} of {number * 9 // 10:,}" in text
    assert "All attempts are in attempts.jsonl" in text
    # The few attempts that need a person are not lost among the many.
    assert rows[Status.INFRA_ERROR] == number // 10_000


def test_a_report_that_has_room_for_all_attempts_leaves_none_out() -> None:
    text = render(summary=summary_of(1000), attempts=synthetic(1000))
    assert rows_of(text, Status.PASSED) + rows_of(text, Status.FAILED) == 1000
    assert "attempts are shown" not in text


def test_tables_of_a_report_name_the_file_that_has_all_rows() -> None:
    row = {"total": 2, "resolved": 1, "rate": 0.5}
    many = {f"category-{place}": row for place in range(50_000)}
    text = render(
        {f"fact-{place}": "x" * 1000 for place in range(10_000)}, replace(SUMMARY, by_category=many)
    )
    assert len(text.encode()) < 2_000_000
    texts = read_page_texts(text)
    assert "of 50,000 categories are shown. All are in summary.json." in texts
    assert "of 10,000 facts of the manifest are shown. All are in manifest.json." in texts
