"""Measure the disk of a Docker engine: the bytes that a container has written there, and the room left."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.sandbox.backends.base import DiskUse
from harness.sandbox.backends.docker.engine import engine_errors
from harness.sandbox.limits import MIB

if TYPE_CHECKING:
    from docker import APIClient

RESERVE_BYTES = 512 * MIB
RESERVE_FILES = 10_000


def measure_disk(client: APIClient, container_id: str, root: Path | None) -> DiskUse:
    """Return the disk space that a container takes. `root` is the engine's folder. Raises SandboxError."""
    written = written_bytes(client, container_id)
    if root is None:
        return DiskUse(written)
    return DiskUse(written, free_bytes(root), find_shortage(root), root)


def written_bytes(client: APIClient, container_id: str) -> int | None:
    """Return the bytes in a container's own layer, None if it is gone. Raises SandboxError.

    Folders and empty files count as 0.
    """
    with engine_errors("measure what a sandbox wrote"):
        listed = client.containers(all=True, size=True, filters={"id": container_id})
    return int(listed[0].get("SizeRw") or 0) if listed else None


def free_bytes(root: Path) -> int:
    """Return the free bytes of a file system, including those that are reserved for root."""
    facts = os.statvfs(root)
    return facts.f_bfree * facts.f_frsize


def find_shortage(root: Path) -> str | None:
    """Return the shortage of bytes or files on a file system, in words; None if there is none."""
    facts = os.statvfs(root)
    free = facts.f_bavail * facts.f_frsize
    if free < RESERVE_BYTES:
        return f"{free / MIB:.0f} MiB free"
    # Some file systems have no fixed number of files, and report 0.
    if facts.f_files and facts.f_favail < RESERVE_FILES:
        return f"{facts.f_favail} files free"
    return None


def find_root(client: APIClient, info: Mapping[str, Any]) -> Path | None:
    """Return the folder that an engine names in its reply, None if it is on another machine."""
    root = Path(info["DockerRootDir"])
    with suppress(OSError):
        if client.base_url.startswith("http+docker://") and root.is_dir():
            return root
    return None
