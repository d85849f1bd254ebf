"""The `os` environment: a Linux machine where the agent is root."""

from __future__ import annotations

from harness.environments.os.environment import LIMITS, TEXT_FORM, open_machine
from harness.environments.os.grader import GRADERS
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(
    name="os",
    image="os",
    description="a Debian machine of the agent's own, as root in a shell that stays, no network",
    timeout_seconds=300,
    limits=LIMITS,
    # The machine from before the agent acted, and a copy of the one that the agent left.
    nested_sandboxes=2,
    turns=8,
    open_environment=open_machine,
    is_workspace=True,
    text_protocol=TEXT_FORM,
    graders=GRADERS,
)
