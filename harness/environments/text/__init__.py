"""The `text` environment: questions with answers in words, without a sandbox."""

from __future__ import annotations

from harness.environments.spec import EnvironmentSpec
from harness.environments.text import short_answers, stated_answers

SPEC = EnvironmentSpec(
    name="text",
    image=None,
    description="a question and its answer; no sandbox",
    graders=(*short_answers.GRADERS, *stated_answers.GRADERS),
)
