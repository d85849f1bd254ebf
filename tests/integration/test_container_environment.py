"""The machine of a task folder as an agent finds it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from contexts import environment_context, find_own_address
from docker import APIClient

from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.types import Task
from harness.environments.base import MachineRules
from harness.environments.container.environment import (
    ContainerEnvironment,
    choose_network,
    open_container,
    read_folder,
    solve,
)
from harness.environments.container.target import TaskFolderSetup
from harness.environments.container.task_folder import read_task_folder
from harness.environments.container.task_toml import NetworkMode
from harness.sandbox.backends.base import BuildRules
from harness.sandbox.backends.docker.images import require_image

TOML = """
[agent]
user = "app"
[environment]
network_mode = "no-network"
cpus = 0.5
memory_mb = 256
env = {WORD = "of the task"}
[solution]
env = {KEY = "${KEY:-none}"}
"""
DOCKERFILE = """FROM published:1
RUN useradd --create-home app && mkdir /app && chown app /app && echo there > /app/input
WORKDIR /app
"""
SOLUTION = '#!/bin/bash\necho "$DEBIAN_FRONTEND $KEY $PWD $(id -un)" | tee answer; ls "$(dirname "$0")"\n'
Open = Callable[..., AbstractAsyncContextManager[ContainerEnvironment]]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    files = {
        "task.toml": TOML,
        "instruction.md": "Do it.",
        "environment/Dockerfile": DOCKERFILE,
        "tests/test.sh": "#!/bin/sh\necho secret",
        "solution/solve.sh": SOLUTION,
        "solution/data": "",
    }
    for name, text in files.items():
        path = tmp_path / "some-task" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "some-task"


@pytest.fixture
def open_task(client: APIClient, task: Path) -> Open:
    """Return a function that opens the machine of the task, whose task.toml has a text added."""

    @contextlib.asynccontextmanager
    async def open_one(
        added: str = "", *, allow_network: bool = False, without_network: bool = False
    ) -> AsyncIterator[ContainerEnvironment]:
        (task / "task.toml").write_text(added or TOML)
        folder = read_task_folder(task)
        setup = TaskFolderSetup(folder.path, folder.digest)
        build = BuildRules((("published:*", require_image(client, "os")),))
        context = environment_context(client, "container")
        rules = MachineRules(build, allow_network=allow_network, without_network=without_network)
        context = replace(context, machine_rules=rules)
        async with (
            context.pool,
            open_container(Task(folder.name, "", "container", "", setup=setup), context) as environment,
        ):
            yield environment

    return open_one


async def test_an_agent_acts_as_its_user_in_the_image_of_the_task(open_task: Open, client: APIClient) -> None:
    async with open_task() as environment:
        seen = await environment.call(
            "bash", {"command": "id -un; cat input; echo $WORD; ls -d /tests /solution"}
        )
        assert seen.text == (
            "app\nthere\nof the task\nls: cannot access '/tests': No such file or directory\n"
            "ls: cannot access '/solution': No such file or directory\n[exit code 2]"
        )
        result = await environment.sandbox.exec(["sh", "-c", "id -un; pwd; echo $WORD"])
        assert str(result.stdout) == "app\n/app\nof the task\n"
        host = client.inspect_container(environment.sandbox.container_id)["HostConfig"]
        assert (host["Memory"], host["NanoCpus"]) == (256 << 20, 500_000_000)
        assert environment.facts["replaced_images"] == {"published:1": require_image(client, "os")}


async def test_the_oracle_brings_its_solution_and_no_test(open_task: Open) -> None:
    async with open_task() as environment:
        began_ns = await environment.sandbox.begin()
        submission = await solve(environment)
        await environment.end_acting()
        changed = {entry.path for entry in await environment.sandbox.list_changed(began_ns)}
        assert changed == {
            *("/", "/solution", "/solution/data", "/solution/solve.sh", "/app", "/app/answer"),
        }
        assert submission.agent_output == "noninteractive none /app app\ndata\nsolve.sh\n"
        assert (await environment.machine.read_files(["/app/answer"], limit=100))["/app/answer"] == (
            b"noninteractive none /app app\n"
        )


async def test_a_machine_that_is_not_healthy_is_a_fault_with_its_output(open_task: Open) -> None:
    check = 'healthcheck = {command = "echo tried >> /tmp/tries; cat /tmp/tries; false", interval_sec = 0.1}'
    with pytest.raises(SandboxError, match=r"health check .* failed with exit code 1:\ntried\ntried\ntried$"):
        async with open_task(f'[environment]\nnetwork_mode = "no-network"\n{check}'):
            pass


async def test_a_network_needs_the_consent_of_the_run(open_task: Open, task: Path) -> None:
    public = "[environment]\nallow_internet = true\n"
    allowlist = '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.example"]\n'
    for toml, mode in ((public, "public"), (allowlist, "allowlist")):
        with pytest.raises(UsageError, match=f"task some-task asks for network_mode = '{mode}'"):
            async with open_task(toml):
                pass
    for toml, rules, has_network in (
        (public, {"allow_network": True}, True),
        (public, {"without_network": True}, False),
    ):
        async with open_task(toml, **rules) as environment:
            interfaces = await environment.call("bash", {"command": "cat /proc/net/dev"})
            assert ("eth0" in interfaces.text) is has_network
            assert ("without_network" in environment.facts) is not has_network
    for toml, refused in (
        ("[environment]\n", MachineRules()),
        (allowlist, MachineRules(without_network=True)),
    ):
        (task / "task.toml").write_text(toml)
        assert choose_network(read_task_folder(task), refused) is NetworkMode.NONE


async def test_a_folder_that_changes_under_a_run_is_refused(open_task: Open, task: Path) -> None:
    folder = read_task_folder(task)
    (task / "instruction.md").write_text("Do something else.")
    with pytest.raises(DataError, match="has changed since the run has read it"):
        read_folder(TaskFolderSetup(folder.path, folder.digest))


FETCH = """
import os, socket, sys, urllib.request
def fetch(url, handlers=()):
    try:
        return urllib.request.build_opener(*handlers).open(url, timeout=20).read().decode()
    except Exception as error:
        return str(error)
own = sys.argv[1]
print(fetch(own), fetch("http://evil.example/"), fetch("http://127.0.0.1:9/"), sep="|")
print(fetch(own, (urllib.request.ProxyHandler({}),)))
print(sorted(os.listdir("/sys/class/net")), "http_proxy" in os.environ)
"""


async def test_an_agent_reaches_the_hosts_of_an_allowlist_and_nothing_else(open_task: Open) -> None:
    address = find_own_address()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(serve, address, 0) as server:
        url = f"http://{address}:{server.sockets[0].getsockname()[1]}/"
        toml = (
            '[environment]\nnetwork_mode = "no-network"\n'
            f'[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.example", "{address}"]\n'
        )
        async with open_task(toml, allow_network=True) as environment:
            assert f"a proxy that reaches a.example, {address}" in environment.tools["bash"].description
            seen = await environment.call("bash", {"command": f"python3 -c '{FETCH}' {url}"})
            assert seen.text == (
                "hello|HTTP Error 403: Refused|<urlopen error [Errno 111] Connection refused>\n"
                "<urlopen error [Errno 101] Network is unreachable>\n['lo'] True\n[exit code 0]"
            )
            # The machine of the tests is made with these variables, and has no way out.
            assert "http_proxy" not in environment.machine.env
