"""The agents. Every module of this package that has `AGENTS` adds them: one file, no list."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from harness.agents.agent import Agent, AgentError, AgentSettings
from harness.errors import unknown_name

__all__ = ["Agent", "AgentError", "AgentSettings", "agents", "build_agent"]


@cache
def agents() -> dict[str, Callable[[AgentSettings], Agent]]:
    """Return every agent that there is, by name."""
    found: dict[str, Callable[[AgentSettings], Agent]] = {}
    for module in pkgutil.iter_modules(__path__):
        found.update(getattr(importlib.import_module(f"{__name__}.{module.name}"), "AGENTS", {}))
    return found


def build_agent(name: str, settings: AgentSettings) -> Agent:
    """Build an agent. Raises UsageError for an unknown name or settings that do not fit."""
    known = agents()
    if name not in known:
        raise unknown_name("agent", name, known)
    return known[name](settings)
