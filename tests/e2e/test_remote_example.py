"""examples/remote.py prints the same on this machine and at a service."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from e2e.command_line import HANG_SECONDS, Harness
from e2e.served_process import start_service

EXAMPLE = Path(__file__).parents[2] / "examples" / "remote.py"


@pytest.mark.parametrize("place", [pytest.param("this machine", marks=pytest.mark.thorough), "a service"])
def test_the_example_prints_the_same_at_every_place(harness: Harness, place: str) -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, str(EXAMPLE), *arguments]
        ended = subprocess.run(
            command,
            env=harness.environment,
            cwd=harness.folder,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    if place == "this machine":
        printed = run()
    else:
        with start_service(harness, "-b", "mbpp", "--data", "bundled") as served:
            printed = run(served.url)
    assert printed == "cba\nzyx\nexit code 0\nverdict passed\nresolved 3 of 3\n"
