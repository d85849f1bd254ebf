"""Two sandboxes that share a network namespace cannot meet in it, and each way to meet is a real one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from docker import APIClient
from security import network_meetings

from harness import Sandbox
from harness.environments.python.client import run_on_inputs, run_tests
from harness.sandbox.backends import seccomp
from harness.sandbox.backends.docker import backend as docker_backend
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.oci.backend import find_container
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

# The search ends as soon as it has found everything, so only the protected sandboxes take this long.
SEARCH_SECONDS, STAY_SECONDS = 4.0, 8.0
LIMITS = Limits(uncounted_sockets=True)


@pytest.fixture
def sharing(client: APIClient, backend: DockerBackend) -> Any:
    if not isinstance(backend, DockerBackend):
        yield backend
        return
    backend = DockerBackend(client)
    backend.shared_networks.starts_without_holder = 0
    yield backend
    backend.shared_networks.close()


@contextlib.asynccontextmanager
async def open_two(backend: DockerBackend) -> AsyncIterator[tuple[Sandbox, Sandbox]]:
    """Yield two sandboxes of a run in one network namespace."""
    run = f"test-{secrets.token_hex(6)}"
    async with (
        Sandbox.open(
            "python", limits=LIMITS, seccomp="strict", network="shared", run_id=run, backend=backend
        ) as one,
        Sandbox.open(
            "python", limits=LIMITS, seccomp="strict", network="shared", run_id=run, backend=backend
        ) as other,
    ):
        modes = {mode_of(backend, sandbox) for sandbox in (one, other)}
        assert len(modes) == 1
        assert modes.pop().startswith("container:")
        yield one, other


def mode_of(backend: DockerBackend, sandbox: Sandbox) -> str:
    if not isinstance(backend, DockerBackend):
        own = find_container(sandbox.container_id)
        assert own is not None
        namespaces = json.loads((own / "config.json").read_text())["linux"]["namespaces"]
        return "container:" + next(each["path"] for each in namespaces if each["type"] == "network")
    return str(backend.client.inspect_container(sandbox.container_id)["HostConfig"]["NetworkMode"])


def weaken(monkeypatch: pytest.MonkeyPatch, profile: str | None = None, *, masked: bool = False) -> None:
    """Give new containers of a shared namespace this seccomp profile, if any, and no masked paths.

    Only Docker's can be weakened.
    """
    if os.environ.get("HARNESS_TESTS_BACKEND"):
        pytest.skip("weakens the containers of Docker")
    whole = docker_backend.container_config  # type: ignore[attr-defined]

    def weaker(*arguments: Any, **options: Any) -> dict[str, Any]:
        config: dict[str, Any] = whole(*arguments, **options)
        if profile is not None:
            config["host_config"]["SecurityOpt"] = ["no-new-privileges:true", f"seccomp={profile}"]
        if not masked:
            config["host_config"]["MaskedPaths"] = []
        return config

    monkeypatch.setattr(docker_backend, "container_config", weaker)


def allow_commands(*sandboxes: Sandbox) -> None:
    """Let a test run commands, which nothing confines."""
    for sandbox in sandboxes:
        sandbox._network = "own"


async def meet_as_commands(one: Sandbox, other: Sandbox) -> list[str]:
    allow_commands(one, other)
    return await _meet(_command(one, network_meetings.leave(STAY_SECONDS)), _search_as_command(other))


async def meet_as_programs(one: Sandbox, other: Sandbox) -> list[str]:
    leaving = _program(one, network_meetings.leave(STAY_SECONDS))
    return await _meet(leaving, _program(other, network_meetings.search(SEARCH_SECONDS)))


async def _command(sandbox: Sandbox, program: str) -> str:
    result = await sandbox.exec(["python3", "-c", program])
    return str(result.stdout)


async def _search_as_command(sandbox: Sandbox) -> str:
    return await _command(sandbox, network_meetings.search(SEARCH_SECONDS))


async def _program(sandbox: Sandbox, program: str) -> str:
    (run,) = await run_on_inputs(sandbox, program=program.encode(), inputs=[b""], stdout_bytes=1 << 16)
    assert run.succeeded, run
    return str(run.stdout)


async def _tested(sandbox: Sandbox, program: str) -> str:
    report = await run_tests(sandbox, program=program, statements=["pass"], exports={})
    assert report.results == (True,), report
    return str(report.stdout)


async def _meet(leaving: Any, searching: Any) -> list[str]:
    """Return the ways by which the search found what the other program left."""
    staying = asyncio.create_task(leaving)
    try:
        found: list[str] = json.loads(await searching)
        return found
    finally:
        staying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await staying


async def test_every_way_to_meet_works_where_nothing_closes_it(
    sharing: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, seccomp.profile("default", sockets="all"))
    async with open_two(sharing) as (one, other):
        assert await meet_as_commands(one, other) == sorted(network_meetings.WAYS)


async def test_programs_that_read_stdin_meet_in_no_way(sharing: DockerBackend) -> None:
    async with open_two(sharing) as (one, other):
        assert await meet_as_programs(one, other) == []


async def test_programs_under_tests_meet_in_no_way(sharing: DockerBackend) -> None:
    async with open_two(sharing) as (one, other):
        leaving = _tested(one, network_meetings.leave(STAY_SECONDS))
        assert await _meet(leaving, _tested(other, network_meetings.search(SEARCH_SECONDS))) == []


async def test_without_its_profile_programs_meet_by_sockets(
    sharing: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, seccomp.profile("strict"), masked=True)
    async with open_two(sharing) as (one, other):
        found = await meet_as_programs(one, other)
    # Landlock of version 6 or newer closes the ways by names of its own.
    assert {"autobound pair", "socket cookie"} <= set(found)


async def test_without_the_masks_programs_meet_by_files(
    sharing: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch)
    async with open_two(sharing) as (one, other):
        found = await meet_as_programs(one, other)
    assert found == ["lock on hostname", "lock on hosts", "lock on resolv.conf", "system times"]


async def test_without_landlock_commands_would_read_the_counters(sharing: DockerBackend) -> None:
    async with open_two(sharing) as (one, other):
        found = await meet_as_commands(one, other)
    assert found == ["proc net", "proc net by number", "proc net of a thread"]


PRIVILEGED = """
import fcntl, json, socket
pair = socket.socketpair()
errors = {}
for name, request in (("SIOCGSKNS", 0x894C), ("SIOCUNIXFILE", 0x89E0), ("SIOCSIFFLAGS", 0x8914)):
    try:
        fcntl.ioctl(pair[0].fileno(), request, bytearray(b"lo" + bytes(38)))
        errors[name] = 0
    except OSError as error:
        errors[name] = error.errno
