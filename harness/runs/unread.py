"""Refusal of settings that no part of a run reads, because a user who sets one expects an effect."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from harness.benchmarks.benchmark import Definition
from harness.core.errors import UsageError
from harness.core.setting import Reader
from harness.environments.spec import EnvironmentSpec
from harness.runs.agents.agent import agents
from harness.runs.settings import KEYS, MODEL_SETTINGS, RunConfig, name_option
from harness.runs.settings.agents import DEFAULT_AGENT
from harness.runs.workspaces import Workspaces

# Every agent finds the model and the prompt in the context of its attempt, and may return a reply.
_READ_BY_DEFAULT = frozenset({"model", "n_samples", "agent_prompt", "extract", "mcp_servers"})

# The tasks that read a setting.
_NEEDED = {
    "tools": "an agent that calls tools",
    "task image": "an image of their own",
    "task timeouts": "timeouts of their own",
}


class UnreadSettingError(UsageError):
    """A setting of the config is read by nothing. `key` is its key."""

    def __init__(self, key: str, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.key = key


@contextlib.contextmanager
def locate_unread(path: Path | None, overrides: Collection[str]) -> Iterator[None]:
    """Raise the error about an unread setting with the file and the line of its key.

    Args:
        path: the config file, None for a run without one.
        overrides: the keys whose values are those of the command line.
    """
    try:
        yield
    except UnreadSettingError as error:
        if path is None or error.key in overrides:
            raise
        # Without a config file no parser is needed.
        from harness.runs.config_file import read_config_file

        place = read_config_file(path).locate((error.key,))
        message = error.message.replace(name_option(error.key), f"'{error.key}'")
        hint = (error.hint or "leave it out").replace("leave it out", "remove the key from the file")
        raise UsageError(f"{place}: {message}", hint=hint) from error


def list_unread(
    config: RunConfig,
    agent: object,
    definition: Definition,
    environments: Sequence[EnvironmentSpec],
    workspaces: Sequence[Workspaces],
    *,
    needs_image: bool,
) -> list[UnreadSettingError]:
    """Return the settings that the config contains and neither agent nor benchmark reads.

    Args:
        config: the config of the run.
        agent: the agent of the run, or its class.
        definition: the benchmark of the run.
        environments: the environments of the tasks.
        workspaces: the sandboxes where programs of the agent and of MCP servers run.
        needs_image: whether the tasks or the agent need a sandbox.
    """
    read_by_agent = list_read_settings(agent)
    if isinstance(definition.judge, str):
        read_by_agent |= {"endpoints"}
    has_sandbox = any(spec.image is not None for spec in environments)
    has_tools = any(spec.open_environment is not None for spec in environments)
    readers: dict[Reader, bool] = {
        "tools": has_tools or bool(config.mcp_servers),
        "own sandbox": has_sandbox or any(each.list_images() for each in workspaces),
        "task image": any(spec.runs_task_images for spec in environments),
        "sandbox": needs_image,
        "task timeouts": any(spec.tasks_set_timeouts for spec in environments),
    }
    found = list_useless(config)
    for name in config.model_fields_set:
        reader = KEYS[name].rules.read_by
        if getattr(config, name) is None or reader == "run" or readers.get(reader, name in read_by_agent):
            continue
        if reader not in readers:
            found.append(_describe_unread(config.agent, name))
            continue
        needed = _NEEDED.get(reader, "a sandbox")
        message = f"benchmark '{definition.name}' does not read {name_option(name)}"
        hint = f"leave it out, because only tasks with {needed} use it"
        found.append(UnreadSettingError(name, message, hint=hint))
    takes_prompts = "system_prompt" in read_by_agent or getattr(agent, "takes_server_prompts", False)
    prompts = [server.name for server in config.mcp_servers if server.system_prompt_append is not None]
    if prompts and not takes_prompts:
        message = f"agent '{config.agent}' does not read 'mcp_servers.{prompts[0]}.system_prompt_append'"
        hint = "leave it out, or choose an agent that reads 'system_prompt': chat"
        found.append(UnreadSettingError("mcp_servers", message, hint=hint))
    found += list_unread_isolation(config, definition, environments)
    return sorted(found, key=lambda unread: unread.key)


def list_useless(config: RunConfig) -> list[UnreadSettingError]:
    """Return the settings without an effect beside the other settings, such as strata without a sample."""
    found = []
    for name in KEYS.keys() & config.model_fields_set:
        useless = KEYS[name].useless
        if useless is not None and getattr(config, name) is not None and useless.holds(config):
            message = f"{name_option(name)} {useless.message}"
            found.append(UnreadSettingError(name, message, hint=f"{useless.remedy}, or leave it out"))
    return found


def list_unread_isolation(
    config: RunConfig, definition: Definition, environments: Sequence[EnvironmentSpec]
) -> list[UnreadSettingError]:
    """Return `isolation: run` if an agent acts in every sandbox of the selected tasks."""
    levels = {spec.choose_isolation(config.isolation) for spec in environments if spec.image is not None}
    if config.isolation != "run" or levels != {"attempt"}:
        return []
    message = f"benchmark '{definition.name}' does not read {name_option('isolation')} run"
    hint = "leave it out, because a sandbox where an agent acts is never used again"
    return [UnreadSettingError("isolation", message, hint=hint)]


def list_read_settings(agent: object) -> frozenset[str]:
    """Return the settings that an agent or an agent class reads."""
    read = frozenset(getattr(agent, "reads", _READ_BY_DEFAULT))
    return read | MODEL_SETTINGS if "model" in read else read


def _describe_unread(agent: str, key: str) -> UnreadSettingError:
    readers = [name for name, each in sorted(agents().items()) if key in list_read_settings(each)]
    choices = ["leave it out"]
    if agent == DEFAULT_AGENT and key in MODEL_SETTINGS | {"agent_prompt"}:
        # A config without a model has this agent, and its user may expect a model.
        choices.append("set a model, such as model: NAME or --model NAME")
    if readers:
        choices.append(f"choose an agent that reads it: {', '.join(readers)}")
    else:
        choices[-1] += "; no agent reads it"
    hint = ", ".join([*choices[:-1], f"or {choices[-1]}"]) if len(choices) > 1 else choices[0]
    return UnreadSettingError(key, f"agent '{agent}' does not read {name_option(key)}", hint=hint)
