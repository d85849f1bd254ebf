"""The metrics of the service, in the format of Prometheus, and its log, in JSON Lines without the token."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Literal

from fastapi import Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict

from harness.core.version import __version__
from harness.service.operations import PUBLIC, Called, make_router

# In seconds. Most programs end within a tenth of a second, and no request takes more than ten minutes.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0)
# The attributes that every record has. All others are the fields that a caller gave.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_HIDDEN = "[token]"
# The logger of the start and the end of the service.
_LIFE = "harness.service.server"


class ServiceMetrics:
    """The metrics of one service. They belong to a registry of their own, not to the process's."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # The counter and the histogram of an operation and a status.
        self._of_requests: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.requests = Counter(
            "harness_requests_total",
            "Requests that have ended, by operation and by status of the reply",
            ["operation", "status"],
            registry=self._registry,
        )
        self.request_seconds = Histogram(
            "harness_request_seconds",
            "Time from the head of a request to the end of its reply",
            ["operation"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.wait_seconds = Histogram(
            "harness_wait_seconds",
            "Time that requests waited in the queue",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.verdicts = Counter(
            "harness_verdicts_total", "Verdicts by their status", ["status"], registry=self._registry
        )
        self.claims = Counter(
            "harness_sandbox_claims_total",
            "New sandboxes that clients and programs got: a hit was prepared before, a miss had to start",
            ["result"],
            registry=self._registry,
        )
        self.prepared_seconds = Histogram(
            "harness_prepared_sandbox_seconds",
            "Time from the start of a prepared sandbox to its claim",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.faults = Counter(
            "harness_faults_total",
            "Faults of the infrastructure, the retried ones included",
            registry=self._registry,
        )

    def count_request(self, operation: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        key = operation, status
        if key not in self._of_requests:
            # To look them up takes longer than to count.
            counter = self.requests.labels(operation, str(status))
            self._of_requests[key] = counter, self.request_seconds.labels(operation)
        counter, histogram = self._of_requests[key]
        counter.inc()
        histogram.observe(seconds)

    def count_claim(self, age: float | None) -> None:
        """Count a new sandbox. `age` is for how long it was prepared, None if it had to start."""
        self.claims.labels("miss" if age is None else "hit").inc()
        if age is not None:
            self.prepared_seconds.observe(age)

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is read whenever the metrics are."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def encode(self) -> bytes:
        """Return all metrics as text."""
        return generate_latest(self._registry)


class Health(BaseModel):
    """The health of the service. It has no fact about any client."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    status: Literal["ok", "draining"]
    """`draining` once the service takes no new requests."""
    version: str
    """The version of harness."""


router = make_router()


@router.get(
    "/health", summary="Report whether the service takes requests.", name="health", openapi_extra=PUBLIC
)
async def report_health(call: Called) -> Health:
    """Return the status of the service."""
    draining = call.service.draining.is_set()
    return Health(status="draining" if draining else "ok", version=__version__)


@router.get(
    "/metrics",
    summary="Report the metrics in the format of Prometheus.",
    name="metrics",
    response_class=PlainTextResponse,
)
async def report_metrics(call: Called) -> Response:
    """Return the metrics of the service."""
    metrics = call.service.metrics
    return Response(metrics.encode(), media_type=metrics.content_type)


class _JSONLines(logging.Formatter):
    def __init__(self, secret: str) -> None:
        super().__init__()
        # A client may escape any character of a URL.
        forms = (f"(?:{re.escape(each)}|%(?i:{ord(each):02x}))" for each in secret)
        self._secret = re.compile("".join(forms))

    def format(self, record: logging.LogRecord) -> str:
        values = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if _is_field(name)},
        }
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        # In ASCII, so that no text of a client can control a terminal.
        text = json.dumps(values, default=str)
        return self._secret.sub(_HIDDEN, text)


def _is_field(name: str) -> bool:
    # Libraries add private attributes to the records of all others.
    return name not in _USUAL and not name.startswith("_")


@contextlib.contextmanager
def log_as_json(verbosity: int, *, secret: str) -> Iterator[None]:
    """Write the records of this process to standard error in the block, and never the secret.

    Args:
        verbosity: 0 for warnings and the start and end of the service, 1 also for each request, 2 for the
            records of all libraries.
        secret: the token of the service.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JSONLines(secret))
    root, package, life = (logging.getLogger(name) for name in (None, "harness", _LIFE))
    before = root.level, package.level, life.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbosity > 1 else logging.WARNING)
    package.setLevel(logging.INFO if verbosity else logging.WARNING)
    life.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in zip((root, package, life), before, strict=True):
            logger.setLevel(level)
