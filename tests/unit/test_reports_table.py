from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attempt_records import make_record

from harness.core.types import AttemptRecord, DataSource, RateInterval, Status, Summary
from harness.reports.table import print_record_details, print_summary

HUB = DataSource(kind="hub", location="google-research-datasets/mbpp", sha256="ab" * 32, rows=974)
SUMMARY = Summary(
    total=100,
    attempts=100,
    resolved=40,
    rate=0.4,
    pass_at_k={10: None, 1: 0.4},
    statuses={Status.PASSED: 40, Status.FAILED: 57, Status.INFRA_ERROR: 2, Status.TIMEOUT: 1},
    by_category={"only": {"total": 100, "resolved": 40, "rate": 0.4}},
    rate_interval=RateInterval(0.3094, 0.4980, 100),
    first_attempt_rate=0.4,
)
FAILED = make_record(
    "mbpp/11",
    category="only",
    agent_output="def f():\n    return 1\n",
    expected_output="2",
    duration_seconds=0.31,
    error="assert f() == 2",
)
HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]x[/] [/nope] :skull: \u202e\ud800" + "A" * 100_000


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(summary: Summary = SUMMARY, *, stream: io.StringIO | None = None, **arguments: Any) -> str:
    stream = stream or io.StringIO()
    defaults = {"title": "mbpp, agent oracle", "source": HUB, "duration_seconds": 192.3}
    print_summary(summary, stream=stream, **{**defaults, **arguments})
    return stream.getvalue()


def test_the_whole_table_as_a_log_shows_it() -> None:
    text = shown(notes=["a note"], run_dir=Path("runs/1"), attempts=[FAILED])
    assert (
        text
        == """
mbpp, agent oracle
==================
40.0 % resolved  (95 % interval 30.9 % to 49.8 %, Wilson)
40 of 100 tasks, by one attempt at each

source    hub: google-research-datasets/mbpp
          974 rows, sha256 abababababab
tasks     100
attempts  100
resolved  40
rate      40.0 %  (95 % interval 30.9 % to 49.8 %, Wilson)
pass@1    40.0 %
pass@10   undefined: needs n >= 10
duration  3 min 12 s

status       attempts   share
passed             40  40.0 %
failed             57  57.0 %
timeout             1   1.0 %
infra_error         2   2.0 %

unresolved tasks (1)  status  error
mbpp/11               failed  assert f() == 2

2 attempts ended in an infra error: no verdict, but counted as unresolved.
note: a note
run folder: runs/1
show a failure: harness show runs/1 mbpp/11
"""
    )


def test_a_run_that_was_stopped_has_no_rate() -> None:
    row = {"total": 30, "resolved": 7, "rate": 0.23}
    stopped = replace(
        SUMMARY,
        total=60,
        attempts=60,
        resolved=14,
        statuses={Status.PASSED: 14, Status.CANCELLED: 46},
        by_category={"a": row, "b": row},
    )
    text = shown(stopped)
    assert "\nstopped after 14 of 60: 14 passed so far\n" in text
    assert not {"rate", "pass@1", "category"} & {
        line.split()[0] for line in text.splitlines() if line.strip()
    }


def test_the_bundled_sample_is_loud() -> None:
    text = shown(source=replace(HUB, kind="bundled"))
    assert text.count("!!!") == 4
    assert "BUNDLED SAMPLE" in text
    assert "BUNDLED" not in shown()


def test_categories_are_shown_only_if_there_are_several() -> None:
    row = {"total": 50, "resolved": 20, "rate": 0.4}
    text = shown(replace(SUMMARY, by_category={"string": row, "[red]math": row}))
    assert "[red]math     50        20  40.0 %  27.6 % to 53.8 %" in text
    assert "category" not in shown()


def test_few_unresolved_attempts_are_listed_infra_errors_first() -> None:
    lost = replace(FAILED, task_id="lost", attempt=3, status=Status.INFRA_ERROR, error="engine gone")
    passed = replace(FAILED, task_id="passed one", resolved=True, status=Status.PASSED)
    text = shown(attempts=[passed] * 3 + [FAILED] * 30 + [lost])
    lines = text[text.index("unresolved tasks (10 of 31)") :].splitlines()
    assert lines[1].split() == ["lost", "infra_error", "engine", "gone"]
    assert text.count("mbpp/11") == 9
    assert "passed one" not in text


def test_several_attempts_at_a_task_are_one_row_with_their_number() -> None:
    def make(task: str, *statuses: Status) -> list[AttemptRecord]:
        return [
            replace(FAILED, task_id=task, attempt=number, status=status, resolved=status is Status.PASSED)
            for number, status in enumerate(statuses)
        ]

    attempts = [
        *make("a", Status.FAILED, Status.PASSED),
        *make("b", Status.PASSED, Status.PASSED),
        *make("c", Status.PASSED, Status.FAILED),
        *make("d", Status.FAILED, Status.INFRA_ERROR),
    ]
    text = shown(replace(SUMMARY, total=4, resolved=2, attempts=8), attempts=attempts)
    lines = text[text.index("\ntasks with a failure (3)") :].splitlines()[2:5]
    assert [line.split()[:5] for line in lines] == [
        ["d", "(0", "of", "2)", "infra_error"],
        ["a", "(1", "of", "2)", "failed"],
        ["c", "(1", "of", "2)", "failed"],
    ]


