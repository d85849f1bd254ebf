"""The lock has one holder at a time, between threads and processes, even if a holder is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.core.lock import exclusive

HOLD = """
import sys, time
from harness.core.lock import exclusive
with exclusive("work", notify=print):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """Yield a process that holds the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_free_lock_is_taken_without_a_notice() -> None:
    notes: list[str] = []
    for _ in range(2):
        with exclusive("work", notify=notes.append):
            pass
    assert notes == []


def test_two_names_are_two_locks() -> None:
    notes: list[str] = []
    with exclusive("work", notify=notes.append), exclusive("play", notify=notes.append):
        pass
    assert notes == []


def test_a_waiter_is_notified_once_and_goes_on_when_the_holder_is_killed(
    holder: subprocess.Popen[str], folder: Path
) -> None:
    notes: list[str] = []

    def kill(note: str) -> None:
        notes.append(note)
        holder.kill()

    with exclusive("work", notify=kill):
        pass
    assert notes == [f"waiting for another harness process that holds {folder}/harness/locks/work"]


def test_threads_of_one_process_exclude_each_other() -> None:
    waits, order = threading.Event(), []

    def second() -> None:
        with exclusive("work", notify=lambda _note: waits.set()):
            order.append("second")

    with exclusive("work", notify=order.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(30)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_an_error_inside_frees_the_lock() -> None:
    notes: list[str] = []
    with pytest.raises(RuntimeError), exclusive("work", notify=notes.append):
        raise RuntimeError
    with exclusive("work", notify=notes.append):
        pass
    assert notes == []


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    (folder / "harness").write_text("a file in the way")
    with pytest.raises(UsageError, match=f"cannot write {folder}/harness/locks/work") as caught:  # noqa: SIM117
        with exclusive("work", notify=print):
            pass
    assert "XDG_CACHE_HOME" in str(caught.value.hint)
