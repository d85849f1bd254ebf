"""The `web` environment: a shop on the host, where agents search for products and buy one."""

from __future__ import annotations

from harness.environments.spec import EnvironmentSpec
from harness.environments.web.environment import TEXT_FORM, TURNS, open_environment
from harness.environments.web.grader import GRADERS

SPEC = EnvironmentSpec(
    name="web",
    image=None,
    description="a shop with a search, and the tools `search_action` and `click_action`",
    timeout_seconds=600,
    turns=TURNS,
    open_environment=open_environment,
    text_protocol=TEXT_FORM,
    graders=GRADERS,
)
