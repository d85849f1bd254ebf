"""The guest tells changes apart by their time, and bounds a listing of files while it collects it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.environments.os.guest import contents
from harness.environments.os.guest.contents import TooMuchChanged, describe_each


def test_a_folder_of_more_names_than_a_listing_holds_is_refused_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "MAX_LISTING_BYTES", 1000)
    for number in range(6):
        (tmp_path / f"{number}{'x' * 199}").touch()
    with pytest.raises(TooMuchChanged, match="more names than a listing holds"):
        describe_each([str(tmp_path)])


def test_many_paths_together_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_LISTING_BYTES", 1000)
    with pytest.raises(TooMuchChanged, match="more files were changed than a listing of"):
        describe_each([str(tmp_path)] * 100)


def test_a_change_before_the_next_tick_has_an_earlier_time_even_if_the_kernel_gave_it_a_precise_one(
    tmp_path: Path,
) -> None:
    """A kernel gives the next change of a file a precise time if somebody has read the time of the last."""
    path = tmp_path / "file"
    path.touch()
    for number in range(100):
        # The changes end at another moment between two ticks in every round.
        end = time.perf_counter_ns() + number * 40_000
        while True:
            path.chmod(0o600 + path.stat().st_ctime_ns % 2)
            if time.perf_counter_ns() >= end:
                break
        tick = contents.next_tick_ns()
        assert path.stat().st_ctime_ns < tick
        path.chmod(0o644)
        assert path.stat().st_ctime_ns >= tick
