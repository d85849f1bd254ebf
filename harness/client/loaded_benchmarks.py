"""The check that a service has loaded the benchmark of a run, with the same data and options."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from harness.benchmarks import Benchmark
from harness.client.connection import Connection
from harness.errors import UsageError, quote_value
from harness.evaluation.grading_service import ServiceFacts
from harness.evaluation.manifest import hash_definition
from harness.sandbox.backends.base import BackendFacts


class _Loaded(BaseModel):
    name: str
    split: str
    data_sha256: str
    definition_sha256: str | None
    options: dict[str, Any]
    revision: str


class _Listed(BaseModel):
    harness_version: str
    engine: dict[str, Any]
    runtime: dict[str, Any] | None
    images: dict[str, str]
    image_tags: dict[str, str]
    benchmarks: list[_Loaded]


async def find_service_facts(
    connection: Connection, benchmark: Benchmark, images: Collection[str]
) -> ServiceFacts:
    """Return the facts of a service that has loaded a benchmark.

    Args:
        connection: the connection to the service.
        benchmark: the benchmark as this machine has loaded it.
        images: the images that the tasks need.

    Raises:
        UsageError: if the service has not loaded the benchmark, or has loaded it with other data, options or
            another definition.
        ServiceUnreachableError: if the service is away.
    """
    try:
        listed = _Listed.model_validate(await connection.fetch("GET", "/v1/benchmarks"))
    except ValidationError as error:
        raise UsageError(
            f"the service's list of benchmarks cannot be read: {error.error_count()} fields are wrong",
            hint="install the same version of harness in both places",
        ) from error
    found = next((each for each in listed.benchmarks if each.name == benchmark.name), None)
    if found is None:
        names = ", ".join(each.name[:100] for each in listed.benchmarks) or "none"
        raise UsageError(
            f"the service has not loaded the benchmark '{benchmark.name}'; loaded: {names}",
            hint=f"start it with: harness serve -b {benchmark.name}",
        )
    _require_same(benchmark, found)
    backend = BackendFacts(
        listed.engine,
        listed.runtime,
        {name: listed.images[name] for name in images if name in listed.images},
        {name: listed.image_tags[name] for name in images if name in listed.image_tags},
    )
    return ServiceFacts(listed.harness_version[:40], found.revision, backend)


def _require_same(benchmark: Benchmark, found: _Loaded) -> None:
    options = {} if benchmark.recipe is None else benchmark.recipe.options
    name = benchmark.name
    for subject, ours, theirs, hint in (
        (
            "the split",
            benchmark.split,
            found.split,
            f"use the same split in both places: here split={quote_value(found.split)}, or there --split",
        ),
        (
            "the options",
            _sort(options),
            _sort(found.options),
            f"use the same options in both places: there harness serve -b {name} --option NAME=VALUE",
        ),
        (
            "the definition with the SHA-256",
            hash_definition(benchmark),
            found.definition_sha256,
            "start the service with the same file",
        ),
        (
            "data with the SHA-256",
            benchmark.source.sha256,
            found.data_sha256,
            f"use the same data in both places: data=... here, and there harness serve -b {name} --data ...",
        ),
    ):
        if ours != theirs:
            raise UsageError(
                f"the service has loaded another {name}: it has {subject} {quote_value(theirs)}, and this "
                f"machine has {quote_value(ours)}",
                hint=hint,
            )


def _sort(options: Mapping[str, Any]) -> Any:
    """Return options in the form that they have after their way through JSON."""
    return json.loads(json.dumps(dict(options), sort_keys=True, default=str))
