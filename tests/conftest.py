"""Fixtures of all tests: the engine, the real data, and the check that a session leaves no container."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from backend.oci_fixtures import connect_oci
from docker import APIClient
from effort import THOROUGH
from ray_nodes import shares_cluster

from harness.core.errors import HarnessError
from harness.sandbox import reaper
from harness.sandbox.backends import connect_backend
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.backends.oci.backend import has_containers
from harness.sandbox.machine.images import build_images

pytest_plugins = ["data_fixtures", "model_fixtures"]
ROOT = Path(__file__).parents[1]
# The engine may still be removing a container when the last test ends.
GONE_SECONDS = 10.0
# The objects that wait for a collection of the youngest, and the collections until one of the older.
COLLECTION_THRESHOLDS = (20_000, 10, 50)
# The folders of the tests that need a real engine.
NEED_ENGINE = ("backend", "e2e", "integration", "security")
# The files whose tests take longest, the longest first. Each worker takes whole files in the order of the
# collection, and a long file that starts last keeps the other workers waiting.
LONGEST_FIRST = (
    "e2e/test_ray_runs.py",
    "e2e/test_ray_service.py",
    "security/test_repository_forgeries.py",
    "security/test_shell_state.py",
    "integration/test_time_limits.py",
    "security/test_hostile_programs.py",
    "integration/test_proxied_tests.py",
    "security/test_forged_checks.py",
    "integration/test_environment_snapshots.py",
    "security/test_database_attacks.py",
    "integration/test_sealed_grading.py",
    "security/test_lost_sandboxes.py",
    "integration/test_borderline_times.py",
    "integration/test_multipl.py",
    "integration/test_task_services.py",
    "integration/test_languages.py",
    "security/test_learning_over_samples.py",
    "integration/test_database.py",
    "integration/test_doctor.py",
    "integration/test_hub.py",
    "integration/test_machine_copies.py",
    "integration/test_maths_answers.py",
    "backend/test_backend.py",
    "e2e/test_swebench_runs.py",
    "e2e/test_folder_audit.py",
    "e2e/test_chat_runs.py",
    "e2e/test_audit_command.py",
    "e2e/test_command_agent.py",
    "e2e/test_engine_outages.py",
    "e2e/test_doctor_command.py",
    "e2e/test_run_interrupts.py",
    "e2e/test_mcp_command.py",
    "integration/test_sandbox_life.py",
    "integration/test_service.py",
    "integration/test_viewer_page.py",
    "integration/test_disk_watch.py",
    "security/test_processor_time_relays.py",
)


@pytest.fixture(scope="session")
def client() -> Iterator[APIClient]:
    """Yield a client of the engine."""
    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Iterator[DockerBackend]:
    """Yield the backend that HARNESS_TESTS_BACKEND names: the same engine, or else `oci`."""
    if os.environ.get("HARNESS_TESTS_BACKEND") == "oci":
        oci = connect_oci()
        yield cast(DockerBackend, oci)
        oci.close()
        return
    yield DockerBackend(request.getfixturevalue("client"))


@pytest.fixture
def docker_only(backend: DockerBackend) -> None:
    """Skip a test that looks into Docker's engine, unless the tests run on it."""
    if not isinstance(backend, DockerBackend):
        pytest.skip("looks into the Docker engine")


@pytest.fixture(scope="session")
def running_engine() -> None:
    """Fail if no engine answers, because a test that passes without one has not tested what it claims."""
    connect().close()


@pytest.fixture(autouse=True)
def require_running_engine(request: pytest.FixtureRequest) -> None:
    """Fail every test of these folders if the engine is stopped, even if the test catches errors or skips."""
    if request.path.relative_to(ROOT / "tests").parts[0] in NEED_ENGINE:
        request.getfixturevalue("running_engine")


@pytest.fixture(scope="session")
def common_images() -> None:
    # Modules have clients of their own by the name `client`, which a fixture of the session cannot use.
    with contextlib.closing(connect()) as engine:
        build_images(engine, ["python", "os"], notify=print)


@pytest.fixture(scope="module", autouse=True)
def build_common_images(request: pytest.FixtureRequest) -> None:
    """Build the images of most tests once, before a fixture of a module opens sandboxes."""
    if request.path.relative_to(ROOT / "tests").parts[0] in ("integration", "security"):
        request.getfixturevalue("common_images")


