"""The part of attempts whose machines are made from images of their tasks: rules, and differences."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.core.errors import UsageError
from harness.core.types import Submission
from harness.environments.base import MachineRules
from harness.runs.attempt_parts import AttemptPart, Try
from harness.runs.config import load_config
from harness.sandbox.backends.base import BuildRules

if TYPE_CHECKING:
    from harness.core.types import Verdict
    from harness.runs.agents.agent import AttemptContext
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


async def _hand_in_nothing(_context: AttemptContext) -> Submission:
    return Submission("", agent_output="")


class TaskMachinePart(AttemptPart):
    """Gives the environment the rules, and reports the differences of its machine from the published one."""

    def __init__(self, rules: MachineRules) -> None:
        self._rules = rules
        self._facts: Mapping[str, Any] = {}

    async def prepare(self, attempt: Try) -> None:
        attempt.environment_context = replace(attempt.environment_context, machine_rules=self._rules)

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        self._facts = getattr(attempt.environment, "facts", {})
        is_unproven = getattr(attempt.environment, "seal_level", "work") is None
        if is_unproven and not getattr(attempt.settings.agent, "acts_unproven", False):
            # Nothing that the agent does could be graded.
            attempt.act = _hand_in_nothing
        yield

    def metrics(self, verdict: Verdict) -> Mapping[str, Any]:
        return self._facts
