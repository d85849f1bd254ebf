from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from case_checks import each_case

from harness.core.types import AttemptRecord, RateInterval, Status, Summary
from harness.reports.html import render_html

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
FAILED = AttemptRecord(
    task_id="HumanEval/0",
    attempt=1,
    sample_line=7,
    category="string",
    resolved=False,
    status=Status.FAILED,
    score=0.0,
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
VOID = {"meta", "input", "br"}


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
    page = Page(render())
    for text in (
        "humaneval",
        "some-model",
        "25.0 %",
        "95 % interval 4.6 % to 69.9 %",
        "needs n >= 10",
        "no verdict",
        "HumanEval/0 #1",
        "assert f() == 2",
        "def f():\n    return 1",
        "tests.passed 3",
        "sample line 7",
        "config.limits.memory_mb",
        "maths",
    ):
        assert text in page.text


def test_the_duration_is_plain_text() -> None:
    page = render_html(manifest=MANIFEST, summary=summary_of(3), attempts=synthetic(3), duration_seconds=61.7)
    assert "<strong>1 min 02 s</strong>" in page
    assert r"\xa0" not in page


def test_the_page_loads_nothing_and_runs_only_our_script() -> None:
    page = Page(render())
    assert {tag for tag, _ in page.elements}.isdisjoint({"link", "img", "iframe", "object", "base", "form"})
    assert page.all("script") == [{}]
    names = {name for _, attributes in page.elements for name in attributes}
    assert names.isdisjoint({"src", "href", "style", "srcset", "action"})
    assert not any(name.startswith("on") for name in names)
    script = between(render(), "<script>", "</script>")
    assert not any(word in script for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval", "fetch"))
    assert "url(" not in render()
    assert "@import" not in render()


def between(text: str, start: str, end: str) -> str:
    return text[text.index(start) + len(start) : text.index(end)]


def test_the_policy_allows_this_style_sheet_and_this_script_and_nothing_else() -> None:
    text = render()
    style, script = (
        base64.b64encode(hashlib.sha256(between(text, f"<{tag}>", f"</{tag}>").encode()).digest()).decode()
        for tag in ("style", "script")
    )
    policies = [meta["content"] for meta in Page(text).all("meta") if "http-equiv" in meta]
    assert policies == [
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    ]


def test_hostile_text_changes_nothing_but_text() -> None:
    def skeleton(text: str) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(sorted(attributes))) for tag, attributes in Page(text).elements]

    def attempt(text: str) -> AttemptRecord:
        return replace(
            FAILED,
            task_id=text,
            category=text,
            metrics={text: text},
            agent_output=text,
            expected_output=text,
            error=text,
        )

    row = {"total": 2, "resolved": 1, "rate": 0.5}
    before = render(
        {"config": {"benchmark": "x", "agent": "x", "model": "x"}, "k": "x"},
        replace(SUMMARY, by_category={"x": row, "y": row}),
        [attempt("x")],
    )
    after = render(
        {"config": {"benchmark": HOSTILE, "agent": HOSTILE, "model": HOSTILE}, HOSTILE: HOSTILE},
        replace(SUMMARY, by_category={HOSTILE: row, "y": row}),
        [attempt(HOSTILE)],
    )
    assert skeleton(after) == skeleton(before)
    assert all(char == "\n" or char.isprintable() for char in after)
    assert r"\x1b[31m\u202e\ud800\x00" in Page(after).text
    after.encode()


def test_huge_texts_are_cut() -> None:
    assert (
        len(render(attempts=[replace(FAILED, agent_output="<" * 1_000_000, error="&" * 1_000_000)])) < 80_000
    )


@each_case(
    "manifest", [{"source": "bundled"}, {"source": {"kind": "bundled"}}, {"data": {"source": "bundled"}}]
)
def test_the_bundled_sample_is_loud(manifest: dict[str, Any]) -> None:
    assert "Bundled sample" in Page(render(manifest)).text
    assert "Bundled sample" not in Page(render()).text


def test_there_is_a_filter_for_each_status_that_occurs() -> None:
    page = Page(render())
    ids = [button["id"] for button in page.all("input") if button["type"] == "radio"]
    assert ids == ["only-all", "only-passed", "only-failed", "only-infra_error"]
    assert [label["for"] for label in page.all("label") if "for" in label] == ids
    style = page.text
    assert all(f"#only-{status}:checked ~ .list > :not(.{status})" in style for status in Status)
    assert [each["class"] for each in page.all("details") if "class" in each] == ["failed"]


def test_every_status_has_a_colour() -> None:
    style = render()
    assert all(f".{status}" in style[: style.index("#only-")] for status in Status)


def test_signs_of_tampering_are_called_out() -> None:
    text = Page(render(summary=replace(SUMMARY, integrity={"broke <it>": 1}))).text
    assert "1 attempt shows signs of tampering: broke <it> (1)" in text


def test_without_signs_of_tampering_no_report_mentions_it() -> None:
    assert "tampering" not in Page(render()).text


def test_a_run_that_was_stopped_has_no_rate() -> None:
    statuses = {Status.PASSED: 10, Status.FAILED: 4, Status.CANCELLED: 46}
    page = Page(render(summary=replace(SUMMARY, total=60, attempts=60, resolved=10, statuses=statuses)))
    assert "stopped after 14 of 6010 passed so far" in page.text.replace("\n", "")
    assert "%" not in page.text[page.text.index("stopped after") : page.text.index("Statuses")]
    assert "maths" not in page.text


def test_an_empty_run_has_a_page() -> None:
    assert "no tasks" in Page(render({}, Summary(0, 0, 0, 0.0, {}, {}, {}), [])).text


def test_rows_out_of_sight_of_a_long_list_alone_are_not_laid_out() -> None:
    assert ".list.long > details { content-visibility: auto" in render()
    for attempts, name in ((1000, "list"), (1001, "list long")):
        assert f'<div class="{name}">' in render(summary=replace(SUMMARY, attempts=attempts))


def synthetic(number: int, **changes: Any) -> Iterator[AttemptRecord]:
    """Yield many attempts, of which every tenth failed and every ten thousandth met an infra error."""
    for place in range(number):
        status = Status.PASSED if place % 10 else Status.FAILED
        if place % 10_000 == 5000:
            status = Status.INFRA_ERROR
        yield replace(FAILED, task_id=f"t/{place}", status=status, **changes)


def rows_of(text: str, status: Status) -> int:
    return text.count(f'<details class="{status}" ')


def summary_of(number: int) -> Summary:
    statuses = Counter(record.status for record in synthetic(number))
    return replace(SUMMARY, total=number, attempts=number, statuses=dict(statuses))


LONG_TEXTS = {
    "agent_output": "\u6570<&" * 2000,
    "error": '"' * 5000,
    "expected_output": "\u202e" * 5000,
}
MANY_METRICS = {"category": "&" * 5000, "metrics": {f"metric-{place}": "<" * 50 for place in range(50)}}


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        pytest.param(30_000, {}, id="usual"),
        pytest.param(10_000, LONG_TEXTS, id="long-texts", marks=pytest.mark.thorough),
        pytest.param(10_000, MANY_METRICS, id="many-metrics", marks=pytest.mark.thorough),
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
    page = Page(text)
    assert "of 50,000 rows are shown. All are in summary.json." in page.text
    assert "of 10,000 rows are shown. All are in manifest.json." in page.text
