"""Grade programs without isolation: a process for each test of each program, on this machine.

This runs other people's code directly on the host, so use it only for programs that you trust.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.benchmarks import load_benchmark
from harness.benchmarks.livecodebench.generation import PREAMBLE
from harness.environments.python.call_programs import CallTests
from harness.environments.python.stdin_programs import StdinTests, stdout_difference

# A function is imported from a module, so its main guard does not run.
MODULE = "sys.modules['candidate'] = sys.modules['__main__']\n__name__ = 'candidate'\n"
# Calls a function with the values on stdin, and prints its result.
CALL = """
import json as _json, sys as _sys
_name = _sys.argv[1]
_function = getattr(Solution(), _name) if "Solution" in globals() else globals()[_name]
print(_json.dumps(_function(*map(_json.loads, _sys.stdin.read().split("\\n")))))
"""


def seconds(data: Path, samples: Path, workers: int) -> float:
    """Return the seconds of grading every sample, `workers` at a time, each up to its first failure."""
    benchmark = load_benchmark("livecodebench", data=str(data))
    programs = [json.loads(line) for line in samples.read_text().splitlines()]

    def judge(sample: dict[str, str]) -> bool:
        target = benchmark.references[sample["task_id"]].target
        assert isinstance(target, StdinTests | CallTests)
        return _passes(target, sample["solution"])

    started = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(judge, programs))
    return time.monotonic() - started


def _passes(target: StdinTests | CallTests, program: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.py"
        if isinstance(target, StdinTests):
            path.write_text(f"{PREAMBLE}\n{program}")
            tests = [(test.input, test.output) for test in target.load()]
            return all(
                (printed := _printed(path, given)) is not None and stdout_difference(printed, wanted) is None
                for given, wanted in tests
            )
        path.write_text(f"{PREAMBLE}{MODULE}\n{program}\n{CALL}")
        return all(
            (printed := _printed(path, test.arguments, target.function)) is not None
            and json.loads(printed or b"null") == json.loads(test.result)
            for test in target.load()
        )


def _printed(path: Path, given: str, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            [sys.executable, path, *arguments],
            input=given.encode(),
            capture_output=True,
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (6, 7)),
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None
