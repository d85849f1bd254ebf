"""How many times longer programs take on this machine than on a reference, as `harness doctor` measured it.

A limit on processor time means another amount of work on another machine, and neighbours that share a
processor slow a program down too. A run, which imports no self-check, reads the factor here, extends the
processor time of programs under tests by it, and keeps it in its manifest as `limits.time_factor`. That
factor has a bound, because it may change a verdict.

The host's own waits for an engine or a guest have no such bound. They only decide when harness takes
something for dead, so they grow with the whole factor.
"""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.lock import cache_dir
from harness.core.logger import get_logger
from harness.sandbox.limits import MOST_TIME_FACTOR, Limits

FILE = "speed.json"
# An emulated machine on a busy processor is slower than the reference by less than this.
MOST_WAIT_FACTOR = 60.0

_LOGGER = get_logger(__name__)


def compute_factor(share: float) -> float:
    """Return the factor for a share of the reference's time. A faster machine keeps its limits."""
    return round(min(max(share, 1.0), MOST_TIME_FACTOR), 2)


def store_share(share: float) -> None:
    """Keep the share of the reference's time for this user's runs.

    Raises OSError, and UsageError without a home folder.
    """
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {
        "time_factor": compute_factor(share),
        "wait_factor": round(min(max(share, 1.0), MOST_WAIT_FACTOR), 2),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path.write_text(json.dumps(values) + "\n")


def read_factor() -> float:
    """Return the factor that `harness doctor` has stored, or 1 if it has stored none that can be used."""
    try:
        return _read(_path(), "time_factor", MOST_TIME_FACTOR)
    except UsageError as error:
        _LOGGER.debug("the speed of the machine is unknown: %s", error)
        return 1.0


def extend_wait(seconds: float) -> float:
    """Return how long this machine may need for a wait that ends within `seconds` on the reference."""
    try:
        return seconds * _read_once(_path())
    except UsageError:
        return seconds


def _read(path: Path, name: str, most: float) -> float:
    try:
        factor = json.loads(path.read_bytes())[name]
    except FileNotFoundError:
        return 1.0
    except (OSError, ValueError, TypeError, KeyError) as error:
        _LOGGER.debug("the speed of the machine is unknown: %s", error)
        return 1.0
    usable = type(factor) in (int, float) and 1.0 <= factor <= most
    return float(factor) if usable else 1.0


@cache
def _read_once(path: Path) -> float:
    return _read(path, "wait_factor", MOST_WAIT_FACTOR)


def extend_limits(limits: Limits) -> Limits:
    """Return limits with the stored factor, unless they have one that the user has set."""
    if "time_factor" in limits.model_fields_set or (factor := read_factor()) == 1.0:
        return limits
    return limits.model_copy(update={"time_factor": factor})


def _path() -> Path:
    return cache_dir() / FILE
