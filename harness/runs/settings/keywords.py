"""The keyword arguments of `harness.run`. `make keywords` writes them from the settings."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from harness.models.endpoint import Endpoint
from harness.models.relay.mcp_servers.settings import McpServer
from harness.models.settings import GenerationSettings
from harness.models.spending import Budget
from harness.runs.settings.agents import CommandSettings
from harness.sandbox.limits import Limits


class RunOptions(TypedDict, total=False):
    """The keys of `harness.runs.settings.RunConfig` that `run` takes as keyword arguments."""

    sample_size: int | None
    sampling: Literal["sequential", "random", "stratified"]
    stratify_by: str | None
    task_ids: list[str]
    filter_category: list[str]
    filter_difficulty: list[str]
    filter_tags: list[str]
    include_quarantined: bool
    shard: str | None
    data: str | None
    split: str | None
    options: dict[str, Any]
    command: CommandSettings | dict[str, Any]
    replay_from: str | None
    n_samples: int
    rounds: int | None
    system_prompt: str | None
    agent_prompt: str | None
    mcp_servers: list[McpServer | dict[str, Any]] | dict[str, dict[str, Any]]
    baseline: bool
    client_generation: Literal["drop", "keep"]
    model: str | None
    base_url: str | None
    api: Literal["chat", "responses", "messages"] | None
    endpoints: dict[str, Endpoint | dict[str, Any]]
    generation: GenerationSettings | dict[str, Any]
    attempt_budget: Budget | dict[str, Any]
    run_budget: Budget | dict[str, Any]
    reply_cache: Literal["auto", "on", "off"]
    samples: str | None
    extract: (
        Literal["none", "fenced", "between_last_fences", "first_block", "last_block", "all_blocks"] | None
    )
    k: list[int]
    cluster_by: str | None
    timeout_seconds: int | None
    timeout_multiplier: float
    max_concurrent: int | None
    durations_from: str | None
    seed: int
    output_dir: str
    max_sandboxes: int | None
    limits: Limits | dict[str, Any]
    runtime: Literal["runc", "runsc"]
    allow_weaker: bool
    isolation: Literal["task", "attempt", "run"]
    base_images: dict[str, str]
    build_ca: str | None
    allow_network: bool
    network: Literal["none"] | None
    seal: Literal["artifacts", "proxied", "work", "tools", "all", "attached", "live"] | None
    grading_network: Literal["on"] | None
    executor: Literal["local", "ray"]
    ray_address: str | None
