"""A person acts: `--agent human` on a real terminal, and its refusal without one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e.command_line import Harness

SECONDS = 60.0
SCRIPT = Path(sys.executable).parent / "harness"


class Keyboard:
    """A terminal where `harness` runs."""

    def __init__(self, harness: Harness, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [SCRIPT, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=harness.folder,
            env=harness.environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.screen = ""

    def until(self, wanted: str) -> None:
        end = time.monotonic() + SECONDS
        while wanted not in self.screen:
            assert time.monotonic() < end, self.screen
            try:
                data = os.read(self._ours, 65536)
            except OSError:
                data = b""
            assert data, f"it ended without {wanted!r}: {self.screen!r}"
            self.screen += data.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


def test_without_a_terminal_the_agent_human_is_refused(harness: Harness) -> None:
    refused = harness("run", "-b", "mbpp", "--data", "bundled", "--agent", "human", "-n", "1")
    assert refused.returncode == 2
    assert "the human agent needs a terminal" in refused.stderr


@pytest.mark.timeout(120)
def test_the_answer_of_a_person_is_graded(harness: Harness) -> None:
    keyboard = Keyboard(harness, "shell", "9001", "-b", "mbpp", "--data", "bundled")
    try:
        keyboard.until("answer (empty for none): ")
        keyboard.type("nonsense(\n")
        keyboard.until("run folder:")
        assert keyboard.process.wait(SECONDS) == 0
    finally:
        keyboard.close()
    assert "failed" in keyboard.screen


@pytest.mark.timeout(180)
def test_a_person_acts_in_the_shell_of_a_task_and_is_graded(harness: Harness) -> None:
    keyboard = Keyboard(harness, "shell", "os/sample/answers/0", "--data", "bundled")
    try:
        keyboard.until("Ctrl-]")
        keyboard.until("# ")
        # The terminal echoes the input, so the test looks for the sum, which only the output has.
        keyboard.type("grep -rhoP 'the \\K\\w+(?= lamp)' /root/shelves; echo $((40 + 2))-over\n")
        keyboard.until("42-over")
        assert "copper" in keyboard.screen
        keyboard.type("exit\n")
        keyboard.until("answer (empty for none): ")
        keyboard.type("copper\n")
        keyboard.until("run folder:")
        assert keyboard.process.wait(SECONDS) == 0
    finally:
        keyboard.close()
    assert "passed" in keyboard.screen


@pytest.mark.timeout(180)
def test_a_person_can_leave_a_program_that_does_not_end(harness: Harness) -> None:
    keyboard = Keyboard(harness, "shell", "os/sample/answers/0", "--data", "bundled")
    try:
        keyboard.until("# ")
        keyboard.type("trap '' INT TERM HUP; while :; do read -t 1; done\n")
        keyboard.type("\x1d")
        keyboard.until("answer (empty for none): ")
        keyboard.type("lead\n")
        keyboard.until("run folder:")
        assert keyboard.process.wait(SECONDS) == 0
    finally:
        keyboard.close()
    assert "failed" in keyboard.screen
