"""Share an open grading between all calls of a process, for trainers that call plain functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, TypedDict

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import UsageError, unknown_name
from harness.core.types import Verdict
from harness.rl.held import HeldGrading, Opening
from harness.rl.local import open_local
from harness.rl.remote import DEFAULT_SECONDS, open_remote
from harness.rl.samples import RewardSample, RewardUnavailableError, make_sample


def choose_opening(
    *,
    url: str | None = None,
    token: str | None = None,
    benchmarks: Sequence[Benchmark] = (),
    environments: Sequence[str] = ("python",),
    timeout_seconds: float | None = None,
    max_concurrent: int | None = None,
) -> Opening:
    """Return what opens a grading: at the service `url`, or without it in sandboxes of this machine.

    Raises UsageError for a combination that cannot be used.
    """
    if url is None:
        if token is not None:
            raise UsageError("a token needs the URL of a service", hint="pass url, or leave token out")
        return partial(
            open_local,
            environments=environments,
            benchmarks=benchmarks,
            timeout_seconds=timeout_seconds,
            max_concurrent=max_concurrent,
        )
    if benchmarks or max_concurrent is not None or tuple(environments) != ("python",):
        raise UsageError(
            "the service chooses its benchmarks, environments and max_concurrent",
            hint="leave them out, and pass them to `harness serve`",
        )
    seconds = DEFAULT_SECONDS if timeout_seconds is None else timeout_seconds
    return partial(open_remote, url, token=token, timeout_seconds=seconds)


class GradingSettings(TypedDict, total=False):
    """The settings of a reward function.

    `field` tells how a completion is read, as in a samples file; by default it is a `reply`. `url` is the URL
    that `harness serve` prints; without it, sandboxes of this machine grade. `token` is the token of the
    service, if neither the URL nor HARNESS_SERVE_TOKEN has it. `timeout_seconds` is the time for all tries of
    a completion at a service, or of one grading here. `environments` are the ones whose images this machine
    needs.
    """

    field: str
    url: str | None
    token: str | None
    timeout_seconds: float | None
    environments: Sequence[str]


def hold_grading(settings: GradingSettings) -> HeldGrading:
    """Return the grading of these settings, which the process keeps open. Raises UsageError.

    Trainers pickle reward functions and call them from many threads, so no caller could hand it around. The
    sandboxes of a process that has ended stop, and the next run or `harness gc` removes them.
    """
    if unknown := settings.keys() - GradingSettings.__annotations__:
        raise unknown_name("setting", min(unknown), sorted(GradingSettings.__annotations__))
    return _hold(
        settings.get("url"),
        settings.get("token"),
        settings.get("timeout_seconds"),
        tuple(settings.get("environments", ("python",))),
    )


@cache
def _hold(
    url: str | None, token: str | None, timeout_seconds: float | None, environments: tuple[str, ...]
) -> HeldGrading:
    opening = choose_opening(url=url, token=token, timeout_seconds=timeout_seconds, environments=environments)
    return HeldGrading(opening)


def read_ground_truth(
    text: str, field: str, ground_truth: Any, data_source: str | None, *, place: int = 0
) -> RewardSample:
    """Return the sample of a row whose ground truth is one value, as trainers store it.

    The value is hidden tests, or an object with `benchmark` and `task_id`, each also as a text in JSON. Any
    other text or number is the id of a task of the benchmark that the data source names. Raises UsageError.
    """
    values = ground_truth
    if isinstance(values, str) and values.lstrip().startswith("{"):
        try:
            values = json.loads(values)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"row {place}: the ground truth is not JSON: {error}") from error
    if not isinstance(values, Mapping):
        return make_sample(text, field, benchmark=data_source, task_id=values, place=place)
    if "kind" in values:
        return make_sample(text, field, tests=values, place=place)
    judge = {"benchmark": values.get("benchmark", data_source), "task_id": values.get("task_id")}
    return make_sample(text, field, **judge, place=place)


def require_score(verdict: Verdict) -> float:
    """Return the score of a verdict, from 0 to 1. Raises RewardUnavailableError for one without a score."""
    if verdict.score is None:
        raise RewardUnavailableError(f"the completion got no verdict: {verdict.evidence}")
    return verdict.score
