"""The settings of the agent `command`: the program that it runs."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from harness.core.setting import Option, Text

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
