"""What the children of the two spawners are: a candidate, and the tests that it is put to."""

from __future__ import annotations

import json
import marshal
import os
import sys
import typing  # noqa: F401 - most programs import it, and so do tests: once here, not twice in each sample
from os import dup2, fstat, read, write

from . import candidate, processes, trusted_tests
from .processes import become_limited
from .spawner import Role

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .spawner import Child

# A candidate's exit code once the tests have hung up: it was there to the end.
HUNG_UP = 71
PACKAGE_FOLDERS = ("/usr/local/lib/python3/dist-packages", "/usr/lib/python3/dist-packages")


def _prepare_candidates() -> None:
    candidate.prepare_interpreter(_package_folders)
    processes.python_signals()


def _configure_candidates(settings: dict[str, Any]) -> None:
    processes.limit_children(settings["limits"])
    wanted = settings["environment"]
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        os.environ[name] = value


def _set_home(child: Child) -> None:
    os.environ["HOME"] = child.folder


def _be_candidate(child: Child, descriptors: tuple[int, ...]) -> None:
    """Be a candidate: `descriptors` are its channel to the tests, stdout and stderr. Does not return."""
    status = 70
    try:
        channel, stdout, stderr = descriptors
        dup2(stdout, 1)
        dup2(stderr, 2)
        become_limited(child.uid, child.folder, child.cpu_seconds, (channel,))
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


def _configure_tests(settings: dict[str, Any]) -> None:
    processes.limit_children(settings["limits"])


def _be_tests(child: Child, descriptors: tuple[int, ...]) -> None:
    """Be tests: `descriptors` are the channel to the candidate, the request, and where the result goes.

    Does not return. No other descriptor is open, so that tests can be heard nowhere else.
    """
    try:
        channel, request, result = descriptors
        become_limited(child.uid, child.folder, child.cpu_seconds, descriptors)
        report = trusted_tests.run(channel, marshal.loads(read(request, fstat(request).st_size)))
        view = memoryview(json.dumps(report).encode())
        while view:
            view = view[write(result, view) :]
    finally:
        os._exit(0)


def _package_folders() -> list[str]:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    local = f"/usr/local/lib/{version}/dist-packages"
    return [*sys.path, *(folder for folder in (local, *PACKAGE_FOLDERS) if os.path.isdir(folder))]


CANDIDATE = Role(_prepare_candidates, _configure_candidates, _set_home, _be_candidate)
TESTS = Role(_prepare_tests, _configure_tests, lambda _child: None, _be_tests)
