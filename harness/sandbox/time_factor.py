"""The factor that runs on this machine extend the processor time of programs under tests by.

A limit on processor time means another amount of work on another machine, and neighbours that share a
processor slow a program down too. `harness doctor` compares this machine with a reference and stores the
factor. A run, which imports no self-check, reads it here, and keeps it in its manifest as
`limits.time_factor`.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.lock import cache_dir
from harness.core.logger import get_logger
from harness.sandbox.limits import MOST_TIME_FACTOR, Limits

FILE = "speed.json"

_LOGGER = get_logger(__name__)


def compute_factor(share: float) -> float:
    """Return the factor for a share of the reference's time. A faster machine keeps its limits."""
    return round(min(max(share, 1.0), MOST_TIME_FACTOR), 2)


def store_factor(factor: float) -> None:
    """Keep the factor for the runs of this user. Raises OSError, and UsageError without a home folder."""
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {"time_factor": factor, "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    path.write_text(json.dumps(values) + "\n")


def read_factor() -> float:
    """Return the factor that `harness doctor` has stored, or 1 if it has stored none that can be used."""
    try:
        factor = json.loads(_path().read_bytes())["time_factor"]
    except FileNotFoundError:
        return 1.0
    except (OSError, UsageError, ValueError, TypeError, KeyError) as error:
        _LOGGER.debug("the speed of the machine is unknown: %s", error)
        return 1.0
    usable = type(factor) in (int, float) and 1.0 <= factor <= MOST_TIME_FACTOR
    return float(factor) if usable else 1.0


def extend_limits(limits: Limits) -> Limits:
    """Return limits with the stored factor, unless they have one that the user has set."""
    if "time_factor" in limits.model_fields_set or (factor := read_factor()) == 1.0:
        return limits
    return limits.model_copy(update={"time_factor": factor})


def _path() -> Path:
    return cache_dir() / FILE
