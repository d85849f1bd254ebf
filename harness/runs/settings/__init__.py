"""The settings of a run. Each key of a config, option and keyword of `run` is declared on its field, once.

A field declares its type, its default and its `Setting`. Everything else about it follows from these.
docs/adding/setting.md adds one.
"""

from __future__ import annotations

from typing import Any

from pydantic import field_serializer, model_validator

from harness.core.setting import list_keys
from harness.runs.settings.agents import DEFAULT_AGENT as DEFAULT_AGENT
from harness.runs.settings.agents import AgentKeys, CommandSettings, ModelKeys
from harness.runs.settings.attempts import AttemptKeys, GradingKeys, SandboxKeys
from harness.runs.settings.tasks import TaskKeys
from harness.sandbox.limits import Limits


# The fields of the last base come first.
class RunConfig(SandboxKeys, AttemptKeys, GradingKeys, ModelKeys, AgentKeys, TaskKeys):
    """All settings of a run."""

    @property
    def whole_system_prompt(self) -> str | None:
        """The system prompt with the additions of the MCP servers, which a baseline goes without."""
        parts = [part for part in (self.system_prompt, *self.server_prompts) if part is not None]
        return "\n\n".join(parts) if parts else None

    @property
    def server_prompts(self) -> tuple[str, ...]:
        """The additions of the MCP servers to the prompt, which a baseline goes without."""
        added = () if self.baseline else (server.system_prompt_append for server in self.mcp_servers)
        return tuple(text for text in added if text is not None)

    @field_serializer("limits", "command")
    def _dump_set_values(self, settings: Limits | CommandSettings) -> dict[str, Any]:
        """Return the settings that are set, because a default would override an agent's."""
        return settings.model_dump(exclude_unset=True)

    @model_validator(mode="before")
    @classmethod
    def _choose_agent(cls, values: Any) -> Any:
        """Choose the agent that reads samples, a command or a model, if the values name one but no agent."""
        if not isinstance(values, dict) or "agent" in values:
            return values
        for key, agent in (
            ("samples", "predictions"),
            ("replay_from", "replay"),
            ("command", "command"),
            ("model", "chat"),
        ):
            if values.get(key) is not None:
                return {**values, "agent": agent}
        return values


KEYS = list_keys(RunConfig)
OPTIONS = tuple(option for key in KEYS.values() for option in key.options)
# The keys of the model. An agent that reads `model` gets a session, and all of them apply to it.
MODEL_SETTINGS = frozenset(key.name for key in KEYS.values() if key.rules.read_by == "model")
# The keys that an agent may or may not read.
AGENT_SETTINGS = MODEL_SETTINGS | {key.name for key in KEYS.values() if key.rules.read_by == "agent"}


def name_option(key: str) -> str:
    """Return the command-line option for a key or the options for a group, or the key in quotes without one.

    A key in a group that has one option for all of them is named after that option.
    """
    names = [each.name for each in OPTIONS if key in (each.key, each.key.partition(".")[0])]
    group, _, inner = key.partition(".")
    if not names and inner and any(each.key == group for each in OPTIONS):
        return f"{name_option(group)} {inner}"
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or f"'{key}'"


def find_key(option: str) -> str | None:
    """Return the key that an option with another name sets, such as `sample_size` for `n`, or None."""
    for each in OPTIONS:
        names = {name.lstrip("-").replace("-", "_") for name in (each.name, each.option.short) if name}
        if option.replace("-", "_") in names - {each.key}:
            return each.key
    return None
