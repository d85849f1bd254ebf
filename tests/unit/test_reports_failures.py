"""The failure that a run shows first, and the command line that shows it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from attempt_records import make_record
from case_checks import each_case

from harness.core.text import quote_argument
from harness.core.types import AttemptRecord, Status
from harness.reports.failures import find_first_failure, write_show_command

FAILED = make_record("failed", sample_line=3)
TIMEOUT = make_record("timeout", Status.TIMEOUT, sample_line=3)
REFUSED = make_record("refused", Status.AGENT_ERROR, sample_line=3)
LOST = make_record("lost", Status.INFRA_ERROR, sample_line=3)
MISSING = make_record("missing", Status.AGENT_ERROR)
CANCELLED = make_record("cancelled", Status.CANCELLED, sample_line=3)
PASSED = make_record("passed", Status.PASSED, sample_line=3)
RUN = Path("runs/1")


def test_a_verdict_comes_before_an_agent_error_before_a_fault_before_a_missing_sample() -> None:
    left, found = [PASSED, CANCELLED, MISSING, LOST, REFUSED, TIMEOUT, FAILED], []
    while (first := find_first_failure(left, has_samples=True)) is not None:
        left.remove(first)
        found.append(first.task_id)
    assert found == ["timeout", "failed", "refused", "lost", "missing"]


def test_without_samples_an_attempt_without_a_line_is_an_ordinary_failure() -> None:
    verdict = replace(FAILED, sample_line=None)
    assert find_first_failure([REFUSED, verdict], has_samples=False) is verdict


@each_case(
    ("record", "expected"),
    [
        (FAILED, "harness show runs/1 failed"),
        (replace(FAILED, attempt=2), "harness show runs/1 failed --attempt 2"),
        (replace(FAILED, task_id="a b;c"), "harness show runs/1 'a b;c'"),
        (replace(FAILED, task_id="-t", attempt=1), "harness show --attempt 1 -- runs/1 -t"),
    ],
    ids=["plain", "later attempt", "quoted", "like an option"],
)
def test_the_command_shows_the_attempt(record: AttemptRecord, expected: str) -> None:
    assert write_show_command(RUN, record) == expected


@each_case("task_id", ["\ud800", "a\0b", "x" * 9000], ids=["surrogate", "NUL", "long"])
def test_an_id_that_cannot_be_pasted_has_no_command(task_id: str) -> None:
    assert write_show_command(RUN, replace(FAILED, task_id=task_id)) is None


@each_case("text", ["plain", "it's", "$HOME `id` \\x41", "a\nb\tc", "\x1b[2J'\\", "\u202e\x85\U000e0100"])
def test_bash_reads_a_quoted_text_as_it_was(text: str) -> None:
    quoted = quote_argument(text)
    assert quoted.isprintable()
    command = f"printf %s {quoted}"
    ended = subprocess.run(
        ["bash", "-c", command], env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True
    )
    assert ended.stdout.decode() == text
