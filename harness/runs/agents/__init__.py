"""The agents. Each module of this package that defines `AGENTS` adds agents, without any other list.

An agent class whose attribute `needs_references` is true is built from the settings and from the benchmark,
which holds the references. All other agents are built from the settings alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from harness.benchmarks.benchmark import Benchmark
from harness.core.discovery import find_declared, load_entry_points
from harness.core.errors import UsageError, unknown_name
from harness.runs.agents.agent import (
    Agent,
    AgentError,
    AgentSettings,
    AttemptContext,
    ChoosesSamples,
    agents,
    is_built_in,
    settings_for,
)
from harness.runs.agents.outside import (
    load_outside_agent,
    name_agent,
    names_outside_agent,
    wrap_outside_agent,
)

__all__ = [
    "Agent",
    "AgentError",
    "AgentSettings",
    "AttemptContext",
    "ChoosesSamples",
    "agents",
    "build_agent",
    "is_built_in",
    "name_agent",
    "settings_for",
    "wrap_outside_agent",
]


ENTRY_POINTS = "harness.agents"


def build_agent(name: str, settings: AgentSettings, benchmark: Benchmark) -> Agent:
    """Return the agent of a name: of this package, `FILE.py`, `module:Name`, or an installed entry point.

    Raises UsageError for an unknown name, for unsuitable settings, and for an agent that cannot be imported.
    """
    # The module of its name comes first, because an import of all agents takes longer.
    known = dict(find_declared(__name__, "AGENTS", name))
    if name not in known:
        known = agents()
    if name in known:
        return _build_ours(name, known[name], settings, benchmark)
    if names_outside_agent(name):
        return wrap_outside_agent(load_outside_agent(name), settings, name=name)
    installed = dict(load_entry_points(ENTRY_POINTS))
    if name not in installed:
        error = unknown_name("agent", name, {*known, *installed})
        raise UsageError(
            error.message,
            hint=f"{error.hint}; or your own agent: FILE.py, module:Name; --model names a model",
        )
    return wrap_outside_agent(installed[name], settings, name=name)


def _build_ours(
    name: str, build: Callable[..., Agent], settings: AgentSettings, benchmark: Benchmark
) -> Agent:
    """Return an agent of this package. Raises UsageError if it does not take the arguments of its kind."""
    needs_references = getattr(build, "needs_references", False)
    arguments = (settings, benchmark) if needs_references else (settings,)
    try:
        inspect.signature(build).bind(*arguments)
    except TypeError as error:
        wanted = "(settings, benchmark)" if needs_references else "(settings)"
        raise UsageError(
            f"agent '{name}' does not take {wanted}: {error}",
            hint="an agent in harness/runs/agents is built from AgentSettings; with `needs_references = True`"
            " it also gets the Benchmark",
        ) from error
    return build(*arguments)
