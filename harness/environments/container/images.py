"""Build or find the images of a task's machines, and choose the limits of the machines."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from harness.core.errors import DataError, UsageError, describe_requirement
from harness.core.logger import get_logger
from harness.environments.base import EnvironmentContext, MachineRules
from harness.environments.container.compose import Build, Compose, Service, find_inside
from harness.environments.container.proxy import AllowedHosts
from harness.environments.container.services import Services
from harness.environments.container.task_folder import COMPOSE, DOCKERFILE, ENVIRONMENT, TaskFolder
from harness.environments.container.task_toml import MAIN, EnvironmentTable
from harness.sandbox.backends.base import BuiltImage, RunsForeignImages
from harness.sandbox.limits import Limits
from harness.sandbox.machine.dockerfile import Instruction, read_dockerfile

_ARGUMENT = re.compile(r"(ARG\s+)(\w+)(=\S*)?", re.IGNORECASE)
_STAGE = re.compile(r"FROM\s.*\sAS\s+(\S+)", re.IGNORECASE | re.DOTALL)

_LOGGER = get_logger(__name__)


async def find_image(
    context: EnvironmentContext, folder: TaskFolder, table: EnvironmentTable, build: Path
) -> BuiltImage:
    """Return the image of a machine: the one that its table names, else one built from the folder `build`.

    Raises UsageError, DataError, and SandboxError for a build that fails.
    """
    backend = context.pool.backend
    if not isinstance(backend, RunsForeignImages):
        raise UsageError("the backend of this run cannot start images of task folders", hint="use Docker")
    rules = (context.machine_rules or MachineRules()).build
    with contextlib.ExitStack() as stack:
        if table.docker_image is not None:
            build = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (build / DOCKERFILE).write_text(f"FROM {table.docker_image}\n", encoding="utf-8")
            rules = replace(rules, ca_file=None)
        async with context.pool.gate:
            return await asyncio.to_thread(
                functools.partial(
                    *(backend.build_image, build, rules),
                    name=folder.name,
                    seconds=table.build_timeout_sec,
                    notify=lambda line: _LOGGER.info("%s: %s", folder.name, line),
                )
            )


def choose_limits(limits: Limits, table: EnvironmentTable, folder: TaskFolder) -> Limits:
    """Return the limits of a machine: the task's own, and `limits` where it names none. Raises DataError."""
    own = {"memory_mb": table.memory_mb, "cpus": table.cpus, "disk_mb": table.storage_mb}
    return _make_limits(limits, {name: value for name, value in own.items() if value is not None}, folder)


def _make_limits(limits: Limits, own: Mapping[str, float], folder: TaskFolder) -> Limits:
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


async def find_services(
    context: EnvironmentContext,
    folder: TaskFolder,
    compose: Compose,
    main: Limits,
    *,
    is_public: bool,
    hosts: AllowedHosts | None,
) -> Services:
    """Return the services of a task with their images and limits. `main` has the limits of the agent's
    machine.

    Raises as `find_image` does.
    """
    images, limits = dict[str, BuiltImage](), {MAIN: main}
    for name, service in compose.services.items():
        if name != MAIN:
            images[name] = await find_service_image(context, folder, service, name)
            limits[name] = _make_limits(context.settings.limits, service.limits, folder)
    place = Path(folder.path, ENVIRONMENT)
    return Services(compose, images, limits, place, is_public=is_public, hosts=hosts)


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
