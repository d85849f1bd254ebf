"""The checks of the self-check that a runtime does not pass, each with the reason.

The suite expects these checks to fail. If one of them passes, the suite fails until its line is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

# Debian 12's gVisor, release 20221219, with its cgroup.
DIFFERENCES: Mapping[str, Mapping[str, str]] = {
    "runc": {},
    "oci": {},
    "runsc": {
        "environment of the guest": (
            "gVisor shows every process's environment, which holds no secret, but no memory of other users"
        ),
        "priority of the guest": (
            "gVisor lets everyone set every process's nice value, but does not schedule by it"
        ),
        "devices": "gVisor makes the node, but cannot open it, because it has no such device",
        "stream by name": "gVisor does not change the owner of a pipe to the job's user",
    },
}
