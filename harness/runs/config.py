"""The config of a run, from YAML and the command line. Both are validated by the same strict model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_serializer,
    model_validator,
)

from harness.core.discovery import names_python_file
from harness.core.errors import UsageError, quote_value
from harness.models.endpoint import Api, Endpoint, require_base_url
from harness.models.relay.mcp_servers.settings import McpServer, list_servers, require_unique_names
from harness.models.settings import GenerationSettings
from harness.models.spending import Budget
from harness.runs.command_settings import CommandSettings
from harness.sandbox.limits import Limits
from harness.sandbox.pool import Isolation

if TYPE_CHECKING:
    from harness.runs.config_file import ConfigFile, UnsetVariable

MIN_TIMEOUT_SECONDS = 180
MAX_TIMEOUT_SECONDS = 600
# The reader of YAML refuses integers beyond this bound, too.
MAX_SEED = 2**63
_SHARD = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


def _convert_id(value: Any) -> Any:
    # MBPP's task ids are integers, so a user may write them as integers in YAML.
    return str(value) if type(value) is int else value


# The agent of a config that names neither an agent nor a model: it submits the reference solutions.
DEFAULT_AGENT = "oracle"
TaskId = Annotated[str, BeforeValidator(_convert_id, json_schema_input_type=str | int)]
# Difficulties of some benchmarks are numbers.
Name = TaskId
STATEMENT = "{problem_statement}"


def _require_statement(prompt: str) -> str:
    if STATEMENT not in prompt:
        raise ValueError(f"needs {STATEMENT} in the place of the problem; other braces have no meaning")
    return prompt


def read_shard(text: str) -> tuple[int, int]:
    """Return the number of a shard, from 1, and the number of all shards, from a text such as `2/8`.

    Raises ValueError for any other text.
    """
    match = _SHARD.fullmatch(text)
    number, shards = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= shards:
        raise ValueError(f"must be I/N with I from 1 to N, such as 1/8, not {quote_value(text)}")
    return number, shards


def _list_one(value: object) -> object:
    """Return a single name as a list, because many selections have only one."""
    return [value] if isinstance(value, str) else value


def _require_shard(text: str) -> str:
    read_shard(text)
    return text


ExecutorName = Literal["local", "ray"]
Sampling = Literal["sequential", "random", "stratified"]
# The members of harness.benchmarks.replies.CodeRule, which this layer must not import.
ExtractRule = Literal["none", "fenced", "between_last_fences", "first_block", "last_block", "all_blocks"]
AgentPrompt = Annotated[str, AfterValidator(_require_statement)]


class RunConfig(BaseModel):
    """All settings of a run."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    benchmark: str
    """The name of a benchmark, or the path of your own (.yaml, or .py, which runs on the host)."""
    agent: str = DEFAULT_AGENT
    """The name of an agent, FILE.py, or module:Name."""
    command: CommandSettings = Field(default_factory=CommandSettings)
    """The program that the agent `command` runs, or changes to that of an agent that is such a program."""
    model: str | None = Field(default=None, min_length=1)
    """A key of `endpoints`, or the name of a model at `base_url`."""
    base_url: Annotated[str, AfterValidator(require_base_url)] | None = None
    """The URL of the model's server, such as http://localhost:8000/v1."""
    api: Api | None = None
    """The API of the model at `base_url`. Without it, `chat`."""
    endpoints: dict[str, Endpoint] = Field(default_factory=dict)
    """Models at servers by names of your own, which `model` may name."""
    generation: GenerationSettings = Field(default_factory=GenerationSettings)
    """The parameters of generation. A parameter that is not set is not sent."""
    system_prompt: str | None = None
    """The system prompt of the agent."""
    mcp_servers: Annotated[
        list[McpServer], BeforeValidator(list_servers), AfterValidator(require_unique_names)
    ] = Field(default_factory=list)
    """Your MCP servers, whose tools the agent gets in addition. A list, or a mapping by their names."""
    baseline: bool = False
    """Whether the run goes without the servers and their prompts, to compare it with one that has them."""
    attempt_budget: Budget = Field(default_factory=Budget)
    """The budget of each attempt, which ends as `limit_reached` when it is spent."""
    run_budget: Budget = Field(default_factory=Budget)
    """The budget of the whole run, which stops when it is spent."""
    reply_cache: Literal["auto", "on", "off"] = "auto"
    """Whether replies are kept and reused. `auto` does so only at temperature 0."""
    client_generation: Literal["drop", "keep"] = "drop"
    """Whether the parameters in the requests of an agent's program override those of the run."""
    sample_size: int | None = Field(default=None, ge=1)
    """The maximum number of tasks."""
    sampling: Sampling = "random"
    """The way in which `sample_size` tasks are taken: the first ones, a random draw, or a random draw from
    each stratum in proportion to its size."""
    stratify_by: str | None = Field(default=None, min_length=1)
    """The strata of `stratified`: `category`, `difficulty`, or the kind of a label. Default: `category`."""
    task_ids: list[TaskId] = Field(default_factory=list)
    """Select only these tasks."""
    filter_category: Annotated[list[str], BeforeValidator(_list_one)] = Field(default_factory=list)
    """Select only tasks of these categories."""
    filter_difficulty: Annotated[list[Name], BeforeValidator(_list_one)] = Field(default_factory=list)
    """Select only tasks of these difficulties."""
    filter_tags: Annotated[list[Name], BeforeValidator(_list_one)] = Field(default_factory=list)
    """Select only tasks that have all of these tags, such as `leetcode` or `platform=leetcode`."""
    include_quarantined: bool = False
    """Whether tasks take part whose reference is wrong, or whose check can be deceived."""
    shard: Annotated[str, AfterValidator(_require_shard)] | None = None
    """The part of the selected tasks that this run makes, such as `2/8`. Default: all of them."""
    timeout_seconds: int | None = Field(default=None, ge=MIN_TIMEOUT_SECONDS, le=MAX_TIMEOUT_SECONDS)
    """The wall limit in seconds, once for the agent in an attempt and once for its grading. Default: that of
    the task's environment."""
    rounds: int | None = Field(default=None, ge=1, le=10_000)
    """The number of tool calls in an attempt. Default: that of the task's environment."""
    max_concurrent: int | None = Field(default=None, ge=1, le=1024)
    """The number of attempts under way, which mostly wait for a model. Default: 1024, or a number that
    follows from the cores if the agent never waits."""
    max_sandboxes: int | None = Field(default=None, ge=1, le=1024)
    """The number of sandboxes that live at once. Default: as many as fit into memory."""
    durations_from: str | None = Field(default=None, min_length=1)
    """An earlier run: a folder, a name in `output_dir`, or `latest`. The tasks that took longest there start
    first, so that the run ends sooner. Verdicts do not depend on it."""
    agent_prompt: AgentPrompt | None = None
    """Your own prompt, in which each problem replaces {problem_statement}."""
    n_samples: int = Field(default=1, ge=1, le=10_000)
    """The number of attempts at each task."""
    k: list[int] = Field(default_factory=lambda: [1])
    """Each k of pass@k."""
    cluster_by: str | None = Field(default=None, min_length=1)
    """The field whose values cluster the tasks for the interval of the rate: `category`, `difficulty`, or the
    kind of a label. Default: each task is a cluster of its own."""
    seed: int = Field(default=0, gt=-MAX_SEED, lt=MAX_SEED)
    """The random seed of the run."""
    data: str | None = None
    """`bundled`, `hub`, or a path to the data. Default: the hub, with the bundled sample in its place."""
    split: str | None = None
    """The split: `train`, `dev`, `test`, or another one. Default: the published evaluation split."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The benchmark's own options."""
    samples: str | None = None
    """The JSONL file of samples to grade."""
    replay_from: str | None = Field(default=None, min_length=1)
    """The run that the agent `replay` does again: a folder, a name in `output_dir`, or `latest`."""
    extract: ExtractRule | None = None
    """The rule that takes the program out of a text. Default: the benchmark's own."""
    output_dir: str = "runs"
    """The folder of the run folders."""
    limits: Limits = Field(default_factory=Limits)
    """The limits of sandboxes. Only those that are set here override the limits of the environment."""
    runtime: Literal["runc", "runsc"] = "runc"
    """The runtime of containers: `runsc` is gVisor."""
    executor: ExecutorName = "local"
    """Where attempts are made: in this process, or on the nodes of a Ray cluster. Verdicts do not depend on
    it."""
    ray_address: str | None = Field(default=None, min_length=1)
    """The Ray cluster: HOST:PORT, `auto` for that of this machine, or `local`. Default: `auto`."""
    isolation: Isolation = "task"
    """The attempts that share a grading container: with `task` those at a task, with `attempt` none, with
    `run` those at all tasks, as long as the container is provably clean. Agents never act in such a one."""

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
        """Return the settings that are set, because a default would override that of an agent."""
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


