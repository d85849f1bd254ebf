"""Refusal of settings that no part of a run reads, because a user who sets one expects an effect."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.benchmarks import Benchmark
from harness.benchmarks.benchmark import Definition
from harness.core.errors import UsageError
from harness.core.setting import Reader
from harness.environments import EnvironmentSpec
from harness.runs.agents import agents
from harness.runs.agents.agent import MODEL_SETTINGS
from harness.runs.settings import DEFAULT_AGENT, KEYS, RunConfig, name_option
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
    read_by_agent = list_read_settings(agent) | (
        {"endpoints"} if isinstance(definition.judge, str) else set()
    )
    has_sandbox = any(spec.image is not None for spec in environments)
    has_tools = any(spec.open_environment is not None for spec in environments)
    readers: dict[Reader, bool] = {
        "tools": has_tools or bool(config.mcp_servers),
        "own sandbox": has_sandbox or any(each.list_images() for each in workspaces),
        "sandbox": needs_image,
    }
    found = list_useless(config)
    for name in config.model_fields_set:
        reader = KEYS[name].rules.read_by
        if getattr(config, name) is None or reader == "run" or readers.get(reader, name in read_by_agent):
            continue
        if reader not in readers:
            found.append(UnreadSetting((name,), _describe_unread(config.agent, name)))
            continue
        needed = "an agent that calls tools" if reader == "tools" else "a sandbox"
        error = UsageError(
            f"benchmark '{definition.name}' does not read {name_option(name)}",
            hint=f"leave it out, because only tasks with {needed} use it",
        )
        found.append(UnreadSetting((name,), error))
    takes_prompts = "system_prompt" in read_by_agent or getattr(agent, "takes_server_prompts", False)
    prompts = [server.name for server in config.mcp_servers if server.system_prompt_append is not None]
    if prompts and not takes_prompts:
        error = UsageError(
            f"agent '{config.agent}' does not read 'mcp_servers.{prompts[0]}.system_prompt_append'",
            hint="leave it out, or choose an agent that reads 'system_prompt': chat",
        )
        found.append(UnreadSetting(("mcp_servers",), error))
    found += _list_unread_isolation(config, definition, environments)
    return sorted(found, key=lambda unread: unread.keys)


def list_useless(config: RunConfig) -> list[UnreadSetting]:
    """Return the settings without an effect beside the other settings, such as strata without a sample."""
    return [
        UnreadSetting(
            (name,),
            UsageError(
                f"{name_option(name)} {key.useless.message}", hint=f"{key.useless.remedy}, or leave it out"
            ),
        )
        for name, key in KEYS.items()
        if key.useless is not None
        and name in config.model_fields_set
        and getattr(config, name) is not None
        and key.useless.holds(config)
    ]


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
