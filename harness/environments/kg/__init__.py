"""The `kg` environment: questions on a knowledge graph, on the host."""

from __future__ import annotations

from harness.environments.kg.environment import TEXT_FORM, TURNS, open_environment
from harness.environments.kg.grader import GRADERS
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(
    name="kg",
    image=None,
    description="a knowledge graph with seven functions; made for each task unless an endpoint is given",
    timeout_seconds=180,
    turns=TURNS,
    open_environment=open_environment,
    text_protocol=TEXT_FORM,
    graders=GRADERS,
)
