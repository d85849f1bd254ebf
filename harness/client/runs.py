"""A run whose submissions a service grades. It is planned and stored on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.agents import name_agent
from harness.api import RunAgent, RunResult, choose_observer, finish_run
from harness.client.batches import BatchGrader, open_batch_grader
from harness.client.connection import Address, open_connection
from harness.client.loaded_benchmarks import find_service_facts
from harness.client.run_support import refuse_settings, refuse_unsupported
from harness.config import RunConfig, load_config
from harness.errors import UsageError
from harness.evaluation.changes import Change
from harness.evaluation.grading_service import ServiceFacts
from harness.evaluation.observer import RunObserver
from harness.evaluation.recorded_run import add_recorded_settings
from harness.evaluation.resume import read_resumed_config
from harness.evaluation.resumed_config import change_resumed_config
from harness.evaluation.run import open_run
from harness.evaluation.run_names import find_run
from harness.evaluation.selection import Selection, select
from harness.evaluation.store import read_manifest
from harness.evaluation.trust import require_trust


@dataclass(frozen=True, slots=True)
class _PlannedRun:
    """A run before it is opened."""

    selection: Selection
    # The folder to resume, None for a new run.
    folder: Path | None = None
    changed: tuple[Change, ...] = ()
    is_trusted: bool = False


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
    if resume is None:
        planned = _plan_new(benchmark, agent, options, watcher)
    else:
        folder = resume.folder if isinstance(resume, RunResult) else find_run(resume, None)
        planned = _plan_resumed(folder, benchmark, agent, options, watcher)
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


def _plan_new(
    benchmark: str | None, agent: RunAgent | None, options: Mapping[str, Any], watcher: RunObserver
) -> _PlannedRun:
    if benchmark is None:
        raise UsageError(
            "a run needs a benchmark, or a run to resume", hint="run(BENCHMARK), or run(resume=FOLDER)"
        )
    named = {"agent": agent} if isinstance(agent, str) else {}
    config = load_config(
        None, {"benchmark": benchmark, **named, **options}, add_settings=add_recorded_settings
    )
    own_agent = None if isinstance(agent, str) else agent
    selection = select(config, notify=watcher.note, agent=own_agent)
    refuse_unsupported(selection)
    return _PlannedRun(selection)


def _plan_resumed(
    folder: Path,
    benchmark: str | None,
    agent: RunAgent | None,
    options: Mapping[str, Any],
    watcher: RunObserver,
) -> _PlannedRun:
    manifest = read_manifest(folder)
    recorded = read_resumed_config(folder, manifest)
    is_trusted = require_trust(folder, manifest, recorded, is_trusted=False)
    own_agent = None if isinstance(agent, str) else agent
    named = {} if agent is None else {"agent": agent if isinstance(agent, str) else name_agent(agent)}
    values = {"benchmark": recorded.benchmark, "agent": recorded.agent, **named, **options}
    if benchmark is not None:
        values["benchmark"] = benchmark
    config, changed = change_resumed_config(folder, recorded, load_config(None, values), ())
    selection = select(config, notify=watcher.note, agent=own_agent, resumed=True)
    refuse_unsupported(selection)
    return _PlannedRun(selection, folder, tuple(changed), is_trusted)


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
