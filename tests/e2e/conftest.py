"""Fixtures of the tests that run the command."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from docker import APIClient
from e2e.command_line import CLOSED, SHORT_RUN, FinishedRun, ForkServer, Harness, RunFolder, wait_until
from ray_nodes import RayNodes, shares_cluster, start_ray_nodes

from harness.sandbox.reaper import NAMESPACE_VARIABLE

_cluster = pytest.StashKey[contextlib.ExitStack]()


@pytest.fixture(scope="session")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the environment of every command: no hub, no stored data, and a folder of temporary files."""
    temporary = tmp_path_factory.mktemp("temporary")
    unwanted = ("hf_", "harness_", "http_proxy", "https_proxy", "all_proxy")
    yield {
        **{name: value for name, value in os.environ.items() if not name.lower().startswith(unwanted)},
        "HF_ENDPOINT": f"http://{CLOSED}",
        "HARNESS_DATA": str(tmp_path_factory.mktemp("kept-data")),
        "TMPDIR": str(temporary),
        NAMESPACE_VARIABLE: os.environ[NAMESPACE_VARIABLE],
    }
    assert list(temporary.iterdir()) == [], "temporary files left behind"


@pytest.fixture(scope="session")
def fork_server(surroundings: dict[str, str], record_process: Callable[[int], None]) -> Iterator[ForkServer]:
    server = ForkServer(surroundings, record_process)
    yield server
    server.close()


@pytest.fixture(scope="module")
def module_harness(
    tmp_path_factory: pytest.TempPathFactory, surroundings: dict[str, str], fork_server: ForkServer
) -> Iterator[Harness]:
    """Yield a `Harness` for fixtures whose result several tests of a module share."""
    command = Harness(tmp_path_factory.mktemp("module"), surroundings, fork_server)
    yield command
    command.end_all()


@pytest.fixture
def harness(tmp_path: Path, surroundings: dict[str, str], fork_server: ForkServer) -> Iterator[Harness]:
    command = Harness(tmp_path, surroundings, fork_server)
    yield command
    command.end_all()


@pytest.fixture(scope="session")
def finished_run(
    tmp_path_factory: pytest.TempPathFactory, surroundings: dict[str, str], fork_server: ForkServer
) -> Callable[..., FinishedRun]:
    """Return a function that makes a run once in a session, for all tests that only read its results."""
    done: dict[tuple[str, ...], FinishedRun] = {}

    def carry_out(*arguments: str) -> FinishedRun:
        if arguments not in done:
            folder = tmp_path_factory.mktemp("finished")
            command = Harness(folder, surroundings, fork_server)
            places = ("--output-dir", folder / "runs", "-o", folder / "results.json")
            ended = command(*arguments, *places)
            assert ended.returncode in (0, 1), ended.stderr
            (run,) = (folder / "runs").iterdir()
            results = json.loads((folder / "results.json").read_text())
            done[arguments] = FinishedRun(
                ended.stdout, ended.stderr, ended.returncode, RunFolder(run), results
            )
        return done[arguments]

    return carry_out


@pytest.fixture(scope="session")
def runtimes(client: APIClient) -> list[str]:
    """Return the container runtimes that the engine knows."""
    return list(client.info()["Runtimes"])


@pytest.fixture(scope="session")
def cluster(client: APIClient, pytestconfig: pytest.Config) -> Iterator[RayNodes]:
    """Yield a cluster that ends after the last test of the files that share it."""
    with contextlib.ExitStack() as stack:
        pytestconfig.stash[_cluster] = stack
        yield stack.enter_context(start_ray_nodes(client))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the cluster before the tests of other files, because an idle one needs a part of a processor."""
    if _cluster in item.config.stash and (nextitem is None or not shares_cluster(nextitem.nodeid)):
        item.config.stash[_cluster].close()


@pytest.fixture
def nodes(cluster: RayNodes) -> Iterator[RayNodes]:
    """Yield a cluster of this machine, whose nodes have an engine each, and require that nothing is left."""
    yield cluster
    wait_until(lambda: cluster.containers() == [], "no container on any engine", seconds=120)
    wait_until(lambda: cluster.actors() == [], "no actor", seconds=120)


@pytest.fixture(scope="module")
def recorded(module_harness: Harness) -> RunFolder:
    """Make a run of which every attempt has failed."""
    assert module_harness(*SHORT_RUN, "--output-dir", "recorded").returncode == 0
    return RunFolder(next((module_harness.folder / "recorded").iterdir()))


@pytest.fixture(scope="module")
def shards(module_harness: Harness) -> list[Path]:
    """Make the two shards of such a run."""
    for shard in ("1/2", "2/2"):
        assert module_harness(*SHORT_RUN, "--shard", shard, "--output-dir", "shards").returncode == 0
    return sorted((module_harness.folder / "shards").iterdir())
