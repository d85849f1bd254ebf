"""The repository where an agent acts, and the patch of what it leaves there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.types import Task
from harness.environments.base import EnvironmentContext, MachineRules
from harness.environments.container.environment import MachineEnvironment
from harness.environments.container.machine import Machine
from harness.environments.os.file_entries import UnreadableFiles
from harness.environments.repository.machine import (
    RepositorySetup,
    apply_patch,
    bring_changes,
    find_image,
    list_changed,
    note_moment,
    open_prepared,
    take_patch,
)
from harness.sandbox.backends.base import BuiltImage

# How long the machine may live that makes the patch of an agent.
PATCH_SECONDS = 900.0


class RepositoryEnvironment(MachineEnvironment):
    """The machine of a repository."""

    def __init__(
        self,
        machine: Machine,
        context: EnvironmentContext,
        *,
        setup: RepositorySetup,
        image: BuiltImage,
        shell: str,
        is_public: bool,
        tests_seconds: float | None,
    ) -> None:
        network = "The machine has a network." if is_public else "There is no network."
        super().__init__(
            machine, context, image=image, network=network, shell=shell, tests_seconds=tests_seconds
        )
        self.setup = setup

    async def take_patch(self, left_out: frozenset[str]) -> str:
        """Return the patch of an agent's files, whose processes are dead, without the paths `left_out`.

        git runs in another machine. Raises UnreadableFiles and SandboxError.
        """
        opening = open_prepared(*(self.context, self.image, self.setup), seconds=PATCH_SECONDS, nested=True)
        async with opening as machine:
            moment = await note_moment(machine)
            await bring_changes(self.machine, machine)
            changed = await list_changed(machine, moment, with_ignored=False)
            return await take_patch(machine, [path for path in changed if path not in left_out])


@contextlib.asynccontextmanager
async def open_repository(task: Task, context: EnvironmentContext) -> AsyncIterator[RepositoryEnvironment]:
    """Open the machine of a repository, ready for an agent, without a network unless the run allows one.

    Raises DataError, UsageError and SandboxError.
    """
    setup = task.setup
    if not isinstance(setup, RepositorySetup):
        raise DataError(f"task {task.id} has the set-up of another environment: {type(setup).__name__}")
    rules = context.machine_rules or MachineRules()
    is_public = rules.allow_network and not rules.without_network
    image = await find_image(context, setup, task.id)
    opening = open_prepared(
        *(context, image, setup), seconds=context.seconds, settings=context.workspace, network=is_public
    )
    async with opening as machine:
        try:
            async with context.pool.gate:
                if context.start is not None:
                    machine.sandbox.agent_acted = context.start.agent_acted
                    await machine.sandbox.bring_files(context.start.files)
                shell = await machine.open_shell()
        except (UsageError, UnreadableFiles) as error:
            # The other tasks of the run go on.
            raise SandboxError(f"task {task.id} cannot run: {error}", acted_in=False) from error
        yield RepositoryEnvironment(
            *(machine, context),
            setup=setup,
            image=image,
            shell=shell,
            is_public=is_public,
            tests_seconds=task.tests_seconds,
        )


async def solve(environment: RepositoryEnvironment, patch: str) -> None:
    """Apply the patch of the solution in the machine of an agent, as the oracle does. Raises SandboxError."""
    environment.note_acting()
    problem = await apply_patch(environment.machine, patch)
    if problem is not None:
        raise SandboxError(f"the solution does not apply: {problem}", acted_in=False)
