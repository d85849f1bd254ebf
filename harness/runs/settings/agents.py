"""The settings of the agent, of the program that it may be, and of its model."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from harness.core.setting import Aliases, Example, Keys, Option, Panel, Setting, Text, Useless
from harness.models.endpoint import Api, Endpoint, require_base_url
from harness.models.relay.mcp_servers.settings import McpServer, list_servers, require_unique_names
from harness.models.settings import GenerationSettings
from harness.models.spending import Budget

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The agent of a config that names neither an agent nor a model: it submits the reference solutions.
DEFAULT_AGENT = "oracle"
STATEMENT = "{problem_statement}"


def _require_variables(names: list[str]) -> list[str]:
    for name in names:
        _require_variable(name)
    return names


def _require_environment(variables: dict[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        _require_variable(name)
        if "\0" in value:
            raise ValueError(f"must not give {name} a value with a NUL character")
    return variables


def _require_variable(name: str) -> None:
    if not _VARIABLE_NAME.fullmatch(name):
        raise ValueError(f"must have names of environment variables, not '{name}'")


class CommandSettings(BaseModel):
    """The program, the place where it runs, and how it submits."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    cmd: Annotated[
        Text | None,
        Option("Program that the agent `command` runs for each task.", "TEXT", name="--agent-cmd"),
    ] = None
    """The command, split into arguments as a shell splits it. No shell runs it."""
    where: Annotated[
        Literal["sandbox", "host"],
        Option("sandbox, or host for a program that you trust.", "PLACE", name="--agent-where"),
    ] = "sandbox"
    """`sandbox` is a container without network. `host` is for a trusted program of the user."""
    machine: Literal["task", "own"] = "task"
    """The sandbox of the program. `task` is the task's own if agents run programs there, where a program
    may be root and may not call epoll. `own` is another one, and the program reaches the task by MCP
    alone."""
    image: Annotated[
        Text | None,
        Option("Prepared agent, from `harness images build --agent`.", "NAME", name="--agent-image"),
    ] = None
    """The prepared agent whose files the sandbox has in /opt/agents."""
    env: Annotated[dict[str, str], AfterValidator(_require_environment)] = Field(default_factory=dict)
    """Environment variables in addition to the harness's. The manifest shows their values."""
    pass_env: Annotated[list[str], AfterValidator(_require_variables)] = Field(default_factory=list)
    """Environment variables of the harness that a program on the host inherits."""
    submission: Literal["stdout", "submit"] = "stdout"
    """The submission of a program that submits nothing by `submit`, by `harness-submit` or by its file. With
    `submit` there is none, and the attempt ends as `agent_error`."""
    submission_file: str | None = Field(default=None, min_length=1)
    """A file that holds the submission when the program has ended. Its path is relative to the folder in
    which the program starts. stdout is then no submission."""
    prompt_append: str | None = None
    """The text after the prompt. None means a sentence that explains `harness-submit`."""

    @model_validator(mode="after")
    def _require_place(self) -> CommandSettings:
        if self.where == "sandbox" and self.pass_env:
            raise ValueError("has pass_env, but no variable of the harness enters a sandbox; write env")
        # A run folder also holds the defaults, so only other values show that the user wants something.
        if self.where == "host":
            for name, is_given in {"image": self.image is not None, "machine": self.machine == "own"}.items():
                if is_given:
                    raise ValueError(f"has {name}, which a program on the host cannot have; leave it out")
        if self.submission_file is not None and self.submission == "submit":
            raise ValueError("has both submission and submission_file, and only one counts")
        file = PurePosixPath(self.submission_file or "")
        if self.where == "host" and (file.is_absolute() or ".." in file.parts):
            raise ValueError("has a submission_file that is not below the folder where the program starts")
        return self


def _require_statement(prompt: str) -> str:
    if STATEMENT not in prompt:
        raise ValueError(f"needs {STATEMENT} in the place of the problem; other braces have no meaning")
    return prompt


