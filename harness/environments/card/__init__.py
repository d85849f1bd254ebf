"""The `card` environment: a battle of four fish against four, against a baseline."""

from __future__ import annotations

from harness.environments.card.environment import GRADERS, TEXT_FORM, TURNS, open_environment
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(
    name="card",
    image=None,
    description="a battle of four fish against four, and the tools `look`, `guess` and `act`",
    timeout_seconds=300,
    turns=TURNS,
    open_environment=open_environment,
    text_protocol=TEXT_FORM,
    scores_progress=True,
    graders=GRADERS,
)
