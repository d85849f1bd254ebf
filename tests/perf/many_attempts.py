"""Measure the memory of a run of very many attempts, and whether an attempt costs more at its end.

The attempts need no sandbox and no model, so that only the harness itself is measured.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import run
from harness.core.types import AttemptRecord

ATTEMPTS = 100_000
TASKS = 10
# The attempts at the beginning and at the end whose processor times are compared.
COMPARED = 1000


@dataclass(frozen=True)
class ManyAttempts:
    """The cost of a run of many attempts in its process, with the summary and the report at its end."""

    attempts: int
    # The most memory of the process.
    mebibytes: float
    # The processor time of the last attempts to that of the first ones.
    ratio: float
    # The processor time of an attempt in seconds, without the end of the run.
    processor_seconds: float


class Timing:
    """An observer that notes the processor time after every COMPARED attempts."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._ended = 0

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        """Note the time of the start."""
        self.times.append(time.process_time())

    def on_attempt(self, record: AttemptRecord) -> None:
        """Note the time after every COMPARED attempts."""
        self._ended += 1
        if self._ended % COMPARED == 0:
            self.times.append(time.process_time())

    def note(self, text: str) -> None:
        """Notes have no meaning here."""

    def on_end(self) -> None:
        """The end is not timed."""


def measure_many(attempts: int = ATTEMPTS) -> ManyAttempts:
    """Return the cost of a run of so many attempts, measured in a new process."""
    command = [sys.executable, __file__, "--child", str(attempts)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit("the run failed: these figures mean nothing")
    times, mebibytes = json.loads(done.stdout)
    spent = [later - earlier for earlier, later in itertools.pairwise(times)]
    # The first attempts also warm up the process, so that the second thousand stands for them.
    ratio = spent[-1] / spent[min(1, len(spent) - 1)]
    whole = (times[-1] - times[0]) / (COMPARED * len(spent))
    return ManyAttempts(attempts, mebibytes, ratio, whole)


def read_peak() -> float:
    """Return the most memory of this process in MiB.

    The kernel's figure for an ended child would include that of the process which started it.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def _run_many(attempts: int) -> list[float]:
    timing = Timing()
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"sample_size": TASKS, "n_samples": attempts // TASKS}
        result = await run(
            "gsm8k", agent="null", data="bundled", output_dir=folder, observer=timing, **options
        )
        if len(result.attempts) != attempts or not (Path(result.folder) / "report.html").exists():
            raise SystemExit("the run is not whole: these figures mean nothing")
    return timing.times


def measure() -> None:
    """Measure and print the figures."""
    many = measure_many()
    print(f"{many.attempts:,} attempts without a sandbox")
    print(f"{'memory of the command, MiB':44}{many.mebibytes:9.1f}{'':8}  < 120")
    print(f"{'the last thousand to the first, by processor':44}{many.ratio:9.2f}{'':8}  <= 1.1")
    print(f"{'processor time of an attempt, s':44}{many.processor_seconds:9.5f}\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps([asyncio.run(_run_many(int(sys.argv[2]))), read_peak()]))
    else:
        measure()
