"""The services of a task folder: how they start, what reaches them, and what they reach."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contexts import find_own_address
from docker import APIClient
from sealed_tasks import acted, build_image, describe, judge, write_task

from harness.core.errors import SandboxError
from harness.environments.base import MachineRules
from harness.environments.container.environment import open_container
from harness.environments.container.machine import Machine
from harness.environments.container.task_folder import read_task_folder
from harness.sandbox import reaper
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.pool import SandboxPool

SERVER = """
import http.server, os
notes = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/notes":
            notes.append(self.client_address[0])
        text = [self.path, os.environ.get("WORD", ""), open("/etc/own/word").read(), str(len(notes))]
        body = " ".join(text).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
"""
COMPOSE = """
services:
  main:
    depends_on: {api: {condition: service_healthy}}
    environment: [FROM_FILE=1]
  prepare:
    image: IMAGE
    command: [sh, -c, "echo prepared; exit 0"]
  api:
    image: IMAGE
    command: python3 /srv/server.py
    depends_on: {prepare: {condition: service_completed_successfully}}
    environment: {WORD: "of the service"}
    hostname: other-name
    mem_limit: 128m
    pids_limit: 64
    volumes: ["./server.py:/srv/server.py:ro", "./files:/etc/own", "data:/var/data"]
    expose: ["8000"]
    healthcheck:
      test: [CMD, python3, -c, "import socket; socket.create_connection(('127.0.0.1', 8000))"]
      interval: 200ms
volumes: {data: }
"""
FETCH = (
    "python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read().decode())'"
)
# Each attempt to reach something prints nothing unless it succeeds.
REACH = """
import os, socket, sys
def connect(host, port):
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
        print("reached", host, port)
    except OSError:
        pass
for place in sys.argv[1:]:
    connect(*place.split(":"))
for name in ("example.com", "host.docker.internal", "gateway.docker.internal", "localhost.localdomain"):
    try:
        print("resolved", name, socket.gethostbyname(name))
    except OSError:
        pass
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
for address in ("255.255.255.255", "224.0.0.1", sys.argv[1].split(":")[0]):
    try:
        datagrams.sendto(b"hello", (address, int(sys.argv[1].split(":")[1])))
    except OSError:
        pass
for kind in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 0)):
    try:
        socket.socket(*kind)
        print("raw socket", kind)
    except OSError:
        pass
print([path for path in ("/var/run/docker.sock", "/run/docker.sock") if os.path.exists(path)])
six = "/proc/net/if_inet6"
print(open(six).read().split() if os.path.exists(six) else [])
"""
FORKS = """
import os, time
made = []
try:
    while True:
        made.append(os.fork())
        if made[-1] == 0:
            time.sleep(60)
except OSError:
    print(len(made) < 64)
for child in made:
    os.kill(child, 9)
    os.waitpid(child, 0)
