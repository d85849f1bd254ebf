"""One attempt and its record, on whichever machine it is made."""

from __future__ import annotations

import time

from harness.evaluation.attempt import make_attempt
from harness.evaluation.attempt_settings import AttemptSettings
from harness.evaluation.plan import PlannedAttempt
from harness.evaluation.progress import ActiveAttempt
from harness.evaluation.records import build_record
from harness.types import AttemptRecord


async def make_record(
    settings: AttemptSettings, planned: PlannedAttempt, active: ActiveAttempt
) -> AttemptRecord:
    """Make an attempt and return its record, which nobody has stored yet.

    `active` gets the stages of the attempt. Raises RunStopped and StorageError as `make_attempt` does.
    """
    started_at, started = time.time(), time.monotonic()
    outcome = await make_attempt(settings, planned, active)
    return build_record(
        planned,
        settings.benchmark.references[planned.task.id],
        settings.benchmark.add_metrics(outcome.verdict),
        submission=outcome.submission,
        duration_seconds=time.monotonic() - started,
        started_at=started_at,
    )


async def discard_sandboxes(settings: AttemptSettings, planned: PlannedAttempt) -> None:
    """Destroy the idle sandboxes of an attempt, after the last attempt that could share them."""
    await settings.pool.discard(settings.key(planned))
    await settings.pool.discard(settings.acting_key(planned))
