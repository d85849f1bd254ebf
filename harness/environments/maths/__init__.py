"""The `maths` environment: a computer algebra system that compares answers. No agent acts in it."""

from __future__ import annotations

from harness.environments.maths.grader import GRADERS, IMAGE
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(
    name="maths",
    image=IMAGE,
    description="a computer algebra system that compares answers; no network",
    graders=GRADERS,
)
