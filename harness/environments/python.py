"""Python programs and their tests."""

from __future__ import annotations

from harness.environments.environment import Environment

ENVIRONMENTS = (
    Environment(
        name="python",
        image="python",
        description="Debian's Python, no network, /work and /tmp to write to",
        # Programs under test compute: no sockets but pairs of local ones, no System V IPC.
        grading_seccomp="strict",
    ),
)
