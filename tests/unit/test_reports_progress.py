from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest
from attempt_records import make_attempt
from case_checks import each_case
from rich.console import Console

from harness.core.types import Status, Task
from harness.reports.console import is_live, is_terminal
from harness.reports.figures import Tally
from harness.reports.live_progress import LiveProgress
from harness.reports.progress import NotesOnly, PlainProgress, progress_display
from harness.runs.progress import RunObserver, RunProgress, Stage, measure_categories
from harness.runs.records import PlannedAttempt

REPO = Path(__file__).parents[2]
HIDE_CURSOR, SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


class Clock:
    """A clock that a test advances."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def planned(name: str, category: str | None = None) -> PlannedAttempt:
    task = Task(id=name, benchmark="b", prompt="", environment="python", category=category)
    return PlannedAttempt(task, 0, None)


def draw(display: LiveProgress, *, width: int = 100, height: int = 24) -> list[str]:
    """Return the lines that a terminal of this size shows now."""
    display._console = Console(width=width, height=height, file=io.StringIO(), color_system=None)
    display._console.print(display._draw())
    written = display._console.file
    assert isinstance(written, io.StringIO)
    return [line.rstrip() for line in written.getvalue().splitlines()]


@pytest.fixture
def live() -> LiveProgress:
    """Return the display of a run of 12 attempts in three categories, of which one is done before."""
    names = {"os": 6, "db": 4, "\x1b[2Jevil": 2}
    plan = [planned(f"{name}/{number}", name) for name, size in names.items() for number in range(size)]
    display = LiveProgress(Terminal())
    display.show_progress(RunProgress(measure_categories(plan, plan[1:])))
    display._tally = Tally(len(plan), earlier=1)
    display._started_at = time.monotonic()
    return display


def test_each_category_has_a_bar(live: LiveProgress) -> None:
    live.on_attempt(make_attempt(category="db"))
    _, *lines = draw(live)
    assert [line.split("  ")[-2:] for line in lines[1:2]] == [["1/4", "passed 1"]]
    assert [line.lstrip("━ ").split()[0] for line in lines] == ["os", "db", "\\x1b[2Jevil"]


def test_a_category_that_is_done_comes_last(live: LiveProgress) -> None:
    for _ in range(5):
        live.on_attempt(make_attempt(category="os"))
    assert "6/6" in draw(live)[-1]


def test_a_low_terminal_shows_no_more_lines_than_fit(live: LiveProgress) -> None:
    assert [len(draw(live, height=height)) for height in (5, 6, 7, 8, 24)] == [1, 2, 3, 4, 4]
    assert draw(live, height=7)[-1] == "and 2 more categories"


def test_no_line_is_wider_than_the_terminal(live: LiveProgress) -> None:
    with live._progress.begin(planned("x" * 200)) as attempt:
        attempt.started -= 1000
        lines = draw(live, width=40)
    assert max(map(len, lines)) <= 40
    assert "queued 1" in lines
    assert any(line.startswith("oldest  xxx") for line in lines)


def test_the_last_drawing_is_the_line_of_the_run(live: LiveProgress) -> None:
    live._ended_at = time.monotonic()
    assert len(draw(live)) == 1


def run_plain(attempts: int, seconds_each: float, *, finished: int = 0) -> list[str]:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock)
    progress.on_start(attempts=attempts, finished=finished, concurrency=4)
    for _ in range(attempts - finished):
        clock.now += seconds_each
        progress.on_attempt(make_attempt())
    progress.on_end()
    return stream.getvalue().splitlines()


def test_a_short_run_has_a_first_and_a_last_line_only() -> None:
    assert run_plain(1000, 0.001) == [
        "1,000 attempts, 4 at a time",
        "1000/1000 attempts: passed 1000, failed 0, other 0; 1000.0/s, in 1.0 s",
    ]


def test_a_long_run_has_a_line_for_each_tenth() -> None:
    lines = run_plain(1000, 60)
    assert len(lines) == 11
    assert lines[1] == "100/1000 attempts: passed 100, failed 0, other 0; 1.0/min, 15 h 00 min left"


def test_lines_are_seconds_apart_however_many_tenths_pass() -> None:
    lines = run_plain(100, 0.2)
    assert [line.split("/")[0] for line in lines[1:]] == ["25", "50", "75", "100"]


def test_speed_and_time_left_are_those_of_this_run() -> None:
    lines = run_plain(200, 1, finished=100)
    assert lines[0] == "200 attempts, 100 of them done before, 4 at a time"
    assert (
        lines[1]
        == "120/200 attempts (100 from before): now passed 20, failed 0, other 0; 1.0/s, 1 min 20 s left"
    )
    assert lines[-1].endswith("passed 100, failed 0, other 0; 1.0/s, in 1 min 40 s")


def test_a_resumed_run_with_nothing_to_do_counts_no_failures_of_before() -> None:
    assert run_plain(3, 1, finished=3)[-1] == "3/3 attempts (3 from before); in 0.0 s"


def test_an_interrupted_run_ends_in_what_was_done() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock)
    progress.on_start(attempts=10, finished=0, concurrency=1)
    for status in (Status.PASSED, Status.FAILED, Status.TIMEOUT, Status.INFRA_ERROR):
        progress.on_attempt(make_attempt(status))
    clock.now += 2
    progress.on_end()
    progress.on_end()
    assert stream.getvalue().splitlines()[1:] == [
        "4/10 attempts: passed 1, failed 1, other 2; 2.0/s, in 2.0 s"
    ]


def test_a_line_after_minutes_of_silence_names_stages_and_the_oldest_attempt() -> None:
    stream, clock = io.StringIO(), Clock()
    display, progress = PlainProgress(stream, clock), RunProgress()
    display.show_progress(progress)
    display.on_start(attempts=10, finished=0, concurrency=4)
    with progress.begin(planned("os/1")) as first, progress.begin(planned("os/2")) as second:
        first.started, second.started = clock.now + 1, clock.now + 2
        first.enter(Stage.GRADING)
        clock.now += 299
        assert display.break_silence() == pytest.approx(1)
        clock.now += 1
        with second.ask_model():
            assert display.break_silence() == pytest.approx(300)
    assert stream.getvalue().splitlines()[1:] == [
        "0/10 attempts: passed 0, failed 0, other 0; waiting for model 1, grading 1; "
        "the oldest is os/1: 4 min 59 s, grading"
    ]


def test_a_line_counts_the_attempts_of_each_node_and_names_that_of_the_oldest() -> None:
    stream, clock = io.StringIO(), Clock()
    display, progress = PlainProgress(stream, clock), RunProgress()
    display.show_progress(progress)
    display.on_start(attempts=10, finished=0, concurrency=3)
    with contextlib.ExitStack() as stack:
        for name, node in {"os/1": "node b", "os/2": "node \x1b[2Ja", "os/3": "node b"}.items():
            stack.enter_context(progress.begin(planned(name), place=node)).started = clock.now
        clock.now += 300
        display.break_silence()
    assert stream.getvalue().splitlines()[-1] == (
        "0/10 attempts: passed 0, failed 0, other 0; queued 3; node \\x1b[2Ja 1, node b 2; "
        "the oldest is os/1: 5 min 00 s, queued on node b"
    )


def test_a_terminal_shows_the_attempts_of_each_node(live: LiveProgress) -> None:
    with live._progress.begin(planned("os/1"), place="node a") as attempt:
        attempt.started -= 60
        lines = draw(live)
    assert lines[-2:] == ["queued 1; node a 1", "oldest  os/1: 1 min 00 s, queued on node a"]


async def test_the_timer_of_silence_ends_with_the_run() -> None:
    display = PlainProgress(io.StringIO(), Clock())
    display.on_start(attempts=1, finished=0, concurrency=1)
    timer = display._timer
    display.on_end()
    assert timer is not None
    assert timer.cancelled()


@each_case("finished", [0, 5])
def test_a_run_with_nothing_to_do_divides_by_nothing(finished: int) -> None:
    assert len(run_plain(finished, 1, finished=finished)) == 2


def test_notes_are_shown_safely() -> None:
    stream = io.StringIO()
    PlainProgress(stream).note("image \x1b[31m[red]pull[/red]\u202e")
    assert stream.getvalue() == "image \\x1b[31m[red]pull[/red]\\u202e\n"


def test_a_note_that_the_stream_cannot_encode_is_escaped() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii")
    PlainProgress(stream).note("grün")
    assert written.getvalue() == b"gr\\xfcn\n"


def test_quiet_leaves_the_notes() -> None:
    stream = io.StringIO()
    observer = progress_display(stream, quiet=True)
    assert isinstance(observer, NotesOnly)
    observer.on_start(attempts=1, finished=0, concurrency=1)
    observer.on_attempt(make_attempt())
    observer.note("the hub cannot be reached")
    observer.on_end()
    assert stream.getvalue() == "the hub cannot be reached\n"


@each_case(
    ("environ", "terminal", "live"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "dumb"}, False, False),
        ({}, False, False),
        ({"TERM": "xterm", "CI": "true"}, True, False),
        ({"TERM": "xterm", "CI": "false"}, True, True),
    ],
)
def test_a_stream_counts_as_a_terminal_if_it_is_one(
    environ: dict[str, str], terminal: bool, live: bool
) -> None:
    assert is_terminal(Terminal(), environ) is terminal
    assert is_live(Terminal(), environ) is live
    assert not is_terminal(io.StringIO(), environ)


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert not is_terminal(stream, {"TERM": "xterm"})


def test_the_display_follows_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    observers: list[RunObserver] = [progress_display(s, quiet=False) for s in (Terminal(), io.StringIO())]
    assert [type(observer).__name__ for observer in observers] == ["LiveProgress", "PlainProgress"]


def test_a_tally_never_promises_a_negative_time() -> None:
    assert Tally(1).plus(Status.PASSED).plus(Status.PASSED).pace(1.0) == "2.0/s"


# Imports once, and forks for each run: each request has its code, its terminal and its variables.
FORKS = """
import json, os, signal, sys, time
from harness.core.types import AttemptRecord, Status
from harness.reports.progress import progress_display

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while request := sys.stdin.readline():
    code, terminal, variables = json.loads(request)
    descriptor = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, each in enumerate((nothing, nothing, descriptor)):
            os.dup2(each, number)
        os.close(descriptor)
        os.environ.clear()
        os.environ.update(variables)
        exec(code)
        break
    os.close(descriptor)
    print(child, flush=True)
