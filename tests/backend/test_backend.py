"""Every backend passes the self-check of the package, and grades programs.

To add a backend, add a function to `BACKENDS` that returns it with its runtime. Put each case that it cannot
pass into `differences.py`, with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from backend.differences import DIFFERENCES
from backend.oci_fixtures import connect_oci
from case_checks import each_case
from docker import APIClient

from harness import Sandbox
from harness.environments.python.client import TestReport, run_tests
from harness.sandbox import reaper
from harness.sandbox.backends.base import Backend
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import engine_facts
from harness.sandbox.backends.docker.runtimes import find_known_difference
from harness.sandbox.failures import SandboxLimitReached
from harness.sandbox.machine.images import build_images
from harness.sandbox.selfcheck import Level, cases, check_backend

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = {cases.name_of(case): case for group in cases.GROUPS.values() for case in group}
OPEN = """
import asyncio, sys
from harness import Sandbox

async def main():
    async with Sandbox.open(runtime=sys.argv[1], run_id=sys.argv[2]) as sandbox:
        print(flush=True)
        await sandbox.exec(["sleep", "600"], timeout=600)

asyncio.run(main())
"""


@dataclass(frozen=True)
class Place:
    """A backend, and the runtime of its sandboxes."""

    name: str
    backend: Backend
    runtime: str

    def open(self, **options: Any) -> contextlib.AbstractAsyncContextManager[Sandbox]:
        return Sandbox.open(
            **{"runtime": self.runtime, "backend": self.backend, "limits": cases.LIMITS, **options}
        )


def on_docker(runtime: str, client: APIClient) -> Place:
    if runtime not in engine_facts(client).runtimes:
        pytest.skip(f"the engine does not know {runtime} (make setup RUNTIME={runtime})")
    build_images(client, ["python"], notify=print)
    return Place(runtime, DockerBackend(client), runtime)


def on_oci(name: str, _client: APIClient) -> Place:
    return Place(name, connect_oci(), "runc")


BACKENDS: dict[str, Callable[[str, APIClient], Place]] = {
    "runc": on_docker,
    "runsc": on_docker,
    "oci": on_oci,
}


@pytest.fixture(scope="module", params=sorted(BACKENDS))
def place(request: pytest.FixtureRequest, client: APIClient) -> Place:
    return BACKENDS[request.param](request.param, client)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(place: Place) -> AsyncIterator[Sandbox]:
    """Yield one sandbox for all tests that do not change it."""
    async with place.open() as sandbox:
        yield sandbox


@pytest_asyncio.fixture(loop_scope="module")
async def own(place: Place) -> AsyncIterator[Sandbox]:
    """Yield a new sandbox for a test that may end it."""
    async with place.open() as sandbox:
        yield sandbox


@pytest.fixture
def run_id(backend: DockerBackend) -> Iterator[str]:
    run_id = f"test-{secrets.token_hex(6)}"
    yield run_id
    reaper.remove_run(backend, run_id)


async def grade_program(sandbox: Sandbox, program: str) -> TestReport:
    statements = ["assert f(2) == 4", "assert f(3) == 6"]
    return await run_tests(sandbox, program=program, statements=statements, exports={"f": "f"})


# The self-check.


@each_case("name", CASES)
async def test_a_check_of_the_self_check_passes(
    request: pytest.FixtureRequest, place: Place, sandbox: Sandbox, name: str
) -> None:
    if (reason := DIFFERENCES[place.name].get(name)) is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
    found, wanted = await CASES[name](sandbox)
    assert found == wanted


async def test_every_check_of_the_self_check_passes_or_is_known_to_fail(place: Place) -> None:
    checks = await check_backend(place.backend, place.runtime)
    surprises = [
        f"{check.name}: {check.found}"
        for check in checks
        if check.level is Level.FAIL and find_known_difference(place.name, check.name, check.found) is None
    ]
    assert surprises == []


async def test_exceeded_memory_is_reported_whichever_process_the_kernel_ends(own: Sandbox) -> None:
    program = "data = []\nwhile True: data.append(b'x' * (1 << 20))"
    try:
        limit = (await own.exec(["python3", "-c", program])).limit
    except SandboxLimitReached as reached:
        limit = reached.limit
    assert limit == "memory_mb"


async def test_a_sandbox_whose_owner_is_killed_stops(place: Place, run_id: str, client: APIClient) -> None:
    if place.name == "oci":
        pytest.skip("nothing is left of it, as tests/backend/test_oci.py shows")
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPEN, place.name, run_id, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    await owner.stdout.readline()
    owner.kill()
    await owner.wait()
    (left,) = await asyncio.to_thread(reaper.find_run_containers, place.backend, run_id)
    assert (await asyncio.to_thread(client.wait, left, timeout=10))["StatusCode"] == 0


# Programs under tests.


WITH_THREADS = """
import threading
def f(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(2 * x))
    thread.start()
    thread.join()
    return found[0]
"""


@each_case(
    ("program", "results", "ended"),
    [
        ("def f(x): return 2 * x", (True, True), None),
        (WITH_THREADS, (True, True), None),
        ("def f(x): return 4", (True, False), None),
        ("while True: pass", (False, False), "cpu_seconds"),
    ],
)
async def test_a_program_has_the_results_of_its_tests_and_the_reason_of_its_end(
    sandbox: Sandbox, program: str, results: tuple[bool, ...], ended: str | None
) -> None:
    report = await grade_program(sandbox, program)
    assert (report.results, report.ended) == (results, ended)


async def test_a_crash_passes_nothing_and_is_named(sandbox: Sandbox) -> None:
    report = await grade_program(sandbox, "import os\ndef f(x): os.kill(os.getpid(), 11)")
    assert (report.results, report.ended, report.exit_code) == ((False, False), "signal", -11)


@each_case(
    "program",
    [
        "import os\ndef f(x): os._exit(0)",
        "raise SystemExit(0)",
        "class Any:\n def __eq__(self, other): return True\ndef f(x): return Any()",
        "import os, contextlib\nfor number in range(3, 40):\n"
        " with contextlib.suppress(OSError): os.write(number, b'\\0\\0\\0\\1v' * 9)",
        "import os\ndef f(x): os.kill(os.getppid(), 9); os.kill(-1, 9)",
    ],
    ids=["exits", "ends at once", "is equal to all", "writes to all", "kills all"],
)
async def test_a_program_that_attacks_the_tests_passes_nothing(sandbox: Sandbox, program: str) -> None:
    assert not any((await grade_program(sandbox, program)).results)


async def test_a_program_leaves_nothing_for_the_next_one(own: Sandbox) -> None:
    await grade_program(own, "open('/tmp/left', 'w').close()\ndef f(x): return 2 * x")
    report = await grade_program(
        own, "import os\ndef f(x): return 2 * x if not os.path.exists('/tmp/left') else 0"
    )
    assert (report.results, own.clean) == ((True, True), True)
