"""The formats of a comparison: what they show, and texts of a run that try to be more than text."""

from __future__ import annotations

import importlib
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from case_checks import each_case
from unit.test_comparison import record, write_run

from harness.core.errors import UsageError
from harness.core.text import quote_markdown
from harness.reports.comparison import list_figures, points
from harness.reports.comparison_formats import comparison_format_names, load_comparison_format
from harness.runs.comparison import Comparison, compare_runs

HOSTILE = "t|`@team #1 <img src=x> [a](http://b)\x1b[2J\u202e\n| x |"
# The comment of a pull request may have this many characters.
LONGEST_COMMENT = 65_536


def render(comparison: Comparison, name: str) -> str:
    stream = io.StringIO()
    load_comparison_format(name)(comparison, stream)
    return stream.getvalue()


@pytest.fixture
def small(tmp_path: Path) -> Comparison:
    use = {"model_requests": 2, "input_tokens": 1000, "output_tokens": 10, "cost": 0.5}
    before = [record("x", 0, "p", **use), record("y", 0, "f", **use), record("z", 0, "p", **use)]
    after = [record("x", 0, "f", **{**use, "cost": None}), record("y", 0, "p", **use)]
    return compare_runs(
        [write_run(tmp_path / "before", before)],
        [write_run(tmp_path / "after", after, agent="command")],
        regression_threshold=0.5,
    )


def test_a_format_is_a_file_with_a_description() -> None:
    package = "harness.reports.comparison_formats"
    modules = [importlib.import_module(f"{package}.{name}") for name in comparison_format_names()]
    assert comparison_format_names() == ["json", "markdown", "table"]
    assert [module.__name__ for module in modules if not (module.__doc__ or "").rstrip().endswith(".")] == []
    with pytest.raises(UsageError, match="unknown format of a comparison 'jsn'"):
        load_comparison_format("jsn")


def test_the_comment_of_a_pull_request_names_the_bundled_sample(small: Comparison) -> None:
    first = small.baseline.runs[0]
    bundled = replace(first, manifest={**first.manifest, "source": "bundled"})
    changed = replace(small, baseline=replace(small.baseline, runs=(bundled,)))
    assert ":warning: bundled sample" not in render(small, "markdown")
    assert ":warning: bundled sample" in render(changed, "markdown")


def test_figures_stand_side_by_side_and_unknown_ones_are_named(small: Comparison) -> None:
    shown = {
        figure.label: (figure.baseline, figure.candidate, figure.change) for figure in list_figures(small)
    }
    assert shown["run"] == ("before", "after", "")
    assert shown["agent"] == ("chat", "command", "")
    assert shown["rate"] == ("66.7 % (20.8 % to 93.9 %)", "33.3 % (6.1 % to 79.2 %)", "-33.3 points")
    assert shown["resolved"] == ("2/3", "1/3", "-1")
    assert shown["tasks missing"] == ("0", "1", "")
    assert shown["cost"] == ("1.50 (0.5 each)", "unknown", "")
    assert shown["tokens in"] == ("3,000 (1,000 each)", "2,000 (1,000 each)", "+0 % each")


def test_replies_that_ended_at_the_token_limit_are_shown_beside_the_rate(small: Comparison) -> None:
    cut = replace(
        small, candidate=replace(small.candidate, usage={**small.candidate.usage, "cut_replies": 4})
    )
    label = "replies cut off"
    found = [
        [figure.candidate for figure in list_figures(each) if figure.label == label] for each in (small, cut)
    ]
    assert found == [[], ["4 (2 each)"]]


def test_the_table_names_the_changed_tasks(small: Comparison) -> None:
    lines = render(small, "table").splitlines()
    assert lines[lines.index("gained (1)") + 1] == "  y"
    assert lines[lines.index("lost (2)") + 1 : lines.index("lost (2)") + 3] == ["  x", "  z"]
    assert lines[lines.index("missing in the candidate (1)") + 1] == "  z"
    assert "gained 1 task, lost 2 (exact McNemar p = 1.000)" in lines
    assert "no regression: the threshold is a fall of 50.0 points" in lines
    assert "warning: 1 task missing in the candidate count as failed there" in lines


def test_markdown_has_the_same_parts(small: Comparison) -> None:
    lines = render(small, "markdown").splitlines()
    assert "| rate | 66.7 % (20.8 % to 93.9 %) | 33.3 % (6.1 % to 79.2 %) | -33.3 points |" in lines
    assert lines[lines.index("<details><summary>gained (1)</summary>") + 2] == "- `y`"
    assert '| `agent` | `"chat"` | `"command"` |' in lines


