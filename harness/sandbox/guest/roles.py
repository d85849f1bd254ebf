"""What the children of the two spawners are: a candidate, and the tests that it is put to."""

from __future__ import annotations

import json
import os
import sys
import typing  # noqa: F401 - most programs import it, and so do tests: once here, not twice in each sample

from . import candidate, processes, trusted_tests
from .spawner import Role

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A candidate's exit code once the tests have hung up: it was there to the end.
HUNG_UP = 71
PACKAGE_FOLDERS = ("/usr/local/lib/python3/dist-packages", "/usr/lib/python3/dist-packages")


def _prepare_candidates() -> None:
    candidate.prepare_interpreter(_package_folders)
    processes.python_signals()


def _set_environment(order: dict[str, Any]) -> None:
    wanted = order["environment"]
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _be_candidate(order: dict[str, Any], descriptors: list[int]) -> None:
    """Be a candidate: `descriptors` are its channel to the tests, stdout and stderr. Does not return."""
    status = 70
    try:
        channel, stdout, stderr = descriptors
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        processes.become(order["uid"], order["folder"], order["limits"], [channel])
        candidate.serve(channel)
        status = HUNG_UP
    finally:
        try:
            sys.stdout.flush()
        finally:
            os._exit(status)


def _prepare_tests() -> None:
    # They must not import what lies in a folder that they happen to be in.
    sys.path[:] = [path for path in sys.path if path]


def _be_tests(order: dict[str, Any], descriptors: list[int]) -> None:
    """Be tests: `descriptors` are the channel to the candidate, the request, and where the result goes.

    Does not return. No other descriptor is open, so that tests can be heard nowhere else.
    """
    try:
        channel, request, result = descriptors
        processes.become(order["uid"], "/", order["limits"], descriptors)
        report = trusted_tests.run(channel, json.loads(os.read(request, os.fstat(request).st_size)))
        view = memoryview(json.dumps(report).encode())
        while view:
            view = view[os.write(result, view) :]
    finally:
        os._exit(0)


def _package_folders() -> list[str]:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    local = f"/usr/local/lib/{version}/dist-packages"
    return [*sys.path, *(folder for folder in (local, *PACKAGE_FOLDERS) if os.path.isdir(folder))]


CANDIDATE = Role(_prepare_candidates, _set_environment, _be_candidate)
TESTS = Role(_prepare_tests, lambda _order: None, _be_tests)
