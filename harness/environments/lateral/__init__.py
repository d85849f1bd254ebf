"""The `lateral` environment: a puzzle, and a host that answers questions about it. It lives on the host."""

from __future__ import annotations

from harness.environments.lateral.environment import GRADERS, TEXT_FORM, TURNS, open_environment
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(
    name="lateral",
    image=None,
    description="a lateral thinking puzzle, and the tool `ask` for questions to its host",
    timeout_seconds=600,
    turns=TURNS,
    open_environment=open_environment,
    text_protocol=TEXT_FORM,
    scores_progress=True,
    graders=GRADERS,
)
