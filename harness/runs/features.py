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
from harness.runs.agents.agent import MeasuresAttempts
from harness.runs.attempt_parts import AttemptPart, TimePart
from harness.runs.config import load_config
from harness.runs.model_access import open_models
from harness.runs.planned_attempt import PlannedAttempt
from harness.runs.server_tools import ServersPart, ServerTools, prepare_servers
from harness.runs.workspaces import PlacesPart, Workspaces, find_needs
from harness.sandbox.backends.base import BuildRules

if TYPE_CHECKING:
    from harness.models.access import ModelAccess, ToolMode
    from harness.models.spending import Spending
    from harness.runs.attempt import AttemptSettings
    from harness.runs.selection import Selection
    from harness.runs.settings import RunConfig


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
    spending: Spending,
    *,
    tool_mode: ToolMode | None,
    keep_tool_mode: Callable[[ToolMode], None],
    note: Callable[[str], None],
) -> AsyncIterator[Features]:
    """Yield the features of a run, open until the end of the block.

    `note` is called with a notice for the user. The others are as for `open_models`. Raises UsageError
    for an MCP server that cannot be set up.
    """
    config = selection.config
    async with open_models(
        *(config, selection.endpoint, selection.judge, spending),
        tool_mode=tool_mode,
        keep_tool_mode=keep_tool_mode,
    ) as (model, judge):
        yield Features(model, judge, await prepare_servers(config, note), read_machine_rules(config))
