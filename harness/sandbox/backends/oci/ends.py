"""The end of a container, its silence, and the files that it has written, measured from outside."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from harness.sandbox.backends.base import Cause, Fate
from harness.sandbox.backends.docker import fate
from harness.sandbox.backends.oci import cgroups, supervision, user_namespace
from harness.sandbox.backends.oci.supervisor import DESCRIPTION

MEASURED_SECONDS = 1.0
NANO = 1e9


def read_facts(path: Path) -> dict[str, Any] | None:
    """Return the facts in a file of a container, None if there is no whole file."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return None


def infer_fate(code: int, memory_kills: int) -> Fate:
    """Return why a container has ended, by the exit code of its first process."""
    if code == fate.KILLED:
        return Fate(Cause.MEMORY if memory_kills else Cause.OUTSIDE, code)
    return Fate(Cause.OUTSIDE if code in fate.OF_OUTSIDE else Cause.INSIDE, code)


def explain_silence(own: Path | None) -> Cause:
    """Return why a running container does not answer, after about a second of measuring what it uses."""
    description = None if own is None else read_facts(own / DESCRIPTION)
    if own is None or description is None or not supervision.answers(own.parent):
        return Cause.OUTSIDE
    cgroup = description["cgroup"]

    def used_seconds() -> float:
        if cgroups.find_version() == 2:
            return cgroups.read_number(cgroup, "", "cpu.stat", "usage_usec") / 1e6
        return cgroups.read_number(cgroup, "cpuacct/cpuacct.usage", "") / NANO

    before, started = used_seconds(), time.monotonic()
    time.sleep(MEASURED_SECONDS)
    share = (used_seconds() - before) / (time.monotonic() - started)
    cache = cgroups.read_number(cgroup, "memory/memory.stat", "memory.stat", _CACHE[cgroups.find_version()])
    taken = cgroups.read_number(cgroup, "memory/memory.usage_in_bytes", "memory.current") - cache
    most = cgroups.read_number(cgroup, "memory/memory.limit_in_bytes", "memory.max")
    busy = share >= fate.BUSY_SHARE * description["cpus"] or (most > 0 and taken >= fate.FULL_SHARE * most)
    return Cause.INSIDE if busy else Cause.OUTSIDE


# The bytes of files in memory, which give way to a program that needs the memory.
_CACHE = {1: "total_cache", 2: "file"}


def measure_files(upper: Path) -> int:
    """Return the bytes of all files below a folder: each file once, sparse files at their full length.

    GNU find walks any depth and follows no link, whatever the container does at the same time.
    """
    if not upper.is_dir():
        return 0
    done = subprocess.run(
        user_namespace.wrap(
            ["find", str(upper), "-xdev", "!", "-type", "d", "-size", "+0", "-printf", "%n %i %s\n"]
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    total, seen = 0, set()
    for line in done.stdout.splitlines():
        links, inode, size = line.split()
        if links != b"1":
            if inode in seen:
                continue
            seen.add(inode)
        total += int(size)
    return total
