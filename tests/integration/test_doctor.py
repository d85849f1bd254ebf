"""The doctor finds nothing on this machine, and every check fails if its cause is present."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from case_checks import each_case
from docker import APIClient
from docker.errors import APIError

from harness.core.errors import SandboxError
from harness.sandbox import reaper
from harness.sandbox.backends import seccomp
from harness.sandbox.backends.docker import backend as docker_backend
from harness.sandbox.backends.docker import container
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import engine_errors, engine_facts
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.limits import Limits
from harness.sandbox.machine.checks import diagnosis, machine
from harness.sandbox.machine.checks.diagnosis import diagnose
from harness.sandbox.machine.images import build_images
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck import check, endings, isolation, probe, suite
from harness.sandbox.selfcheck.check import Check, Finding, Level

TRIALS = (*suite.TRIALS, *diagnosis.FURTHER)
CANARIES = {name: check for trial in TRIALS for name, check in trial.canaries.items()}
LIMITS = {name: trial.limits for trial in TRIALS for name in trial.canaries}
WRITABLE_ROOT = {name: trial.writable_root for trial in TRIALS for name in trial.canaries}
RELAY = {name: trial.relay for trial in TRIALS for name in trial.canaries}
SECCOMP = f"seccomp={seccomp.profile('default')}"
ALL_SOCKETS = f"seccomp={seccomp.profile('default', sockets='all')}"
TMPFS = dict.fromkeys(("/work", "/tmp"), "size=2m,nr_inodes=64,exec,mode=1777")

SIZES = {"/tmp": "size=3m,nr_inodes=64,mode=1777", "/work": "size=2m,mode=1777"}
UNCONFINED = ["no-new-privileges:true", "seccomp=unconfined"]

# Canaries of one sandbox that must each report a fault, and the weaker parts of the host configuration. Each
# part weakens what one of them looks at.
WEAKER: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("memory_mb",), {"Memory": 0, "MemorySwap": 0}),
    (("swap",), {"MemorySwap": -1}),
    (
        ("processes", "disk_mb", "inodes", "read-only root", "capabilities"),
        {
            "PidsLimit": 0,
            "Tmpfs": TMPFS | SIZES,
            "ReadonlyRootfs": False,
            "CapAdd": ["CHOWN", "KILL", "SETGID", "SETUID", "NET_RAW"],
        },
    ),
    (("network", "namespaces"), {"NetworkMode": "bridge", "IpcMode": "host"}),
    (("no new privileges", "namespaces"), {"SecurityOpt": [SECCOMP], "CgroupnsMode": "host"}),
    (("seccomp",), {"SecurityOpt": UNCONFINED}),
    (("socket memory",), {"SecurityOpt": ["no-new-privileges:true", ALL_SOCKETS]}),
    (("shared counts",), {"SecurityOpt": UNCONFINED}),
    (("shared counts",), {"MaskedPaths": []}),
    (("attributes",), {"SecurityOpt": UNCONFINED}),
]
# Canaries of one sandbox that expect smaller limits than it has.
LARGER = [
    pytest.param(("cpu_seconds",), Limits(cpu_seconds=10), marks=pytest.mark.thorough),
    (
        ("output_mb", "file_mb", "open_files"),
        Limits(output_mb=64, file_mb=64, disk_mb=4, open_files=256),
    ),
    (("deleted files",), Limits(disk_mb=256)),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the measured speed of the machine from other tests, whose runs would extend their limits."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module", autouse=True)
def images(client: APIClient) -> None:
    build_images(client, ["base", "python"], notify=print)


@pytest.fixture
def here(client: APIClient, tmp_path: Path) -> machine.Machine:
    return machine.Machine(DockerBackend(client), engine_facts(client), 0.01, "runc", tmp_path, 1, Limits())


def weaken(monkeypatch: pytest.MonkeyPatch, host: dict[str, Any], **changes: Any) -> None:
    """Change a part of the configuration of new containers."""
    whole = docker_backend.container_config  # type: ignore[attr-defined]

    def weaker(*arguments: Any, **options: Any) -> dict[str, Any]:
        config = whole(*arguments, **options)
        return {**config, **changes, "host_config": {**config["host_config"], **host}}

    monkeypatch.setattr(docker_backend, "container_config", weaker)


async def finding_of(client: APIClient, name: str) -> Finding:
    """Return a canary's finding in a sandbox with the limits that it expects."""
    return (await findings_of(client, (name,)))[name]


