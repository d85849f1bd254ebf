"""The `house` environment: a household in text, which lives on the host."""

from __future__ import annotations

from harness.environments.house.environment import GRADERS, TEXT_FORM, TURNS, open_environment
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(
    name="house",
    image=None,
    description="a household in text, and the tool `take_action`",
    timeout_seconds=300,
    turns=TURNS,
    open_environment=open_environment,
    text_protocol=TEXT_FORM,
    graders=GRADERS,
)
