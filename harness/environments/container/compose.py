"""Read the docker-compose.yaml of a task folder: the services that run beside the agent's machine.

Each key that the models below do not have is refused by name, with its line. So nothing of a file is left out
in silence, and nothing of it reaches the engine unread. Source: the Compose specification.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from harness.core.errors import DataError, UsageError
from harness.core.inputs.yaml_text import Lines, read_yaml_with_lines
from harness.core.invalid_values import describe_requirement
from harness.environments.container.task_folder import COMPOSE, ENVIRONMENT, TESTS, TaskFolder
from harness.environments.container.task_toml import MAIN
from harness.environments.container.task_toml import Service as ServiceName
from harness.environments.os.file_entries import clean_path

_VARIABLE = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?::?-(?P<default>[^}]*))?\}|)"
)
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmg]?)b?", re.IGNORECASE)
_QUOTED = re.compile(r"(['\"])(.*)\1(?: +#.*)?")
MAX_ENV_BYTES = 1 << 20
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_HOST = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?")
# Commands that only keep a machine alive, as the guest of the agent's machine does.
_IDLE = re.compile(r"(sleep|tail -f) (infinity|inf|/dev/null|\d{4,})")
# The settings of `main` that task.toml has.
_REFUSED_FOR_MAIN = frozenset(
    ("cpus", "deploy", "entrypoint", "mem_limit", "pids_limit", "tmpfs", "user", "working_dir")
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    # The keys that have no effect here.
    ignored: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _drop_ignored(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {key: value for key, value in values.items() if key not in cls.ignored}


def _read_seconds(value: Any) -> Any:
    found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if found is None:
        raise ValueError(f"must be a duration such as 1m30s, not {value!r}")
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def _read_size(value: Any) -> Any:
    found = _SIZE.fullmatch(str(value).strip())
    if found is None:
        raise ValueError(f"must be a size such as 512m, not {value!r}")
    return float(found[1]) * _UNITS[found[2].lower()]


def _read_command(value: Any) -> Any:
    if isinstance(value, str):
        return shlex.split(value)
    return list(map(_write, value)) if isinstance(value, list) else value


def _read_variables(value: Any) -> Any:
    if isinstance(value, list):
        return {name: text for name, _, text in (str(each).partition("=") for each in value)}
    return {name: _write(text) for name, text in value.items()} if isinstance(value, dict) else value


def _write(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _name_each(value: Any) -> Any:
    """Return a mapping for a list of names, which is the short form of one."""
    return {name: {} for name in value} if isinstance(value, list) else value


def _read_build(value: Any) -> Any:
    return {"context": value} if isinstance(value, str) else value


def _read_mount(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    source, colon, rest = value.partition(":")
    target, _, mode = rest.partition(":")
    if not colon:
        return {"type": "volume", "target": source}
    if any(flag not in ("", "ro", "rw", "z", "Z") for flag in mode.split(",")):
        raise ValueError(f"'{value}' has the mode '{mode}', which is not supported")
    kind = "bind" if source[:1] in ("/", ".", "~") else "volume"
    return {"type": kind, "source": source, "target": target}


def _read_test(value: Any) -> Any:
    return ["CMD-SHELL", value] if isinstance(value, str) else value


def _refuse_options(value: Any) -> Any:
    if value:
        raise ValueError("has options, which are not supported")
    return value


def _check_host(name: str) -> str:
    if not _HOST.fullmatch(name):
        raise ValueError(f"must be the name of a host, not '{name}'")
    return name


Seconds = Annotated[float, BeforeValidator(_read_seconds), Field(gt=0)]
Bytes = Annotated[float, BeforeValidator(_read_size), Field(gt=0)]
Words = Annotated[tuple[str, ...], BeforeValidator(_read_command)]
Host = Annotated[str, BeforeValidator(_check_host)]
Variables = Annotated[dict[str, str], BeforeValidator(_read_variables)]
Lookup = Callable[[str], str | None]


class Build(_Part):
    """The build of an image from a folder of the task."""

    context: str = "."
    dockerfile: str = "Dockerfile"
    args: Variables = Field(default_factory=dict)
    target: str | None = None


class Health(_Part):
    """The check that a service is ready."""

    test: Annotated[tuple[str, ...], BeforeValidator(_read_test)] = ()
    interval: Seconds = 30.0
    timeout: Seconds = 30.0
    start_period: Annotated[float, BeforeValidator(_read_seconds), Field(ge=0)] = 0.0
    start_interval: Seconds = 5.0
    retries: Annotated[int, Field(ge=1)] = 3
    disable: bool = False

    @property
    def command(self) -> str | list[str] | None:
        """A text for the shell, or a program and its arguments; None if nothing is checked."""
        kind, *words = self.test or ("NONE",)
        if self.disable or kind == "NONE":
            return None
        return words if kind == "CMD" else " ".join(words)

    @model_validator(mode="after")
    def _check_test(self) -> Any:
        kind, *words = self.test or ("NONE",)
        if kind != "NONE" and (kind not in ("CMD", "CMD-SHELL") or not words):
            raise ValueError("test must begin with CMD, CMD-SHELL or NONE, and have a command")
        return self


class Dependency(_Part):
    """The state that another service must reach first."""

    ignored = frozenset(("restart",))

    condition: Literal["service_started", "service_healthy", "service_completed_successfully"] = (
        "service_started"
    )
    required: Literal[True] = True


class Mount(_Part):
    """A file or a folder of the task, or a volume, at a path of a machine."""

    # The machine gets a copy, so the folder of the task stays as it is.
    ignored = frozenset(("read_only",))

    type: Literal["bind", "volume", "tmpfs"]
    source: str | None = None
    target: Annotated[str, Field(pattern=r"^/"), AfterValidator(clean_path)]


class Member(_Part):
    """The names of a service in a network."""

    aliases: tuple[Host, ...] = ()


class _Network(_Part):
    ignored = frozenset(("name",))
    driver: Literal["bridge"] = "bridge"
    internal: bool = False


class _ResourceLimits(_Part):
    cpus: float | None = None
    memory: Bytes | None = None
    pids: int | None = None


class _Resources(_Part):
    ignored = frozenset(("reservations",))
    limits: _ResourceLimits = _ResourceLimits()


class _Deploy(_Part):
    resources: _Resources = _Resources()


class Service(_Part):
    """A service. `main` is the machine of the agent."""

    # Every port of a service is open to the others, and none to the host.
    ignored = frozenset(("expose", "init", "labels", "logging", "ports", "pull_policy", "shm_size")) | {
        *("stop_grace_period", "stop_signal")
    }

    build: Annotated[Build | None, BeforeValidator(_read_build)] = None
    image: str | None = None
    command: Words | None = None
    entrypoint: Words | None = None
    environment: Variables = Field(default_factory=dict)
    depends_on: Annotated[dict[str, Dependency], BeforeValidator(_name_each)] = Field(default_factory=dict)
    healthcheck: Health | None = None
    volumes: tuple[Annotated[Mount, BeforeValidator(_read_mount)], ...] = ()
    tmpfs: Annotated[tuple[str, ...], BeforeValidator(_list)] = ()
    hostname: Host | None = None
    container_name: Host | None = None
    networks: Annotated[dict[str, Member | None], BeforeValidator(_name_each)] = Field(
        default_factory=lambda: dict.fromkeys(("default",))
    )
    restart: Annotated[str, Field(pattern=r"^(no|always|unless-stopped|on-failure(:\d+)?)$")] = "no"
    user: Annotated[str | None, BeforeValidator(_write)] = None
    working_dir: Annotated[str | None, Field(pattern=r"^/")] = None
    mem_limit: Bytes | None = None
    cpus: float | None = None
    pids_limit: int | None = None
    deploy: _Deploy = _Deploy()
    # Such a program waits for a person.
    stdin_open: bool = False
    tty: bool = False

    @property
    def limits(self) -> dict[str, float]:
        """The limits of its machine that the service names, by the names in `Limits`."""
        own = self.deploy.resources.limits
        memory = self.mem_limit or own.memory
        given = {
            "memory_mb": None if memory is None else max(64, round(memory / (1 << 20))),
            "cpus": self.cpus or own.cpus,
            "processes": self.pids_limit or own.pids,
        }
        return {name: value for name, value in given.items() if value is not None}


class Compose(_Part):
    """A whole docker-compose.yaml."""

    ignored = frozenset(("name", "version"))

    services: dict[ServiceName, Service]
    volumes: dict[str, Annotated[Any, BeforeValidator(_refuse_options)]] | None = None
    networks: dict[str, _Network | None] | None = None

    @property
    def main(self) -> Service:
        """The agent's machine."""
        return self.services.get(MAIN, Service())

    @property
    def is_internal(self) -> bool:
        """Whether the file itself keeps the services from the internet."""
        networks = [(self.networks or {}).get(name) for name in self.main.networks]
        return any(network is not None and network.internal for network in networks)

    def order(self) -> list[str]:
        """Return the names of all services, each after the services that it depends on."""
        return list(_order({**self.services, MAIN: self.main}))

    def names(self, service: str) -> tuple[str, ...]:
        """Return the names that other machines reach a service by, its own first."""
        its = self.services.get(service, Service())
        aliases = (
            alias for member in its.networks.values() if member is not None for alias in member.aliases
        )
        named = (service, its.hostname, its.container_name, *aliases)
        return tuple(dict.fromkeys(name for name in named if name))


