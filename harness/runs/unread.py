"""Refusal of settings that no part of a run reads, because a user who sets one expects an effect."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.benchmarks import Benchmark
from harness.benchmarks.benchmark import Definition
from harness.core.errors import UsageError
from harness.core.option_names import name_option
from harness.environments import EnvironmentSpec
from harness.runs.agents import agents
from harness.runs.agents.agent import AGENT_SETTINGS, MODEL_SETTINGS
from harness.runs.config import DEFAULT_AGENT, RunConfig
from harness.runs.workspaces import Workspaces

# Every agent finds the model and the prompt in the context of its attempt, and may return a reply.
_READ_BY_DEFAULT = frozenset({"model", "n_samples", "agent_prompt", "extract", "mcp_servers"})


class UnreadSettingError(UsageError):
    """A setting of the config is read by nothing. `keys` are its keys, outermost first."""

    def __init__(self, keys: Sequence[str], error: UsageError) -> None:
        super().__init__(error.message, hint=error.hint)
        self.keys = tuple(keys)


@dataclass(frozen=True, slots=True)
class UnreadSetting:
    """A setting of a config that nothing reads. `keys` are its keys in the config, outermost first."""

    keys: tuple[str, ...]
    error: UsageError


def refuse_unread(
    config: RunConfig,
    agent: object,
    benchmark: Benchmark,
    environments: Sequence[EnvironmentSpec],
    images: Sequence[str],
    workspaces: Sequence[Workspaces],
) -> None:
    """Raise UnreadSettingError for a setting that the config contains and neither agent nor benchmark reads.

    Args:
        config: the config of the run.
        agent: the agent of the run.
        benchmark: the benchmark of the run.
        environments: the environments of the selected tasks.
        images: the names of the images that the selected tasks need.
        workspaces: the sandboxes in which programs of the agent and of MCP servers run.
    """
    definition = benchmark.definition
    for unread in list_unread(config, agent, definition, environments, workspaces, needs_image=bool(images)):
        raise UnreadSettingError(unread.keys, unread.error)


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
        key = error.keys[0]
        if path is None or key in overrides:
            raise
        # Without a config file no parser is needed.
        from harness.runs.config_file import read_config_file

        place = read_config_file(path).locate(error.keys)
        message = error.message.replace(name_option(key), f"'{key}'")
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
) -> list[UnreadSetting]:
    """Return the settings that the config contains and neither agent nor benchmark reads.

    Args:
        config: the config of the run.
        agent: the agent of the run, or its class.
        definition: the benchmark of the run.
        environments: the environments of the tasks.
        workspaces: the sandboxes in which programs of the agent and of MCP servers run.
        needs_image: whether the tasks or the agent need a sandbox.
    """
    given = config.model_fields_set
    read_by_agent = list_read_settings(agent)
    if isinstance(definition.judge, str):
        read_by_agent |= {"endpoints"}
    found = [
        UnreadSetting((key,), _describe_unread(config.agent, key))
        for key in sorted(AGENT_SETTINGS)
        if key in given and getattr(config, key) is not None and key not in read_by_agent
    ]
    takes_prompts = "system_prompt" in read_by_agent or getattr(agent, "takes_server_prompts", False)
    found += _list_unread_prompts(config, takes_prompts=takes_prompts)
    found += list_unread_sampling(config)
    if config.ray_address is not None and config.executor != "ray":
        error = UsageError(
            f"{name_option('ray_address')} has no effect on attempts of this machine",
            hint="add --executor ray, or leave it out",
        )
        found.append(UnreadSetting(("ray_address",), error))
    found += _list_unread_isolation(config, definition, environments)
    read_by_tasks = {
        "rounds": any(spec.open_environment is not None for spec in environments) or bool(config.mcp_servers),
        "limits": any(spec.image is not None for spec in environments)
        or any(each.list_images() for each in workspaces),
        "runtime": needs_image,
        "isolation": needs_image,
        "max_sandboxes": needs_image,
    }
    needed = {"rounds": "an agent that calls tools"}
    for key, is_read in read_by_tasks.items():
        if key in given and getattr(config, key) is not None and not is_read:
            reader = needed.get(key, "a sandbox")
            error = UsageError(
                f"benchmark '{definition.name}' does not read {name_option(key)}",
                hint=f"leave it out, because only tasks with {reader} use it",
            )
            found.append(UnreadSetting((key,), error))
    return found


def _list_unread_prompts(config: RunConfig, *, takes_prompts: bool) -> list[UnreadSetting]:
    """Return a baseline without servers, and a server's prompt that the agent ignores."""
    found = []
    if config.baseline and not config.mcp_servers:
        error = UsageError(
            "--baseline runs the tasks without the MCP servers of the config, and the config names none",
            hint="name them under 'mcp_servers', or leave --baseline out",
        )
        found.append(UnreadSetting(("baseline",), error))
    prompts = [server.name for server in config.mcp_servers if server.system_prompt_append is not None]
    if prompts and not takes_prompts:
        error = UsageError(
            f"agent '{config.agent}' does not read 'mcp_servers.{prompts[0]}.system_prompt_append'",
            hint="leave it out, or choose an agent that reads 'system_prompt': chat",
        )
        found.append(UnreadSetting(("mcp_servers",), error))
    return found


