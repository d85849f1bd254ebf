"""Podman behind its socket that understands Docker's requests: what it reads otherwise than Docker does.

Podman ignores `MaskedPaths`, `ReadonlyPaths` and `Runtime` in the configuration of a container, and it opens
the seccomp profile as a file of its machine. With a read-only root it also mounts writable folders of its
own. The same promises are made by other means here, and the checks of `harness doctor` try them.
"""

from __future__ import annotations

import hashlib
import os
import resource
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.core.errors import SandboxError
from harness.core.lock import cache_dir

_SECCOMP = "seccomp="
# Podman mounts a writable tmpfs on each of these if the root is read-only, unless the container has one.
_WRITABLE = ("/run", "/var/tmp")
_PROCESS_LIMITS = {"nofile": (resource.RLIMIT_NOFILE, 1 << 20), "nproc": (resource.RLIMIT_NPROC, 1 << 15)}


def adapt_to_podman(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `create_container` that make Podman start the container of Docker's `config`.

    Raises SandboxError if the profile of system calls cannot be written to the cache folder.
    """
    host = dict(config["host_config"])
    # Podman makes its own read-only paths read-only, which include Docker's. Ours can only be masked.
    masked = [*host.pop("MaskedPaths", ()), *host.pop("ReadonlyPaths", ())]
    host["SecurityOpt"] = [
        _SECCOMP + str(_store_profile(option.removeprefix(_SECCOMP)))
        if option.startswith(_SECCOMP)
        else option
        for option in host.get("SecurityOpt") or ()
    ]
    if masked:
        host["SecurityOpt"].append(f"mask={':'.join(masked)}")
    tmpfs = dict.fromkeys(_WRITABLE, "ro,size=4k") if host.get("ReadonlyRootfs") else {}
    for folder, options in (host.get("Tmpfs") or {}).items():
        tmpfs[folder] = ",".join(each for each in options.split(",") if not each.startswith("nr_inodes="))
    host["Tmpfs"] = tmpfs
    # Its defaults are the largest numbers of the kernel, which not every root may set.
    own = {name: min(most, resource.getrlimit(kind)[1]) for name, (kind, most) in _PROCESS_LIMITS.items()}
    host["Ulimits"] = [
        *(host.get("Ulimits") or ()),
        *({"Name": name, "Soft": most, "Hard": most} for name, most in own.items()),
    ]
    return {**config, "host_config": host}


def _store_profile(profile: str) -> Path:
    """Return a file with the profile, which Podman reads on this machine."""
    try:
        path = cache_dir() / "seccomp" / f"{hashlib.sha256(profile.encode()).hexdigest()}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
                file.write(profile)
            os.replace(file.name, path)
    except OSError as error:
        raise SandboxError(f"cannot write a seccomp profile for Podman: {error}") from error
    return path
