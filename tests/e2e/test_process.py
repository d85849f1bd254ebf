"""The process of a command: Ctrl-C at every moment, output that nobody reads, an owner that is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from e2e.command_line import HANG_SECONDS, Harness, wait_until
from effort import THOROUGH

from harness.cli import app, entry
from harness.core.errors import UsageError
from harness.sandbox import reaper

LISTING = ("benchmarks",)
RUN = ("run", "-b", "mbpp", "--data", "bundled", "-n", "1", "--output-dir", "runs")
further = partial(pytest.param, marks=pytest.mark.thorough)


@pytest.fixture
def harness(tmp_path: Path, surroundings: dict[str, str]) -> Iterator[Harness]:
    """Yield a `Harness` that starts the script each time, because these tests are about the process."""
    command = Harness(tmp_path, surroundings, None)
    yield command
    command.end_all()


# --- Ctrl-C


def run_in_child(work: Callable[[], None]) -> tuple[int, str]:
    """Run work in a fork of this process, and return its exit code and its output on stdout and stderr."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            signal.signal(signal.SIGINT, signal.default_int_handler)
            work()
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else 99)
        except BaseException as error:
            os.write(2, f"Traceback: {error!r}".encode())
        os._exit(98)
    os.close(writing)
    with open(reading, "rb") as output:
        text = output.read().decode(errors="replace")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def interrupt_at(event: int) -> None:
    """Send the process a SIGINT, as Ctrl-C does, after `event` calls and returns of functions."""
    left = event

    def count(_frame: Any, _event: str, _argument: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

    sys.setprofile(count)


def interrupted(event: int, *arguments: str) -> tuple[int, str]:
    def work() -> None:
        # As in a command. An interrupt between a call of os.scandir and its `with` leaves the iterator open.
        warnings.simplefilter("ignore", ResourceWarning)
        sys.argv = ["harness", *arguments]
        handler = entry.Interrupts.__init__

        def armed(self: entry.Interrupts) -> None:
            handler(self)
            interrupt_at(event)

        entry.Interrupts.__init__ = armed  # type: ignore[method-assign]
        entry.main()

    return run_in_child(work)


def moments() -> Iterator[int]:
    """Yield every event at first, and then events that are further and further apart."""
    event = 1.0
    while event < 100_000:
        yield int(event)
        event = max(event + 1, event * (1.12 if THOROUGH else 1.25))


def test_ctrl_c_at_any_moment_ends_with_130_and_no_traceback() -> None:
    ends: Counter[int] = Counter()
    for event in moments():
        code, text = interrupted(event, *LISTING)
        assert "Traceback" not in text, f"at event {event}: {text}"
        assert "bug in harness" not in text, f"at event {event}: {text}"
        assert code in (0, 130), f"at event {event}: {text}"
        ends[code] += 1
    assert ends[130] > 25


@pytest.mark.parametrize("as_error", [ImportError, ValueError, OSError])
def test_ctrl_c_that_a_library_turns_into_its_own_error_is_still_one(
    monkeypatch: pytest.MonkeyPatch, as_error: type[Exception]
) -> None:
    def command() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise as_error("cannot import") from None

    monkeypatch.setattr(app, "app", command)
    assert run_in_child(entry.main) == (130, "error: interrupted\n")


def test_ctrl_c_in_a_destructor_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doomed:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    def command() -> None:
        Doomed()
        os._exit(97)

    monkeypatch.setattr(app, "app", command)
    assert run_in_child(entry.main) == (130, "error: interrupted\n")


def test_second_ctrl_c_does_not_interrupt_the_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            print("cleaned up")

    monkeypatch.setattr(app, "app", command)
    assert run_in_child(entry.main) == (130, "error: interrupted\ncleaned up\n")


def test_second_ctrl_c_ends_a_clean_up_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            os._exit(97)

    monkeypatch.setattr(app, "app", command)
    monkeypatch.setattr(entry, "CLEAN_UP_SECONDS", -1.0)
    assert run_in_child(entry.main) == (130, "error: interrupted\n")


def test_ctrl_c_that_is_ignored_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        print("went on")
        sys.exit(0)

    def work() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        entry.main()

    monkeypatch.setattr(app, "app", command)
    assert run_in_child(work) == (0, "went on\n")


def test_start_of_the_process_imports_nothing_that_takes_time() -> None:
    program = "import sys; b = set(sys.modules); import harness.cli.entry; print(*set(sys.modules) - b)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = {
        "__future__",
        "_signal",
        "time",
        "harness",
        "harness.cli",
        "harness.cli.entry",
        "harness.core",
        "harness.core.version",
        "harness.moved",
    }
    assert set(ended.stdout.split()) <= names


