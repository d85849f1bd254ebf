"""Canaries for the isolation of a job. Each of them looks for a way out and must find none.

Each function returns a finding. `limits` are the sandbox's.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from harness.core.errors import SandboxError
from harness.sandbox.failures import SandboxOutOfDisk
from harness.sandbox.guest.processes import SHARED_COUNTS
from harness.sandbox.layout import CAPABILITIES, TEMPORARY_FOLDER
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck import probe
from harness.sandbox.selfcheck.check import Finding, Level, answer, attempt, describe_end, make_finding

FOLDERS_OF_THE_IMAGE = ("/", "/etc", "/opt/harness", "/usr/local/bin", "/var/tmp")
# Addresses that are reserved for documentation. A route to them is a route to everywhere.
ADDRESSES = ("192.0.2.1", "2001:db8::1")
PRIVATE_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
# The kernel's names of the machine's own namespaces, which are the first of each kind.
MACHINE_NAMESPACES = frozenset(
    {
        *("cgroup:[4026531835]", "pid:[4026531836]", "user:[4026531837]"),
        *("uts:[4026531838]", "ipc:[4026531839]"),
    }
)
# Without a user namespace, the kernel counts root of a container as root of the machine.
OWN_ROOT = "users are not remapped, so that root inside is root outside where the kernel counts"
CAPABILITY_SETS = ("CapEff", "CapPrm", "CapInh", "CapAmb")
# Assumed for a kernel that does not report its capabilities.
ALL_CAPABILITIES = "f" * 16
SECCOMP_FILTER = "2"


async def read_only_root(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that nobody can change the image, because the kernel refuses it before it checks permissions."""
    answers = await answer(sandbox, probe.create, FOLDERS_OF_THE_IMAGE)
    other = {folder: refusal for folder, refusal in answers.items() if refusal != "EROFS"}
    if other:
        return Finding(Level.FAIL, f"a new file in {_pairs(other)}")
    return Finding(Level.OK, f"no new file in {', '.join(answers)}")


async def network(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that only loopback is up, and that there is no route to any address."""
    facts = await answer(sandbox, probe.network, ADDRESSES)
    reached = [address for address, refusal in facts["ways"].items() if refusal is None]
    interfaces = f"interfaces: {', '.join(facts['interfaces'])}"
    if reached or facts["interfaces"] != ["lo"]:
        return Finding(Level.FAIL, f"{interfaces}; routes to: {', '.join(reached) or 'nowhere'}")
    return Finding(Level.OK, f"{interfaces}; no route to {' or '.join(ADDRESSES)}")


async def capabilities(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a job has no capability, and PID 1 only the ones in `CAPABILITIES`."""
    facts = await answer(sandbox, probe.status)
    held = [kind for kind in CAPABILITY_SETS if int(facts["job"].get(kind, ALL_CAPABILITIES), 16) != 0]
    within_reach = int(facts["guest"].get("CapBnd", ALL_CAPABILITIES), 16).bit_count()
    return make_finding(
        not held and within_reach <= len(CAPABILITIES),
        f"the job has {', '.join(held) or 'none'}, PID 1 has {within_reach} (expected: {len(CAPABILITIES)})",
    )


async def no_new_privileges(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that no program can give a job new privileges."""
    facts = await answer(sandbox, probe.status)
    value = facts["job"].get("NoNewPrivs")
    return make_finding(value == "1", f"NoNewPrivs is {value}")


async def seccomp(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that our filter of system calls is in force. An old engine's own filter allows some of these."""
    mode = (await answer(sandbox, probe.status))["job"].get("Seccomp")
    answers = await answer(sandbox, probe.system_calls)
    other = {call: refusal for call, refusal in answers.items() if refusal != "EPERM"}
    if mode != SECCOMP_FILTER or other:
        return Finding(Level.FAIL, f"mode {mode}; not refused: {_pairs(other) or 'nothing'}")
    return Finding(Level.OK, f"mode {mode}; refused: {', '.join(answers)}")


async def namespaces(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a job sees no process, mount, interface or shared memory except its sandbox's.

    The finding also reports whether the users of the sandbox are remapped.
    """
    identities = await answer(sandbox, probe.namespaces)
    common = MACHINE_NAMESPACES | _own_namespaces()
    shared = [kind for kind in PRIVATE_NAMESPACES if identities.get(kind, "") in common | {""}]
    if shared:
        return Finding(Level.FAIL, f"not private: {', '.join(shared)}")
    users = OWN_ROOT if identities.get("user", "") in common else "users are remapped"
    return Finding(Level.OK, f"private: {', '.join(PRIVATE_NAMESPACES)}; {users}")


def _own_namespaces() -> frozenset[str]:
    """Return the namespaces of this process, which in a CI job are not the machine's."""
    found = set()
    for kind in (*PRIVATE_NAMESPACES, "user"):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/self/ns/{kind}"))
    return frozenset(found)


def _pairs(answers: Mapping[str, str | None]) -> str:
    return ", ".join(f"{what} ({refusal or 'works'})" for what, refusal in answers.items())


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


# Longer than the guest waits between two counts of sockets.
RELAY_HOLD_SECONDS = 2.0


async def relay(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a program reaches the host by a relay, both ways, and reaches nothing after its end."""
    echoes: list[asyncio.Task[None]] = []
    try:
        async with sandbox.relay(lambda link: echoes.append(asyncio.create_task(_echo(link)))) as listener:
            during = await answer(sandbox, probe.exchange, listener.port, MIB)
        after = await answer(sandbox, probe.exchange, listener.port, 1)
    finally:
        await asyncio.gather(*echoes)
    return make_finding(
        during == {"bytes": MIB, "refused": None} and after["refused"] == "ECONNREFUSED",
        f"{during['bytes']} of {MIB} bytes came back; after the end: {after['refused'] or 'connected'}",
    )


async def _echo(link: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with link:
        try:
            while data := await loop.sock_recv(link, 1 << 16):
                await loop.sock_sendall(link, data)
        except OSError:
            pass  # the relay has ended


async def relay_memory(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that the sockets of a sandbox with a relay cannot hold more than its memory, or end it."""
    asked = limits.memory_mb + EXCESS_MB
    found = f"{asked} MiB unread in sockets of TCP, of {limits.memory_mb} MiB allowed"
    try:
        result = await attempt(sandbox, probe.socket_memory, "TCP", asked, RELAY_HOLD_SECONDS)
    except SandboxError as error:
        if error.outside:
            raise
        return Finding(Level.OK, f"{found}: the sandbox was ended")
    if result.limit == "memory_mb":
        return Finding(Level.OK, f"{found}: counted")
    return Finding(Level.FAIL, f"{found}: {describe_end(result)}")
