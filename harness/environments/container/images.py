"""Build or find the images of a task's machines, and choose the limits of the machines.

Most published tests begin with `apt-get install curl`, an installer of uv, and `uvx --with pytest`. These
tools are prepared once, so that the tests need no network. They go into an image on top of the task's, which
only the machine of the tests gets. The tag of the image follows from its contents, so runs share it. Nothing
of `tests/` is part of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from harness.core.errors import DataError, UsageError
from harness.core.invalid_values import describe_requirement
from harness.core.logger import get_logger
from harness.environments.base import EnvironmentContext, MachineRules
from harness.environments.container.compose import Build, Compose, Service, find_inside
from harness.environments.container.task_folder import COMPOSE, DOCKERFILE, ENVIRONMENT, TaskFolder
from harness.environments.container.task_toml import MAIN, EnvironmentTable
from harness.sandbox.backends.base import BuiltImage, RunsForeignImages
from harness.sandbox.limits import Limits
from harness.sandbox.machine.dockerfile import Instruction, read_dockerfile

_ARGUMENT = re.compile(r"(ARG\s+)(\w+)(=\S*)?", re.IGNORECASE)
_STAGE = re.compile(r"FROM\s.*\sAS\s+(\S+)", re.IGNORECASE | re.DOTALL)

_LOGGER = get_logger(__name__)
TOOLS_FOLDER = "/opt/grading"
_BIN, _CACHE = f"{TOOLS_FOLDER}/bin", f"{TOOLS_FOLDER}/cache"
# A base of Debian's packages with Python, which brings uv.
_BASE = "grading-tools-python"
BUILD_SECONDS = 900.0
_WORD = re.compile(r"[A-Za-z][\w.+:=<>~!\[\],@-]*")
# The arguments of a command in a line of a script, up to the next command.
_CALL = r"\b{}\s+((?:[^;&|\n`$()]|\$\w+)*)"
_APT = re.compile(_CALL.format(r"(?:apt|apt-get)(?:\s+-\S+)*\s+install"))
_PIP = re.compile(_CALL.format(r"(?<!uv )pip3?\s+install"))
_UV_ADD = re.compile(_CALL.format(r"uv\s+add"))
_UVX = re.compile(_CALL.format(r"uvx"))
_UV = re.compile(r"\buvx?\b")
_WITH_VALUE = ("--with", "-p", "--python", "--from", "--index-url", "--extra-index-url")
# The commands that the script of the tests finds first. Each does nothing if the layer has done it.
_SHIMS: Mapping[str, str] = {
    "apt-get": """case " $* " in
*" update "*) exit 0 ;;
*" install "*)
    for word in "$@"; do
        case "$word" in -*|install) continue ;; esac
        dpkg -s "${word%%=*}" >/dev/null 2>&1 || exec /usr/bin/apt-get "$@"
    done
    exit 0 ;;
esac
exec /usr/bin/apt-get "$@"
""",
    "curl": """case "$*" in
