"""The model of a run: its endpoint from the config, its budgets, and the client while the run lasts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import UsageError
from harness.core.lock import cache_dir
from harness.models.endpoint import Endpoint, read_key
from harness.models.messages import Generation
from harness.models.settings import choose_endpoint
from harness.runs.agents.agent import Agent
from harness.runs.settings import KEYS, RunConfig, name_option

if TYPE_CHECKING:
    from harness.models.access import ModelAccess, ToolMode
    from harness.models.spending import Spending

CACHE_VARIABLE = "HARNESS_REPLY_CACHE"
# The largest number of tokens of one judgement, with the reasoning before it.
JUDGE_TOKENS = 8192


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


@contextlib.asynccontextmanager
async def open_models(
    config: RunConfig,
    endpoint: Endpoint | None,
    judge: Endpoint | None,
    spending: Spending,
    *,
    tool_mode: ToolMode | None,
    keep_tool_mode: Callable[[ToolMode], None],
) -> AsyncIterator[tuple[ModelAccess | None, ModelAccess | None]]:
    """Yield the access to a run's model, and to its judge. Each is None for a run without one.

    The requests of the judge count for no budget of the run, because these are of the agent. It answers at
    temperature 0, so its replies are kept unless the config turns that off.

    Args:
        config: the config of the run.
        endpoint: the endpoint of the model.
        judge: the endpoint of the judge.
        spending: the spending of the run, which grows with each request to the model.
        tool_mode: the tool mode that the run has used before it was resumed, None if it is unknown.
        keep_tool_mode: called once with the tool mode, as soon as an agent asks for it.
    """
    if endpoint is None and judge is None:
        yield None, None
        return
    # A run without a model starts sooner without these.
    from harness.models.access import ModelAccess
    from harness.models.client import open_client
    from harness.models.reply_cache import ReplyCache

    model: ModelAccess | None = None
    judging: ModelAccess | None = None
    async with contextlib.AsyncExitStack() as stack:
        if endpoint is not None:
            model = ModelAccess(
                await stack.enter_async_context(open_client(endpoint)),
                config.generation.as_generation(),
                config.attempt_budget,
                spending,
                ReplyCache(find_cache_folder()) if _uses_cache(config) else None,
                keeps_client_generation=config.client_generation == "keep",
                known_tool_mode=tool_mode,
                keep_tool_mode=keep_tool_mode,
            )
        if judge is not None:
            judging = ModelAccess(
                await stack.enter_async_context(open_client(judge)),
                Generation(temperature=0.0, max_tokens=JUDGE_TOKENS),
                cache=None if config.reply_cache == "off" else ReplyCache(find_cache_folder()),
            )
        yield model, judging


def describe_url(config: RunConfig, endpoint: Endpoint | None) -> str | None:
    """Return the URL to write to the manifest: the model's if it is not a named endpoint, None for others."""
    return None if endpoint is None or config.model in config.endpoints else endpoint.base_url


def find_cache_folder() -> Path:
    """Return the folder of kept replies, from HARNESS_REPLY_CACHE or in the user's cache folder.

    Raises UsageError if the user has no home folder.
    """
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else cache_dir() / "replies"


def _uses_cache(config: RunConfig) -> bool:
    """Return whether replies are kept. Above temperature 0 a kept reply would hide that replies differ."""
    if config.reply_cache == "auto":
        return config.generation.temperature == 0
    return config.reply_cache == "on"