async def findings_of(
    client: APIClient, names: tuple[str, ...], limits: Limits | None = None
) -> dict[str, Finding]:
    """Return the findings of canaries in one sandbox, with other limits than they expect if there are any."""
    name = names[0]
    async with Sandbox.open(
        limits=limits or LIMITS[name],
        writable_root=WRITABLE_ROOT[name],
        relay=RELAY[name],
        backend=DockerBackend(client),
    ) as sandbox:
        return {name: await CANARIES[name](sandbox, LIMITS[name]) for name in names}


@pytest.mark.thorough
async def test_this_machine_passes_and_nothing_is_left(client: APIClient, tmp_path: Path) -> None:
    told: list[Check] = []
    checks = await diagnose(DockerBackend(client), runs_folder=tmp_path, notify=told.append)
    # The doctor tries every limit of a container.
    kernel = {"socket memory", "relay memory", "shared counts", "attributes", "deleted files"}
    assert kernel <= {check.name for check in checks}
    assert [check for check in checks if check.level is Level.FAIL] == []
    assert told == checks
    names = [check.name for check in checks]
    assert sorted(names) == sorted({*machine.CHECKS, *CANARIES, *suite.LIVES, "sandbox", "speed"})
    assert client.containers(all=True, filters={"label": f"{reaper.PID}={os.getpid()}"}) == []


@pytest.mark.parametrize(("names", "host"), WEAKER, ids=lambda part: "-".join(part))
async def test_weaker_container_is_found_out(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], host: dict[str, Any]
) -> None:
    weaken(monkeypatch, host, network_disabled="NetworkMode" not in host)
    found = await findings_of(client, names)
    assert {name: finding for name, finding in found.items() if finding.level is not Level.FAIL} == {}


async def test_the_guest_bounds_shared_counts_where_the_engine_does_not(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, {"Ulimits": []})
    finding = await finding_of(client, "shared counts")
    assert finding.level is Level.OK, finding.found


@pytest.mark.parametrize("weaker", ["buffers", "count"])
async def test_uncounted_memory_of_a_relays_sockets_is_found_out(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, weaker: str
) -> None:
    if engine_facts(client).cgroup_version != 1:
        pytest.skip("the kernel counts the buffers of TCP in the memory of the sandbox")
    if weaker == "buffers":
        weaken(monkeypatch, {"Sysctls": {}})
    else:
        monkeypatch.setattr(docker_backend, "MOST_SOCKETS", 1_000_000)
    finding = await finding_of(client, "relay memory")
    assert finding.level is Level.FAIL, finding.found


async def test_a_kernel_without_landlock_is_reported(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = json.loads(seccomp.profile("default"))
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if not name.startswith("landlock_")]
    options = ["no-new-privileges:true", f"seccomp={json.dumps(profile)}"]
    weaken(monkeypatch, {"SecurityOpt": options})
    finding = await finding_of(client, "confinement")
    assert finding.level is Level.WARN, finding.found
    assert "--isolation attempt" in str(finding.fix)


async def test_a_missing_quota_of_cpus_never_passes(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, {"NanoCpus": 0})
    finding = await finding_of(client, "cpus")
    # On a busy machine nobody gets more than half a core anyway.
    assert finding.level is not Level.OK, finding.found


@pytest.mark.parametrize(("names", "limits"), LARGER)
async def test_larger_limit_is_found_out(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], limits: Limits
) -> None:
    monkeypatch.setattr(isolation, "HOLD_SECONDS", 2.0)
    found = await findings_of(client, names, limits)
    assert {name: finding for name, finding in found.items() if finding.level is not Level.FAIL} == {}