@pytest.fixture(scope="session")
def record_process(pytestconfig: pytest.Config) -> Callable[[int], None]:
    """Return a function that records a process which a test has started by other means than subprocess."""
    return pytestconfig.stash[_owners].record


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real benchmark data, which is not part of the project."""
    folder = Path(os.environ.get("HARNESS_SHARED_DATA") or ROOT / "../shared/data").resolve()
    if not folder.is_dir():
        pytest.skip(f"no real data in {folder} (set HARNESS_SHARED_DATA)")
    return folder


class _Owners:
    """The processes that this session started, whose containers must be gone at its end.

    The containers of other sessions are left out, because they may use the same engine at the same time.
    """

    def __init__(self) -> None:
        self._started = {os.getpid(): reaper.read_start_time(os.getpid())}

    def record(self, pid: int) -> None:
        self._started[pid] = reaper.read_start_time(pid)

    def containers(self, client: APIClient, run_ids: set[str]) -> list[dict[str, Any]]:
        """Return all existing containers that belong to a recorded process or to one of these runs."""
        listed = client.containers(all=True, filters={"label": reaper.RUN})
        return [container for container in listed if self._owns(container["Labels"], run_ids)]

    def _owns(self, labels: dict[str, str], run_ids: set[str]) -> bool:
        if labels[reaper.RUN] in run_ids:
            return True
        pid = labels.get(reaper.PID, "")
        if labels.get(reaper.HOST) != reaper.identify_host() or not pid.isdecimal():
            return False
        # The start time is None for a process that ended before it was recorded, so its pid has to do.
        return int(pid) in self._started and self._started[int(pid)] in (None, labels[reaper.PID_STARTED])


_owners = pytest.StashKey[_Owners]()
_left = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts processes in its background like this, and every process would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The secret that signs runs is not that of the user who tests.
    state = tempfile.TemporaryDirectory(prefix="harness-test-state-")
    config.add_cleanup(state.cleanup)
    os.environ["XDG_STATE_HOME"] = state.name
    # With this, each worker, and each process that it starts, sees and removes its own orphans alone.
    os.environ[reaper.NAMESPACE_VARIABLE] = f"test-{secrets.token_hex(6)}"
    owners = config.stash[_owners] = _Owners()

    class Recorded(subprocess.Popen):  # type: ignore[type-arg]
        """Records every process that a test starts, because `run` and asyncio use this class as well."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            owners.record(self.pid)

    config.add_cleanup(partial(setattr, subprocess, "Popen", subprocess.Popen))
    subprocess.Popen = Recorded  # type: ignore[misc]


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect no garbage while the test modules are imported, because almost nothing of it is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave all modules and tests out of later garbage collections, and collect less often.

    A full collection would visit their million objects. That took a sixth of the time of the unit tests. One
    here would take half a second in each worker, and would find a few megabytes.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a quick run leaves out, and order the files.

    The longest files come first, then the other files that need an engine, and the unit tests last.
    """
    if not THOROUGH and (left_out := [item for item in items if item.get_closest_marker("thorough")]):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    ranks = {f"tests/{name}": rank for rank, name in enumerate(LONGEST_FIRST)}

    def rank_of(item: pytest.Item) -> int:
        name = item.nodeid.partition("::")[0]
        return ranks.get(name, len(ranks) + name.startswith("tests/unit/"))

    items.sort(key=rank_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler of files that also keeps together the files that share a cluster."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler.loadfile import LoadFileScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "cluster" if shares_cluster(nodeid) else str(super()._split_scope(nodeid))

    return Scheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the containers that a worker has left behind, in the session that started it."""
    node.config.stash.setdefault(_left, []).extend(getattr(node, "workeroutput", {}).get("left", []))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session if a container of the session, or of a process that it started, still exists.

    Each worker looks for its own containers. The main session then looks for those of all runs, because a
    worker that crashed has reported nothing.
    """
    try:
        client = connect()
    except HarnessError:
        return  # without an engine no test has started a container
    owners, run_ids = session.config.stash[_owners], _run_ids(session)
    deadline = time.monotonic() + GONE_SECONDS
    left = owners.containers(client, run_ids)
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        left = owners.containers(client, run_ids)
    for container in left:
        client.remove_container(container["Id"], force=True, v=True)
    client.close()
    left += _remove_left_of_oci(owners, run_ids)
    lines = session.config.stash.setdefault(_left, [])
    lines += [
        f"{container['Id'][:12]} {container['Status']}, run {container['Labels'][reaper.RUN]}"
        for container in left
    ]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = lines
    if lines:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _remove_left_of_oci(owners: _Owners, run_ids: set[str]) -> list[dict[str, Any]]:
    """Remove the containers of the backend `oci` that are left, and return them as Docker's client does."""
    if not has_containers():
        return []
    oci = connect_backend("oci")
    left: list[dict[str, Any]] = [
        {"Id": each.id, "Status": "left", "Labels": each.labels}
        for each in oci.find_containers({reaper.RUN: None})
        if owners._owns(dict(each.labels), run_ids)
    ]
    for container in left:
        oci.destroy(container["Id"])
    return left


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left = config.stash.get(_left, [])
    if left:
        terminalreporter.section("containers left behind (removed now)", red=True, bold=True)
        for line in left:
            terminalreporter.line(line)


def _run_ids(session: pytest.Session) -> set[str]:
    """Return the ids of all runs whose folders lie among the temporary files of this session."""
    factory: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    run_ids = set()
    for manifest in factory.getbasetemp().glob("**/manifest.json"):
        try:
            run_ids.add(str(json.loads(manifest.read_text())["run_id"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return run_ids