def read_services(folder: TaskFolder, pass_env: Collection[str]) -> Compose | None:
    """Return the services of a task, None if it has no compose file. Raises as `read_compose` does."""
    own = Path(folder.path, TESTS, COMPOSE)
    if folder.toml.verifier_mode() == "separate" and own.is_file():
        raise DataError("a verifier of several machines is not supported", path=own)
    path = Path(folder.path, ENVIRONMENT, COMPOSE)
    if not path.is_file():
        return None
    return read_compose(path, lambda name: os.environ.get(name) if name in pass_env else None)


def read_compose(path: Path, lookup: Lookup) -> Compose:
    """Return the services of a compose file, read and checked.

    Args:
        path: The file, in the folder that its paths are relative to.
        lookup: Returns the value of a variable in `${NAME}`, None for an unset one.

    Raises DataError, with the line, for everything that cannot be read or is not supported, and for a
    variable without a value.
    """
    try:
        values, lines = read_yaml_with_lines(path, aliases=True)
    except UsageError as error:
        raise DataError(error.message, hint=error.hint) from error
    if not isinstance(values, dict) or not isinstance(values.get("services"), dict):
        raise DataError("needs services", path=path, line=1)
    values = {key: value for key, value in values.items() if not str(key).startswith("x-")}
    try:
        values["services"] = {
            name: _complete(each, path.parent, ("services", str(name)))
            for name, each in values["services"].items()
        }
        compose = Compose.model_validate(_fill(values, lookup, ()))
    except _Unfilled as error:
        raise _error(path, lines, error.place, error.message, error.hint) from error
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        is_unknown = problem["type"] == "extra_forbidden"
        message = "is not supported" if is_unknown else describe_requirement(problem)
        raise _error(path, lines, tuple(map(str, problem["loc"])), message) from error
    for place, message in _list_problems(compose, path.parent):
        raise _error(path, lines, place, message)
    return compose


