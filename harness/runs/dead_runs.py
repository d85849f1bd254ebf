"""The containers of dead runs, which a new run removes."""

from __future__ import annotations

from collections.abc import Callable

from harness.core.errors import SandboxError
from harness.sandbox.backends.base import Backend
from harness.sandbox.reaper import remove_orphans


def remove_dead_containers(backend: Backend, notify: Callable[[str], None]) -> None:
    """Remove containers of dead runs. A failed removal is reported, and this run starts anyway."""
    try:
        orphans = remove_orphans(backend)
    except SandboxError as error:
        notify(f"{error.message} (a container of a dead run; `harness gc` tries again)")
    else:
        if orphans:
            notify(f"removed {len(orphans)} container(s) of dead runs")