"""


@pytest.fixture
async def pool(client: APIClient) -> AsyncIterator[SandboxPool]:
    run_id = f"services-{secrets.token_hex(4)}"
    async with SandboxPool(DockerBackend(client), run_id=run_id, nested_sandboxes=1) as opened:
        yield opened


@pytest.fixture
def make_task(tmp_path: Path, client: APIClient) -> Callable[..., Path]:
    """Return a function that writes a task with services, with texts of its compose file replaced."""
    image = build_image(client)

    def make(replaced: Mapping[str, str] | None = None, **options: Any) -> Path:
        folder = write_task(tmp_path / "task", image, **options)
        text = COMPOSE.replace("IMAGE", image)
        for old, new in (replaced or {}).items():
            assert old in text
            text = text.replace(old, new)
        (folder / "environment/docker-compose.yaml").write_text(text)
        (folder / "environment/server.py").write_text(SERVER)
        (folder / "environment/files").mkdir(exist_ok=True)
        (folder / "environment/files/word").write_text("and its file")
        return folder

    return make


async def output(machine: Machine, program: str, *arguments: str) -> str:
    result = await machine.exec(["python3", "-c", program, *arguments], timeout=60)
    return str(result.stdout) + str(result.stderr)


async def test_an_agent_reaches_services_by_name_and_nothing_else(
    make_task: Callable[..., Path], pool: SandboxPool, client: APIClient
) -> None:
    task, own = make_task(), find_own_address()
    with socket.socket() as host, socket.socket(type=socket.SOCK_DGRAM) as heard:
        host.bind(("0.0.0.0", 0))
        host.listen()
        port = host.getsockname()[1]
        heard.bind(("0.0.0.0", port))
        heard.setblocking(False)
        async with (
            open_container(*describe(pool, task)) as environment,
            open_container(*describe(pool, task)) as other,
        ):
            for name in ("api", "other-name"):
                seen = await environment.call(
                    "bash", {"command": f"{FETCH} http://{name}:8000/x; echo $FROM_FILE"}
                )
                assert seen.text == "/x of the service and its file 0\n1\n[exit code 0]"
            assert "The machine reaches api by this name." in environment.tools["bash"].description
            (network,) = client.inspect_container(other.beside["api"].sandbox.container_id)[
                "NetworkSettings"
            ]["Networks"].values()
            gateway = client.inspect_network(network["NetworkID"])["IPAM"]["Config"][0]
            places = [
                *(f"{own}:{port}", f"{network['IPAddress']}:8000", "169.254.169.254:80"),
                *(f"172.17.0.1:{port}", f"{gateway.get('Gateway', network['IPAddress'])}:{port}"),
            ]
            machines = (environment.machine, environment.beside["api"])
            reached = await asyncio.gather(*(output(machine, REACH, *places) for machine in machines))
            assert reached == ["[]\n[]\n"] * 2
        with pytest.raises(BlockingIOError):
            heard.recv(100)
    # Nothing of the two attempts is left.
    backend = DockerBackend(client)
    assert pool.run_id is not None
    assert reaper.find_run_containers(backend, pool.run_id) == []
    assert backend.find_networks({reaper.RUN: pool.run_id}) == {}


async def test_a_service_has_the_limits_of_a_sandbox_and_its_end_is_no_fault(
    make_task: Callable[..., Path], pool: SandboxPool
) -> None:
    async with open_container(*describe(pool, make_task())) as environment:
        api = environment.beside["api"]
        rights = await api.exec("grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status", timeout=20)
        assert str(rights.stdout).split() == [
            "CapEff:",
            "00000000800405fb",
            "NoNewPrivs:",
            "1",
            "Seccomp:",
            "2",
        ]
        assert await output(api, FORKS) == "True\n"
        environment.note_acting()
        hog = await api.exec(
            ["python3", "-c", "b = bytearray(1 << 30); b[::4096] = b'x' * (1 << 18)"], timeout=60
        )
        assert hog.exit_code != 0
        # The agent has broken into the service.
        ended = await api.exec("kill -9 -1", user="root", timeout=20)
        assert ended.exit_code == 0, str(ended.stderr)
        seen = await environment.call("bash", {"command": f"{FETCH} http://api:8000/x 2>&1 | tail -1"})
        assert "Connection refused" in seen.text
        await environment.end_acting()


async def test_services_that_cannot_start_are_a_fault_with_their_output(
    make_task: Callable[..., Path], pool: SandboxPool, client: APIClient
) -> None:
    for replaced, message in (
        ({"command: python3 /srv/server.py": "user: nobody-knows"}, "cannot start: .*nobody-knows"),
        ({"exit 0": "exit 3"}, r"the service prepare failed with exit code 3:\nprepared"),
        ({"python3 /srv/server.py": "sh -c 'echo broken; exit 4'"}, r"service api .*exit code 4:\nbroken"),
        (
            {"interval: 200ms": "interval: 10ms\n      retries: 1\n      timeout: 100ms", "8000))": "8001))"},
            r"health check of the service api",
        ),
    ):
        with pytest.raises(SandboxError, match=message) as raised:
            async with open_container(*describe(pool, make_task(replaced))):
                pass
        assert raised.value.acted_in is False
    assert DockerBackend(client).find_networks({reaper.RUN: pool.run_id}) == {}


async def test_tests_that_name_a_service_get_new_ones_and_others_get_none(
    make_task: Callable[..., Path], pool: SandboxPool
) -> None:
    program = """
