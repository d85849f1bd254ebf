"""Reward functions for verl, which reward responses by verdicts.

    reward.custom_reward_function.path=pkg://harness.rl.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.url=http://HOST:8600

A row's `reward_model.ground_truth` is hidden tests in JSON, or the id of a task of the benchmark that its
`data_source` names. verl has no mask for a response without a reward, so a fault raises.

Source: https://verl.readthedocs.io/en/latest/preparation/reward_function.html, for verl 0.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from harness.core.types import Verdict
from harness.rl.grading import HeldGrading
from harness.rl.openings import GradingSettings, hold_grading, read_ground_truth, require_score


class Settings(GradingSettings, total=False):
    """The `reward_kwargs` of the config. verl adds two of its own for reward models, which are not read."""

    reward_router_address: Any
    reward_model_tokenizer: Any


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Unpack[Settings],
) -> dict[str, Any]:
    """Return the reward of one response: `score` from 0 to 1, `acc` as 1.0 if it passed, and `status`.

    Args:
        data_source: the benchmark, if the ground truth is the id of a task.
        solution_str: the response.
        ground_truth: hidden tests, or a task of a benchmark.
        extra_info: verl's further fields of the row, which no verdict depends on.
        settings: the settings of the grading.

    Raises:
        RewardUnavailableError: if there is no verdict, which is never a reward of 0.
        UsageError: for a row that cannot be graded.
    """
    return compute_scores([data_source], [solution_str], [ground_truth], **settings)[0]


async def compute_score_async(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Unpack[Settings],
) -> dict[str, Any]:
    """Return what `compute_score` returns, without a thread for each response. verl awaits it."""
    held, field = _open(settings)
    (verdict,) = await held.grade_async([read_ground_truth(solution_str, field, ground_truth, data_source)])
    return _describe(verdict)


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any]] | None = None,
    **settings: Unpack[Settings],
) -> list[dict[str, Any]]:
    """Return the rewards of a batch in its order, for the reward manager `batch`. Raises the same errors."""
    held, field = _open(settings)
    rows = zip(solution_strs, ground_truths, data_sources, strict=True)
    samples = [
        read_ground_truth(text, field, truth, source, place=place)
        for place, (text, truth, source) in enumerate(rows)
    ]
    return [_describe(verdict) for verdict in held.grade(samples)]


def _open(settings: Settings) -> tuple[HeldGrading, str]:
    kept: Any = {name: value for name, value in settings.items() if not name.startswith("reward_")}
    return hold_grading(kept), kept.get("field", "reply")


def _describe(verdict: Verdict) -> dict[str, Any]:
    # verl needs the same keys in every sample of a batch.
    score = require_score(verdict)
    return {"score": score, "acc": float(score == 1.0), "status": verdict.status.value}
