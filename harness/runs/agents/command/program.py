"""The program of an attempt: its arguments, its environment variables and its files."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.errors import UsageError
from harness.core.invalid_values import quote_value
from harness.core.tools import ForeignTool
from harness.runs.agents.agent import AgentError, AttemptContext, write_prompt

TASK_FILE, PROMPT_FILE, SUBMISSION_FILE = "task.json", "prompt.txt", "submission"
SUBMIT_COMMAND = "bin/harness-submit"
HOW_TO_SUBMIT = (
    "To submit your answer, run `{command} ANSWER`, or `{command} < FILE` for a long one. "
    "The last answer that you submit counts."
)
HOW_TO_ACT = (
    "Only these tools of the MCP server `harness` act in the task: {tools}. "
    "Your own shell is in another machine."
)
# The kernel takes no longer argument.
MAX_ARGUMENT_BYTES = 128 * 1024 - 1
# ${NAME} is a variable of a shell or of an agent's own configuration.
_PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")
_NAMES = ("model", "base_url", "mcp_url", "prompt", "prompt_file", "task_file", "scratch")
_SUBMIT = """\
#!/bin/sh
# Submits an answer: the arguments, or else the standard input.
set -eu
if [ "$#" -gt 0 ]; then printf '%s' "$*" > {file}.new; else cat > {file}.new; fi
mv -f {file}.new {file}
"""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of the host for a program, and the token that it shows there."""

    # Such as http://127.0.0.1:4711, without a path.
    url: str
    token: str


def split_command(command: str) -> tuple[str, ...]:
    """Return the arguments of a command, split as a shell splits them.

    Raises UsageError for a command that cannot be split, an unknown placeholder, and a prompt in the middle
    of an argument, where a program such as a shell could take it for more than text.
    """
    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"--agent-cmd {quote_value(command)}: {error}", hint="check its quotes") from error
    if not argv:
        raise UsageError("--agent-cmd is empty", hint="name a program, such as: my-agent {prompt_file}")
    for argument in argv:
        for name in _PLACEHOLDER.findall(argument):
            if name not in _NAMES:
                known = ", ".join(f"{{{each}}}" for each in _NAMES)
                raise UsageError(
                    f"--agent-cmd: {{{name}}} has no meaning in {quote_value(argument)}",
                    hint=f"use one of {known}; a shell's own braces belong into a script",
                )
        if "prompt" in _PLACEHOLDER.findall(argument) and not re.fullmatch(
            r"(-[^={}]*=)?\{prompt\}", argument
        ):
            raise UsageError(
                f"--agent-cmd: {{prompt}} is only a part of the argument {quote_value(argument)}",
                hint="write it as an argument or as --option={prompt}, or read the file "
                "$HARNESS_PROMPT_FILE instead",
            )
    return argv


def fill_arguments(argv: tuple[str, ...], values: Mapping[str, str]) -> list[str]:
    """Return the arguments with the placeholders filled. Raises AgentError for a prompt that does not fit."""
    filled = [_PLACEHOLDER.sub(lambda match: values[match[1]], argument) for argument in argv]
    for argument in filled:
        if "\0" in argument or len(argument.encode("utf-8", "surrogateescape")) > MAX_ARGUMENT_BYTES:
            raise AgentError(
                f"the prompt cannot be an argument, because it has more than {MAX_ARGUMENT_BYTES} bytes or "
                "a NUL character; use {prompt_file} in the command instead of {prompt}"
            )
    return filled


def write_files(context: AttemptContext, scratch: str, prompt: str) -> dict[str, tuple[bytes, int]]:
    """Return the files of an attempt, as name in the scratch folder -> content and mode."""
    task, environment = context.task, context.environment
    tools = () if environment is None else environment.tools.values()
    about: dict[str, Any] = {
        "id": task.id,
        "benchmark": task.benchmark,
        "category": task.category,
        "attempt": context.number,
        "seed": context.seed,
        "prompt": task.prompt,
        "instruction": task.instruction,
        "limits": {
            "seconds": context.seconds,
            "turns": None if environment is None else environment.turns,
        },
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in tools
        ],
    }
    submit = _SUBMIT.format(file=shlex.quote(f"{scratch}/{SUBMISSION_FILE}"))
    return {
        TASK_FILE: (json.dumps(about, indent=1).encode(), 0o644),
        PROMPT_FILE: (prompt.encode("utf-8", "surrogatepass"), 0o644),
        SUBMIT_COMMAND: (submit.encode(), 0o755),
    }


@dataclass(frozen=True, slots=True)
class HowToWork:
    """The sentences that follow the prompt of a task."""

    # Replaces the sentences about the tools and about the command that submits.
    append: str | None
    # The additions of the user's MCP servers.
    server_prompts: tuple[str, ...]
    submit_command: str


def compose_prompt(context: AttemptContext, how: HowToWork, *, is_apart: bool) -> str:
    """Return the whole prompt of a task. It names the tools if the program `is_apart` from the task."""
    after = HOW_TO_SUBMIT.format(command=how.submit_command) if how.append is None else how.append
    if how.append is None and is_apart and context.environment is not None:
        # The tools of the user's servers do not act in the task.
        own = [name for name, tool in context.environment.tools.items() if not isinstance(tool, ForeignTool)]
        tools = ", ".join(f"`{name}`" for name in own)
        after = f"{HOW_TO_ACT.format(tools=tools)}\n{after}"
    prompt = write_prompt(context.task)
    parts = [part for part in (*how.server_prompts, after) if part]
    return "\n\n".join((prompt.rstrip(), *parts)) + "\n" if parts else prompt


def make_environment(
    context: AttemptContext, endpoints: Endpoints, scratch: str, *, path: str
) -> dict[str, str]:
    """Return the environment variables that every program gets. `path` is the PATH behind the harness's own.

    The clients of models find the relay by the variables that they read anyway.
    """
    variables = {
        "PATH": f"{scratch}/bin:{path}",
        "HARNESS_TASK_ID": context.task.id,
        "HARNESS_TASK_FILE": f"{scratch}/{TASK_FILE}",
        "HARNESS_PROMPT_FILE": f"{scratch}/{PROMPT_FILE}",
        "HARNESS_SUBMISSION_FILE": f"{scratch}/{SUBMISSION_FILE}",
        "HARNESS_MCP_URL": f"{endpoints.url}/mcp",
        "HARNESS_MCP_TOKEN": endpoints.token,
        # The settings and caches of a program do not belong to the task.
        "XDG_CONFIG_HOME": f"{scratch}/config",
        "XDG_CACHE_HOME": f"{scratch}/cache",
        "XDG_DATA_HOME": f"{scratch}/data",
        "XDG_STATE_HOME": f"{scratch}/state",
    }
    if context.model is not None:
        variables |= {
            "HARNESS_MODEL": context.model.endpoint.model,
            "OPENAI_BASE_URL": f"{endpoints.url}/v1",
            "OPENAI_API_KEY": endpoints.token,
            "ANTHROPIC_BASE_URL": endpoints.url,
            "ANTHROPIC_API_KEY": endpoints.token,
        }
    return variables