def _complete(service: Any, folder: Path, place: tuple[str, ...]) -> Any:
    """Return a service with the variables of its env_file. Variables without a value have the host's."""
    if not isinstance(service, dict):
        return {} if service is None else service
    files = _list(service.get("env_file", []))
    given = service.get("environment", {})
    if isinstance(given, list):
        pairs = (str(each).partition("=") for each in given)
        given = {name: text if equals else None for name, equals, text in pairs}
    if not isinstance(files, list) or not isinstance(given, dict):
        return service
    listed = {name: value for file in files for name, value in _read_env_file(file, folder, place).items()}
    named = {name: f"${{{name}}}" if value is None else value for name, value in {**listed, **given}.items()}
    rest = {key: value for key, value in service.items() if key != "env_file"}
    return {**rest, "environment": named} if named else rest


def _read_env_file(file: Any, folder: Path, place: tuple[str, ...]) -> dict[str, str | None]:
    """Return the variables of a file `NAME=VALUE`. A value in single quotes is as it is written."""
    given = file if isinstance(file, dict) else {"path": file}
    path = find_inside(folder, str(given.get("path")))
    if path is None and given.get("required") is False:
        return {}
    if path is None or not path.is_file() or path.stat().st_size > MAX_ENV_BYTES:
        message = f"'{given.get('path')}' is not a file of at most {MAX_ENV_BYTES:,} bytes in {folder.name}/"
        raise _Unfilled((*place, "env_file"), message)
    found: dict[str, str | None] = {}
    for line in path.read_text("utf-8", "replace").splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        quoted = _QUOTED.fullmatch(value.strip())
        text = value.partition(" #")[0].strip() if quoted is None else quoted[2]
        if name and not name.startswith("#"):
            literal = quoted is not None and quoted[1] == "'"
            found[name.strip()] = (text.replace("$", "$$") if literal else text) if equals else None
    return found


