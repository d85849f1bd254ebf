"""Check the engine, its parts, disks and memory without a container. Each function returns a finding."""

from __future__ import annotations

import math
import os
import platform
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import EngineFacts, engine_errors, require_runtime
from harness.sandbox.backends.docker.images import image_names, image_tag
from harness.sandbox.backends.docker.runtimes import runtime_facts
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.machine.images import list_images
from harness.sandbox.reaper import find_orphans
from harness.sandbox.selfcheck.check import Finding, Level

GIB = 1024 * MIB
OLDEST_ENGINES = {"Docker": (20, 10), "Podman": (4, 3)}
SCARCE_BYTES = 5 * GIB
TOO_FEW_BYTES = GIB

# The beginnings of the engine's warnings that concern our limits. The engine has many others.
LACKING = tuple(f"WARNING: No {what}" for what in ("memory limit", "swap limit", "cpu cfs", "pids limit"))

# Vulnerabilities that let a program escape from its container, and the first release with the fix in each
# series.
FINAL = math.inf
RUNC_FIXES: Mapping[tuple[str, ...], tuple[tuple[float, ...], ...]] = {
    ("CVE-2024-21626",): ((1, 1, 12, FINAL),),
    ("CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"): (
        (1, 2, 8, FINAL),
        (1, 3, 3, FINAL),
        (1, 4, 0, 3),
    ),
}


@dataclass(frozen=True, slots=True)
class Machine:
    """The place of future runs: engine and runtime, folder of runs, and the number of sandboxes at once."""

    backend: DockerBackend
    facts: EngineFacts
    # The seconds that the engine took to report its facts.
    answered: float
    runtime: str
    runs_folder: Path
    concurrency: int
    limits: Limits


def engine(machine: Machine) -> Finding:
    """Check that the engine is new enough, and report how long it took to answer."""
    facts = machine.facts
    found = (
        f"{facts.name} {facts.version}, {facts.operating_system}, kernel {facts.kernel}, "
        f"answers in {1000 * machine.answered:.0f} ms"
    )
    version = tuple(int(part) for part in re.findall(r"\d+", facts.version)[:2])
    oldest = OLDEST_ENGINES[facts.name]
    if version < oldest:
        return Finding(Level.FAIL, found, f"install {facts.name} {'.'.join(map(str, oldest))} or newer")
    return Finding(Level.OK, found)


def cgroups(machine: Machine) -> Finding:
    """Check that the engine can set limits in control groups."""
    facts = machine.facts
    found = f"version {facts.cgroup_version}, driver {facts.cgroup_driver or 'unknown'}"
    if facts.cgroup_driver == "none":
        fix = "a rootless engine needs cgroup v2 and systemd: docs.docker.com/engine/security/rootless"
        return Finding(Level.FAIL, f"{found}: the engine cannot set limits", fix)
    lacking = [warning for warning in _info(machine)["Warnings"] or () if warning.startswith(LACKING)]
    if lacking:
        fix = "boot with cgroup_enable=memory swapaccount=1 on the kernel's command line"
        return Finding(Level.WARN, f"{found}; the engine warns: {'; '.join(lacking)}", fix)
    return Finding(Level.OK, found)


def runtime(machine: Machine) -> Finding:
    """Check that the engine knows the runtime. Raises UsageError, with the command that installs it."""
    require_runtime(machine.facts, machine.runtime)
    facts = runtime_facts(machine.backend.client, machine.runtime)
    found = f"{facts.name} (known: {', '.join(machine.facts.runtimes)})"
    if facts.limits_not_enforced:
        lacking = "; ".join(f"{limit}: {means}" for limit, means in facts.limits_not_enforced.items())
        return Finding(Level.WARN, f"{found}; {facts.version or 'version unknown'}; {lacking}")
    return Finding(Level.OK, found)


def runc(machine: Machine) -> Finding:
    """Check that the version of runc has no known escape."""
    text = machine.facts.runc_version
    version = runc_version(text or "")
    if text is None and "runc" not in (used := machine.facts.default_runtime):
        return Finding(Level.WARN, f"the engine uses {used}, whose escapes are not known here")
    if text is None or version is None:
        return Finding(Level.WARN, f"unknown version: {text or 'the engine does not report it'}")
    holes = [name for names, fixes in RUNC_FIXES.items() if not _is_fixed(version, fixes) for name in names]
    if not holes:
        return Finding(Level.OK, text)
    found = f"{text} has {', '.join(holes)}"
    if re.search("[+~]|-(?!rc)", text):
        # Distributions fix an old version and keep its number.
        found += ", unless this distribution's package has the fixes"
    return Finding(Level.WARN, found, "update runc to 1.2.8, 1.3.3 or newer")


