"""The short form of `make chaos`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from private_engine import find_obstacle

CHAOS = Path(__file__).with_name("chaos.py")


@pytest.mark.thorough
def test_chaos_costs_no_verdict_and_leaves_nothing() -> None:
    # This seed disturbs all of them: containers, the harness and, if there is a private one, the engine.
    size = ("--seed", "3", "--tasks", "30", "--seconds", "15")
    engine = "shared" if find_obstacle() else "own"
    ended = subprocess.run(
        [sys.executable, CHAOS, *size, "--engine", engine], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
