"""The models of a run from its config: the endpoints of the agent and of the judge, and the kept replies."""

from __future__ import annotations

import os
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.lock import cache_dir
from harness.models.endpoint import Endpoint, read_key
from harness.models.settings import choose_endpoint
from harness.runs.agents.agent import Agent
from harness.runs.settings import KEYS, RunConfig, name_option

CACHE_VARIABLE = "HARNESS_REPLY_CACHE"


def find_endpoint(config: RunConfig, agent: Agent) -> Endpoint | None:
    """Return the endpoint that a run asks, None without a model.

    Raises UsageError for a missing model or key, for settings of a model without one, and for a budget of the
    cost without prices.
    """
    if config.model is None:
        if getattr(agent, "needs_model", False):
            raise UsageError(
                f"agent '{config.agent}' needs a model",
                hint="add --model NAME, and --base-url URL for a server other than OpenAI's",
            )
        # The config of a resumed run has every key, so only the value shows that one was set.
        default = RunConfig(benchmark=config.benchmark)
        for name, key in KEYS.items():
            if key.rules.needs_model and getattr(config, name) != getattr(default, name):
                raise UsageError(f"{name_option(name)} needs a model", hint="add --model NAME")
        return None
    endpoint = choose_endpoint(config.model, config.base_url, config.endpoints, config.api)
    read_key(endpoint)
    for option in ("run_budget", "attempt_budget"):
        if getattr(config, option).cost is not None and endpoint.prices is None:
            raise UsageError(
                f"{name_option(option)}: a budget of cost needs the prices of model '{config.model}'",
                hint="set `prices` of its endpoint in the config, or bound its tokens",
            )
    return endpoint


def find_judge(config: RunConfig, judge: str | Endpoint | None) -> Endpoint | None:
    """Return the endpoint that a benchmark's environments ask, None for a benchmark that names no `judge`.

    Raises UsageError for a name that the config lacks, and for a missing key.
    """
    if judge is None:
        return None
    if isinstance(judge, str):
        if judge not in config.endpoints:
            known = ", ".join(sorted(config.endpoints)) or "none"
            raise UsageError(
                f"there is no endpoint '{judge}' for the judge; the config's endpoints: {known}",
                hint="add it to `endpoints` in the config, or give the option {model: NAME, base_url: URL}",
            )
        judge = config.endpoints[judge]
    read_key(judge)
    return judge


def find_cache_folder() -> Path:
    """Return the folder of kept replies, from HARNESS_REPLY_CACHE or in the user's cache folder.

    Raises UsageError if the user has no home folder.
    """
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else cache_dir() / "replies"


def uses_cache(config: RunConfig) -> bool:
    """Return whether replies are kept. Above temperature 0 a kept reply would hide that replies differ."""
    if config.reply_cache == "auto":
        return config.generation.temperature == 0
    return config.reply_cache == "on"
