"""The transcript that the viewer follows while an attempt writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from viewer_fixtures import add_entries, make_call, make_prompt, write_run

from harness.reports.viewer.transcript_follower import MOST_BLOCKS, TranscriptFollower


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", [])


def texts(found: dict[str, Any]) -> list[str]:
    return [block["text"] or block["heading"] for block in found["blocks"]]


def test_new_entries_follow_those_that_were_read(run: Path) -> None:
    follower = TranscriptFollower(add_entries(run, 1, make_prompt("solve it")))
    first = follower.read(0, 0)
    assert texts(first) == ["solve it"]
    add_entries(run, 1, make_call(1, "a file"))
    second = follower.read(1, first["generation"])
    assert texts(second) == ["[1] bash  (0.5 s)", "step 1", "a file"]


def test_an_entry_without_its_end_waits(run: Path) -> None:
    path = add_entries(run, 1, make_prompt("solve it"))
    follower = TranscriptFollower(path)
    generation = follower.read(0, 0)["generation"]
    line = json.dumps({"output": "42"})
    with open(path, "a", buffering=1) as file:
        file.write(line[:5])
        file.flush()
        assert follower.read(1, generation)["blocks"] == []
        file.write(line[5:] + "\n")
    assert texts(follower.read(1, generation)) == ["42"]


def test_an_attempt_that_begins_again_is_shown_from_its_start(run: Path) -> None:
    path = add_entries(run, 1, make_prompt("first try"), make_call(1, "x"))
    follower = TranscriptFollower(path)
    generation = follower.read(0, 0)["generation"]
    path.write_text(json.dumps(make_prompt("second try, with a longer prompt")) + "\n")
    again = follower.read(4, generation)
    assert again["generation"] != generation
    assert (again["first"], texts(again)) == (0, ["second try, with a longer prompt"])


def test_a_long_transcript_is_read_in_ranges(run: Path) -> None:
    calls = [make_call(number, f"observation {number}") for number in range(1, MOST_BLOCKS)]
    follower = TranscriptFollower(add_entries(run, 1, *calls))
    first = follower.read(0, 0)
    assert (len(first["blocks"]), first["has_more"]) == (MOST_BLOCKS, True)
    second = follower.read(MOST_BLOCKS, first["generation"])
    assert second["first"] == MOST_BLOCKS
    assert second["blocks"][0] != first["blocks"][0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Line 2 of the transcript cannot be read"),
        ("[]", "Line 2 of the transcript is not an entry"),
        ('{"schema_version": 99}', "has a version"),
    ],
)
def test_a_line_that_is_no_entry_ends_the_transcript_with_the_reason(
    run: Path, line: str, reason: str
) -> None:
    path = add_entries(run, 1, make_prompt("solve it"))
    with open(path, "a") as file:
        file.write(f"{line}\n")
    add_entries(run, 1, make_call(1, "later"))
    found = TranscriptFollower(path).read(0, 0)
    assert len(found["blocks"]) == 2
    assert reason in found["blocks"][1]["heading"]


def test_a_missing_transcript_has_no_blocks(run: Path) -> None:
    assert TranscriptFollower(run / "transcripts" / "none.jsonl").read(0, 0)["blocks"] == []


def test_invisible_characters_are_shown_as_escapes(run: Path) -> None:
    follower = TranscriptFollower(add_entries(run, 1, make_prompt("a\u202eb\x1b[31m")))
    assert texts(follower.read(0, 0)) == [r"a\u202eb\x1b[31m"]


def test_a_message_that_repeats_an_observation_refers_to_it(run: Path) -> None:
    path = add_entries(run, 1, make_prompt("solve it"), make_call(1, "the observation"))
    follower = TranscriptFollower(path)
    first = follower.read(0, 0)
    request = {
        "kind": "model",
        "request": 2,
        "messages": [{"role": "tool", "text": "the observation"}],
        "reply": {"text": "done"},
        "seconds": 1,
    }
    add_entries(run, 1, request)
    later = texts(follower.read(len(first["blocks"]), first["generation"]))
    assert "tool: as above" in later
    assert "the observation" not in later
