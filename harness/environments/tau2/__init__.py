"""The `tau2` environment: a service desk, and a user whom a model plays. It lives on the host."""

from __future__ import annotations

from harness.environments.spec import EnvironmentSpec
from harness.environments.tau2.environment import GRADERS, TURNS, open_environment

SPEC = EnvironmentSpec(
    name="tau2",
    image=None,
    description="a service desk: the tools of an airline, a shop or a carrier, and `respond` for its user",
    timeout_seconds=600,
    turns=TURNS,
    open_environment=open_environment,
    graders=GRADERS,
)
