"""The prepared agents that `harness images build --agent` names."""

from __future__ import annotations

from pathlib import Path

from harness.core.errors import UsageError, unknown_name
from harness.environments import environment_specs
from harness.environments.workspace import WORKSPACE_IMAGE
from harness.runs.agents.command.profiles import PROFILES
from harness.sandbox.machine.agent_images import AgentSource, read_agent_source
from harness.sandbox.machine.agent_layer import Packages, make_recipe


def find_source(text: str) -> AgentSource:
    """Return the source of an agent from NAME=PATH, or from the NAME of a known agent. Raises UsageError."""
    name, is_given, path = text.partition("=")
    if is_given:
        return read_agent_source(name, Path(path))
    if name not in PROFILES:
        error = unknown_name("agent", name, PROFILES)
        raise UsageError(
            error.message, hint=f"{error.hint}; for an agent of yours, give its files: --agent {name}=FOLDER"
        )
    profile = PROFILES[name]
    packages = Packages(profile.python, profile.node, profile.leave_out, profile.links)
    return AgentSource(name, recipe=make_recipe(name, packages))


def choose_bases(names: list[str] | None) -> tuple[str, ...]:
    """Return the images among these where agents run programs, by default all. Raises UsageError."""
    specs = environment_specs().values()
    known = sorted({WORKSPACE_IMAGE, *(spec.image for spec in specs if spec.is_workspace and spec.image)})
    for name in names or ():
        if name not in known:
            raise unknown_name("image where agents run programs", name, known)
    return tuple(names or known)
