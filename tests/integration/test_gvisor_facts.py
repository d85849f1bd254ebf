"""The facts of a runtime in the manifest agree with the findings of the doctor's canaries."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker import APIClient

from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import engine_facts
from harness.sandbox.backends.docker.runtimes import DIFFERENCES, runtime_facts
from harness.sandbox.machine.checks.diagnosis import diagnose
from harness.sandbox.machine.images import build_images
from harness.sandbox.selfcheck.check import Level

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the measured speed of the machine from other tests, whose runs would extend their limits."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def runsc(client: APIClient) -> str:
    if "runsc" not in engine_facts(client).runtimes:
        pytest.skip("the engine does not know runsc (make setup RUNTIME=runsc)")
    build_images(client, ["python"], notify=print)
    return "runsc"


def test_runc_is_named_with_its_version_and_enforces_every_limit(client: APIClient) -> None:
    facts = runtime_facts(client, "runc")
    assert facts.name == "runc"
    assert facts.version == engine_facts(client).runc_version
    assert facts.limits_not_enforced == {}


def test_gvisor_is_named_with_the_limits_that_nobody_enforces(client: APIClient, runsc: str) -> None:
    facts = runtime_facts(client, runsc)
    assert facts.name == "runsc"
    assert "inodes" in facts.limits_not_enforced


async def test_every_limit_that_the_doctor_misses_in_gvisor_is_known(
    backend: DockerBackend, runsc: str
) -> None:
    checks = {check.name: check for check in await diagnose(backend, runtime=runsc)}
    surprises = {name for name in DIFFERENCES[runsc] if checks[name].level is Level.FAIL}
    assert surprises == set()


async def test_each_known_difference_of_gvisor_is_a_warning_with_its_meaning(
    backend: DockerBackend, runsc: str
) -> None:
    checks = {check.name: check for check in await diagnose(backend, runtime=runsc)}
    assert checks["inodes"].level is Level.WARN
    assert DIFFERENCES[runsc]["inodes"].means in checks["inodes"].found