# The keys whose values are not text.
TYPED = frozenset(
    (
        "sample_size",
        "timeout_seconds",
        "rounds",
        "max_concurrent",
        "max_sandboxes",
        "n_samples",
        "k",
        "seed",
        "limits",
        "include_quarantined",
        "baseline",
        "mcp_servers",
        "generation",
        "attempt_budget",
        "run_budget",
    )
)
# The models of the groups of settings. In `endpoints` each group has a name.
GROUPS: Mapping[str, type[BaseModel]] = {
    "limits": Limits,
    "generation": GenerationSettings,
    "attempt_budget": Budget,
    "run_budget": Budget,
    "endpoints": Endpoint,
    "mcp_servers": McpServer,
    "command": CommandSettings,
}


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """The config in a file and on the command line, and what is wrong with it."""

    file: ConfigFile | None
    # None if there are problems.
    config: RunConfig | None
    problems: list[UsageError]


def load_config(
    path: Path | None,
    overrides: Mapping[str, Any],
    *,
    add_settings: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
) -> RunConfig:
    """Return the config in a YAML file, overridden by the values of the command line.

    `add_settings` returns the values with the settings of another run, which this layer cannot read.

    `${VAR}` and `${VAR:-default}` are replaced from the environment. Raises UsageError for the first problem,
    which names the file, the line, the key and, for an unknown key, the nearest known one.
    """
    read = read_config(path, overrides, add_settings=add_settings)
    if read.config is None:
        first = read.problems[0]
        if len(read.problems) > 1 and path is not None:
            more = f"`harness config validate {path}` lists all {len(read.problems)} problems"
            raise UsageError(first.message, hint=f"{first.hint}; {more}" if first.hint else more)
        raise first
    return read.config


