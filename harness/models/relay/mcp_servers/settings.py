"""The settings of one of the user's MCP servers, in the form that other tools also use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

from harness.core.errors import UsageError
from harness.core.secret_forms import describe_url_value, is_secret_parameter

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# Keys of other tools that harness does not obey, and the reasons.
_REFUSED = {
    "disallowed_native_tools": "names tools of another agent, while the tools of a task stay as they are",
    "type": "is not needed: a server has either a command or a url",
}
WORKDIR = "{workdir}"


class McpServer(BaseModel):
    """All settings of a server."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True, strict=True
    )

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,32}$")
    command: str | None = Field(default=None, min_length=1)
    """The program that serves on its standard input and output."""
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of the program's environment. `${VAR}` is replaced when the program starts."""
    url: str | None = None
    """A server that runs already, by streamable HTTP. A secret in its query is a `${VAR}`, which is replaced
    when the connection is made."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of each request to `url`. Each holds a `${VAR}`, because they are secrets."""
    where: Literal["host", "sandbox"] = "host"
    """The place where the program runs. `sandbox` is a container without network, for a server that is not
    trusted or works on a task's files."""
    machine: Literal["task", "own"] = "task"
    """The sandbox of the server. `task` is the task's own if agents run programs there, where a program may
    be root and may not call epoll. `own` is another one."""
    image: str | None = Field(default=None, min_length=1)
    """The prepared agent in whose folder in /opt/agents the files of the server are."""
    startup_timeout_ms: int = Field(default=60_000, ge=1, le=3_600_000)
    """The time limit in milliseconds from the start until the tools are listed."""
    tool_timeout_ms: int = Field(default=300_000, ge=1, le=3_600_000)
    """The time limit in milliseconds of one call."""
    setup_timeout_ms: int = Field(default=900_000, ge=1, le=3_600_000)
    """The time limit in milliseconds of `setup_command`."""
    setup_command: str | None = Field(default=None, min_length=1)
    """A command for the shell, which runs once, before the first server of the run starts."""
    system_prompt_append: str | None = None
    """A text that is added to the system prompt."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_others(cls, values: Any) -> Any:
        for key, reason in _REFUSED.items():
            if isinstance(values, dict) and key in values:
                raise ValueError(f"must not hold '{key}', which {reason}")
        return values

    @field_validator("url")
    @classmethod
    def _require_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parts = urlsplit(url)
        except ValueError:
            raise ValueError("must be a URL such as http://localhost:8000/mcp") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"must be a URL such as http://localhost:8000/mcp{describe_url_value(url)}")
        if parts.username or parts.password:
            raise ValueError("must hold no user name or password; write headers with a ${VARIABLE} instead")
        if parts.fragment:
            raise ValueError("must hold no fragment, because no server gets it")
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if is_secret_parameter(name, value):
                raise ValueError(
                    f"must take the parameter '{name}' from an environment variable, such as "
                    f"'{name}=${{TOKEN}}', because the run folder keeps the config"
                )
        return url

    @field_validator("headers")
    @classmethod
    def _require_variables(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not VARIABLE.search(value):
                raise ValueError(
                    f"must take '{name}' from an environment variable, such as 'Bearer ${{TOKEN}}', because "
                    "the run folder keeps the config"
                )
        return headers

    @model_validator(mode="after")
    def _require_one_form(self) -> McpServer:
        if (self.command is None) == (self.url is None):
            raise ValueError(f"server '{self.name}' needs either a command or a url")
        unread = ("args", "env") if self.url is not None else ("headers",)
        held = [name for name in unread if getattr(self, name)]
        if held:
            raise ValueError(
                f"server '{self.name}' does not read {held[0]}, because it has "
                f"{'a url' if self.url is not None else 'a command'}"
            )
        return self

    @model_validator(mode="after")
    def _require_readers(self) -> McpServer:
        if self.where == "host":
            # A run folder also holds the defaults.
            for name, default in (("image", None), ("machine", "task")):
                if getattr(self, name) != default:
                    raise ValueError(
                        f"server '{self.name}' does not read {name}, because it runs on the host; write "
                        "where: sandbox"
                    )
            if any(WORKDIR in argument for argument in self.args):
                raise ValueError(
                    f"server '{self.name}' must not have {WORKDIR} in args, because it runs on the host, and "
                    "the files of a task are in its sandbox; write where: sandbox"
                )
            return self
        if self.url is not None:
            raise ValueError(
                f"server '{self.name}' has a url, so it runs already; only a command runs in a sandbox"
            )
        if self.setup_command is not None:
            raise ValueError(
                f"server '{self.name}' has a setup_command, but nothing is installed in a sandbox during a "
                "run; prepare its files with `harness images build --agent NAME=PATH`, and write image: NAME"
            )
        return self

    @field_serializer("env")
    def _hide_values(self, env: dict[str, str]) -> dict[str, str]:
        """Return the environment as a run folder holds it, without values.

        A resumed run reads a value that stood in the config from the variable of the same name.
        """
        return {name: value if VARIABLE.fullmatch(value) else f"${{{name}}}" for name, value in env.items()}


def list_servers(value: Any) -> Any:
    """Return the servers of a config as a list, also if they are a mapping by their names."""
    if not isinstance(value, Mapping):
        return value
    return [
        {"name": name, **settings} if isinstance(settings, Mapping) else settings
        for name, settings in value.items()
    ]


def require_unique_names(servers: list[McpServer]) -> list[McpServer]:
    """Return the servers. Raises ValueError if two of them have one name."""
    names = [server.name for server in servers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"must have different names, and '{twice[0]}' appears twice")
    return servers


def expand_url(url: str, variables: Mapping[str, str], *, where: str) -> str:
    """Return a URL with the variables of its query replaced. Raises UsageError for one that is not set."""
    head, sign, query = url.partition("?")
    found = {name: quote(value, safe="") for name, value in variables.items()}
    return head + sign + expand_values({"url": query}, found, where=where)["url"]


def expand_values(values: Mapping[str, str], variables: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Return the values with their variables replaced. Raises UsageError for a variable that is not set."""

    def read(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = variables.get(name, default)
        if found is None:
            raise UsageError(
                f"{where}: the environment variable {name} is not set",
                hint=f"set it, or write ${{{name}:-default}}",
            )
        return found

    return {name: VARIABLE.sub(read, value) for name, value in values.items()}