async def test_missing_wall_limit_is_found_out(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def without_timeout(*arguments: Any, timeout: float) -> Any:
        return await check.attempt(*arguments)

    monkeypatch.setattr(endings, "attempt", without_timeout)
    finding = await finding_of(client, "wall_seconds")
    assert finding.level is Level.FAIL, finding.found


async def test_missed_deadline_is_found_out(backend: DockerBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "DEADLINE_SECONDS", 0.3)
    async with Sandbox.open(backend=backend) as sandbox:
        finding = await endings.outlast_deadline(sandbox, 0)
    assert finding.level is Level.FAIL, finding.found


async def test_early_end_is_not_taken_for_the_deadline(client: APIClient, backend: DockerBackend) -> None:
    start = time.monotonic()
    async with Sandbox.open(backend=backend) as sandbox:
        container.remove(client, sandbox.container_id)
        # As if the deadline were later than any machine takes for the two lines above.
        lost = endings.outlast_deadline(sandbox, start + 3600)
        check = await suite.conclude_finding("deadline", lost)
    assert check.level is Level.FAIL


async def test_a_guest_that_outlives_its_host_is_found_out(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The engine then keeps the guest's stdin open for the next client that attaches.
    weaken(monkeypatch, {}, detach=True)
    finding = await endings.close_stream(DockerBackend(client), "runc", seconds=1.0)
    assert finding.level is Level.FAIL, finding.found


async def test_lost_sandbox_fails_its_canaries_and_no_others(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(sandbox: Sandbox, limits: Limits) -> Finding:
        container.remove(client, sandbox.container_id)
        return await isolation.network(sandbox, limits)

    lost = suite.Trial({"lost": lose, "next": isolation.network})
    other = suite.Trial({"other": isolation.network})
    monkeypatch.setattr(suite, "TRIALS", (lost, other))
    monkeypatch.setattr(diagnosis, "FURTHER", ())
    monkeypatch.setattr(suite, "LIVES", {})
    checks = {check.name: check for check in await diagnose(DockerBackend(client))}
    assert [checks[name].level for name in ("lost", "next", "other")] == [Level.FAIL, Level.FAIL, Level.OK]
    assert all(checks[name].fix for name in ("lost", "next"))


async def test_a_cause_that_concerns_every_sandbox_is_reported_once_and_ends_the_checks(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch, {}, entrypoint=["/no/such/program"])
    checks = await diagnose(DockerBackend(client))
    (failed,) = [check for check in checks if check.level is Level.FAIL]
    assert (failed.name, checks[-1]) == ("sandbox", failed)
    assert "/no/such/program" in failed.found
    assert "log of the engine" in str(failed.fix)


async def test_an_engine_that_fails_later_is_reported_once_with_the_untried_checks(client: APIClient) -> None:
    class Ending(DockerBackend):
        starts = 0

        def start(self, spec: Any) -> Any:
            self.starts += 1
            if self.starts > 1:
                raise SandboxError("the engine is gone", hint="start it", outside=True)
            return super().start(spec)

    checks = await diagnose(Ending(client))
    (failed,) = [check for check in checks if check.level is Level.FAIL]
    assert (failed.name, failed.fix) == ("sandbox", "start it")
    assert all(name in failed.found for name in (*CANARIES, *suite.LIVES))


async def test_no_more_trials_run_at_once_than_the_processors_carry(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, most = 0, 0
    two = asyncio.Barrier(2)

    async def look(sandbox: Sandbox, limits: Limits) -> Finding:
        nonlocal under_way, most
        under_way += 1
        await two.wait()
        most = max(most, under_way)
        found = await isolation.network(sandbox, limits)
        under_way -= 1
        return found

    monkeypatch.setattr(suite, "count_gate_places", lambda: 2)
    monkeypatch.setattr(suite, "TRIALS", tuple(suite.Trial({f"look {n}": look}) for n in range(4)))
    monkeypatch.setattr(suite, "LIVES", {})
    checks = await suite.check_backend(DockerBackend(client))
    assert [check.level for check in checks] == [Level.OK] * 5
    assert most == 2


def test_a_slow_machine_gets_more_time_for_the_canaries() -> None:
    trial = suite.Trial({}, Limits(cpu_seconds=1, wall_seconds=20), 60.0)
    assert trial.extend(1.0) == trial
    slow = trial.extend(7.2)
    assert (slow.limits.cpu_seconds, slow.limits.wall_seconds, slow.deadline_seconds) == (8, 144, 432)


def test_the_repair_of_a_known_cause_is_named() -> None:
    reply = requests.Response()
    reply.status_code = 500
    told = "AppArmor enabled, but running `apparmor_parser` failed: executable file not found in $PATH"
    with pytest.raises(SandboxError) as raised, engine_errors("start a sandbox"):
        raise APIError("500", response=reply, explanation=told)
    assert "apt-get install -y apparmor" in str(raised.value.hint)


async def test_engine_that_is_gone_is_the_only_check() -> None:
    gone = APIClient(base_url="tcp://127.0.0.1:1", version="1.41")
    (check,) = await diagnose(DockerBackend(gone))
    assert (check.name, check.level) == ("engine", Level.FAIL)


async def test_an_unknown_runtime_is_reported_with_a_fix_and_starts_nothing(client: APIClient) -> None:
    checks = {check.name: check for check in await diagnose(DockerBackend(client), runtime="nonesuch")}
    assert checks["runtime"].level is checks["sandbox"].level is Level.FAIL
    assert "known: " in str(checks["runtime"].fix)
    assert not checks.keys() & CANARIES.keys()


async def test_a_missing_image_is_reported_with_a_fix_and_starts_nothing(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "image_tag", lambda name: f"harness/{name}:000000000000")
    checks = {check.name: check for check in await diagnose(DockerBackend(client))}
    assert "harness/python:000000000000" in checks["images"].found
    assert (checks["images"].level, checks["images"].fix) == (Level.FAIL, "run: harness setup")
    assert checks["sandbox"].level is Level.FAIL
    assert not checks.keys() & CANARIES.keys()


def test_orphan_is_found(client: APIClient, here: machine.Machine) -> None:
    run_id = f"test-{secrets.token_hex(6)}"
    labels = reaper.make_labels(run_id, role="sandbox", deadline_seconds=60) | {reaper.PID_STARTED: "1"}
    client.create_container(require_image(client, "python"), command=["true"], labels=labels)
    try:
        finding = machine.orphans(here)
    finally:
        reaper.remove_run(DockerBackend(client), run_id)
    assert (finding.level, finding.fix) == (Level.WARN, "run: harness gc")
    assert run_id in finding.found


@each_case(
    ("version", "holes"),
    [
        ("1.1.5+ds1-1+deb12u1", ["2024-21626", "2025-31133", "2025-52565", "2025-52881"]),
        ("1.1.12", ["2025-31133", "2025-52565", "2025-52881"]),
        ("1.2.7", ["2025-31133", "2025-52565", "2025-52881"]),
        ("1.3.2", ["2025-31133", "2025-52565", "2025-52881"]),
        ("1.4.0-rc.2", ["2025-31133", "2025-52565", "2025-52881"]),
        ("1.2.8", []),
        ("v1.3.3", []),
        ("1.4.0-rc.3", []),
        ("1.4.0", []),
        ("2.0.1", []),
    ],
)
def test_holes_of_runc_are_named(here: machine.Machine, version: str, holes: list[str]) -> None:
    finding = machine.runc(replace(here, facts=replace(here.facts, runc_version=version)))
    assert (finding.level is Level.WARN) == bool(holes)
    assert finding.found.count("CVE-") == len(holes)
    assert all(f"CVE-{hole}" in finding.found for hole in holes)
    assert ("distribution" in finding.found) == ("+" in version)


@each_case("version", [None, "unknown"])
def test_unknown_runc_is_a_warning(here: machine.Machine, version: str | None) -> None:
    assert machine.runc(replace(here, facts=replace(here.facts, runc_version=version))).level is Level.WARN


@each_case(
    ("check", "facts"),
    [
        (machine.engine, {"version": "19.03.15"}),
        (machine.cgroups, {"cgroup_driver": "none"}),
        (machine.security, {"security_options": ("name=apparmor",)}),
    ],
)
def test_unfit_engine_is_found_out(here: machine.Machine, check: Any, facts: dict[str, Any]) -> None:
    assert check(here).level is Level.OK
    finding = check(replace(here, facts=replace(here.facts, **facts)))
    assert finding.level is Level.FAIL
    assert finding.fix


def test_features_that_the_kernel_lacks_are_reported(
    here: machine.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = ["WARNING: No swap limit support", "WARNING: No blkio throttle.read_bps_device support"]
    monkeypatch.setattr(here.backend.client, "info", lambda: {"Warnings": others})
    finding = machine.cgroups(here)
    assert finding.level is Level.WARN
    assert "swap limit" in finding.found
    assert "blkio" not in finding.found


def test_cgroup_v2_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "CGROUP", str(tmp_path))
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.swap.max").write_text("0\n")
    assert probe.share(0.01)["allowed"] == 0.5
    assert probe.swap()["allowed"] == 0
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.swap.max").write_text("max\n")
    assert probe.share(0.01)["allowed"] != pytest.approx(0.5)
    assert probe.swap()["allowed"] == sys.maxsize


@pytest.mark.parametrize(("bound", "level"), [("TOO_FEW_BYTES", Level.FAIL), ("SCARCE_BYTES", Level.WARN)])
def test_little_room_is_found_out(
    here: machine.Machine, monkeypatch: pytest.MonkeyPatch, bound: str, level: Level
) -> None:
    monkeypatch.setattr(machine, bound, 1 << 62)
    assert machine.runs_disk(here).level is machine.engine_disk(here).level is level


def test_the_disk_of_a_remote_engine_is_not_measured(here: machine.Machine) -> None:
    elsewhere = replace(here, facts=replace(here.facts, kernel="another"))
    assert "not checked" in machine.engine_disk(elsewhere).found
    assert "in all" in machine.free_memory(elsewhere).found


def test_an_impossible_folder_for_runs_is_found_out(here: machine.Machine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = machine.runs_disk(replace(here, runs_folder=tmp_path / "file" / "runs"))
    assert finding.level is Level.FAIL
    assert machine.runs_disk(replace(here, runs_folder=tmp_path / "not" / "yet")).level is Level.OK


def test_more_sandboxes_than_memory_is_a_warning(here: machine.Machine) -> None:
    assert machine.free_memory(replace(here, concurrency=100_000)).level is Level.WARN
