"""A reward function for the trainers of TRL, which rewards completions by verdicts.

    reward = VerdictReward()
    trainer = GRPOTrainer(model=..., reward_funcs=reward, train_dataset=dataset, args=...)
    trainer.train()
    reward.close()

The dataset has the columns `benchmark` and `task_id`, or the column `tests` with hidden tests in JSON.

Source: "Using a custom reward function" in https://huggingface.co/docs/trl/grpo_trainer.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import UsageError
from harness.core.logger import get_logger
from harness.core.types import Verdict
from harness.rl.grading import HeldGrading, RewardSample, RewardUnavailableError, make_sample
from harness.rl.openings import choose_opening

_LOGGER = get_logger(__name__)
# Earlier trainers count a completion without a reward as one of 0.
_FIRST_VERSION = (1, 6)
_COLUMNS = ("tests", "benchmark", "task_id")


class VerdictReward:
    """Rewards each completion with the score of its verdict, from 0 to 1.

    A completion without a verdict has no reward, so that the trainer leaves it out. The sandboxes open with
    the first completions, and stay until `close`. A pickled copy opens its own sandboxes.
    """

    # The name in the trainer's log: `rewards/verdict/mean`.
    __name__ = "verdict"

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        field: str | None = None,
        faults: Literal["leave_out", "raise"] = "leave_out",
        benchmarks: Sequence[Benchmark] = (),
        environments: Sequence[str] = ("python",),
        timeout_seconds: float | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        """Grade at the service `url`, or without it in sandboxes of this machine.

        Args:
            url: the URL that `harness serve` prints.
            token: the token of the service, if the URL does not have it. HARNESS_SERVE_TOKEN is the default
                for a URL without a path.
            field: the kind of the completions, `completion`, `solution`, `answer` or `reply`. By default a
                conversation ends with a `reply`, and a text is a `completion`.
            faults: `leave_out` returns None for a completion without a verdict, `raise` ends the training.
            benchmarks: loaded benchmarks that rows may name. Others are loaded by their names. A service has
                its own.
            environments: as for `open_grader`.
            timeout_seconds: with a service, the time for all tries of a completion; else the time for one
                grading.
            max_concurrent: the programs under grading on this machine, by default one for each core.

        Raises UsageError for a combination that cannot be used.
        """
        if faults not in ("leave_out", "raise"):
            raise UsageError(f"faults must be 'leave_out' or 'raise', not {faults!r}")
        self._options = {
            "url": url,
            "token": token,
            "field": field,
            "faults": faults,
            "benchmarks": tuple(benchmarks),
            "environments": tuple(environments),
            "timeout_seconds": timeout_seconds,
            "max_concurrent": max_concurrent,
        }
        self._field = field
        self._faults = faults
        self._held = HeldGrading(choose_opening(**_without(self._options, "field", "faults")))
        if faults == "leave_out":
            _require_version()

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """Return one reward for each completion. The trainer calls this with the columns of the dataset.

        Raises UsageError for a row that cannot be graded, ServiceUnreachableError if no service answers the
        first call, and RewardUnavailableError if it never answers a later one. With `faults` as `raise`, each
        completion without a verdict raises RewardUnavailableError.
        """
        verdicts = self._held.grade(self._read_rows(completions, columns))
        _log(verdicts, columns)
        missing = [verdict for verdict in verdicts if verdict.score is None]
        if missing:
            message = (
                f"{len(missing):,} of {len(verdicts):,} completions got no verdict: {missing[0].evidence}"
            )
            if self._faults == "raise":
                raise RewardUnavailableError(message)
            _LOGGER.warning("%s", message)
        return [verdict.score for verdict in verdicts]

    def close(self) -> None:
        """Remove the sandboxes. Further calls are refused."""
        self._held.close()

    def __enter__(self) -> VerdictReward:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., VerdictReward], tuple[dict[str, Any]]]:
        return _rebuild, (self._options,)

    def _read_rows(self, completions: Sequence[Any], columns: Mapping[str, Any]) -> list[RewardSample]:
        rows = []
        for place, completion in enumerate(completions):
            text, is_reply = read_completion(completion)
            judge = {name: columns[name][place] for name in _COLUMNS if columns.get(name) is not None}
            field = self._field or ("reply" if is_reply else "completion")
            rows.append(make_sample(text, field, **judge, place=place))
        return rows


def read_completion(completion: Any) -> tuple[str, bool]:
    """Return the text of a completion, and whether it is the last message of a conversation.

    Raises UsageError for another form than TRL's two: a text, or a list of messages.
    """
    if isinstance(completion, str):
        return completion, False
    if not isinstance(completion, Sequence) or not all(isinstance(each, Mapping) for each in completion):
        raise UsageError(f"a completion must be a text or messages, not {type(completion).__name__}")
    replies = [each for each in completion if each.get("role", "assistant") == "assistant"]
    content = replies[-1].get("content") if replies else None
    if isinstance(content, Sequence) and not isinstance(content, str):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content or "", True


def _without(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _rebuild(options: dict[str, Any]) -> VerdictReward:
    return VerdictReward(**options)


def _require_version() -> None:
    """Raise UsageError for a TRL that takes a completion without a reward for one of 0."""
    try:
        text = importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        return
    parts = [int(part) if part.isdecimal() else 0 for part in text.split(".")[:2]]
    if tuple(parts) < _FIRST_VERSION:
        raise UsageError(
            f"TRL {text} counts a completion without a verdict as 0",
            hint="install trl>=1.6, or pass faults='raise'",
        )


def _log(verdicts: Sequence[Verdict], columns: Mapping[str, Any]) -> None:
    """Add the statuses and the faults to the trainer's log, if it has one."""
    log_extra, log_metric = columns.get("log_extra"), columns.get("log_metric")
    if callable(log_extra):
        log_extra("status", [verdict.status.value for verdict in verdicts])
    if callable(log_metric):
        log_metric("verdict/faults", float(sum(verdict.score is None for verdict in verdicts)))
