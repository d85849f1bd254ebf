"""Choose and start the machine where the tests of a task run: its image, its tools, and its settings."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import DataError, SandboxError, UsageError
from harness.environments.base import MachineRules
from harness.environments.container.grading_tools import grading_variables, prepare_tools
from harness.environments.container.images import choose_limits, find_image
from harness.environments.container.machine import Machine, inspect_image, open_machine
from harness.environments.container.services import open_group, tests_name_service
from harness.environments.container.task_folder import ENVIRONMENT, TaskFolder, resolve_env
from harness.environments.container.verifier import Tests
from harness.sandbox.backends.base import BuiltImage, JoinedContainer, RunsForeignImages
from harness.sandbox.limits import Limits

if TYPE_CHECKING:
    from harness.environments.container.environment import ContainerEnvironment

# The time that the machine may take beside its tests.
MARGIN_SECONDS = 300.0


class NoVerifierMachine(Exception):
    """The machine of the tests cannot be had, because its image or its tools cannot be built."""


@dataclass(frozen=True, slots=True)
class VerifierMachine:
    """The machine of a task's tests, before it starts."""

    image: str
    tests: Tests
    cwd: str | None
    env: Mapping[str, str]
    limits: Limits
    # Whether the verifier has a machine of its own, which gets declared artifacts alone.
    is_separate: bool
    # Whether the image has tools that the agent's machine lacks.
    has_tools: bool
    # Whether the tests reach services, which start anew for them.
    has_services: bool = False


async def choose_verifier_machine(
    opened: ContainerEnvironment, folder: TaskFolder, tests: Tests
) -> VerifierMachine:
    """Return the machine for the tests of a task: a copy of the agent's, or the verifier's own.

    Raises NoVerifierMachine, and SandboxError for a fault of the engine.
    """
    try:
        return await _choose(opened, folder, tests)
    except (SandboxError, UsageError, DataError) as error:
        if isinstance(error, SandboxError) and error.outside:
            raise
        raise NoVerifierMachine(error.message) from error


async def _choose(opened: ContainerEnvironment, folder: TaskFolder, tests: Tests) -> VerifierMachine:
    backend = opened.context.pool.backend
    assert isinstance(backend, RunsForeignImages)  # noqa: S101  because it has started the agent's machine
    machine, image = opened.machine, opened.image
    cwd: str | None = machine.cwd
    env, limits = machine.env, machine.sandbox.limits
    own = folder.toml.verifier.environment
    is_separate = folder.toml.verifier_mode() == "separate"
    if is_separate:
        table = own or folder.toml.environment
        build = None if table.docker_image else folder.verifier_build
        if build is not None or own is not None:
            place = Path(folder.path, build or ENVIRONMENT)
            image = await find_image(opened.context, folder, table, place)
            facts = await inspect_image(backend, image.id)
            cwd, env = table.workdir or facts.folder, facts.environment
            limits = choose_limits(opened.context.settings.limits, table, folder)
        if build is not None:
            # The image brings the tests.
            tests = replace(tests, parts=())
        env = {**env, **resolve_env(table.env, opened.setup.pass_env, place="verifier.environment.env")}
    rules = opened.context.machine_rules or MachineRules()
    tools = None
    if not rules.grading_network:
        tools = await prepare_tools(backend, image, tests.script, await _find_user(backend, image), rules)
    if tools is not None:
        path = env.get("PATH", machine.env["PATH"])
        tests = replace(tests, env={**tests.env, **grading_variables(path)})
    return VerifierMachine(
        *(tools or image.id, tests, cwd, env, limits),
        is_separate=is_separate,
        has_tools=tools is not None,
        has_services=not is_separate
        and opened.services is not None
        and any(tests_name_service(opened.services.compose, place) for place, _ in tests.parts),
    )


async def _find_user(backend: RunsForeignImages, image: BuiltImage) -> str:
    return (await inspect_image(backend, image.id)).user


@contextlib.asynccontextmanager
async def open_verifier_machine(
    opened: ContainerEnvironment, chosen: VerifierMachine, *, attached: bool = False
) -> AsyncIterator[Machine]:
    """Start the machine of the tests from its pristine image, without a network by default, and yield it.

    Its services, if the tests reach any, are new too, and no agent has reached them. An `attached` machine
    reaches the services as the agent left them: the task's services, or else the ones in the agent's machine.
    """
    rules = opened.context.machine_rules or MachineRules()
    seconds, settings = chosen.tests.seconds + MARGIN_SECONDS, opened.context.settings
    main = functools.partial(
        open_machine,
        opened.context.pool,
        chosen.image,
        seconds=seconds,
        settings=settings,
        limits=chosen.limits,
        cwd=chosen.cwd,
        env=chosen.env,
    )
    if attached:
        place = opened.place or JoinedContainer(opened.machine.sandbox.container_id)
        async with main(network=place, nested=True) as machine:
            yield machine
        return
    if opened.services is None or not chosen.has_services:
        async with main(nested=True, network=rules.grading_network) as machine:
            yield machine
        return
    services = replace(opened.services, is_public=rules.grading_network, hosts=None)
    async with open_group(
        *(opened.context.pool, services, main), settings=settings, seconds=seconds, nested=True
    ) as group:
        yield group.main
