"""The services of a task beside the machine where an agent acts: their machines, network, order and health.

Each service is a sandbox of its own, with the guest as PID 1, our limits and no more rights than the agent's
machine. The machines of an attempt meet in a network of their own, which leads nowhere else unless the task
has a public network.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.core.errors import SandboxError, UsageError
from harness.core.logger import get_logger
from harness.core.shield import complete
from harness.environments.base import EnvironmentContext
from harness.environments.container.compose import Compose, Health, Mount, Service, find_inside
from harness.environments.container.images import find_service_image, make_limits
from harness.environments.container.machine import Machine, describe_failure, open_machine
from harness.environments.container.proxy import AllowedHosts, open_proxy
from harness.environments.container.task_folder import ENVIRONMENT, TaskFolder
from harness.environments.container.task_toml import MAIN
from harness.environments.os.file_entries import UnreadableFiles
from harness.sandbox import reaper
from harness.sandbox.backends.base import BuiltImage, MakesNetworks, NetworkPlace
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.results import ExecResult

ROLE = "network"
# The longest pause between two looks at the health of a service that starts.
LOOK_SECONDS = 1.0
RESTART_SECONDS = 1.0
MARGIN_SECONDS = 60.0
# Files of tests that may name a service.
_MAX_TEST_BYTES = 1 << 20
# A service in a text of tests: the host of an URL, an argument, a text in quotes, or a host with its port.
_NAMED = r"""(?:(?:://|@|["'=]|-h |--host )(?:{names})(?=[:/"'\s,;)\]]|$))|(?<![\w./-])(?:{names})[:\s]\d"""

_LOGGER = get_logger(__name__)


class OpenMain(Protocol):
    """Opens the machine of an agent or of tests at a place in a network, as `open_machine` does."""

    def __call__(
        self, *, network: NetworkPlace, nested: bool, beside_mb: int, starts_main: bool
    ) -> AbstractAsyncContextManager[Machine]: ...


@dataclass(frozen=True, slots=True)
class Services:
    """The services of a task, before they start."""

    compose: Compose
    # Each one's image, without main's.
    images: Mapping[str, BuiltImage]
    # The limits of each one's machine, main's too.
    limits: Mapping[str, Limits]
    # The folder that paths in the compose file are relative to.
    folder: Path
    is_public: bool
    # The hosts that all of the machines reach by a proxy, None if they have none.
    hosts: AllowedHosts | None = None


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
            limits[name] = make_limits(context.settings.limits, service.limits, folder)
    place = Path(folder.path, ENVIRONMENT)
    return Services(compose, images, limits, place, is_public=is_public, hosts=hosts)


@dataclass(slots=True)
class Group:
    """The machines of an attempt that live together."""

    main: Machine
    services: Mapping[str, Machine] = field(default_factory=dict)
    # The place of the main machine in their network, None if it lives alone.
    place: NetworkPlace | None = None


@contextlib.asynccontextmanager
async def open_group(
    pool: SandboxPool,
    services: Services,
    open_main: OpenMain,
    *,
    settings: SandboxSettings,
    seconds: float,
    nested: bool = False,
) -> AsyncIterator[Group]:
    """Start the services of a task and its main machine in the order of the file, and yield them.

    The end of the block destroys all of them and their network. Raises UsageError, and SandboxError for a
    service that ends or stays unhealthy.
    """
    is_public = services.is_public and not services.compose.is_internal
    async with contextlib.AsyncExitStack() as stack:
        network = await stack.enter_async_context(_hold_network(pool, is_public=is_public, seconds=seconds))
        starting = _Starting(pool, services, open_main, settings, seconds, network, nested=nested)
        try:
            machines = await starting.start_all(stack)
        except (UsageError, UnreadableFiles) as error:
            # The other tasks of the run go on.
            raise SandboxError(f"the services of the task cannot start: {error}", acted_in=False) from error
        main = machines.pop(MAIN)
        yield Group(main, machines, NetworkPlace(network, services.compose.names(MAIN)))


@dataclass(slots=True)
class _Starting:
    """The start of the machines of an attempt, one after the other."""

    pool: SandboxPool
    services: Services
    open_main: OpenMain
    settings: SandboxSettings
    seconds: float
    network: str
    nested: bool
    machines: dict[str, Machine] = field(default_factory=dict)
    processes: dict[str, asyncio.Task[ExecResult]] = field(default_factory=dict)
    healthy: set[str] = field(default_factory=set)

    async def start_all(self, stack: contextlib.AsyncExitStack) -> dict[str, Machine]:
        """Start all machines, which live until the end of `stack`, and return them by name."""
        compose = self.services.compose
        names = [each for name in compose.order() for each in compose.names(name)]
        for name in compose.order():
            service = compose.services.get(name, Service())
            for other, dependency in service.depends_on.items():
                if dependency.condition == "service_completed_successfully":
                    await _wait_until_done(other, self.processes[other])
                elif dependency.condition == "service_healthy":
                    await self._wait_until_healthy(other)
            machine = self.machines[name] = await self._open(stack, name, service)
            await _mount(machine, service.volumes, service.tmpfs, self.services.folder)
            if self.services.hosts is not None:
                await give_proxy(stack, machine, self.services.hosts, names)
            if name == MAIN:
                await machine.start_main()
            else:
                process = asyncio.create_task(_run(name, service, machine, self.seconds))
                self.processes[name] = process
                stack.push_async_callback(_end, process)
        for name in compose.services:
            await self._wait_until_healthy(name)
        for name, process in self.processes.items():
            if process.done() and process.result().exit_code != 0:
                raise describe_failure(f"the service {name}", process.result())
        return self.machines

    async def _open(self, stack: contextlib.AsyncExitStack, name: str, service: Service) -> Machine:
        place = NetworkPlace(self.network, self.services.compose.names(name))
        limits = self.services.limits
        own, whole = limits[name].memory_mb, sum(each.memory_mb for each in limits.values())
        # The first one takes the memory of all. The others wait for nothing but a place at the gate.
        is_first = not self.machines
        beside = 0 if self.nested else whole - own if is_first else -own
        nested = self.nested or not is_first
        async with contextlib.nullcontext() if self.nested or is_first else self.pool.gate:
            if name == MAIN:
                opening = self.open_main(network=place, nested=nested, beside_mb=beside, starts_main=False)
            else:
                opening = open_machine(
                    *(self.pool, self.services.images[name].id),
                    seconds=self.seconds,
                    settings=self.settings,
                    limits=limits[name],
                    user=service.user,
                    cwd=service.working_dir,
                    env=service.environment,
                    network=place,
                    nested=nested,
                    beside_mb=beside,
                    starts_main=False,
                )
            return await stack.enter_async_context(opening)

    async def _wait_until_healthy(self, name: str) -> None:
        """Wait until the check of a service succeeds, if it has one, and once for all that depend on it."""
        health = self.services.compose.services[name].healthcheck
        if health is not None and health.command is not None and name not in self.healthy:
            await _wait_until_healthy(name, self.machines[name], health, self.processes.get(name))
            self.healthy.add(name)


async def give_proxy(
    stack: contextlib.AsyncExitStack, machine: Machine, hosts: AllowedHosts, beside: Iterable[str] = ()
) -> None:
    """Open the proxy for a machine until the end of `stack`, and name it in the variables of its commands.

    Programs reach the hosts `beside` the machine directly. Raises SandboxError.
    """
    port = await stack.enter_async_context(open_proxy(machine.sandbox, hosts))
    url, local = f"http://127.0.0.1:{port}", ",".join(("localhost", "127.0.0.1", "::1", *beside))
    given = {"http_proxy": url, "https_proxy": url, "all_proxy": url, "no_proxy": local}
    machine.proxies = given | {name.upper(): value for name, value in given.items()}


@contextlib.asynccontextmanager
async def _hold_network(pool: SandboxPool, *, is_public: bool, seconds: float) -> AsyncIterator[str]:
    """Make a network for one attempt and yield its name; remove it at the end of the block."""
    backend = pool.backend
    if not isinstance(backend, MakesNetworks):
        raise UsageError("the backend of this run has no networks for several machines", hint="use Docker")
    name = f"harness-{ROLE}-{secrets.token_hex(8)}"
    labels = reaper.make_labels(pool.run_id or "none", role=ROLE, deadline_seconds=seconds + MARGIN_SECONDS)
    try:
        await complete(asyncio.to_thread(backend.make_network, name, labels, is_public=is_public))
        yield name
    finally:
        try:
            await complete(asyncio.to_thread(backend.destroy_network, name))
        except SandboxError as error:
            # It leads nowhere, and the next run removes it.
            _LOGGER.warning("%s", error.message)


async def _run(name: str, service: Service, machine: Machine, seconds: float) -> ExecResult:
    """Run the process of a service, again and again if the file says so, and return its last end."""
    entrypoint = machine.facts.entrypoint if service.entrypoint is None else service.entrypoint
    command = machine.facts.command if service.entrypoint is None else ()
    argv = [*entrypoint, *(command if service.command is None else service.command)]
    if not argv:
        raise SandboxError(f"the service {name} has no command", acted_in=False)
    policy, _, most = service.restart.partition(":")
    ends, tries = time.monotonic() + seconds, 0
    while True:
        result = await machine.exec(argv, timeout=max(1.0, ends - time.monotonic()))
        tries += 1
        is_over = policy == "no" or (policy == "on-failure" and result.exit_code == 0)
        if is_over or (most and tries > int(most)) or time.monotonic() > ends:
            return result
        await asyncio.sleep(RESTART_SECONDS)


async def _end(process: asyncio.Task[ExecResult]) -> None:
    """Stop waiting for a service. Its machine may be gone, which no longer matters."""
    process.cancel()
    await asyncio.gather(process, return_exceptions=True)


async def _wait_until_done(name: str, process: asyncio.Task[ExecResult]) -> None:
    result = await asyncio.shield(process)
    if result.exit_code != 0 or result.limit is not None:
        raise describe_failure(f"the service {name}", result)


async def _wait_until_healthy(
    name: str, machine: Machine, health: Health, process: asyncio.Task[ExecResult] | None
) -> None:
    """Wait until the check of a service succeeds. Raises SandboxError if it ends, or takes too long."""
    assert health.command is not None  # noqa: S101  the reader of the file has looked
    deadline = time.monotonic() + health.start_period + health.retries * (health.interval + health.timeout)
    while True:
        result = await machine.exec(health.command, timeout=health.timeout)
        if result.exit_code == 0 and result.limit is None:
            return
        if process is not None and process.done():
            raise describe_failure(f"the service {name}", process.result())
        if time.monotonic() > deadline:
            raise describe_failure(f"the health check of the service {name}", result)
        await asyncio.sleep(min(health.interval, LOOK_SECONDS))


async def _mount(machine: Machine, mounts: Iterable[Mount], folders: Iterable[str], root: Path) -> None:
    """Give a machine its copies of files of the task, and the folders of its volumes."""
    for mount in mounts:
        source = find_inside(root, mount.source or "") if mount.type == "bind" else None
        if source is None:
            await machine.make_folders([mount.target], mode=0o755)
        elif source.is_dir():
            await machine.put_files(source, mount.target, fresh=True)
        else:
            folder, name = posixpath.split(mount.target)
            mode = source.stat().st_mode & 0o777
            await machine.put_contents({name: source.read_bytes()}, folder or "/", mode=mode)
    if folders:
        await machine.make_folders([folder.partition(":")[0] for folder in folders], mode=0o1777)


def tests_name_service(compose: Compose, tests: Path) -> bool:
    """Return whether a text in a folder of tests names a service, so that the tests may need it."""
    names = {each for name in compose.services if name != MAIN for each in compose.names(name)}
    pattern = re.compile(_NAMED.format(names="|".join(map(re.escape, sorted(names)))), re.MULTILINE)
    for path in sorted(tests.rglob("*")):
        is_read = names and path.is_file() and path.stat().st_size <= _MAX_TEST_BYTES
        if is_read and pattern.search(path.read_text("utf-8", "replace")):
            return True
    return False
