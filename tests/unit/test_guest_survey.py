"""What the guest reports of paths, and that a report is bounded before it is built."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.sandbox.guest import survey
from harness.sandbox.guest.survey import TooMuchChanged


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MAX_BYTES", 1000)


def test_a_report_has_path_and_facts_of_each_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.symlink("file", tmp_path / "link")
    paths = [str(tmp_path), str(tmp_path / "file"), str(tmp_path / "link"), "/no/such"]
    assert json.loads(survey.report(paths)) == [
        [paths[0], {"kind": "folder", "names": ["file", "link"]}],
        [paths[1], {"kind": "file"}],
        [paths[2], {"kind": "link", "to": "file"}],
        [paths[3], {"kind": "absent"}],
    ]


def test_a_folder_of_more_names_than_an_answer_holds_is_refused_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        (tmp_path / f"{number}{'x' * 199}").touch()

    def refuse(_value: object) -> str:
        raise AssertionError("the report was built")

    monkeypatch.setattr(json, "dumps", refuse)
    with pytest.raises(TooMuchChanged, match="more names than one answer may hold"):
        survey.report([str(tmp_path)])


def test_names_count_as_they_are_written(tmp_path: Path) -> None:
    """A byte that is no text takes six characters."""
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + b"\xff" * 200)).touch()
    with pytest.raises(TooMuchChanged, match="a report of more than 1000 bytes"):
        survey.report([str(tmp_path)])


def test_many_paths_together_are_bounded_too(tmp_path: Path) -> None:
    with pytest.raises(TooMuchChanged, match="a report of more than 1000 bytes"):
        survey.report([str(tmp_path)] * 100)


def test_the_bound_leaves_room_in_a_frame() -> None:
    from harness.sandbox.guest.frames import MAX_BODY_BYTES

    assert survey.report([]) == b"[]"
    assert MAX_BODY_BYTES >= 4 * (16 << 20)
