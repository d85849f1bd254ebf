"""The agents. Every module of this package that has `AGENTS` adds them: one file, no list."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from harness.agents.agent import Agent, AgentError, AgentSettings
from harness.discovery import declared
from harness.errors import unknown_name

__all__ = ["Agent", "AgentError", "AgentSettings", "agents", "build_agent"]


@cache
def agents() -> dict[str, Callable[[AgentSettings], Agent]]:
    """Return every agent that there is, by name."""
    return dict(declared(__name__, "AGENTS"))


def build_agent(name: str, settings: AgentSettings) -> Agent:
    """Build an agent. Raises UsageError for an unknown name or settings that do not fit."""
    known = agents()
    if name not in known:
        raise unknown_name("agent", name, known)
    return known[name](settings)
