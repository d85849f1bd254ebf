"""Questions that are answered in words: nothing to act in, and nothing to start."""

from __future__ import annotations

from harness.environments.environment import Environment

ENVIRONMENTS = (Environment(name="text", image=None, description="a question and its answer; no sandbox"),)
