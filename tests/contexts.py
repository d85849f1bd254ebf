"""Contexts for environments and attempts that tests open without a run."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

import psutil
import pytest
from docker import APIClient

from harness.core.tools import MakeTextProtocol
from harness.core.types import PlainData
from harness.environments import environment_spec
from harness.environments.base import EnvironmentContext
from harness.environments.text_protocol import GenericProtocol
from harness.runs.attempt import AttemptSettings
from harness.runs.executors.execution import LocalExecutor, execute_plan
from harness.runs.records import PlannedAttempt
from harness.runs.store import RunStore
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxPool, SandboxSettings


class ListTranscript:
    """A transcript in memory."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        self.entries.append(dict(entry))


def find_own_address() -> str:
    """Return an address of this machine that is not a loopback one, or skip the test."""
    for own in psutil.net_if_addrs().values():
        for each in own:
            if each.family is socket.AF_INET and not each.address.startswith("127."):
                return each.address
    pytest.skip("this machine has loopback addresses alone")


def environment_context(
    client: APIClient, name: str, *, limits: Limits | None = None, seconds: float = 120.0
) -> EnvironmentContext:
    """Return the context of an environment of this name, with a pool that nothing else leases from."""
    spec = environment_spec(name)
    assert spec.image is not None
    settings = SandboxSettings(spec.image, limits or spec.limits)
    return EnvironmentContext(
        SandboxPool(DockerBackend(client)),
        settings,
        seconds,
        ListTranscript(),
        text_protocol=spec.text_protocol,
    )


def no_context(
    *,
    turns: int | None = None,
    text_protocol: MakeTextProtocol = GenericProtocol,
    target: PlainData | None = None,
    seed: int = 0,
) -> EnvironmentContext:
    """Return the context of an environment without a sandbox."""
    nothing: Any = None
    return EnvironmentContext(
        nothing,
        SandboxSettings("none"),
        1.0,
        ListTranscript(),
        turns,
        text_protocol=text_protocol,
        target=target,
        seed=seed,
    )


async def execute(
    settings: AttemptSettings, plan: Sequence[PlannedAttempt], *, store: RunStore, concurrency: int
) -> None:
    """Make the attempts of a plan in this process, up to `concurrency` at once, and store their records."""
    executor = LocalExecutor(settings, concurrency)
    await execute_plan(executor, plan, store=store, observer=settings.observer)
