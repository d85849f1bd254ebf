"""The tools that an agent gets for a sandbox: commands, Python, and files, with text as the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import Field, ValidationError

from harness.environments.tool import Arguments, Tool
from harness.errors import UsageError, describe_first_error
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import Sandbox

# The output of a command that an agent sees. More would only fill the context of its model.
_SHOWN_BYTES = 32 * 1024
# The kernel takes arguments of up to 128 KiB.
_SCRIPT_BYTES = 100_000
_READ_BYTES = 256 * 1024
_SECONDS = 60.0
_TIMEOUT = Field(
    default=_SECONDS, gt=0, le=600, allow_inf_nan=False, description="Seconds after which it is ended."
)


class BashArguments(Arguments):
    """The arguments of `bash`."""

    command: str = Field(description="The script. Each call is a new shell in the home folder.")
    timeout_seconds: float = _TIMEOUT


class PythonArguments(Arguments):
    """The arguments of `python`."""

    code: str = Field(description="The program. Each call is a new process in the home folder.")
    timeout_seconds: float = _TIMEOUT


class ReadFileArguments(Arguments):
    """The arguments of `read_file`."""

    path: str = Field(description="The path, relative to the home folder or absolute.")


class WriteFileArguments(Arguments):
    """The arguments of `write_file`."""

    path: str = Field(description="The path, relative to the home folder or absolute.")
    content: str = Field(description="The whole content, as text.")


Act = Callable[[Sandbox, Any], Awaitable[str]]


async def _run_bash(sandbox: Sandbox, asked: BashArguments) -> str:
    # A script on standard input would be read by its own commands.
    script = asked.command
    if len(script.encode("utf-8", "surrogatepass")) > _SCRIPT_BYTES:
        raise UsageError(
            f"the script is longer than {_SCRIPT_BYTES:,} bytes; write it to a file with write_file first"
        )
    return await _run(sandbox, ["/bin/bash", "-c", script], "", asked.timeout_seconds)


async def _run_python(sandbox: Sandbox, asked: PythonArguments) -> str:
    return await _run(sandbox, ["python3", "-"], asked.code, asked.timeout_seconds)


async def _run(sandbox: Sandbox, command: list[str], script: str, seconds: float) -> str:
    result = await sandbox.exec(
        command,
        stdin=script.encode("utf-8", "surrogatepass"),
        timeout=seconds,
        keep_bytes=_SHOWN_BYTES,
    )
    return _describe(result, seconds)


def _describe(result: ExecResult, seconds: float) -> str:
    parts = [result.stdout.data.decode("utf-8", "replace")]
    if result.stderr.total:
        parts.append(f"[stderr]\n{result.stderr.data.decode('utf-8', 'replace')}")
    if result.limit == "wall_seconds":
        parts.append(f"[ended after {seconds:g} s, the timeout]")
    elif result.limit is not None:
        parts.append(f"[ended at the limit {result.limit}]")
    elif result.exit_code:
        parts.append(f"[exit code {result.exit_code}]")
    return "\n".join(part.rstrip("\n") for part in parts if part) or "[no output]"


async def _read_file(sandbox: Sandbox, asked: ReadFileArguments) -> str:
    return (await sandbox.read_file(asked.path, limit=_READ_BYTES)).decode("utf-8", "replace")


async def _write_file(sandbox: Sandbox, asked: WriteFileArguments) -> str:
    content = asked.content.encode("utf-8", "surrogatepass")
    await sandbox.write_file(asked.path, content)
    return f"wrote {len(content):,} bytes to {asked.path}"


_TOOLS: dict[Tool, Act] = {
    Tool("bash", "Run a script in bash and return its output.", BashArguments): _run_bash,
    Tool("python", "Run a program in Python and return its output.", PythonArguments): _run_python,
    Tool("read_file", "Return the content of a text file.", ReadFileArguments): _read_file,
    Tool("write_file", "Write a text file. Missing folders are created.", WriteFileArguments): _write_file,
}
TOOLS = {tool.name: tool for tool in _TOOLS}


async def call_tool(sandbox: Sandbox, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the text for the agent, and whether the call was wrong. Raises SandboxError."""
    tool = TOOLS.get(name)
    if tool is None:
        return f"there is no tool '{name[:100]}'; the tools are: {', '.join(TOOLS)}", True
    try:
        return await _TOOLS[tool](sandbox, tool.arguments.model_validate(dict(arguments))), False
    except ValidationError as error:
        return f"wrong arguments for '{name}': {describe_first_error(error)}", True
    except UsageError as error:
        return error.message, True
