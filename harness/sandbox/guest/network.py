"""List what the containers of a network namespace would share."""

from __future__ import annotations

import os

SYSTEM_FOLDER = "/sys"
# The folder of the file systems of the kernel's subsystems. The cgroups below it belong to each container.
FILE_SYSTEMS, CGROUPS = "fs", "cgroup"


def list_shared_paths(folder: str = SYSTEM_FOLDER) -> list[str]:
    """Return all that `folder` holds, except for the folders on the way to the cgroups."""
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name != FILE_SYSTEMS]
    below = os.path.join(folder, FILE_SYSTEMS)
    return sorted(paths + [os.path.join(below, name) for name in os.listdir(below) if name != CGROUPS])