def find_inside(folder: Path, name: str) -> Path | None:
    """Return the path of a file or folder that a compose file names, None if it is not inside of `folder`."""
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, name))
    return Path(path) if os.path.commonpath((root, path)) == root and os.path.exists(path) else None


def _list_problems(compose: Compose, folder: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place and the description of each part that cannot run here."""
    main = compose.main
    for key in sorted(main.model_fields_set & _REFUSED_FOR_MAIN):
        yield ("services", MAIN, key), "is not supported for main; its settings are in task.toml"
    if main.command and not _IDLE.search(" ".join(main.command)):
        yield ("services", MAIN, "command"), "is not supported for main, whose process only waits"
    mounted: dict[str, str] = {}
    for name, service in compose.services.items():
        place = ("services", name)
        if name != MAIN and service.build is None and service.image is None:
            yield place, "needs a build or an image"
        if name != MAIN and (service.tty or service.stdin_open):
            yield (*place, "tty" if service.tty else "stdin_open"), "is not supported"
        if service.build is not None:
            context = find_inside(folder, service.build.context)
            if context is None or find_inside(context, service.build.dockerfile) is None:
                yield (*place, "build"), "needs a Dockerfile in this folder"
        for other, dependency in service.depends_on.items():
            if other not in compose.services and other != MAIN:
                yield (*place, "depends_on", other), "is not a service"
            elif dependency.condition == "service_healthy" and not _has_health(compose, other):
                yield (*place, "depends_on", other), f"needs a healthcheck of {other} in this file"
            elif dependency.condition == "service_completed_successfully" and other == MAIN:
                yield (*place, "depends_on", other), "never ends"
        if {*service.networks} != {*main.networks}:
            yield (*place, "networks"), "differs from the networks of main; all services share one network"
        for number, mount in enumerate(service.volumes):
            here = (*place, "volumes", str(number))
            if mount.type == "bind" and find_inside(folder, mount.source or "") is None:
                yield here, f"'{mount.source}' is not a file or a folder in {folder.name}/"
            elif mount.type == "volume" and mount.source and mounted.setdefault(mount.source, name) != name:
                other = mounted[mount.source]
                yield here, f"{other} uses the volume '{mount.source}' as well; services share no volume"
    try:
        compose.order()
    except ValueError as error:
        yield ("services",), str(error)


def _has_health(compose: Compose, name: str) -> bool:
    health = compose.services.get(name, Service()).healthcheck
    return health is not None and health.command is not None


def _order(services: Mapping[str, Service]) -> Iterator[str]:
    waiting = {name: {*service.depends_on} for name, service in services.items()}
    while waiting:
        ready = sorted(name for name, needed in waiting.items() if not needed & {*waiting})
        if not ready:
            raise ValueError(f"{', '.join(sorted(waiting))} depend on each other")
        # Each machine starts as early as it can, and the agent's last of those.
        for name in sorted(ready, key=lambda each: each == MAIN):
            del waiting[name]
            yield name


class _Unfilled(Exception):
    """A text whose variable has no value."""

    def __init__(self, place: tuple[str, ...], message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.place, self.message, self.hint = place, message, hint


def _fill(value: Any, lookup: Lookup, place: tuple[str, ...]) -> Any:
    """Return a value with `${NAME}` and `${NAME:-default}` in its texts replaced, and `$$` by `$`."""
    if isinstance(value, dict):
        return {key: _fill(each, lookup, (*place, str(key))) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, lookup, (*place, str(number))) for number, each in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name = match["plain"] or match["name"]
        if name is None:
            raise _Unfilled(place, f"'{value}' has a '$' that is not supported; write $$ for the character")
        found = lookup(name) or match["default"]
        if found is None:
            hint = f"set it, and add it: --option harbor.pass_env=[{name}]"
            raise _Unfilled(place, f"needs the variable {name}, which the run does not pass on", hint)
        return found

    return _VARIABLE.sub(replace, value)


def _error(
    path: Path, lines: Lines, place: tuple[str, ...], message: str, hint: str | None = None
) -> DataError:
    found = lines
    for key in place:
        if key not in found.inner:
            break
        found = found.inner[key]
    return DataError(message, path=path, line=found.line, field=".".join(place), hint=hint)
