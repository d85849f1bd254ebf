"""A text environment for SkyRL, which rewards a reply by its verdict.

    from skyrl_gym.envs import register

    register(id="harness", entry_point="harness.rl.skyrl:VerdictEnv")

A row has `env_class` "harness" and `reward_spec.ground_truth`: hidden tests in JSON, or the id of a task of
the benchmark in `data_source`. A fault raises, which ends the step, because SkyRL cannot mask one reply.

Source: https://docs.skyrl.ai, "Creating a new environment", for skyrl-gym 0.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.core.errors import UsageError, describe_installation
from harness.rl.openings import hold_grading, read_ground_truth, require_score

try:
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
except ImportError as error:
    raise UsageError(
        f"the environment for SkyRL needs skyrl-gym, which is not installed: {error}",
        hint=describe_installation("skyrl-gym"),
    ) from error


class VerdictEnv(BaseTextEnv):
    """Ends with the first reply, whose reward is the score of its verdict from 0 to 1.

    `env_config` may have the settings of `harness.rl.openings.GradingSettings`.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        """Read the row. Raises UsageError for a row without a judge."""
        super().__init__()
        row = extras or {}
        if "ground_truth" not in row.get("reward_spec", {}):
            raise UsageError("the row has no 'reward_spec' with a 'ground_truth'")
        settings: Any = dict(env_config or {})
        self._held, self._field = hold_grading(settings), settings.get("field", "reply")
        self._ground_truth, self._source = row["reward_spec"]["ground_truth"], row.get("data_source")
        self._metrics: dict[str, Any] = {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Grade the reply. Raises RewardUnavailableError if there is no verdict, and UsageError."""
        sample = read_ground_truth(action, self._field, self._ground_truth, self._source)
        (verdict,) = self._held.grade([sample])
        reward = require_score(verdict)
        self._metrics = {"passed": float(reward == 1.0), "status": verdict.status.value}
        return BaseTextEnvStepOutput(observations=[], reward=reward, done=True, metadata=dict(self._metrics))

    def get_metrics(self) -> dict[str, Any]:
        """Return whether the reply passed, and its status."""
        return self._metrics
