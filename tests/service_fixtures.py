"""A real service on a free port of this host, and a client for it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest_asyncio

from harness.benchmarks import Benchmark
from harness.environments.base import MachineRules
from harness.sandbox.backends.base import Backend
from harness.service.server import run_service
from harness.service.settings import ServiceLimits, ServiceSettings

TOKEN = "a-token-of-the-tests"
SETTINGS = ServiceSettings(max_concurrent=3)
# No test passes or fails because of it.
HANG_SECONDS = 120.0


@dataclass(frozen=True)
class Served:
    """A service, and a client that sends its token."""

    url: str
    http: httpx.AsyncClient

    async def post(self, path: str, **values: Any) -> httpx.Response:
        return await self.http.post(path, json=values)

    async def read_metric(self, name: str) -> float:
        """Return the sum of a metric over all of its labels."""
        text = (await self.http.get("/metrics")).text
        lines = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    async def open_sandbox(self, **values: Any) -> str:
        """Open a sandbox, by default with little memory, and return its path."""
        response = await self.post("/v1/sandboxes", **{"limits": {"memory_mb": 128}, **values})
        assert response.status_code == 201, response.text
        return f"/v1/sandboxes/{response.json()['id']}"


@contextlib.asynccontextmanager
async def serve(
    *,
    backend: Backend | None = None,
    max_concurrent: int = 3,
    benchmarks: tuple[Benchmark, ...] = (),
    port: int = 0,
    machine_rules: MachineRules | None = None,
    **limits: float,
) -> AsyncIterator[Served]:
    settings = replace(
        SETTINGS,
        max_concurrent=max_concurrent,
        benchmarks=benchmarks,
        machine_rules=machine_rules,
        limits=replace(ServiceLimits(), **limits),  # type: ignore[arg-type]
    )
    async with run_service(settings, token=TOKEN, backend=backend, port=port) as url:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=HANG_SECONDS,
            trust_env=False,
            limits=httpx.Limits(max_connections=512),
        ) as http:
            yield Served(url, http)


def share_service() -> Any:
    """Return a fixture that yields a service to all tests of a module, which run in one event loop."""

    @pytest_asyncio.fixture(scope="module", loop_scope="module")
    async def served() -> AsyncIterator[Served]:
        async with serve() as running:
            yield running

    return served
