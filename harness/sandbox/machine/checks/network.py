"""Check that programs under tests cannot meet in a network namespace that their sandboxes share."""

from __future__ import annotations

import contextlib

from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.machine.checks.confinement import ask_program
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck import probe
from harness.sandbox.selfcheck.check import RUN_ID, Finding, Level

# Files and folders that the engine or the kernel makes once for a network namespace.
SHARED_FILES = (
    *("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/sys/kernel", "/sys/class", "/sys/devices"),
    *("/sys/module", "/sys/fs/ext4", "/sys/fs/fuse", "/sys/kernel/mm", "/sys/class/net/lo"),
)


async def shared_network(backend: DockerBackend, runtime: str) -> Finding:
    """Check two sandboxes that share a network namespace, if this engine's can. Raises SandboxError."""
    own = DockerBackend(backend.client)
    own.shared_networks.starts_without_holder = 0
    with contextlib.closing(own.shared_networks):
        async with (
            Sandbox.open(
                seccomp="strict", network="shared", runtime=runtime, run_id=RUN_ID, backend=own
            ) as one,
            Sandbox.open(
                seccomp="strict", network="shared", runtime=runtime, run_id=RUN_ID, backend=own
            ) as other,
        ):
            ways: list[str] = await ask_program(one, probe.network_ways)
            mine = await ask_program(one, probe.identities, SHARED_FILES)
            others = await ask_program(other, probe.identities, SHARED_FILES)
            shares = own.shared_networks.count() > 0
    if not shares:
        return Finding(Level.OK, "each sandbox has its own network namespace, which takes longer to start")
    found = zip(SHARED_FILES, mine, others, strict=True)
    ways += [path for path, first, second in found if first is not None and first == second]
    if not ways:
        return Finding(Level.OK, "programs under tests cannot meet in the network namespace that they share")
    return Finding(
        Level.FAIL, f"programs under tests that share a network namespace can meet by {', '.join(ways)}"
    )
