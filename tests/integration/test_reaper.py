"""The reaper removes containers of dead owners, and no others."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from case_checks import each_case
from docker import APIClient
from docker.errors import NotFound

from harness.sandbox import reaper
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.images import require_image

OWNER = """
import sys, time
from harness.sandbox import reaper
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.backends.docker.images import require_image

client = connect()
container = client.create_container(
    require_image(client, "python"),
    entrypoint=[],
    command=["sleep", "600"],
    network_disabled=True,
    labels=reaper.make_labels(sys.argv[1], role="sandbox", deadline_seconds=600),
)
client.start(container)
print(container["Id"], flush=True)
time.sleep(600)
"""


@pytest.fixture
def run_id(client: APIClient) -> Iterator[str]:
    """Yield the id of a new run, and remove its containers after the test."""
    run_id = f"test-{secrets.token_hex(6)}"
    yield run_id
    reaper.remove_run(DockerBackend(client), run_id)


def create(client: APIClient, run_id: str, **changes: str) -> str:
    """Create, but do not start, a container of this live process with some changed labels."""
    labels = reaper.make_labels(run_id, role="sandbox", deadline_seconds=60) | {
        f"harness.{name}": value for name, value in changes.items()
    }
    container = client.create_container(require_image(client, "python"), command=["true"], labels=labels)
    return str(container["Id"])


def orphans(client: APIClient, run_id: str) -> list[str]:
    return [
        orphan.container_id
        for orphan in reaper.find_orphans(DockerBackend(client))
        if orphan.run_id == run_id
    ]


def exists(client: APIClient, container_id: str) -> bool:
    try:
        client.inspect_container(container_id)
    except NotFound:
        return False
    return True


def test_killed_owner_leaves_an_orphan_and_live_neighbour_does_not(client: APIClient, run_id: str) -> None:
    owners = [
        subprocess.Popen([sys.executable, "-c", OWNER, run_id], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        containers = [owner.stdout.readline().strip() for owner in owners if owner.stdout]
        assert orphans(client, run_id) == []
        owners[0].send_signal(signal.SIGKILL)
        # Nobody has waited for the process yet. A zombie cannot clean up, so it counts as dead.
        deadline = time.monotonic() + 10
        while not (found := orphans(client, run_id)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert found == [containers[0]]
        owners[0].wait()
        assert orphans(client, run_id) == [containers[0]]

        removed = [
            orphan for orphan in reaper.remove_orphans(DockerBackend(client)) if orphan.run_id == run_id
        ]

        assert [(orphan.container_id, orphan.role) for orphan in removed] == [(containers[0], "sandbox")]
        assert f"pid {owners[0].pid}" in removed[0].reason
        assert [exists(client, container) for container in containers] == [False, True]
        assert client.inspect_container(containers[1])["State"]["Running"]
    finally:
        for owner in owners:
            owner.kill()
            owner.communicate()


def test_a_reused_pid_is_not_the_owner(client: APIClient, run_id: str) -> None:
    container = create(client, run_id, pid_started="1")
    assert orphans(client, run_id) == [container]


@each_case(
    ("past_seconds", "is_orphan"),
    [(-3600, False), (60, False), (reaper.FOREIGN_MARGIN_SECONDS + 60, True)],
)
def test_an_owner_on_another_machine_counts_as_dead_after_its_deadline(
    client: APIClient, run_id: str, past_seconds: float, is_orphan: bool
) -> None:
    deadline = str(int(time.time() - past_seconds))
    container = create(client, run_id, host="another-boot:4026531836", pid="999999999", deadline=deadline)
    assert orphans(client, run_id) == ([container] if is_orphan else [])


def test_live_owner_keeps_its_container_past_the_deadline(client: APIClient, run_id: str) -> None:
    create(client, run_id, deadline="1")
    assert orphans(client, run_id) == []


@each_case("pid", ["", "0", "-1", "abc", "9" * 30, "1 "])
def test_unreadable_labels_never_make_an_orphan(client: APIClient, run_id: str, pid: str) -> None:
    create(client, run_id, pid=pid)
    create(client, run_id, host="elsewhere", deadline="soon" + pid)
    assert orphans(client, run_id) == []


def test_another_users_live_process_is_alive() -> None:
    process = subprocess.Popen(["sleep", "60"], user=65534 if os.getuid() == 0 else None)
    try:
        started = reaper.read_start_time(process.pid)
        assert started is not None
        pid = os.fork()
        if pid == 0:
            os.setuid(65533) if os.getuid() == 0 else None
            os._exit(0 if reaper._is_alive(process.pid, started) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        process.kill()
        process.wait()


def test_an_orphan_of_another_namespace_is_left_alone(
    client: APIClient, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = create(client, run_id, pid_started="1")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv(reaper.NAMESPACE_VARIABLE, "another")
        found_elsewhere = orphans(client, run_id)
    assert (found_elsewhere, orphans(client, run_id)) == ([], [container])


def test_an_orphan_of_another_namespace_goes_once_it_is_a_day_late(client: APIClient, run_id: str) -> None:
    deadline = str(int(time.time() - reaper.OTHER_NAMESPACE_SECONDS - 60))
    container = create(client, run_id, namespace="another", pid_started="1", deadline=deadline)
    assert orphans(client, run_id) == [container]


def test_a_live_owner_of_another_namespace_keeps_its_container(client: APIClient, run_id: str) -> None:
    create(client, run_id, namespace="another", deadline="1")
    assert orphans(client, run_id) == []


def test_clean_ups_at_once_remove_every_orphan(client: APIClient, run_id: str) -> None:
    containers = {create(client, run_id, pid_started="1") for _ in range(6)}
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: reaper.remove_orphans(DockerBackend(client)), range(4)))
    removed = {orphan.container_id for result in results for orphan in result if orphan.run_id == run_id}
    assert removed == containers
    assert not any(exists(client, container) for container in containers)


def test_remove_run_removes_all_of_one_run(client: APIClient, run_id: str) -> None:
    mine = [create(client, run_id) for _ in range(3)]
    other = create(client, run_id + "-other")
    try:
        assert reaper.remove_run(DockerBackend(client), run_id) == 3
        assert not any(exists(client, container) for container in mine)
        assert exists(client, other)
    finally:
        reaper.remove_run(DockerBackend(client), run_id + "-other")