def runc_version(text: str) -> tuple[float, ...] | None:
    """Return a version's parts: `1.1.5+ds1-1+deb12u1` is (1, 1, 5, FINAL), `1.4.0-rc.2` is (1, 4, 0, 2)."""
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)(?:[-~]rc\.?(\d+))?", text)
    if match is None:
        return None
    major, minor, patch, candidate = match.groups()
    return (int(major), int(minor), int(patch), FINAL if candidate is None else int(candidate))


def _is_fixed(version: tuple[float, ...], fixes: tuple[tuple[float, ...], ...]) -> bool:
    """Return whether a version is at or after the fix of its series, or of a series newer than all fixes."""
    return any(version[:2] == fix[:2] and version >= fix for fix in fixes) or version[:2] > max(fixes)[:2]


def security(machine: Machine) -> Finding:
    """Check that the engine can filter system calls."""
    names = {
        field.removeprefix("name=")
        for option in machine.facts.security_options
        for field in option.split(",")
        if field.startswith("name=")
    }
    found = ", ".join(sorted(names)) or "none"
    if "seccomp" not in names:
        return Finding(
            Level.FAIL,
            f"{found}; no seccomp",
            "use an engine and a kernel with seccomp (CONFIG_SECCOMP_FILTER)",
        )
    return Finding(Level.OK, found)


def images(machine: Machine) -> Finding:
    """Check that every image is on the engine, built from the current sources."""
    there = list_images(machine.backend.client)
    current = {image.tag for image in there if image.current}
    missing = [image_tag(name) for name in image_names() if image_tag(name) not in current]
    if missing:
        # Some images may be missing, because `harness setup --benchmark` builds only that benchmark's images.
        level = Level.WARN if len(missing) < len(image_names()) else Level.FAIL
        return Finding(level, f"missing: {', '.join(missing)}", "run: harness setup")
    stale = sum(not image.current for image in there)
    old = f" ({stale} stale ones: harness images prune)" if stale else ""
    return Finding(Level.OK, f"{', '.join(image_tag(name) for name in image_names())}{old}")


def engine_disk(machine: Machine) -> Finding:
    """Check that the disk of the engine's images and containers has room."""
    root = Path(_info(machine)["DockerRootDir"])
    if not (_is_here(machine) and root.is_dir()):
        return Finding(Level.OK, f"not checked, because {root} is on the engine's machine")
    return _room(root, "make room there: harness images prune   (docker system df shows what else takes it)")


def runs_disk(machine: Machine) -> Finding:
    """Check that the folder of runs can be written, and that its disk has room."""
    folder = machine.runs_folder.absolute()
    while not folder.exists():
        folder = folder.parent
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        return Finding(Level.FAIL, f"{folder} cannot be written", "choose another one with --output-dir")
    return _room(folder, "make room, or choose another folder with --output-dir")


def free_memory(machine: Machine) -> Finding:
    """Check that all sandboxes of a run fit into memory at once, each with all that it may use."""
    needed = machine.concurrency * machine.limits.memory_mb * MIB
    here = _is_here(machine)
    # Of another machine only the total is known.
    free = psutil.virtual_memory().available if here else machine.facts.memory_bytes
    found = (
        f"{free / GIB:.1f} GiB {'free' if here else 'in all'}, {machine.concurrency} sandbox(es) at once "
        f"may use {needed / GIB:.1f} GiB"
    )
    if needed > free:
        return Finding(Level.WARN, found, "lower --max-concurrent, or limits.memory_mb in the config")
    return Finding(Level.OK, found)


def orphans(machine: Machine) -> Finding:
    """Check that no container of a dead run is left."""
    found = find_orphans(machine.backend)
    if not found:
        return Finding(Level.OK, "none")
    runs = sorted({orphan.run_id for orphan in found})
    return Finding(
        Level.WARN, f"{len(found)} container(s) of dead runs: {', '.join(runs)}", "run: harness gc"
    )


CHECKS: Mapping[str, Callable[[Machine], Finding]] = {
    "engine": engine,
    "cgroups": cgroups,
    "runtime": runtime,
    "runc": runc,
    "security": security,
    "images": images,
    "engine disk": engine_disk,
    "runs disk": runs_disk,
    "memory": free_memory,
    "orphans": orphans,
}


def _info(machine: Machine) -> dict[str, Any]:
    with engine_errors("ask the engine about itself"):
        info: dict[str, Any] = machine.backend.client.info()
    return info


def _is_here(machine: Machine) -> bool:
    """Return whether the engine runs on this very machine, not in a virtual machine or behind a network."""
    local = machine.backend.client.base_url.startswith("http+docker://")
    return local and machine.facts.kernel == platform.release()


def _room(folder: Path, fix: str) -> Finding:
    free = shutil.disk_usage(folder).free
    found = f"{free / GIB:.1f} GiB free in {folder}"
    if free < TOO_FEW_BYTES:
        return Finding(Level.FAIL, found, fix)
    return Finding(Level.WARN, found, fix) if free < SCARCE_BYTES else Finding(Level.OK, found)
