"""Measure how many attempts two Ray nodes make in a second, next to one node, in turn.

Both nodes are on this machine, with an engine each. They share its cores, so that the cores bound both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil
from figure import CannotMeasure, Figure, Measurement, Reading
from session import Session

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS))

THROUGHPUT = Figure("attempts of HumanEval on two Ray nodes", "a second", "one node", better="higher")
ROUNDS = 2


def take(session: Session) -> Iterator[Reading]:
    """Yield the reading of both throughputs."""
    from ray_nodes import find_ray_obstacle, start_ray_nodes

    if session.size.is_quick:
        raise CannotMeasure("--quick leaves it out")
    if (obstacle := find_ray_obstacle()) is not None:
        raise CannotMeasure(obstacle)
    two: list[float] = []
    one: list[float] = []
    busy: list[float] = []
    with start_ray_nodes(session.client) as nodes:
        # The images reach the engines here.
        _measure(session, nodes.address)
        for _ in range(ROUNDS):
            for rates, count in ((two, 2), (one, 1)):
                if count == 1:
                    nodes.kill_node(1)
                rate, share = _measure(session, nodes.address)
                rates.append(rate)
                busy.append(share)
            nodes.add_node(1)
    cores = psutil.cpu_count() or 1
    note = f"both nodes share {cores} cores, which were {min(busy):.0%} to {max(busy):.0%} busy"
    yield Reading(THROUGHPUT, two, one, note)


def _measure(session: Session, address: str) -> tuple[float, float]:
    """Return the attempts a second of a run on the nodes, and the share of the cores that were busy."""
    with tempfile.TemporaryDirectory(dir=session.folder) as folder:
        harness = str(Path(sys.executable).with_name("harness"))
        options = ["--executor", "ray", "--ray-address", address, "--output-dir", folder, "-q"]
        command = [harness, "run", "-b", "humaneval", "--data", str(session.humaneval), *options]
        psutil.cpu_percent()
        ended = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        busy = psutil.cpu_percent() / 100
        if ended.returncode:
            raise SystemExit(f"{' '.join(command)} failed: {ended.stderr}")
        (run,) = Path(folder).iterdir()
        attempts = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    begins = [datetime.fromisoformat(attempt["started_at"]).timestamp() for attempt in attempts]
    ends = [begin + attempt["duration_seconds"] for begin, attempt in zip(begins, attempts, strict=True)]
    return len(attempts) / (max(ends) - min(begins)), busy


MEASUREMENTS = (Measurement("ray", (THROUGHPUT,), take),)
