"""The check of a config without a run: everything that its values, its files and its local data show."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from harness.benchmarks.benchmark import Benchmark, Definition
from harness.benchmarks.data.source import is_cache
from harness.benchmarks.loading import definition_of
from harness.benchmarks.options import list_option_problems
from harness.core.errors import HarnessError, UsageError
from harness.core.types import DataSource
from harness.environments import environment_spec
from harness.models.endpoint import Endpoint
from harness.runs.agents import build_agent
from harness.runs.agents.agent import Agent, settings_for
from harness.runs.agents.command.place import ProgramMissingError
from harness.runs.config import ReadConfig, read_config
from harness.runs.filters import TaskFilters, filter_tasks
from harness.runs.model_access import find_endpoint, find_judge
from harness.runs.plan import find_durations, load_configured
from harness.runs.recorded_run import add_recorded_settings, open_recording
from harness.runs.run_secrets import find_keys
from harness.runs.selection import select
from harness.runs.server_tools import describe_missing_command
from harness.runs.settings import RunConfig
from harness.runs.unread import list_unread
from harness.runs.workspaces import find_workspaces

_Value = TypeVar("_Value")
STDIN = "-"
_NO_ROWS = DataSource("path", "", "", 0)


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """The outcome of the check of one config file."""

    path: Path
    problems: list[HarnessError]
    # The reason why the tasks were not looked at, None if they were.
    unchecked: str | None
    # Problems that would stop a run on this machine, and may be right on another one.
    warnings: list[str] = field(default_factory=list)


def check_config(path: Path, overrides: Mapping[str, Any]) -> CheckedConfig:
    """Return all problems of a config, as far as they show without a run, a network and an engine.

    Python files of the user's own, of a benchmark or an agent, are imported on the host as for a run. Data on
    the hub are not downloaded, so that the tasks of such a config are not looked at.

    Args:
        path: the config file.
        overrides: the values of the command line.
    """
    try:
        read = read_config(path, overrides, add_settings=add_recorded_settings)
    except HarnessError as error:
        return CheckedConfig(path, [error], None)
    if read.config is None:
        return CheckedConfig(path, list(read.problems), None)
    check = _Check(read, read.config, overrides)
    check.check_values()
    unchecked = check.check_tasks()
    return CheckedConfig(path, check.problems, unchecked, check.warnings)


@dataclass(slots=True)
class _Check:
    """The problems of a config, in the order that they are found."""

    read: ReadConfig
    config: RunConfig
    overrides: Mapping[str, Any]
    problems: list[HarnessError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    definition: Definition | None = None
    _messages: set[str] = field(default_factory=set)

    def check_values(self) -> None:
        """Check the benchmark, its options, the agent and its model, and find settings that nothing reads."""
        config = self.config
        definition = self._try(("benchmark",), lambda: definition_of(config.benchmark))
        if definition is not None:
            self.definition = self._check_benchmark(definition)
        agent = None if definition is None else self._check_agent(definition)
        if definition is not None and agent is not None:
            specs = [environment_spec(name) for name in definition.environments]
            places = find_workspaces(agent, config.mcp_servers, specs)
            images = self._try(("mcp_servers",), lambda: [each.list_images() for each in places])
            needs_image = any(images or ()) or any(spec.image is not None for spec in specs)
            usable = places if images is not None else []
            for unread in list_unread(config, agent, definition, specs, usable, needs_image=needs_image):
                self._add((unread.key,), unread)
            self._check_servers()
            endpoint = self._try(("model",), lambda: find_endpoint(config, agent))
            self._check_keys(endpoint)
        if any(k < 1 for k in config.k):
            self._add(("k",), UsageError(f"--k must be at least 1, not {min(config.k)}"))
        self._try(("durations_from",), lambda: find_durations(config))
        self._try(("replay_from",), lambda: open_recording(config))

    def _check_servers(self) -> None:
        """Find MCP servers whose command is not on this machine."""
        for place, server in enumerate(() if self.config.baseline else self.config.mcp_servers):
            if (missing := describe_missing_command(server)) is not None:
                self._warn(("mcp_servers", place, "command"), f"MCP server '{server.name}': {missing}")

    def _check_keys(self, endpoint: Endpoint | None) -> None:
        """Find settings that hold the key of a model that the run asks."""
        judge = None
        if self.definition is not None and self.config.replay_from is None:
            # An endpoint that is missing has been reported.
            with contextlib.suppress(UsageError):
                judge = find_judge(self.config, self.definition.judge)
        for held in find_keys(self.config, [endpoint, judge]):
            self._add(held.keys, held.error)

    def check_tasks(self) -> str | None:
        """Check what depends on the tasks. Return the reason if nobody could look at them, None otherwise."""
        config, definition = self.config, self.definition
        if definition is None:
            return None
        if not _has_local_data(config, definition):
            return "its data are on the hub"
        # One filter at a time, because the first that no task passes would hide the others.
        chosen = {key: filters for key, filters in _list_filters(config).items() if getattr(config, key)}
        loaded = self._try(("data",), lambda: load_configured(config)) if chosen else None
        if loaded is not None:
            for key, filters in chosen.items():
                self._try((key,), partial(filter_tasks, loaded, filters))
        if not self.problems:
            # A program that is not on this machine has been reported.
            with contextlib.suppress(ProgramMissingError):
                self._try((), lambda: select(config, notify=_ignore), let=ProgramMissingError)
        return None

    def _check_benchmark(self, definition: Definition) -> Definition | None:
        """Return the definition with its options, None if they cannot be used."""
        config, found = self.config, len(self.problems)
        options = config.options
        unusable = set()
        for keys, error in list_option_problems(definition.options, options, definition.name):
            unusable.add(keys[0])
            self._add(("options", *keys), error)
        # The benchmark itself checks the rest of them.
        rest = {name: value for name, value in options.items() if name not in unusable}
        self._try(("options",), lambda: definition.with_options(rest))
        if config.split is not None:
            self._try(("split",), lambda: definition.in_split(config.split or definition.split))
        if config.extract is not None:
            self._try(("extract",), lambda: definition.with_code_rule(config.extract or ""))
        if len(self.problems) > found:
            return None
        configured = definition.with_options(options)
        self._try(("endpoints",), lambda: find_judge(config, configured.judge))
        return configured

    def _check_agent(self, definition: Definition) -> Agent | None:
        """Return the agent, built without tasks, None if it cannot be built."""
        config = self.config
        if config.samples not in (None, STDIN) and not os.path.isfile(config.samples or ""):
            self._add(("samples",), UsageError(f"{config.samples}: is not a file"))
            return None
        if config.agent in ("predictions", "replay"):
            # They look at the tasks when they are built. Only what they read matters here.
            return _find_agent_class(config.agent)
        empty = Benchmark(definition, (), {}, {}, _NO_ROWS)
        settings = settings_for(empty, system_prompt=config.whole_system_prompt, command=config.command)
        try:
            return self._try(
                ("agent",), lambda: build_agent(config.agent, settings, empty), let=ProgramMissingError
            )
        except ProgramMissingError as error:
            self._warn(("command", "cmd"), error.message.removeprefix("--agent-cmd: "))
            return _find_agent_class(config.agent)

    def _try(
        self,
        keys: tuple[str, ...],
        use: Callable[[], _Value],
        *,
        let: type[Exception] | tuple[()] = (),
    ) -> _Value | None:
        """Return the result, or None after an error, which becomes a problem of the value below `keys`.

        An error of the type `let` is raised.
        """
        try:
            return use()
        except let:
            raise
        except HarnessError as error:
            self._add(keys, error)
            return None

    def _warn(self, keys: tuple[str | int, ...], message: str) -> None:
        file = self.read.file
        self.warnings.append(message if file is None else f"{file.locate(keys)}: {message}")

    def _add(self, keys: tuple[str | int, ...], error: HarnessError) -> None:
        if error.message in self._messages:
            return
        self._messages.add(error.message)
        file = self.read.file
        if file is None or (keys and keys[0] in self.overrides):
            self.problems.append(error)
            return
        self.problems.append(UsageError(f"{file.locate(keys)}: {error.message}", hint=error.hint))


def _find_agent_class(name: str) -> Agent:
    """Return the class of a built-in agent, which shows what the agent reads."""
    from harness.runs.agents.agent import agents

    found: Any = agents()[name]
    return found  # type: ignore[no-any-return]


def _list_filters(config: RunConfig) -> dict[str, TaskFilters]:
    """Return the filters of a config one by one, by their keys."""
    return {
        "task_ids": TaskFilters(task_ids=config.task_ids),
        "filter_category": TaskFilters(categories=config.filter_category),
        "filter_difficulty": TaskFilters(difficulties=config.filter_difficulty),
        "filter_tags": TaskFilters(tags=config.filter_tags),
    }


def _has_local_data(config: RunConfig, definition: Definition) -> bool:
    """Return whether the tasks can be loaded without a download."""
    if config.data == "bundled" or definition.make_rows is not None:
        return True
    if config.data is None:
        return definition.data is not None
    return config.data != "hub" and not is_cache(Path(os.path.expanduser(config.data)))


def _ignore(_note: str) -> None:
    """Drop a note, because it is for a run."""
