"""The guest tells changes apart by their time, and bounds a listing of files while it collects it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.environments.os.guest import contents
from harness.environments.os.guest.contents import SetClock, TooMuchChanged, describe_each


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
    for number in range(25):
        # The changes end at another moment between two ticks in every round.
        end = time.perf_counter_ns() + number * 160_000
        while True:
            path.chmod(0o600 + path.stat().st_ctime_ns % 2)
            if time.perf_counter_ns() >= end:
                break
        tick = contents.next_tick_ns()
        assert path.stat().st_ctime_ns < tick
        path.chmod(0o644)
        assert path.stat().st_ctime_ns >= tick


def test_a_clock_that_is_set_back_after_a_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = time.time_ns()
    since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    clock = Clock(shown, since_boot)
    monkeypatch.setattr(contents, "time", clock)
    noticed = SetClock()
    clock.run(10**9)
    noticed.note()
    assert noticed.back_ns() == 0
    clock.shown -= 3 * 10**9
    assert noticed.back_ns() == 3 * 10**9
    # A later record must not hide it.
    noticed.note()
    assert noticed.back_ns() == 3 * 10**9


def test_a_clock_that_is_set_forward_or_read_late_is_not_one_that_was_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(10**18, 10**12, delay=10**7)
    monkeypatch.setattr(contents, "time", clock)
    noticed = SetClock()
    noticed.note()
    assert noticed.back_ns() == 0
    clock.shown += 10**9
    assert noticed.back_ns() == 0


class Clock:
    """A clock that a test sets. Each reading takes `delay` nanoseconds."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self, shown: int, since_boot: int, *, delay: int = 0) -> None:
        self.shown = shown
        self.since_boot = since_boot
        self._delay = delay

    def run(self, nanoseconds: int) -> None:
        self.shown += nanoseconds
        self.since_boot += nanoseconds

    def time_ns(self) -> int:
        self.run(self._delay)
        return self.shown

    def clock_gettime_ns(self, _clock: int) -> int:
        self.run(self._delay)
        return self.since_boot


def test_a_copy_has_the_holes_of_a_file_and_no_others(tmp_path: Path) -> None:
    data = b"a" * 100 + bytes(2 << 20) + b"b"
    written, sparse = tmp_path / "written", tmp_path / "sparse"
    written.write_bytes(data)
    with sparse.open("wb") as file:
        file.write(b"a" * 100)
        file.seek(len(data) - 1)
        file.write(b"b")
    sizes = {}
    for path in (written, sparse):
        (entry,) = describe_each([str(path)])
        copy = str(tmp_path / f"copy of {path.name}")
        hole = {"hole": entry["size"]} if entry["is_sparse"] else {}
        contents.make([{"path": copy, "kind": "file", **hole}])
        middle = len(data) // 2 + 1
        contents.fill([(copy, 0, middle), (copy, middle, len(data) - middle)], data)
        assert Path(copy).read_bytes() == data
        sizes[path.name] = Path(copy).stat().st_blocks * 512
    assert sizes["written"] >= len(data) > 1 << 20 > sizes["sparse"]