def read_config(
    path: Path | None,
    overrides: Mapping[str, Any],
    *,
    add_settings: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
) -> ReadConfig:
    """Return the config as `load_config` does, or all its problems.

    Raises UsageError for a file that cannot be read as YAML, and for a recorded run that cannot be read.
    """
    file, values, unset = _read(path)
    problems = [each.error for each in unset]
    values = add_settings({**values, **overrides})
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        keys = [each.keys for each in unset]
        return ReadConfig(file, None, problems + _explain(error, file, overrides, unset=keys))
    paths = {"data": _make_absolute(config.data), "samples": _make_absolute(config.samples)}
    # Only a user's own benchmark is named by its file.
    if config.benchmark.lower().endswith((".py", ".yaml", ".yml")):
        paths["benchmark"] = _make_absolute(config.benchmark)
    if names_python_file(config.agent):
        paths["agent"] = _make_absolute(config.agent)
    # A key that did not change stays one that nobody has set.
    changed = {key: value for key, value in paths.items() if value != getattr(config, key)}
    return ReadConfig(file, None if problems else config.model_copy(update=changed), problems)


def read_endpoints(path: Path) -> dict[str, Endpoint]:
    """Return the endpoints that a config file names. Raises UsageError."""
    # The benchmark does not matter here, and a file with nothing but endpoints needs none.
    return load_config(path, {"benchmark": "any", "agent": "null"}).endpoints


def read_section(path: Path | None, key: str) -> dict[str, Any]:
    """Return a group of settings in a config file, {} if the file has none. Raises UsageError."""
    _, values, unset = _read(path)
    if unset:
        raise unset[0].error
    section = values.get(key)
    return section if isinstance(section, dict) else {}


def _make_absolute(path: str | None) -> str | None:
    """Return a path that stays valid if the run is resumed from another folder.

    The name of a data source, which is no path, stays as it is.
    """
    if not path or path in ("hub", "bundled", "-") or not os.path.exists(path):
        return path
    return os.path.abspath(path)


def _read(path: Path | None) -> tuple[ConfigFile | None, dict[str, Any], list[UnsetVariable]]:
    """Return a file, its values with variables replaced, and those that name a variable without a value."""
    if path is None:
        return None, {}, []
    from harness.runs.config_file import (  # without a file no parser is needed
        expand_variables,
        read_config_file,
    )

    file = read_config_file(path)
    return file, *expand_variables(file, typed=TYPED)


def _explain(
    error: ValidationError,
    file: ConfigFile | None,
    overrides: Mapping[str, Any],
    *,
    unset: Collection[tuple[str | int, ...]] = (),
) -> list[UsageError]:
    from harness.runs.config_problems import KnownKeys, explain_problems

    limits = (MIN_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS)
    known = KnownKeys((*RunConfig.model_fields, "extends"), GROUPS, limits)
    return explain_problems(error, file, overrides, known, unset=unset)