class AgentKeys(Keys):
    """The agent. `harness grade`, which runs none, has no options for them."""

    panel: ClassVar[Panel] = "Agent"

    agent: Annotated[
        str,
        Setting(on_resume="fixed", difference="hidden", foreign="examined"),
        Option("{agents}, FILE.py, or module:Name.", "NAME", completes="agent"),
        Example(None, is_set=True),
    ] = DEFAULT_AGENT
    """The name of an agent, FILE.py, or module:Name."""
    command: Annotated[
        CommandSettings,
        Setting(on_resume="ask", difference="shown", read_by="agent", foreign="examined"),
        Example({"cmd": "my-agent", "where": "host"}, is_set=True, agent="command"),
    ] = Field(default_factory=CommandSettings)
    """The program that the agent `command` runs, or changes to the program of an agent that is one."""
    replay_from: Annotated[
        Text | None,
        Setting(
            on_resume="fixed", difference="shown", read_by="agent", differs_in_shards=True, foreign="harmless"
        ),
        Option(
            "Repeat the actions of this run, without a model (agent replay): a folder, a name in "
            "--output-dir, or latest. Benchmark and settings are the run's.",
            "RUN",
            name="--from",
            completes="run",
        ),
        Example("latest", is_set=True, agent="replay"),
    ] = None
    """The run that the agent `replay` does again: a folder, a name in `output_dir`, or `latest`."""
    n_samples: Annotated[
        int,
        Field(ge=1, le=10_000),
        Setting(on_resume="fixed", difference="unfair", read_by="agent", foreign="harmless"),
        Option("Attempts at each task. Default: 1.", "N"),
        Aliases("--epochs", "--repeat", "--repeats", "--attempts", "--trials"),
        Example(1),
    ] = 1
    """The number of attempts at each task."""
    rounds: Annotated[
        int | None,
        Field(ge=1, le=10_000),
        Setting(on_resume="ask", difference="unfair", read_by="tools", is_replayed=True, foreign="examined"),
        Example(20),
    ] = None
    """The number of tool calls in an attempt. Default: the environment's of the task."""
    system_prompt: Annotated[
        str | None,
        Setting(on_resume="ask", difference="shown", read_by="agent", foreign="harmless"),
        Example("Think step by step."),
    ] = None
    """The system prompt of the agent."""
    agent_prompt: Annotated[
        Annotated[str, AfterValidator(_require_statement)] | None,
        Setting(on_resume="ask", difference="shown", read_by="agent", foreign="harmless"),
        Example("Be brief. {problem_statement}"),
    ] = None
    """Your own prompt, in which each problem replaces {problem_statement}."""
    mcp_servers: Annotated[
        list[McpServer],
        BeforeValidator(list_servers),
        AfterValidator(require_unique_names),
        Setting(
            on_resume="ask",
            difference="shown",
            read_by="agent",
            keyword="list[McpServer | dict[str, Any]] | dict[str, dict[str, Any]]",
            foreign="examined",
        ),
        Example([{"name": "time", "command": "uvx", "args": ["mcp-server-time"]}]),
    ] = Field(default_factory=list)
    """Your MCP servers, whose tools the agent gets in addition. A list, or a mapping by their names."""
    baseline: Annotated[
        bool,
        Setting(on_resume="ask", difference="shown", foreign="harmless"),
        Option("Leave out the MCP servers of the config, for a comparison."),
        Useless(
            lambda config: config.baseline and not config.mcp_servers,
            "runs the tasks without the MCP servers of the config, and the config names none",
            "name them under 'mcp_servers'",
        ),
    ] = False
    """Whether the run goes without the servers and their prompts, to compare it with one that has them."""
    client_generation: Annotated[
        Literal["drop", "keep"],
        Setting(on_resume="ask", difference="shown", read_by="agent", needs_model=True, foreign="harmless"),
    ] = "drop"
    """Whether the parameters in the requests of an agent's program override the run's."""


class ModelKeys(Keys):
    """The model of the agent, and what it may spend."""

    panel: ClassVar[Panel] = "Model"

    model: Annotated[
        Text | None,
        Setting(on_resume="ask", difference="shown", read_by="model", foreign="examined"),
        Option("Model of the agent, or an endpoint of the config.", "NAME", is_axis=True),
        Example("my-model", is_set=True),
    ] = None
    """A key of `endpoints`, or the name of a model at `base_url`."""
    base_url: Annotated[
        Annotated[str, AfterValidator(require_base_url)] | None,
        Setting(on_resume="ask", difference="shown", read_by="model", needs_model=True, foreign="examined"),
        Option("Server of the model, such as http://localhost:8000/v1.", "URL"),
        Example("http://localhost:8000/v1", is_set=True),
    ] = None
    """The URL of the model's server, such as http://localhost:8000/v1."""
    api: Annotated[
        Api | None,
        Setting(on_resume="ask", difference="shown", read_by="model", needs_model=True, foreign="examined"),
        Option("API of the server: chat, responses, or messages (Anthropic's). Default: chat.", "NAME"),
    ] = None
    """The API of the model at `base_url`. Without it, `chat`."""
    endpoints: Annotated[
        dict[str, Endpoint], Setting(on_resume="ask", difference="shown", read_by="model", foreign="examined")
    ] = Field(default_factory=dict)
    """Models at servers by names of your own, which `model` may name."""
    generation: Annotated[
        GenerationSettings,
        Setting(on_resume="ask", difference="shown", read_by="model", needs_model=True, foreign="harmless"),
        Example({"temperature": 0.0, "max_tokens": 4096}),
    ] = Field(default_factory=GenerationSettings)
    """The parameters of generation. A parameter that is not set is not sent."""
    attempt_budget: Annotated[
        Budget,
        Setting(on_resume="ask", difference="shown", read_by="model", needs_model=True, foreign="harmless"),
        Example({"output_tokens": 50_000}),
    ] = Field(default_factory=Budget)
    """The budget of each attempt, which ends as `limit_reached` when it is spent."""
    run_budget: Annotated[
        Budget,
        Setting(
            on_resume="free",
            difference="shown",
            read_by="model",
            needs_model=True,
            differs_in_shards=True,
            foreign="harmless",
        ),
        Option(
            "Stop the run at this many output_tokens or total_tokens, or at this cost (repeatable).",
            "NAME=NUMBER",
        ),
        Example({"total_tokens": 5_000_000}),
    ] = Field(default_factory=Budget)
    """The budget of the whole run, which stops when it is spent."""
    reply_cache: Annotated[
        Literal["auto", "on", "off"],
        Setting(on_resume="ask", difference="shown", read_by="model", needs_model=True, foreign="harmless"),
    ] = "auto"
    """Whether replies are kept and reused. `auto` does so only at temperature 0."""
