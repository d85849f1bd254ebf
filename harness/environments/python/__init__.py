"""The `python` environment: programs and their tests."""

from __future__ import annotations

from harness.environments.python import call_programs, printed_values, programs, stdin_programs
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(
    name="python",
    image="python",
    description="Debian's Python, no network, /work and /tmp to write to",
    # Programs under test compute. They need no sockets but local pairs, and no System V IPC.
    grading_seccomp="strict",
    graders=(*programs.GRADERS, *call_programs.GRADERS, *stdin_programs.GRADERS, *printed_values.GRADERS),
)