print(json.dumps(errors))
"""


async def test_requests_on_the_namespace_by_a_pair_are_refused(sharing: DockerBackend) -> None:
    async with open_two(sharing) as (one, _other):
        errors = json.loads(await _program(one, PRIVILEGED))
    assert errors == {"SIOCGSKNS": 1, "SIOCUNIXFILE": 1, "SIOCSIFFLAGS": 1}


STRANGERS = """
import contextlib, json, socket
server = {kind: socket.socket(socket.AF_UNIX, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)}
for kind, one in server.items():
    one.bind(f"\\0harness-{kind}")
    one.setblocking(False)
server[socket.SOCK_SEQPACKET].listen(1)
reached = []
for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
    for is_dropped in (False, True):
        for name in server:
            ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
            if is_dropped:
                theirs.close()
            for _ in range(3):
                with contextlib.suppress(OSError):
                    ours.sendto(b"x", f"\\0harness-{name}")
    with contextlib.suppress(OSError):
        while server[socket.SOCK_DGRAM].recv(9):
            reached.append(kind.name)
    with contextlib.suppress(OSError):
        server[socket.SOCK_SEQPACKET].accept()
        reached.append(kind.name)
print(json.dumps(sorted(set(reached))))
"""


async def test_of_all_pairs_only_those_of_datagrams_reach_a_stranger(
    sharing: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, seccomp.profile("strict"))
    async with open_two(sharing) as (one, _other):
        allow_commands(one)
        assert json.loads(await _command(one, STRANGERS)) == ["SOCK_DGRAM"]