import socket, urllib.request
def test_answer():
    assert open("/app/answer.txt").read().strip() == "42"
def test_service():
    try:
        text = urllib.request.urlopen("http://NAME:8000/notes", timeout=5).read().decode()
    except OSError as error:
        text = str(error)
    assert text.endswith("EXPECTED"), text
"""
    command = f"{FETCH} http://api:8000/notes && echo 42 > answer.txt"
    async with acted(pool, make_task(), command) as environment:
        for name, expected in (("api", " 1"), ("a" + '" + "pi', "name resolution>")):
            text = program.replace("NAME", name).replace("EXPECTED", expected)
            environment.folder = read_task_folder(make_task(tests={"test_outputs.py": text}))
            verdict = await judge(pool, environment, "work")
            assert verdict.resolved, (name, verdict)


async def test_attached_tests_find_services_as_the_agent_left_them(
    make_task: Callable[..., Path], pool: SandboxPool
) -> None:
    text = """
import urllib.request
def test_notes():
    assert urllib.request.urlopen("http://api:8000/x", timeout=5).read().decode().endswith(" 1")
"""
    async with open_container(*describe(pool, make_task(tests={"test_outputs.py": text}))) as environment:
        environment.seal_level = "attached"
        await environment.call("bash", {"command": f"{FETCH} http://api:8000/notes; sleep 1000 &"})
        await environment.end_acting()
        # No process of the agent is left, although its services live on.
        left = await environment.machine.exec("ls -d /proc/[0-9]* | wc -l", timeout=20)
        assert int(str(left.stdout)) <= 4
        assert (await judge(pool, environment, "attached")).resolved
        assert not (await judge(pool, environment, "work")).resolved


async def test_machines_with_an_allowlist_reach_their_hosts_and_each_other(
    make_task: Callable[..., Path], pool: SandboxPool
) -> None:
    own = find_own_address()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    task = make_task(toml=f'[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["{own}"]\n')
    given, context = describe(pool, task)
    context = replace(context, machine_rules=MachineRules(allow_network=True))
    async with (
        await asyncio.start_server(serve, own, 0) as server,
        open_container(given, context) as environment,
    ):
        url = f"http://{own}:{server.sockets[0].getsockname()[1]}/"
        for machine in (environment.machine, environment.beside["api"]):
            fetched = await machine.exec(f"{FETCH} {url}; {FETCH} http://api:8000/x", timeout=30)
            assert str(fetched.stdout) == "hello\n/x of the service and its file 0\n", str(fetched.stderr)
            refused = await machine.exec(f"{FETCH} http://evil.example/", timeout=30)
            assert "HTTP Error 403" in str(refused.stderr)


async def test_two_attempts_with_services_take_turns_if_the_memory_is_for_one(
    make_task: Callable[..., Path], client: APIClient
) -> None:
    task = make_task({"mem_limit: 128m": "mem_limit: 256m"}, toml="[environment]\nmemory_mb = 256\n")
    seen: list[int] = []
    async with SandboxPool(DockerBackend(client), memory_mb=3000) as small:

        async def attempt() -> None:
            async with open_container(*describe(small, task)):
                seen.append(small._budget.used_mb)

        await asyncio.gather(attempt(), attempt())
    # `prepare` names no limit, so it has that of the run.
    assert seen == [2048 + 256 + 256] * 2


def test_networks_of_dead_runs_are_removed(client: APIClient) -> None:
    backend = DockerBackend(client)
    labels = reaper.make_labels("dead-run-of-services", role="network", deadline_seconds=60)
    for name, its in (
        ("harness-network-dead", {**labels, reaper.PID: "999999999"}),
        ("harness-network-live", labels),
    ):
        backend.make_network(name, its, is_public=False)
    try:
        reaper.remove_orphans(backend)
        assert [*backend.find_networks({reaper.RUN: "dead-run-of-services"})] == ["harness-network-live"]
    finally:
        reaper.remove_run(backend, "dead-run-of-services")
    assert backend.find_networks({reaper.RUN: "dead-run-of-services"}) == {}
