"""Canaries for resources of the kernel: buffers, counts of the whole machine, deleted files.

Each function returns a finding. `limits` are those of the sandbox.
"""

from __future__ import annotations

from harness.sandbox.failures import SandboxOutOfDisk
from harness.sandbox.layout import SHARED_COUNTS, TEMPORARY_FOLDER
from harness.sandbox.limits import Limits
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck import probe
from harness.sandbox.selfcheck.canary import answer, attempt, describe_end
from harness.sandbox.selfcheck.check import Finding, Level, make_finding

KINDS_OF_SOCKETS = ("TCP", "UDP", "netlink", "local")
EXCESS_MB = 16
MOST_TAKEN = SHARED_COUNTS["sigpending"] + 64
# This folder is on the root file system, and every user can write to it.
FOLDER = "/var/tmp"
# Several times as long as the disk watch waits between two counts by the guest, because a slow engine makes
# it wait longer. The check ends with the sandbox.
HOLD_SECONDS = 30.0


async def socket_memory(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that unread bytes in a socket count as memory of the sandbox, or that there is no such socket."""
    asked = limits.memory_mb + EXCESS_MB
    found = {kind: await _fill(sandbox, kind, asked) for kind in KINDS_OF_SOCKETS}
    uncounted = [kind for kind, fate in found.items() if fate is None]
    if uncounted:
        fix = "leave limits.uncounted_sockets out; cgroup version 2 counts TCP and UDP"
        return Finding(
            Level.FAIL,
            f"{', '.join(uncounted)} sockets hold {asked} MiB, of {limits.memory_mb} MiB allowed",
            fix,
        )
    return Finding(Level.OK, ", ".join(f"{kind}: {fate}" for kind, fate in found.items()))


async def _fill(sandbox: Sandbox, kind: str, mebibytes: int) -> str | None:
    """Return how the sandbox prevents a program from filling sockets of a kind; None if it does not."""
    result = await attempt(sandbox, probe.socket_memory, kind, mebibytes)
    if result.limit == "memory_mb":
        return "counted"
    facts = str(result.stdout)
    if '"refused": "EAFNOSUPPORT"' in facts or '"refused": "EPERM"' in facts:
        return "refused"
    # A limit on open files, or on the machine's buffers, does not bound the memory of this sandbox.
    return None if result.limit is None and result.exit_code == 0 else describe_end(result)


async def shared_counts(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a program gets at most a few of the resources that users share on the whole machine."""
    taken = await answer(sandbox, probe.shared_counts, MOST_TAKEN)
    # Epoll instances are allowed, because each job has a separate user, whose watches no other job shares.
    # Root has no epoll.
    allowed = {"timers": SHARED_COUNTS["sigpending"], "epoll instances": MOST_TAKEN}
    too_many = [f"{count} {name}" for name, count in taken.items() if count > allowed.get(name, 0)]
    if too_many:
        return Finding(Level.FAIL, f"a program got {', '.join(too_many)}, which users share on the machine")
    few = [f"{count} {name}" for name, count in taken.items() if count]
    none = ", ".join(name for name, count in taken.items() if not count)
    return Finding(Level.OK, f"a program got no {none}; {', '.join(few) or 'no timers'}")


async def attributes(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a file can have no extended attributes, because they take disk that no measure sees."""
    folders = (FOLDER, TEMPORARY_FOLDER)
    refusals = {folder: await answer(sandbox, probe.attribute, folder) for folder in folders}
    found = ", ".join(f"{folder}: {refusal or 'written'}" for folder, refusal in refusals.items())
    return make_finding(all(refusals.values()), found)


async def deleted_files(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a deleted file counts as disk space as long as it is open. The canary ends the sandbox."""
    asked = 2 * limits.disk_mb
    found = f"{asked} MiB in an open deleted file, of {limits.disk_mb} MiB allowed"
    try:
        result = await attempt(sandbox, probe.hold, FOLDER, asked, HOLD_SECONDS)
    except SandboxOutOfDisk:
        return Finding(Level.OK, f"{found}: the sandbox was ended")
    return Finding(Level.FAIL, f"{found}: {describe_end(result)}")