# --- standard output and error


def run_in_shell(harness: Harness, redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = f'"$0" -c "from harness.cli.entry import main; main()" "$@" {redirection}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script, sys.executable, *arguments],
        cwd=harness.folder,
        env=harness.environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


FULL = "error: standard output: cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "redirection", "exit_code", "stderr"),
    [
        (LISTING, ">/dev/full", 3, FULL),
        (("--help",), ">/dev/full", 3, FULL),
        further(("--version",), ">/dev/full", 3, FULL),
        further(LISTING, ">&-", 0, ""),
        (LISTING, "<&- >&- 2>&-", 0, ""),
        (("benchmarks", "--json"), "| true", 141, ""),
        (("rnu",), "2>/dev/full", 2, ""),
        further(("rnu",), "2>&-", 2, ""),
        further(("rnu",), ">/dev/full 2>&1", 2, ""),
    ],
)
def test_unwritable_output_is_one_error(
    harness: Harness, arguments: tuple[str, ...], redirection: str, exit_code: int, stderr: str
) -> None:
    ended = run_in_shell(harness, redirection, *arguments)
    assert (ended.returncode, ended.stderr) == (exit_code, stderr)


def test_error_of_the_command_goes_before_that_of_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        print("lost")
        raise UsageError("wrong")

    monkeypatch.setattr(app, "app", command)
    assert run_in_child(entry.main) == (2, "error: wrong\nhint: see: harness --help\n")


def test_run_whose_output_cannot_be_written_is_in_its_folder(harness: Harness) -> None:
    ended = run_in_shell(harness, ">/dev/full", *RUN)
    assert (ended.returncode, ended.stderr[-len(FULL) :]) == (3, FULL)
    folder = harness.only_run().path
    assert {"attempts.jsonl", "summary.json", "report.html"} <= {path.name for path in folder.iterdir()}


def test_run_goes_on_with_a_full_standard_error(harness: Harness) -> None:
    ended = run_in_shell(harness, "2>/dev/full", *RUN)
    assert ended.returncode == 0
    assert "run folder:" in ended.stdout


@pytest.mark.parametrize("path", ["/dev/null", "pipe"])
def test_results_never_replace_a_device(harness: Harness, path: str) -> None:
    os.mkfifo(harness.folder / "pipe")
    arguments = ("run", "-b", "mbpp", "--data", "bundled", "--force", "-o", path)
    assert f"{path}: is not a regular file" in harness.expect_refusal(*arguments)


# --- an owner that is killed


def test_containers_of_a_killed_process_go_at_once(harness: Harness, client: APIClient) -> None:
    process = harness.start("exec", "--", "sleep", "600")

    def containers() -> list[Any]:
        listed = client.containers(all=True, filters={"label": f"{reaper.PID}={process.pid}"})
        return [each for each in listed if each["Labels"][reaper.HOST] == reaper.identify_host()]

    wait_until(lambda: [each for each in containers() if each["State"] == "running"], "a running container")
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not containers(), "no container", seconds=30)


# --- Threads and processes of an agent


STUBBORN = """
import asyncio, atexit, multiprocessing, threading, time

async def attempt(context):
    multiprocessing.Process(target=time.sleep, args=(3600,)).start()
    atexit.register(time.sleep, 3600)
    threading.Thread(target=threading.Event().wait).start()
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    {}
"""


def test_the_command_ends_although_an_agent_leaves_work_behind(harness: Harness, tmp_path: Path) -> None:
    agent = tmp_path / "stubborn.py"
    agent.write_text(STUBBORN.format("return '42'"))
    ended = harness.succeed("run", "-b", "gsm8k", "--data", "bundled", "-n", "2", "--agent", agent)
    assert "run folder: " in ended.stdout


def test_ctrl_c_ends_the_command_although_an_agent_refuses_to_end(harness: Harness, tmp_path: Path) -> None:
    agent, begun = tmp_path / "stubborn.py", tmp_path / "begun"
    agent.write_text(STUBBORN.format(f"open({str(begun)!r}, 'w').close()\n    threading.Event().wait()"))
    process = harness.start("run", "-b", "gsm8k", "--data", "bundled", "-n", "2", "--agent", str(agent))
    wait_until(begun.exists, "the agent begins")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130
