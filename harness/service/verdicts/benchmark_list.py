"""`/v1/benchmarks`: the loaded benchmarks, so that a client can check that it has the same data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from harness.core.errors import quote_value
from harness.core.version import __version__
from harness.service.errors import ServiceError
from harness.service.operations import Called, make_router
from harness.service.service import Service
from harness.service.verdicts.samples import SAMPLE_FIELDS, ServedBenchmark


class LoadedBenchmark(BaseModel):
    """A benchmark that the service has loaded."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str
    """The name, as `benchmark` in the requests of other operations."""
    split: str
    """The split whose tasks are loaded."""
    tasks: int
    """The number of tasks."""
    data_sha256: str
    """The SHA-256 of the data, as in the manifest of a run."""
    definition_sha256: str | None
    """The SHA-256 of the file that defines a benchmark of the operator's own, else null."""
    options: dict[str, Any]
    """The options it was loaded with."""
    fields: list[str]
    """The fields that a sample in `/v1/grade` may have. Empty if every task needs an agent that acts."""
    revision: str
    """A SHA-256 over everything that verdicts depend on: the values above, the sources of the images, and the
    runtime. `/v1/grade` takes it in `revisions`."""


class BenchmarkList(BaseModel):
    """The loaded benchmarks, and where their programs run."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    harness_version: str
    """The version of harness at the service."""
    engine: dict[str, Any]
    """The engine of the service, as in the manifest of a run."""
    runtime: dict[str, Any] | None
    """The container runtime of the service, as in the manifest of a run."""
    images: dict[str, str]
    """The id of each image."""
    image_tags: dict[str, str]
    """The tag of each image, which ends in a hash of its sources."""
    benchmarks: list[LoadedBenchmark]
    """The benchmarks in the order that the operator named them."""


def find_revision(service: Service, served: ServedBenchmark) -> str:
    """Return the SHA-256 (hex) over everything that the verdicts of a benchmark depend on."""
    benchmark, facts = served.benchmark, service.facts
    values = {
        "name": benchmark.name,
        "split": benchmark.split,
        "data": benchmark.source.sha256,
        "definition": served.definition_sha256,
        "options": served.options,
        "images": {name: facts.image_tags.get(name) for name in served.images},
        "runtime": service.settings.runtime,
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def require_revisions(service: Service, revisions: Mapping[str, str]) -> None:
    """Raise ServiceError if a benchmark is not loaded in the revision that the client expects."""
    for name, expected in revisions.items():
        served = service.benchmarks.get(name)
        found = None if served is None else find_revision(service, served)
        if found != expected:
            raise ServiceError(
                409,
                "other_revision",
                f"'revisions': the benchmark {quote_value(name)} has the revision {found}, not "
                f"{quote_value(expected)}; /v1/benchmarks lists its data and options",
            )


router = make_router()


@router.get(
    "/v1/benchmarks",
    summary="List the loaded benchmarks, with the SHA-256 of their data.",
    name="v1/benchmarks",
)
async def list_benchmarks(call: Called) -> BenchmarkList:
    """Return the loaded benchmarks."""
    service = call.service
    facts = service.facts
    return BenchmarkList(
        harness_version=__version__,
        engine=dict(facts.engine),
        runtime=None if facts.runtime is None else dict(facts.runtime),
        images=dict(facts.images),
        image_tags=dict(facts.image_tags),
        benchmarks=[_describe(service, each) for each in service.benchmarks.values()],
    )


def _describe(service: Service, served: ServedBenchmark) -> LoadedBenchmark:
    benchmark = served.benchmark
    return LoadedBenchmark(
        name=benchmark.name,
        split=benchmark.split,
        tasks=len(benchmark.tasks),
        data_sha256=benchmark.source.sha256,
        definition_sha256=served.definition_sha256,
        options=dict(served.options),
        fields=list(SAMPLE_FIELDS) if served.takes_text else [],
        revision=find_revision(service, served),
    )
