"""The environments. Every module of this package that has `ENVIRONMENTS` adds them: one file, no list."""

from __future__ import annotations

from functools import cache

from harness.discovery import declared
from harness.environments.environment import Environment
from harness.errors import unknown_name

__all__ = ["Environment", "environment", "environments"]


@cache
def environments() -> dict[str, Environment]:
    """Return every environment that there is, by name."""
    return {world.name: world for world in declared(__name__, "ENVIRONMENTS")}


def environment(name: str) -> Environment:
    """Return one environment. Raises UsageError for an unknown name."""
    known = environments()
    if name not in known:
        raise unknown_name("environment", name, known)
    return known[name]
