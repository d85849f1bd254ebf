"""The `notes` environment, an example: copy this folder into `harness/environments`."""

from __future__ import annotations

from harness.environments.spec import EnvironmentSpec

from .environment import open_environment

SPEC = EnvironmentSpec(
    name="notes",
    # An environment with its own image has a folder in images/ with the same name.
    image="python",
    description="a folder of notes, and the tool `search`; no network",
    turns=10,
    open_environment=open_environment,
)
