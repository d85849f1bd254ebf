"""The services of a task folder: how they start, what reaches them, and what they reach."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from contexts import find_own_address
from docker import APIClient
from sealed_tasks import acted, build_image, describe, judge, write_task

from harness.core.errors import SandboxError
from harness.environments.base import EnvironmentContext, MachineRules
from harness.environments.container.environment import open_container
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.pool import SandboxPool

SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (self.path + " " + os.environ.get("WORD", "") + " " + open("/etc/own/word").read()).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
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
    command: [sh, -c, "echo prepared; exit ${CODE:-0}"]
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
    healthcheck: {test: [CMD, python3, -c, "import socket; socket.create_connection(('127.0.0.1', 8000))"], interval: 200ms}
volumes: {data: }
"""
FETCH = "python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read().decode())'"


@pytest.fixture
def image(client: APIClient) -> str:
    return build_image(client)


@pytest.fixture
async def pool(client: APIClient) -> AsyncIterator[SandboxPool]:
    async with SandboxPool(DockerBackend(client), nested_sandboxes=1) as opened:
        yield opened


@pytest.fixture
def make_task(tmp_path: Path, image: str) -> Callable[..., Path]:
    """Return a function that writes a task with services, with texts of its compose file replaced."""

    def make(replaced: Mapping[str, str] | None = None, **options: object) -> Path:
        folder = write_task(tmp_path / "task", image, **options)  # type: ignore[arg-type]
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


async def test_an_agent_reaches_services_by_name_and_they_have_their_settings(
    make_task: Callable[..., Path], pool: SandboxPool
) -> None:
    async with open_container(*describe(pool, make_task())) as environment:
        for name in ("api", "other-name"):
            seen = await environment.call("bash", {"command": f"{FETCH} http://{name}:8000/x; echo $FROM_FILE"})
            assert seen.text == "/x of the service and its file\n1\n[exit code 0]"
        assert "The machine reaches api by this name." in environment.tools["bash"].description
        api = environment.beside["api"]
        assert (api.sandbox.limits.memory_mb, api.sandbox.limits.processes) == (128, 64)
        assert (await api.exec("ls -d /var/data; hostname; cat /proc/1/cgroup | wc -l; ls /app", timeout=20)).exit_code == 0
