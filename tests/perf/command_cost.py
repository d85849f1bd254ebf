"""Measure the processor time and the memory of a command of harness.

A small process starts the command, because the kernel's figure for the memory of an ended child includes that
of the process which started it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CommandCost:
    """The cost of a command that has ended."""

    processor_seconds: float
    # The most memory of the process.
    mebibytes: float


def measure_command(*words: str | Path) -> CommandCost:
    """Return the cost of `harness` with these arguments. Raises CannotMeasure if the command fails."""
    # The small process runs this file too, and has only the standard library.
    from command_start import COMMAND
    from figure import CannotMeasure

    if not COMMAND.exists():
        raise CannotMeasure(f"{COMMAND} is missing; run make setup")
    command = [sys.executable, "-I", "-S", __file__, COMMAND, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise CannotMeasure(f"harness {words[0]} exited with {done.returncode}")
    return CommandCost(*json.loads(done.stdout))


def _run(command: list[str]) -> int:
    """Run a command, print its cost, and return its exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 1)]
    child = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    _, status, used = os.wait4(child, 0)
    print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
    return os.waitstatus_to_exitcode(status) and 1


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