*astral.sh/uv/*)
    echo 'mkdir -p "$HOME/.local/bin"; echo : > "$HOME/.local/bin/env"'
    exit 0 ;;
esac
exec /usr/bin/curl "$@"
""",
}
_VARIABLES = {
    "UV_CACHE_DIR": _CACHE,
    "UV_OFFLINE": "1",
    "UV_NO_CONFIG": "1",
    "UV_PYTHON_DOWNLOADS": "never",
    "UV_LINK_MODE": "copy",
    "PIP_NO_INDEX": "1",
}


async def find_image(
    context: EnvironmentContext, folder: TaskFolder, table: EnvironmentTable, build: Path
) -> BuiltImage:
    """Return the image of a machine: the one that its table names, else one built from the folder `build`.

    Raises UsageError, DataError, and SandboxError for a build that fails.
    """
    seconds = table.build_timeout_sec
    if table.docker_image is None:
        return await build_image(context, build, folder.name, seconds)
    return await pull_image(context, table.docker_image, folder.name, seconds)


async def pull_image(context: EnvironmentContext, image: str, name: str, seconds: float) -> BuiltImage:
    """Return the published image of a task, to which a run adds no certificates. Raises as `build_image`."""
    rules = context.machine_rules or MachineRules()
    without_ca = replace(rules, build=replace(rules.build, ca_file=None))
    return await build_text(replace(context, machine_rules=without_ca), f"FROM {image}\n", name, seconds)


async def build_text(context: EnvironmentContext, dockerfile: str, name: str, seconds: float) -> BuiltImage:
    """Return the image of a Dockerfile that needs no other file. Raises as `build_image`."""
    with tempfile.TemporaryDirectory() as folder:
        await asyncio.to_thread(Path(folder, DOCKERFILE).write_text, dockerfile, "utf-8")
        return await build_image(context, Path(folder), name, seconds)


async def build_image(context: EnvironmentContext, build: Path, name: str, seconds: float) -> BuiltImage:
    """Return the image of a folder with a Dockerfile, built once. `name` is the task's, for the log.

    Raises UsageError, DataError, and SandboxError for a build that fails.
    """
    backend = context.pool.backend
    if not isinstance(backend, RunsForeignImages):
        raise UsageError("the backend of this run cannot start images of tasks", hint="use Docker")
    async with context.pool.gate:
        return await asyncio.to_thread(
            functools.partial(
                *(backend.build_image, build, (context.machine_rules or MachineRules()).build),
                name=name,
                seconds=seconds,
                notify=lambda line: _LOGGER.info("%s: %s", name, line),
            )
        )


def choose_limits(limits: Limits, table: EnvironmentTable, folder: TaskFolder) -> Limits:
    """Return the limits of a machine: the task's own, and `limits` where it names none. Raises DataError."""
    own = {"memory_mb": table.memory_mb, "cpus": table.cpus, "disk_mb": table.storage_mb}
    return make_limits(limits, {name: value for name, value in own.items() if value is not None}, folder)


def make_limits(limits: Limits, own: Mapping[str, float], folder: TaskFolder) -> Limits:
    try:
        return Limits.model_validate(
            {**limits.model_dump(), "file_mb": own.get("disk_mb", limits.file_mb), **own}
        )
    except ValidationError as error:
        problem = error.errors()[0]
        raise DataError(
            f"{problem['loc'][0]} {describe_requirement(problem)}", path=Path(folder.path, "task.toml")
        ) from error


async def find_main_image(
    context: EnvironmentContext, folder: TaskFolder, compose: Compose | None
) -> BuiltImage:
    """Return the image of the agent's machine, which task.toml names before the compose file.

    Raises as `find_image` does.
    """
    table, main = folder.toml.environment, compose and compose.main
    if table.docker_image is None and main and (main.build or (main.image and not folder.has_dockerfile)):
        return await find_service_image(context, folder, main, MAIN)
    return await find_image(context, folder, table, Path(folder.path, ENVIRONMENT))


async def find_service_image(
    context: EnvironmentContext, folder: TaskFolder, service: Service, name: str
) -> BuiltImage:
    """Return the image of a service. Raises as `find_image` does."""
    seconds = folder.toml.environment.build_timeout_sec
    with contextlib.ExitStack() as stack:
        place = Path(folder.path, ENVIRONMENT)
        if service.build is not None:
            place = stack.enter_context(lay_out_build(place, service.build, name))
        table = EnvironmentTable(
            docker_image=None if service.build is not None else service.image, build_timeout_sec=seconds
        )
        return await find_image(context, folder, table, place)


@contextlib.contextmanager
def lay_out_build(folder: Path, build: Build, name: str) -> Iterator[Path]:
    """Yield the context of a build with a Dockerfile that has its arguments and ends with its stage.

    `folder` holds the compose file. Raises DataError for a stage that is not in the Dockerfile.
    """
    context = find_inside(folder, build.context)
    found = None if context is None else find_inside(context, build.dockerfile)
    if context is None or found is None:
        raise DataError(f"the service {name} has no Dockerfile in {build.context}", path=folder / COMPOSE)
    if found.name == DOCKERFILE and found.parent == context and not build.args and build.target is None:
        yield context
        return
    given = read_dockerfile(found.read_text(encoding="utf-8-sig"))
    kept: list[Instruction] = []
    is_last = False
    for each in given.instructions:
        if each.word == "FROM":
            if is_last:
                break
            stage = _STAGE.match(each.text)
            is_last = stage is not None and stage[1] == build.target
        argument = _ARGUMENT.fullmatch(each.text.strip())
        if argument is not None and argument[2] in build.args:
            each = replace(each, text=f'{argument[1]}{argument[2]}="{build.args[argument[2]]}"')
        kept.append(each)
    if build.target is not None and not is_last:
        raise DataError(f"has no stage '{build.target}', which the service {name} is built from", path=found)
    with tempfile.TemporaryDirectory() as copied:
        place = Path(copied, "context")
        shutil.copytree(context, place, symlinks=True)
        (place / DOCKERFILE).unlink(missing_ok=True)
        (place / DOCKERFILE).write_text(replace(given, instructions=tuple(kept)).render(), encoding="utf-8")
        yield place


def write_dockerfile(script: str, image: str, user: str) -> str | None:
    """Return the Dockerfile of the tools that a script of tests installs, or None if it installs none.

    `image` is the tag of the task's image, and `user` the user of its commands.
    """
    text = script.replace("\\\n", " ")
    packages = sorted({word for call in _APT.findall(text) for word in _words(call)})
    modules = sorted({word for call in _PIP.findall(text) for word in _words(call)})
    uses_uv = _UV.search(text) is not None
    if not packages and not modules and not uses_uv:
        return None
    lines = []
    if uses_uv:
        lines += [f"FROM {_BASE} AS tools", f"RUN pip3 install --no-cache-dir --target {TOOLS_FOLDER}/lib uv"]
    lines += [f"FROM {image}", "USER root"]
    if packages:
        install = f"DEBIAN_FRONTEND=noninteractive apt-get install -y {shlex.join(packages)}"
        lines.append(f"RUN apt-get update && {install} && rm -rf /var/lib/apt/lists/*")
    if modules:
        lines.append(f"RUN pip3 install --no-cache-dir --break-system-packages {shlex.join(modules)}")
    if uses_uv:
        lines.append(f"COPY --from=tools {TOOLS_FOLDER}/lib/bin/uv {TOOLS_FOLDER}/lib/bin/uvx {_BIN}/")
        lines += [f"RUN {_fill_cache(command)}" for command in _uv_commands(text)]
    lines.append(f"COPY bin/ {_BIN}/")
    lines.append(f"RUN chmod 755 {_BIN}/*")
    return "\n".join([*lines, f"USER {user or 'root'}", ""])


def _fill_cache(command: str) -> str:
    variables = f"UV_CACHE_DIR={_CACHE} UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy"
    return f"export {variables} PATH={_BIN}:$PATH && cd $(mktemp -d) && {command}"


def _uv_commands(text: str) -> Iterator[str]:
    """Yield commands that put into the cache of uv what the script will ask it for."""
    for call in dict.fromkeys(_UVX.findall(text)):
        options = _read_uvx(_split(call))
        if options:
            yield f"uvx {shlex.join(options)} --version"
    added = sorted({word for call in _UV_ADD.findall(text) for word in _words(call)})
    if added:
        yield f"uv init && uv add {shlex.join(added)} && uv run pytest --version"


def _read_uvx(words: Sequence[str]) -> list[str]:
    """Return the options of uvx and the tool that it runs, without the tool's own arguments."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        kept.append(word)
        if word in _WITH_VALUE:
            kept.append(next(rest, ""))
        elif not word.startswith("-"):
            return kept
    return []


def _split(call: str) -> list[str]:
    return [word.strip("'\"") for word in call.split()]


def _words(call: str) -> list[str]:
    """Return the names in the arguments of an installer: no options, no files and no variables."""
    return [
        word for word in _split(call) if not word.startswith(("-", "$", "/", ".")) and _WORD.fullmatch(word)
    ]


async def prepare_tools(
    backend: RunsForeignImages, image: BuiltImage, script: str, user: str, rules: MachineRules
) -> str | None:
    """Return the id of an image with the tools of the tests on top of a task's, built once for each content.

    None if the tests install none. Raises SandboxError, UsageError and DataError for a build that fails.
    """
    dockerfile = write_dockerfile(script, image.tag, user)
    if dockerfile is None:
        return None
    # The run's own rules must not replace the image of the task.
    bases = ((_BASE, "packages"),)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "bin").mkdir()
        for name, shim in _SHIMS.items():
            (path / "bin" / name).write_text(f"#!/bin/sh\n{shim}", encoding="utf-8")
        (path / DOCKERFILE).write_text(dockerfile, encoding="utf-8")
        built = await asyncio.to_thread(
            functools.partial(
                backend.build_image,
                path,
                replace(rules.build, base_images=bases),
                name="the tools of the tests",
                seconds=BUILD_SECONDS,
                notify=lambda line: _LOGGER.info("%s: %s", image.tag, line),
            )
        )
    return built.id


def grading_variables(path: str) -> dict[str, str]:
    """Return the variables that let the tests find the tools of the layer. `path` is the machine's PATH."""
    return {**_VARIABLES, "PATH": f"{_BIN}:{path}"}
