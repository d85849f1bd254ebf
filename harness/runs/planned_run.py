"""The choice of a run from Python: a new one, or one that is resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError
from harness.runs.agents.outside import name_agent
from harness.runs.config import load_config
from harness.runs.recorded_run import add_recorded_settings
from harness.runs.resume import change_resumed_config, read_resumed_config
from harness.runs.run_starts import NewRun, ResumedRun, RunStart
from harness.runs.selection import Selection, select
from harness.runs.store import read_manifest
from harness.runs.trust import require_trust


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run before it is opened."""

    selection: Selection
    start: RunStart


def plan_run(
    benchmark: str | None,
    *,
    resume: Path | None,
    agent: Any,
    options: Mapping[str, Any],
    notify: Callable[[str], None],
) -> PlannedRun:
    """Return a run with these settings.

    Args:
        benchmark: the name of a benchmark, or the path of the user's own. A resumed run needs none.
        resume: the run folder to resume, None for a new run.
        agent: the name of an agent, an agent of the user, or None for the default or the recorded one.
        options: the other keys of the config.
        notify: gets warnings and other notes.

    Raises:
        UsageError: for settings that cannot be used, and for a run that cannot be resumed with them.
        DataError: for data that cannot be used.
    """
    own_agent = None if isinstance(agent, str) else agent
    if resume is None:
        if benchmark is None:
            raise UsageError(
                "a run needs a benchmark, or a run to resume", hint="run(BENCHMARK), or run(resume=FOLDER)"
            )
        named = {"agent": agent} if isinstance(agent, str) else {}
        values = {"benchmark": benchmark, **named, **options}
        config = load_config(None, values, add_settings=add_recorded_settings)
        return PlannedRun(select(config, notify=notify, agent=own_agent), NewRun())
    manifest = read_manifest(resume)
    recorded = read_resumed_config(resume, manifest)
    is_trusted = require_trust(resume, manifest, recorded, is_trusted=False)
    named = {} if agent is None else {"agent": agent if isinstance(agent, str) else name_agent(agent)}
    values = {"benchmark": recorded.benchmark, "agent": recorded.agent, **named, **options}
    if benchmark is not None:
        values["benchmark"] = benchmark
    config, changed = change_resumed_config(resume, recorded, load_config(None, values), ())
    selection = select(config, notify=notify, agent=own_agent, resumed=True)
    return PlannedRun(selection, ResumedRun(resume, changed=tuple(changed), is_trusted=is_trusted))
