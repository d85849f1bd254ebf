"""A process that has imported the command `harness`, and forks for each call of it.

A start of the console script imports for half a second, and the tests call it hundreds of times. A fork of
this process runs the same function as the script. This process has one thread, so a fork of it is safe. The
process of the tests has more. It imports nothing of the tests.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

# Most commands import these, and late. A run would spend half of its processor time on them. None of them
# reads the environment when it is imported.
PRELOADED = (
    "harness.cli.app",
    "harness.cli.carry_out",
    "harness.cli.entry",
    "harness.cli.work",
    "harness.cli.matrix",
    "harness.cli.run",
    "harness.cli.results",
    "harness.cli.untrusted",
    "harness.runs.run",
    "harness.runs.selection",
    "harness.runs.agents.null",
    "harness.runs.agents.oracle",
    "harness.models.session",
    "harness.benchmarks.agentbench",
    "harness.benchmarks.gsm8k",
    "harness.benchmarks.humaneval",
    "harness.benchmarks.mbpp",
    "harness.environments.maths.grader",
    "harness.environments.python",
    "harness.environments.text",
    "harness.environments.web.catalogue",
    "harness.reports.html",
    "harness.reports.page_file",
    "harness.reports.run_folder",
    "harness.reports.table",
    "harness.reports.transcript_entries",
    "harness.sandbox.backends.docker.backend",
    "docker",
    "markdown_it",
    "rich.console",
    "rich.table",
    "snowballstemmer",
)
# NumPy's library of linear algebra starts no threads with this.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
# The variable that names a program for a command's process to run before the command.
RUN_FIRST = "RUN_FIRST"
MOST_BYTES = 1 << 20


def main(descriptor: int, script: str) -> None:
    """Fork for each request on a socket, until its other end is closed."""
    requests = socket.socket(fileno=descriptor)
    os.environ.update(ONE_THREAD)
    for name in PRELOADED:
        importlib.import_module(name)
    # Its shop has an index, which a process makes once.
    importlib.import_module("harness").load_benchmark("agentbench", data="bundled")
    sys.path[0] = str(Path(script).parent)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes the ended children
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, MOST_BYTES, 4)
        if not data:
            return
        if os.fork() == 0:
            requests.close()
            _attend(json.loads(data), script, *descriptors)
        for each in descriptors:
            os.close(each)


def _attend(request: dict[str, Any], script: str, answers: int, *standard: int) -> NoReturn:
    """Run a command in a child, and answer with its process id and then with its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(answers)
        _run_command(request, script, standard)
    os.write(answers, b"%d\n" % child)
    _, status = os.waitpid(child, 0)
    os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _run_command(request: dict[str, Any], script: str, standard: tuple[int, ...]) -> NoReturn:
    """Run the function of the console script, and end the process as Python would."""
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in request["ignoring"] else usual)
    sys.argv = [script, *request["arguments"]]
    if RUN_FIRST in os.environ:
        runpy.run_path(os.environ.pop(RUN_FIRST))
    entry = importlib.import_module("harness.cli.entry")
    code: Any = None
    try:
        entry.main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