def test_json_has_the_documented_fields(small: Comparison) -> None:
    found = json.loads(render(small, "json"))
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()
    assert found["schema_version"] == 1
    fields = {*found, *found["baseline"], *found["baseline"]["runs"][0], *found["lost"][0]}
    fields |= {*found["rate"], *found["mcnemar"], *found["bootstrap"], *found["regression"]}
    fields |= {*found["differences"][0]}
    assert [field for field in sorted(fields) if f"`{field}`" not in page] == []
    assert found["mcnemar"] == {"gained": 1, "lost": 2, "p_value": 1.0}
    assert found["candidate"]["model"]["cost"] is None
    assert found["regression"] == {"threshold": 0.5, "is_regression": False}


def test_repetitions_show_the_noise_floor(tmp_path: Path) -> None:
    before = [
        write_run(tmp_path / name, {"x": "p", "y": letter}) for name, letter in (("a", "p"), ("b", "f"))
    ]
    found = compare_runs(before, [write_run(tmp_path / "c", {"x": "f", "y": "f"})])
    page = render(found, "table")
    assert "noise of 2 baseline runs: rates 50.0 % to 100.0 %, standard deviation 35.4 points" in page
    assert "the difference exceeds the spread of repeated runs, 50.0 points" in page
    assert json.loads(render(found, "json"))["noise_floor"] == {
        "spread": 0.5,
        "flips": 1,
        "is_exceeded": True,
    }


def test_texts_of_a_run_are_only_text(tmp_path: Path) -> None:
    runs = [
        write_run(
            tmp_path / name,
            [record(HOSTILE, 0, letter)],
            benchmark=HOSTILE,
            agent=f"{HOSTILE} {name}",
            config={"model": HOSTILE, HOSTILE: name},
        )
        for name, letter in (("a", "p"), ("b", "f"))
    ]
    found = compare_runs(runs[:1], runs[1:])
    pages = {name: render(found, name) for name in comparison_format_names()}
    assert [name for name, page in pages.items() if "\x1b" in page or "\u202e" in page] == []
    assert json.loads(pages["json"])["lost"][0]["task_id"] == HOSTILE
    # Without code spans, nothing of the hostile text is left, and every row has as many cells as its table.
    spans = [line.split("`") for line in pages["markdown"].splitlines()]
    assert [parts for parts in spans if len(parts) % 2 == 0] == []
    outside = "\n".join("".join(parts[::2]) for parts in spans)
    assert [mark for mark in ("@", "#1", "<img", "http", "[a]") if mark in outside] == []
    cells = {line.count("|") for line in pages["markdown"].splitlines() if line.startswith("|")}
    assert cells == {4, 5}


def test_markdown_of_any_comparison_fits_into_a_comment(tmp_path: Path) -> None:
    names = {f"{number:04}{'|`' * 300}": "p" for number in range(200)}
    config = {f"{number:03}{'|' * 300}": "`" * 300 for number in range(300)}
    before = [write_run(tmp_path / f"a{place:02}", names) for place in range(40)]
    other = dict.fromkeys((name[::-1] for name in names), "p")
    after = write_run(tmp_path / "b", other, config=config, agent="|" * 999)
    page = render(compare_runs(before, [after], resamples=40), "markdown")
    assert "... and 150 more, which `--json` lists" in page
    assert LONGEST_COMMENT / 4 < len(page) < LONGEST_COMMENT


@each_case(
    ("text", "quoted"),
    [
        ("a", "`a`"),
        ("", "`   `"),
        ("a`b|c", r"`a\x60b\x7cc`"),
        (" a", "`  a `"),
        ("a\nb", r"`a\nb`"),
        ("``", r"`\x60\x60`"),
    ],
)
def test_a_code_span_holds_the_text(text: str, quoted: str) -> None:
    assert quote_markdown(text) == quoted
    assert len(quote_markdown(text * 1000, 50)) <= 54


@each_case(
    ("difference", "shown"),
    [(0.0, "0.0 points"), (0.0512, "+5.1 points"), (-0.2, "-20.0 points"), (0.00004, "+0.004 points")],
)
def test_points_are_never_rounded_to_nothing(difference: float, shown: str) -> None:
    assert points(difference) == shown


def test_a_task_of_several_attempts_is_shown_with_its_shares(small: Comparison) -> None:
    (first, *_) = small.lost
    task = replace(first, baseline_passed=3, baseline_attempts=4, candidate_passed=1, candidate_attempts=4)
    several = replace(small, lost=(task,), baseline=replace(small.baseline, attempts=12))
    assert "  3/4 -> 1/4  x" in render(several, "table").splitlines()
