"""The facts about the machine and the versions that explain the figures of a run."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from docker import APIClient

from harness.core.version import __version__
from harness.runs.manifest import read_git_revision

ROOT = Path(__file__).parents[2]


def read_facts(client: APIClient) -> dict[str, Any]:
    """Return the machine, the versions, the commit and the date."""
    engine = client.version()
    components = {each["Name"]: each["Version"] for each in engine.get("Components", ())}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": read_git_revision(),
        "machine": {
            "cores": os.cpu_count(),
            "processor": _read_processor(),
            "memory_mb": psutil.virtual_memory().total // 2**20,
            "kernel": platform.release(),
            "cgroup_version": client.info().get("CgroupVersion"),
            "storage_driver": client.info().get("Driver"),
        },
        "versions": {
            "harness": __version__,
            "python": sys.version.split()[0],
            "docker": engine.get("Version"),
            "containerd": components.get("containerd"),
            "runc": components.get("runc"),
        },
    }


def read_load() -> list[float]:
    """Return the machine's load over 1, 5 and 15 minutes."""
    return [round(load, 2) for load in os.getloadavg()]


def describe(facts: dict[str, Any]) -> str:
    """Return the facts as a line above the table."""
    machine, versions = facts["machine"], facts["versions"]
    return (
        f"{machine['cores']} cores, {machine['memory_mb']} MB, kernel {machine['kernel']}, "
        f"Docker {versions['docker']}, runc {versions['runc']}, Python {versions['python']}, "
        f"commit {facts['commit'] or 'unknown'}"
    )


def _read_processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