def test_the_first_attempts_and_the_mean_of_all_attempts_have_different_names() -> None:
    text = shown(
        replace(
            SUMMARY,
            attempts=500,
            statuses={Status.PASSED: 150, Status.FAILED: 350},
            rate=0.3,
            pass_at_k={1: 0.3, 5: 0.7},
            rate_interval=RateInterval(0.2, 0.4, 100),
        )
    )
    interval = "95 % interval 20.0 % to 40.0 %, Wilson, clustered by task"
    assert f"30.0 % resolved  ({interval})\n" in text
    assert "pass@1: 150 of 500 attempts passed, as the mean over 100 tasks of the share that passed\n" in text
    assert "resolved       150 attempts\n" in text
    assert f"rate           30.0 %  ({interval})\nfirst attempt  40.0 %  (40 of 100 tasks)\n" in text
    assert "pass@1         30.0 %\npass@5         70.0 %\n" in text


def test_signs_of_tampering_are_one_line() -> None:
    text = shown(replace(SUMMARY, integrity={"broke it": 2, "left": 1}))
    assert "\nintegrity  3 attempts show signs of tampering: broke it (2), left (1)\n" in text


def test_without_signs_of_tampering_no_report_mentions_it() -> None:
    assert "integrity" not in shown()


def test_a_run_of_nothing() -> None:
    text = shown(Summary(0, 0, 0, 0.0, {1: None}, {}, {}))
    assert "rate      0.0 %\n" in text


def test_hostile_text_stays_text() -> None:
    hostile = replace(FAILED, task_id=HOSTILE, error=HOSTILE)
    text = shown(
        title=HOSTILE,
        source=replace(HUB, location=HOSTILE),
        notes=[HOSTILE],
        run_dir=Path(HOSTILE.replace("\ud800", "\udc80")),
        attempts=[hostile],
    )
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "[bold red]x[/] [/nope] :skull: \\u202e" in text
    assert len(text) < 20_000
    text.encode()


def test_a_stream_that_lacks_a_letter_gets_an_escape() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="latin-1")
    print_summary(SUMMARY, title="日本", source=HUB, duration_seconds=1, stream=stream)
    assert b"\\u65e5\\u672c" in written.getvalue()


def test_eighty_columns_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    long = replace(FAILED, task_id="agentbench/os-interaction/" + "x" * 30, error="long " * 100)
    text = shown(stream=Terminal(), attempts=[long], source=replace(HUB, kind="bundled"))
    lines = [
        line.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") for line in text.split("\n")
    ]
    assert all(len(line) <= 80 for line in lines)


def test_colour_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32mpassed" in shown(stream=Terminal())
    assert "\x1b" not in shown()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown(stream=Terminal())


def test_details_of_one_attempt() -> None:
    stream = io.StringIO()
    print_record_details(replace(FAILED, error="two\nlines \x1b[31m[red]"), folder=Path("run"), stream=stream)
    assert (
        stream.getvalue()
        == """\
mbpp/11: failed, 0.3 s
  error:
    two
    lines \\x1b[31m[red]
  expected:
    2
  agent:
    def f():
        return 1
"""
    )


CUT = replace(FAILED, agent_output="a" * 500, agent_output_cut=700, expected_output_cut=30)


def details(record: AttemptRecord, **arguments: Any) -> str:
    stream = io.StringIO()
    print_record_details(record, folder=Path("run"), stream=stream, **arguments)
    return stream.getvalue()


def test_details_mark_every_cut_with_its_length() -> None:
    text = details(CUT)
    assert "    ... (700 more characters, in run/attempts.jsonl)\n" in text
    assert "  expected:\n    2\n    ... (30 more characters)\n" in text


def test_details_show_the_whole_reply_and_the_submission_if_it_differs() -> None:
    reply = "```python\n" + "a" * 9000 + "\n```"
    text = details(replace(CUT, agent_output_full=reply, submission="a" * 9000))
    assert text.count("a" * 9000) == 2
    assert "  submission:\n" in text
    assert "more characters" not in text.partition("  agent:")[2]
    assert "submission" not in details(replace(CUT, agent_output_full="b", submission="b\n"))


def test_details_of_a_long_text_are_bounded_on_request() -> None:
    text = details(replace(CUT, agent_output_full="b" * 9000), limit=50)
    assert "... (8,950 more characters, in run/attempts.jsonl)\n" in text
    assert "b" * 51 not in text
