"""A run whose submissions a service grades. It is planned and stored on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.api import RunAgent, RunResult, choose_observer, find_resumed, finish_run
from harness.client.batches import BatchGrader, open_batch_grader
from harness.client.connection import Address, open_connection
from harness.client.loaded_benchmarks import find_service_facts
from harness.client.run_support import refuse_settings, refuse_unsupported
from harness.config import RunConfig
from harness.evaluation.grading_service import ServiceFacts
from harness.evaluation.observer import RunObserver
from harness.evaluation.planned_run import plan_run
from harness.evaluation.run import open_run
from harness.evaluation.selection import Selection


async def run_at_service(
    address: Address,
    benchmark: str | None,
    *,
    wait_seconds: float,
    resume: str | Path | RunResult | None,
    agent: RunAgent | None,
    observer: RunObserver | None,
    progress: bool | None,
    options: Mapping[str, Any],
) -> RunResult:
    """Run a benchmark, or resume a run, and return its result. The arguments are those of `Remote.run`.

    Raises as `Remote.run` does.
    """
    watcher = choose_observer(observer, progress)
    refuse_settings(options.keys())
    planned = plan_run(
        benchmark, resume=find_resumed(resume), agent=agent, options=options, notify=watcher.note
    )
    refuse_unsupported(planned.selection)
    async with _open_grader(address, planned.selection, wait_seconds=wait_seconds) as grader:
        selection = _take_settings(planned.selection, grader.facts)
        async with open_run(
            selection,
            resume=planned.folder,
            changed=planned.changed,
            is_trusted=planned.is_trusted,
            service=grader,
            notify=watcher.note,
        ) as current:
            return await finish_run(current, watcher)


@contextlib.asynccontextmanager
async def _open_grader(
    address: Address, selection: Selection, *, wait_seconds: float
) -> AsyncIterator[BatchGrader]:
    """Yield the grader of a run, after the check that the service has its benchmark. Raises as `run` does."""
    benchmark, images = selection.benchmark, tuple(selection.images)
    async with open_connection(address, wait_seconds=wait_seconds) as connection:

        async def check() -> ServiceFacts:
            return await find_service_facts(connection, benchmark, images)

        facts = await check()
        async with open_batch_grader(connection, benchmark.name, facts, check) as grader:
            yield grader


def _take_settings(selection: Selection, facts: ServiceFacts) -> Selection:
    """Return the selection with the settings that the service decides, as the manifest records them."""
    runtime = (facts.backend.runtime or {}).get("name")
    changes: dict[str, Any] = {"isolation": "run"}
    if runtime in ("runc", "runsc"):
        changes["runtime"] = runtime
    config: RunConfig = selection.config.model_copy(update=changes)
    return replace(selection, config=config)