"""
LIVE_RUN = """
observer = progress_display(sys.stderr, quiet=False)
observer.on_start(attempts=6, finished=2, concurrency=1)
for status in (Status.PASSED, Status.FAILED, Status.CRASHED):
    observer.on_attempt(
        AttemptRecord("t", 0, None, None, False, status, None, {}, "", "", 0.1, None)
    )
observer.note("a note \\x1b[2J [red]as it is[/red]")
ENDING
"""


# Many short sleeps, because an interrupt that comes while a thread waits to enter a sleep does not end it.
WORK = "while True: time.sleep(0.01)"


class RunInTerminal(Protocol):
    def __call__(self, ending: str, environ: Mapping[str, str] = ..., *, interrupt: bool = ...) -> bytes: ...


@pytest.fixture(scope="module")
def run_in_terminal() -> Iterator[RunInTerminal]:
    """Yield a function that returns the output of a run which ends in `ending`, on a terminal of its own."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}

    def run(ending: str, environ: Mapping[str, str] = {}, *, interrupt: bool = False) -> bytes:
        master, slave = pty.openpty()
        variables = {**inherited, "TERM": "xterm-256color", "COLUMNS": "120", **environ}
        request = (LIVE_RUN.replace("ENDING", ending), os.ttyname(slave), variables)
        assert forks.stdin is not None
        assert forks.stdout is not None
        forks.stdin.write(json.dumps(request).encode() + b"\n")
        child = int(forks.stdout.readline())
        os.close(slave)
        written = bytearray()
        try:
            while chunk := os.read(master, 65536):
                written += chunk
                if interrupt and b"as it is" in written:
                    os.kill(child, signal.SIGINT)
                    interrupt = False
        except OSError:  # The other side of the terminal is closed, which raises EIO.
            pass
        os.close(master)
        return bytes(written)

    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        cwd=REPO,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as forks:
        yield run


