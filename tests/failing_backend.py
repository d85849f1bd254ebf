"""Backends of the real engine that can refuse to start containers, or answer late."""

from __future__ import annotations

import time
from typing import Any

from harness.core.errors import SandboxError
from harness.sandbox.backends.base import DiskUse
from harness.sandbox.backends.docker.backend import DockerBackend


class FailingBackend(DockerBackend):
    """A backend of the real engine that refuses to start the next containers."""

    refusals = 0

    def start(self, spec: Any) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise SandboxError("the engine is busy", outside=True)
        return super().start(spec)


class SlowBackend(DockerBackend):
    """A backend of the real engine that measures what a sandbox wrote only after a while."""

    seconds = 0.0

    def measure_disk(self, container_id: str) -> DiskUse:
        time.sleep(self.seconds)
        return super().measure_disk(container_id)
