"""The optional features of a run: the only place that chooses the parts of an attempt from the config."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.core.errors import UsageError
from harness.core.types import Verdict
from harness.environments.base import MachineRules
from harness.environments.spec import EnvironmentSpec
from harness.models.messages import Generation
from harness.runs.agents.agent import MeasuresAttempts
from harness.runs.attempt_parts import AttemptPart, TimePart
from harness.runs.config import load_config
from harness.runs.model_access import find_cache_folder, uses_cache
from harness.runs.records import PlannedAttempt
from harness.runs.server_tools import ServersPart, ServerTools, prepare_servers
from harness.runs.workspaces import PlacesPart, Workspaces, find_needs
from harness.sandbox.backends.base import BuildRules

if TYPE_CHECKING:
    from harness.models.access import ModelAccess, ToolMode
    from harness.models.spending import Spending
    from harness.runs.attempt import AttemptSettings
    from harness.runs.selection import Selection
    from harness.runs.settings import RunConfig

# The largest number of tokens of one judgement, with the reasoning before it.
JUDGE_TOKENS = 8192


def read_machine_rules(config: RunConfig) -> MachineRules:
    """Return the rules of a config for machines that are made from images of tasks."""
    ca_file = None if config.build_ca is None else os.path.abspath(os.path.expanduser(config.build_ca))
    if ca_file is not None and not os.path.isfile(ca_file):
        raise UsageError(f"build_ca: {config.build_ca} is not a file", hint="name a certificate in PEM form")
    return MachineRules(
        BuildRules(tuple(config.base_images.items()), ca_file),
        allow_network=config.allow_network,
        without_network=config.network == "none",
        seal=config.seal,
        grading_network=config.grading_network == "on",
    )


def make_machine_rules(settings: Mapping[str, Any]) -> MachineRules:
    """Return the rules that these keys of a config set. Raises UsageError for one that cannot be used."""
    return read_machine_rules(load_config(None, {"benchmark": "tasks", **settings}))


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a run that its config chooses. All attempts share them."""

    # The model that the agent asks, None for a run without one.
    model: ModelAccess | None = None
    # The model that environments ask for judgements, None for a run without one.
    judge: ModelAccess | None = None
    # The MCP servers whose tools the agent gets, None for a run without any.
    servers: ServerTools | None = None
    # The rules for machines that are made from images of tasks.
    machine_rules: MachineRules | None = None

    def make_parts(
        self, settings: AttemptSettings, planned: PlannedAttempt, spec: EnvironmentSpec
    ) -> list[AttemptPart]:
        """Return the parts of an attempt. They enter in this order and close in reverse."""
        agent, parts = settings.agent, list[AttemptPart]()
        recording = getattr(agent, "recording", None)
        if self.model is not None or self.judge is not None or recording is not None:
            # A run without a model starts sooner without these.
            from harness.runs.model_parts import JudgePart, ModelPart, RecordedJudgePart
        if spec.runs_task_images:
            from harness.runs.task_folders import ArtifactsPart, StepsPart, TaskMachinePart

            machine = TaskMachinePart(self.machine_rules or MachineRules())
            parts += [StepsPart(planned.task), ArtifactsPart(), machine]
        if recording is not None:
            parts.append(RecordedJudgePart(recording))
        elif self.judge is not None:
            parts.append(JudgePart(self.judge))
        configured = () if self.servers is None else self.servers.configured
        started = () if self.servers is None else self.servers.started
        needs = find_needs(agent)
        if needs is not None or self.servers is not None:
            places = PlacesPart(Workspaces(needs, configured, spec), started, settings.pool, settings.limits)
            if needs is not None or any(each.where == "sandbox" for each in configured):
                parts.append(places)
            if self.servers is not None:
                parts.append(ServersPart(started, places))
        if self.model is not None:
            parts.append(ModelPart(self.model))
        if isinstance(agent, MeasuresAttempts):
            parts.append(AgentMetrics(agent, planned))
        return [*parts, TimePart()]


@dataclass(slots=True)
class AgentMetrics(AttemptPart):
    """Adds the metrics of an agent that measures its own attempts, such as a replay."""

    agent: MeasuresAttempts
    planned: PlannedAttempt

    def metrics(self, verdict: Verdict) -> Mapping[str, Any]:
        measured = self.agent.take_metrics(*self.planned.key)
        return measured if verdict.status.has_score else {}


@contextlib.asynccontextmanager
async def open_features(
    selection: Selection,
    open_spending: Callable[[], Spending],
    *,
    tool_mode: ToolMode | None,
    keep_tool_mode: Callable[[ToolMode], None],
    note: Callable[[str], None],
) -> AsyncIterator[Features]:
    """Yield the features of a run, open until the end of the block.

    The requests of the judge count for no budget of the run, because these are of the agent. It answers at
    temperature 0, so its replies are kept unless the config turns that off.

    Args:
        selection: the config of the run, and its models.
        open_spending: returns the spending of the run, which grows with each request to the model.
        tool_mode: the tool mode that the run has used before it was resumed, None if it is unknown.
        keep_tool_mode: called once with the tool mode, as soon as an agent asks for it.
        note: called with a notice for the user.

    Raises:
        UsageError: for an MCP server that cannot be set up.
    """
    config, endpoint = selection.config, selection.endpoint
    model: ModelAccess | None = None
    judge: ModelAccess | None = None
    async with contextlib.AsyncExitStack() as stack:
        if endpoint is not None or selection.judge is not None:
            # A run without a model starts sooner without these.
            from harness.models.access import ModelAccess
            from harness.models.client import open_client
            from harness.models.reply_cache import ReplyCache
        if endpoint is not None:
            model = ModelAccess(
                await stack.enter_async_context(open_client(endpoint)),
                config.generation.as_generation(),
                config.attempt_budget,
                open_spending(),
                ReplyCache(find_cache_folder()) if uses_cache(config) else None,
                keeps_client_generation=config.client_generation == "keep",
                known_tool_mode=tool_mode,
                keep_tool_mode=keep_tool_mode,
            )
        if selection.judge is not None:
            judge = ModelAccess(
                await stack.enter_async_context(open_client(selection.judge)),
                Generation(temperature=0.0, max_tokens=JUDGE_TOKENS),
                cache=None if config.reply_cache == "off" else ReplyCache(find_cache_folder()),
            )
        yield Features(model, judge, await prepare_servers(config, note), read_machine_rules(config))