@each_case(
    ("ending", "interrupt"),
    [
        ("observer.on_end()", False),
        ("raise RuntimeError", False),
        ("sys.exit(3)", False),
        (WORK, True),
        (f"try:\n    {WORK}\nfinally:\n    observer.on_end()", True),
    ],
    ids=["ended", "error", "exit", "interrupt", "interrupt-and-ended"],
)
def test_the_cursor_comes_back_however_the_run_ends(
    ending: str, interrupt: bool, run_in_terminal: RunInTerminal
) -> None:
    written = run_in_terminal(ending, interrupt=interrupt)
    assert HIDE_CURSOR in written
    assert written.rfind(SHOW_CURSOR) > written.rfind(HIDE_CURSOR)


def test_the_live_line_is_complete_and_notes_stand_above_it(run_in_terminal: RunInTerminal) -> None:
    written = run_in_terminal("time.sleep(0.3); observer.on_end()", {"NO_COLOR": "1"}).decode()
    assert "a note \\x1b[2J [red]as it is[/red]" in written
    last = written[written.index("as it is") :]
    for part in ("5/6 attempts (2 from before)", "passed 1", "failed 1", "other 1", "/s, in 0."):
        assert part in last
    # There is one line: each drawing returns to its start, and none moves the cursor up.
    assert "\x1b[1A" not in written


def test_no_color_means_no_colour(run_in_terminal: RunInTerminal) -> None:
    assert b"\x1b[32m" in run_in_terminal("observer.on_end()")
    assert b"\x1b[3" not in run_in_terminal("observer.on_end()", {"NO_COLOR": "1"})


@each_case(("name", "value"), [("TERM", "dumb"), ("CI", "1")])
def test_a_dumb_terminal_gets_no_escape_sequences(
    name: str, value: str, run_in_terminal: RunInTerminal
) -> None:
    written = run_in_terminal("observer.on_end()", {name: value})
    assert b"5/6 attempts" in written
    assert b"\x1b" not in written
