"""The tables of a task folder's `task.toml`, schema 1.4, and their older spellings."""

from __future__ import annotations

import ipaddress
import math
import re
import unicodedata
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic import FiniteFloat as Number

SCHEMA = "1.4"
MAIN = "main"
"""The service that the agent acts in."""

_ORG_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*")
_SERVICE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NOT_PORTABLE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])", re.IGNORECASE)
_SIZES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}


class _Table(BaseModel):
    # Unknown keys are errors here, which `task_folder` turns into warnings.
    model_config = ConfigDict(extra="forbid", frozen=True)


def _check_org_name(name: str) -> str:
    if not _ORG_NAME.fullmatch(name) or ".." in name:
        raise ValueError(
            f"must be ORG/NAME of letters, digits, '-', '_' and '.', such as acme/sort-log, not '{name}'"
        )
    return name


def _check_service(name: str) -> str:
    if not _SERVICE.fullmatch(name):
        raise ValueError(f"must be the name of a compose service, not '{name}'")
    return name


def _check_step_name(name: str) -> str:
    is_device = _DEVICE.fullmatch(name.partition(".")[0].rstrip(" "))
    if not name.strip() or name.endswith((".", " ")) or _NOT_PORTABLE.search(name) or is_device:
        raise ValueError(f"must be a portable name of a folder, not '{name}'")
    if len(name.encode()) > 255:
        raise ValueError(f"must have at most 255 bytes, not {len(name.encode()):,}")
    return name


def _check_host(host: str) -> str:
    """Return an entry of `allowed_hosts` in its normal form: a host, `*.host`, an address or a network."""
    plain = host.strip().lower().rstrip(".")
    try:
        if "%" not in plain:
            return (
                ipaddress.ip_network(plain).compressed if "/" in plain else str(ipaddress.ip_address(plain))
            )
    except ValueError:
        pass
    name = plain.removeprefix("*.")
    if not name or not all(_LABEL.fullmatch(label) for label in name.split(".")) or _is_address(name):
        raise ValueError(
            f"must be hosts, *.host, IP addresses or networks, without URLs, ports and paths, not '{host}'"
        )
    return plain


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


OrgName = Annotated[str, AfterValidator(_check_org_name)]
Service = Annotated[str, AfterValidator(_check_service)]
Host = Annotated[str, AfterValidator(_check_host)]
Positive = Annotated[Number, Field(gt=0)]
User = str | int


class NetworkMode(StrEnum):
    """The network of a machine."""

    NONE = "no-network"
    PUBLIC = "public"
    ALLOWLIST = "allowlist"


class _Network(_Table):
    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[Host, ...] | None = None

    @model_validator(mode="after")
    def _check_hosts(self) -> Any:
        if self.allowed_hosts and self.network_mode is not NetworkMode.ALLOWLIST:
            raise ValueError("allowed_hosts needs network_mode = 'allowlist'")
        return self


class Author(_Table):
    """An author of a task."""

    name: str
    email: str | None = None


class Package(_Table):
    """The table `[task]`: the name of a task, and facts for people."""

    name: OrgName
    version: str | None = None
    description: str = ""
    authors: tuple[Author, ...] = ()
    keywords: tuple[str, ...] = ()


class Healthcheck(_Table):
    """A command that succeeds once a machine is ready."""

    command: str
    interval_sec: Positive = 5.0
    timeout_sec: Positive = 30.0
    start_period_sec: Annotated[Number, Field(ge=0)] = 0.0
    start_interval_sec: Positive = 5.0
    # The number of failures in a row that make the machine unhealthy.
    retries: Annotated[int, Field(ge=1)] = 3


class McpServer(_Table):
    """A server of the task's machine that offers tools to the agent."""

    name: str
    transport: Annotated[
        Literal["stdio", "sse", "streamable-http"],
        BeforeValidator(lambda value: "streamable-http" if value == "http" else value),
    ] = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    # The values may have templates (`resolve_env`).
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_transport(self) -> Any:
        if self.transport == "stdio":
            if not self.command or self.headers:
                raise ValueError("transport 'stdio' needs a command, and takes no headers")
        elif not self.url:
            raise ValueError(f"transport '{self.transport}' needs a url")
        return self


class Artifact(_Table):
    """A file or a folder that is kept when the agent has ended."""

    # An absolute path in the machine.
    source: str
    # A relative path in the run folder, None for the path of the source.
    destination: str | None = None
    exclude: tuple[str, ...] = ()
    service: Service = MAIN

    @model_validator(mode="before")
    @classmethod
    def _take_path(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"source": value}
        if isinstance(value, dict):  # An empty destination, and a null, mean the default.
            return {k: v for k, v in value.items() if k not in ("destination", "service") or v}
        return value

    @model_validator(mode="after")
    def _check_paths(self) -> Any:
        if not self.source.startswith("/") or ".." in PurePosixPath(self.source).parts:
            raise ValueError(f"source must be an absolute path without '..', not '{self.source}'")
        if self.destination is not None:
            path = PurePosixPath(self.destination)
            if "\\" in self.destination or path.is_absolute() or ".." in path.parts or not path.parts:
                raise ValueError(
                    f"destination must be a relative path without '..' and '\\', not '{self.destination}'"
                )
            if str(path) == "manifest.json":
                raise ValueError("destination must not be manifest.json, which lists the artifacts")
        return self


