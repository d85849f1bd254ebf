"""A backend of the real engine that can refuse to start containers."""

from __future__ import annotations

from typing import Any

from harness.errors import SandboxError
from harness.sandbox.backends.docker.backend import DockerBackend


class FailingBackend(DockerBackend):
    """A backend of the real engine that refuses to start the next containers."""

    refusals = 0

    def start(self, spec: Any) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise SandboxError("the engine is busy", outside=True)
        return super().start(spec)
