"""The count of the attempts that have a verdict, while a run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from viewer_fixtures import add_records, make_record, write_run

from harness.core.types import Status
from harness.reports.viewer.catalogue import Catalogue
from harness.runs import followed_index
from harness.runs.followed_index import FinishedCount
from harness.runs.store import ATTEMPTS


def test_only_the_new_part_of_a_growing_file_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [make_record(0), make_record(1, status=Status.INFRA_ERROR)])
    count = FinishedCount(run)
    first = count.read()
    path = run / ATTEMPTS
    # A line that was read already, made unreadable without a change of the file's length.
    path.write_bytes(b"x" * (path.stat().st_size - 1) + b"\n")
    add_records(run, make_record(2))
    assert (first, count.read()) == (1, 2)


def test_half_a_line_waits_for_its_end_and_a_line_that_is_no_record_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [make_record(0)])
    count = FinishedCount(run)
    with open(run / ATTEMPTS, "ab") as file:
        file.write(b"\xffgarbage\n" + b'{"status": "')
        file.flush()
        half = count.read()
        file.write(b'passed"}\n')
    assert (half, count.read()) == (1, 2)


def test_a_file_that_is_replaced_is_counted_again(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [make_record(0), make_record(1)])
    count = FinishedCount(run)
    first = count.read()
    (run / ATTEMPTS).rename(tmp_path / "old")
    add_records(run, make_record(0))
    second = count.read()
    (run / ATTEMPTS).unlink()
    assert (first, second, count.read()) == (2, 1, 0)


def test_the_list_of_the_viewer_reads_on_in_a_long_file_until_its_count_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "runs" / "long", [], planned=9, is_finished=False)
    add_records(run, *(make_record(task) for task in range(5)))
    catalogue = Catalogue(tmp_path / "runs")
    monkeypatch.setattr(followed_index, "_LINES", 2)
    monkeypatch.setattr("harness.reports.viewer.catalogue._INDEX_SECONDS", -1.0)
    looks = [catalogue.read_list().runs[0][1].finished_attempts for _ in range(4)]
    assert looks == [None, None, 5, 5]
