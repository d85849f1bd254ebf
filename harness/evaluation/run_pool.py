"""The sandbox pool of a run."""

from __future__ import annotations

from collections.abc import Mapping

from harness.evaluation.concurrency import choose_gate_places
from harness.evaluation.selection import Selection
from harness.sandbox.backends.base import Backend
from harness.sandbox.pool import SandboxPool


def make_pool(
    backend: Backend | None, selection: Selection, images: Mapping[str, str], run_id: str
) -> SandboxPool:
    """Return the pool of a run. Its sandboxes start from the image ids in `images`, by name."""
    config = selection.config
    return SandboxPool(
        backend,
        images=images,
        runtime=config.runtime,
        run_id=run_id,
        max_sandboxes=config.max_sandboxes,
        gate_places=choose_gate_places(config.max_concurrent, selection.agent),
        nested_sandboxes=max((spec.nested_sandboxes for spec in selection.environments), default=0),
    )
