"""The operations that show how the service is: its health, and its metrics."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from harness.service.operations import Call, Operation, RawReply
from harness.version import __version__


class Health(BaseModel):
    """The health of the service. It has no fact about any client."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    status: Literal["ok", "draining"]
    """`draining` once the service takes no new requests."""
    version: str
    """The version of harness."""


async def _report_health(_request: None, call: Call) -> Health:
    draining = call.service.draining.is_set()
    return Health(status="draining" if draining else "ok", version=__version__)


async def _report_metrics(_request: None, call: Call) -> RawReply:
    metrics = call.service.metrics
    return RawReply(metrics.encode(), metrics.content_type)


OPERATIONS = (
    Operation(
        "GET",
        "/health",
        "Report whether the service takes requests.",
        _report_health,
        reply=Health,
        is_public=True,
    ),
    Operation(
        "GET",
        "/metrics",
        "Report the metrics in the format of Prometheus.",
        _report_metrics,
        media_type="text/plain",
    ),
)
