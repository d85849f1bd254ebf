"""All measurements of the benchmark, in the order that they run."""

from __future__ import annotations

import acting
import command_start
import dispatched
import forked
import further_sample
import humaneval_runs
import large_run
import livecodebench_runs
import memory_growth
import model_waits
import processor_time
import ray_runs
import relayed
import sealed_gradings
import service_runs
import stored_attempts
import viewed_attempts
import worlds
from figure import CannotMeasure, Figure, Measurement, Reading
from many_attempts import measure_many
from session import Session

MANY_ATTEMPTS = Figure("memory of a run of 100,000 attempts", "MiB", mark=120, judged="ours")
GROWTH = Figure("its last thousand attempts, to the second thousand", "times", mark=1.1, judged="ours")


def _many_attempts(session: Session) -> list[Reading]:
    """Return the readings of a run of 100,000 attempts without a sandbox."""
    if session.size.is_quick:
        raise CannotMeasure("--quick leaves it out")
    many = measure_many()
    return [
        Reading(MANY_ATTEMPTS, [many.mebibytes]),
        Reading(GROWTH, [many.ratio], note="processor time; the second thousand, because the first warms up"),
    ]


MEASUREMENTS: tuple[Measurement, ...] = (
    # The memory of this process means most before anything else has used it.
    *memory_growth.MEASUREMENTS,
    *humaneval_runs.MEASUREMENTS,
    *further_sample.MEASUREMENTS,
    *processor_time.MEASUREMENTS,
    *livecodebench_runs.MEASUREMENTS,
    *acting.MEASUREMENTS,
    *relayed.MEASUREMENTS,
    *sealed_gradings.MEASUREMENTS,
    *command_start.MEASUREMENTS,
    *model_waits.MEASUREMENTS,
    *worlds.MEASUREMENTS,
    *stored_attempts.MEASUREMENTS,
    *viewed_attempts.MEASUREMENTS,
    *dispatched.MEASUREMENTS,
    *forked.MEASUREMENTS,
    *ray_runs.MEASUREMENTS,
    *large_run.MEASUREMENTS,
    *service_runs.MEASUREMENTS,
    Measurement("many-attempts", (MANY_ATTEMPTS, GROWTH), _many_attempts),
)
# The order of the table: first the figures by which the project is judged.
BAR = (
    humaneval_runs.ONCE,
    humaneval_runs.TEN,
    humaneval_runs.SHARED_SANDBOX,
    further_sample.FURTHER,
    livecodebench_runs.OFFICIAL,
    *acting.TOOLS.values(),
    service_runs.RUN_CODE,
    service_runs.GRADE,
)


def in_order(readings: list[Reading]) -> list[Reading]:
    """Return the readings, those of the bar first."""
    places = {figure: place for place, figure in enumerate(BAR)}
    return sorted(readings, key=lambda reading: places.get(reading.figure, len(BAR)))
