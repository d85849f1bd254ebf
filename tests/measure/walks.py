"""Walk five ways through the harness, and count the functions and files that each enters on the host.

a. one sample of HumanEval from its text to its verdict, by `harness grade`
b. one call of the tool `bash` in the environment `os`, the second one of its attempt
c. one request to `/v1/grade` of a service that has graded before
d. one key of the config: the files that name it
e. `harness run --resume` of a finished run of one task

Every walk but `d` needs an engine and the images.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEY = "durations_from"
_TASK, _DATA = "HumanEval-sample/0", ("--data", "bundled")
_RECORDER = Path(__file__).with_name("recorder.py")
_START_SECONDS = 60.0
_TOKEN = "a-token-of-the-measures"
_AGENT = """
import json, pathlib, sys

async def attempt(context):
    recorder = sys.modules["recorder"].recorder
    for _ in range(2):
        recorder.clear()
        observation = await context.environment.call("bash", {"command": "echo walked"})
        assert "walked" in observation.text, observation
    pathlib.Path(OUTPUT).write_text(json.dumps(recorder.count()))
    return "0"
"""


@dataclass(frozen=True)
class Walk:
    """The numbers of functions and files that one way enters, and of changes from one file to another."""

    name: str
    functions: int
    files: int
    changes: int


def walk_all(folder: Path) -> list[Walk]:
    """Return the four walks that enter functions. The folder is for their files.

    Raises:
        RuntimeError: if a command fails.
    """
    return [_grade_sample(folder), _call_tool(folder), _send_request(folder), _resume_run(folder)]


def _grade_sample(folder: Path) -> Walk:
    samples, output = folder / "samples.jsonl", folder / "grade.json"
    samples.write_text(json.dumps({"task_id": _TASK, "solution": "def f(): pass"}) + "\n")
    words = ("grade", "-b", "humaneval", "--samples", str(samples), "-t", _TASK, *_DATA)
    _record(output, *words, "--output-dir", str(folder / "graded"))
    return _read("one graded sample", output)


def _call_tool(folder: Path) -> Walk:
    agent, output = folder / "caller.py", folder / "call.json"
    agent.write_text(f"OUTPUT = {str(output)!r}\n{_AGENT}")
    words = ("run", "-b", "agentbench", "--filter-category", "os", "-n", "1", "--agent", str(agent), *_DATA)
    _record(output, *words, "--output-dir", str(folder / "acted"))
    return _read("one tool call", output)


def _send_request(folder: Path) -> Walk:
    output = folder / "request.json"
    with _serve(folder, output) as (url, process):
        _grade(url)
        process.send_signal(signal.SIGUSR1)
        _grade(url)
        process.send_signal(signal.SIGUSR2)
        _wait_for(output)
    return _read("one request to /v1/grade", output)


def _resume_run(folder: Path) -> Walk:
    output, runs = folder / "resume.json", folder / "finished"
    _record(folder / "whole.json", "run", "-b", "humaneval", "-n", "1", *_DATA, "--output-dir", str(runs))
    (run,) = runs.iterdir()
    _record(output, "run", "--resume", str(run))
    return _read("resume of a finished run", output)


def _record(output: Path, *words: str) -> None:
    ended = subprocess.run([sys.executable, _RECORDER, output, *words], capture_output=True, text=True)
    if ended.returncode != 0:
        raise RuntimeError(f"harness {' '.join(words)} failed with code {ended.returncode}: {ended.stderr}")


def _read(name: str, output: Path) -> Walk:
    counts: dict[str, Any] = json.loads(output.read_text())
    return Walk(name, counts["functions"], counts["files"], counts["changes"])


@contextmanager
def _serve(folder: Path, output: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Serve HumanEval under the recorder, and yield the URL and the process."""
    log = folder / "service.log"
    words = [sys.executable, str(_RECORDER), str(output), "serve", "-b", "humaneval", "--port", "0", *_DATA]
    with log.open("wb") as stream:
        environment = {**os.environ, "HARNESS_SERVE_TOKEN": _TOKEN}
        process = subprocess.Popen(words, stdout=stream, stderr=stream, env=environment)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while (found := re.search(r"http://[\w.:]+", log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the service did not start: {log.read_text()}")
            time.sleep(0.05)
        yield found.group(), process
    finally:
        process.terminate()
        process.wait()


def _grade(url: str) -> None:
    sample = {"benchmark": "humaneval", "task_id": _TASK, "solution": "def f(): pass"}
    request = urllib.request.Request(
        f"{url}/v1/grade",
        json.dumps({"samples": [sample]}).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {_TOKEN}"},
    )
    with urllib.request.urlopen(request, timeout=_START_SECONDS) as reply:
        reply.read()


def _wait_for(output: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not output.exists() or not output.read_text().endswith("}"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the service has not written {output}")
        time.sleep(0.05)