class EnvironmentTable(_Network):
    """The table `[environment]`, or `[verifier.environment]`: a machine."""

    docker_image: str | None = None
    build_timeout_sec: Positive = 600.0
    os: Annotated[Literal["linux", "windows"], BeforeValidator(_lower)] = "linux"
    cpus: Positive | None = None
    memory_mb: Annotated[int, Field(ge=1)] | None = None
    storage_mb: Annotated[int, Field(ge=1)] | None = None
    gpus: int | None = None
    gpu_types: tuple[str, ...] | None = None
    tpu: Any = None
    # The values may have templates (`resolve_env`).
    env: dict[str, str] = Field(default_factory=dict)
    workdir: str | None = None
    skills_dir: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    healthcheck: Healthcheck | None = None

    @property
    def network(self) -> NetworkMode:
        """The network of the machine. A task that names none wants a public one."""
        return self.network_mode or NetworkMode.PUBLIC

    @model_validator(mode="before")
    @classmethod
    def _take_old_spellings(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            size = values.pop(old, None)
            if size is not None:
                _take_old(values, old, new, size, _parse_size(old, size))
        internet = values.pop("allow_internet", None)
        if internet is not None and not isinstance(internet, bool):
            raise ValueError(f"allow_internet must be true or false, not {internet!r}")
        if internet is not None and values.get("network_mode") != "allowlist":
            mode = "public" if internet else "no-network"
            _take_old(values, "allow_internet", "network_mode", internet, mode)
        return values

    @model_validator(mode="after")
    def _refuse_unsupported(self) -> Any:
        if self.os == "windows":
            raise ValueError("os = 'windows': Windows tasks cannot run in containers of Linux")
        if self.gpus:
            raise ValueError(
                f"gpus = {self.gpus}: GPUs are not supported; set gpus = 0 for a task that needs none"
            )
        if self.tpu:
            raise ValueError("tpu: TPUs are not supported; remove tpu for a task that needs none")
        return self


def _take_old(values: dict[str, Any], old: str, new: str, given: Any, meant: Any) -> None:
    """Set a value that an older spelling means. Raises ValueError if the new spelling has another one."""
    if values.setdefault(new, meant) != meant:
        raise ValueError(
            f"{old} = {given!r} (an older spelling) and {new} = {values[new]!r} differ; remove {old}"
        )


def _parse_size(name: str, size: Any) -> int:
    text = str(size).strip().upper()
    try:
        megabytes = float(text[:-1]) * _SIZES[text[-1:]]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{name} must be a size such as '2G' or '512M', not {size!r}") from error
    if not math.isfinite(megabytes):
        raise ValueError(f"{name} must be a finite size, not {size!r}")
    return int(megabytes)


class AgentTable(_Network):
    """The table `[agent]`: the limit of the agent, its user, and its network if that differs."""

    # None is not a limit of the task's own.
    timeout_sec: Positive | None = None
    user: User | None = None


class CollectHook(_Table):
    """A command that runs after the agent, before artifacts are taken."""

    command: str
    service: Service = MAIN
    timeout_sec: Positive = 60.0
    user: User | None = None


class VerifierTable(_Network):
    """The table `[verifier]`: how test.sh runs."""

    timeout_sec: Positive = 600.0
    # The values may have templates (`resolve_env`).
    env: dict[str, str] = Field(default_factory=dict)
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: tuple[CollectHook, ...] = ()

    @property
    def own_mode(self) -> Literal["shared", "separate"] | None:
        """The mode that this table asks for, None if it asks for none."""
        return self.environment_mode or ("separate" if self.environment is not None else None)

    @model_validator(mode="after")
    def _check_mode(self) -> Any:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError(
                "environment_mode = 'shared' excludes [verifier.environment]; remove one of them"
            )
        return self


class SolutionTable(_Table):
    """The table `[solution]`: how solve.sh runs."""

    env: dict[str, str] = Field(default_factory=dict)


class StepTable(_Table):
    """An entry of `[[steps]]`."""

    name: Annotated[str, AfterValidator(_check_step_name)]
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    # The least value of the key `reward`, or of each key, that lets the next step begin.
    min_reward: Number | dict[str, Number] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: tuple[Artifact, ...] = ()


class TaskToml(_Table):
    """A whole task.toml."""

    schema_version: str = SCHEMA
    source: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    task: Package | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    environment: EnvironmentTable = EnvironmentTable()
    solution: SolutionTable = SolutionTable()
    steps: tuple[StepTable, ...] = ()

    def verifier_mode(self, step: StepTable | None = None) -> Literal["shared", "separate"]:
        """Return where the tests run: in the task's own machine, or in a separate one of the verifier."""
        return (step and step.verifier.own_mode) or self.verifier.own_mode or "shared"

    @model_validator(mode="before")
    @classmethod
    def _take_version(cls, values: Any) -> Any:
        if isinstance(values, dict) and "version" in values:
            values = dict(values)
            values.setdefault("schema_version", values.pop("version"))
            values.pop("version", None)
        return values

    @model_validator(mode="after")
    def _check_whole(self) -> Any:
        major = self.schema_version.partition(".")[0]
        if not major.isdigit() or int(major) > 1:
            raise ValueError(
                f"schema_version = '{self.schema_version}': versions up to {SCHEMA} can be read; "
                "update harness, or take an earlier version of the task"
            )
        seen: set[str] = set()
        for step in self.steps:
            key = unicodedata.normalize("NFC", step.name).casefold()
            if key in seen:
                raise ValueError(f"steps: the name '{step.name}' is used twice, if case is ignored")
            seen.add(key)
        return self