def list_unread_sampling(config: RunConfig) -> list[UnreadSetting]:
    """Return `sampling` without a number of tasks, and strata without a stratified sample."""
    found = []
    if "sampling" in config.model_fields_set and config.sample_size is None:
        error = UsageError(
            f"{name_option('sampling')} has no effect without a number of tasks",
            hint="add -n N, or leave it out",
        )
        found.append(UnreadSetting(("sampling",), error))
    if config.stratify_by is not None and config.sampling != "stratified":
        error = UsageError(
            f"{name_option('stratify_by')} is read only by a stratified sample",
            hint="add --sampling stratified, or leave it out",
        )
        found.append(UnreadSetting(("stratify_by",), error))
    return found


def refuse_unread_isolation(
    config: RunConfig, benchmark: Benchmark, environments: Sequence[EnvironmentSpec]
) -> None:
    """Raise UsageError for `isolation: run` if an agent acts in every sandbox of the selected tasks."""
    for unread in _list_unread_isolation(config, benchmark.definition, environments):
        raise unread.error


def _list_unread_isolation(
    config: RunConfig, definition: Definition, environments: Sequence[EnvironmentSpec]
) -> list[UnreadSetting]:
    levels = {spec.choose_isolation(config.isolation) for spec in environments if spec.image is not None}
    if config.isolation != "run" or levels != {"attempt"}:
        return []
    error = UsageError(
        f"benchmark '{definition.name}' does not read {name_option('isolation')} run",
        hint="leave it out, because a sandbox in which an agent acts is never used again",
    )
    return [UnreadSetting(("isolation",), error)]


def list_read_settings(agent: object) -> frozenset[str]:
    """Return the settings that an agent or an agent class reads."""
    read = frozenset(getattr(agent, "reads", _READ_BY_DEFAULT))
    return read | MODEL_SETTINGS if "model" in read else read


def _describe_unread(agent: str, key: str) -> UsageError:
    readers = [name for name, each in sorted(agents().items()) if key in list_read_settings(each)]
    choices = ["leave it out"]
    if (agent, key) == (DEFAULT_AGENT, "agent_prompt"):
        # A config without a model has this agent, and its user may expect a model.
        choices.append("set a model, such as model: NAME")
    if readers:
        choices.append(f"choose an agent that reads it: {', '.join(readers)}")
    else:
        choices[-1] += "; no agent reads it"
    hint = ", ".join([*choices[:-1], f"or {choices[-1]}"]) if len(choices) > 1 else choices[0]
    return UsageError(f"agent '{agent}' does not read {name_option(key)}", hint=hint)
