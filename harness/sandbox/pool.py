"""A pool that lends out sandboxes. It keeps a clean sandbox for the next lease, and destroys any other."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal

from harness.core.logger import get_logger
from harness.core.shield import complete_all
from harness.sandbox.backends.base import Backend, ForeignImage
from harness.sandbox.budget import SandboxBudget
from harness.sandbox.limits import Limits, count_gate_places, free_memory_mb
from harness.sandbox.sandbox import Sandbox

# How long the pool lends out the same sandbox.
KEPT_SECONDS = 1200.0
# A sandbox outlives its last lease by this much, so that the lease reaches its limit first.
MARGIN_SECONDS = 60.0
# How long an idle sandbox keeps its memory while a lease waits for memory. The next attempt at the
# same task comes sooner, unless its agent waits for a model.
IDLE_SECONDS = 1.0
# One lease after the other may keep all others waiting for this long, and for this share of the pool's time.
ALONE_SECONDS, ALONE_SHARE = 60.0, 0.25
# The key of a sandbox that has run nothing, which the next lease without a key gets.
PREPARED: Hashable = object()
_LOGGER = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """The settings of a sandbox, which are the same for all of its leases (see `Sandbox.open`)."""

    # The name of an image, or the id of a build.
    image: str
    limits: Limits = field(default_factory=Limits)
    seccomp: Literal["default", "strict"] = "default"
    network: Literal["own", "shared"] = "own"
    terminals: bool = False
    relay: bool = False
    foreign: ForeignImage | None = None
    # Memory that the pool counts for this sandbox beside its limit. The first of several that a block opens
    # counts the total, so that no block holds some and waits for others. The others count theirs off.
    beside_mb: int = 0
    kind: type[Sandbox] = Sandbox

    @property
    def memory_mb(self) -> int:
        """The memory in MiB that the pool counts for the sandbox."""
        return self.limits.memory_mb + self.beside_mb


@dataclass(frozen=True, slots=True)
class AcrossTasks:
    """The key of a sandbox that grades the programs of one task after another task's.

    Only a sandbox that is made for programs under tests can have this key: with the strict filter of system
    calls, with a user for each job, and without terminals. The sandboxes where agents act are different,
    and so are copies of them.
    """

    # The type of the targets. Each kind of test leaves its settings in the guest, so kinds share no sandbox.
    target_type: type
    # Programs of different owners share no sandbox. A run has one owner, a service has one for each client.
    owner: str = ""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The lease that is the next to get memory, and the time since when it waits."""

    settings: SandboxSettings
    key: Hashable
    since: float

    def wants(self, settings: SandboxSettings, key: Hashable | None) -> bool:
        """Return whether the lease would take a sandbox with these settings and this key."""
        return key is not None and self.key == key and self.settings == settings


@dataclass(slots=True, eq=False)
class _Live:
    """A live sandbox. The task `owner` opens it and closes it once `closing` is set."""

    settings: SandboxSettings
    key: Hashable
    sandbox: Sandbox
    ends: float
    owner: asyncio.Task[None]
    closing: asyncio.Event
    idle_since: float = 0.0

    @property
    def kept_seconds(self) -> float:
        """How long it stays idle while a lease waits for memory."""
        return 0.0 if self.key is PREPARED else IDLE_SECONDS

    @property
    def is_clean(self) -> bool:
        """Whether no program that ran in it can affect the next program, or leave a message for it."""
        sandbox = self.sandbox
        return sandbox.clean and not sandbox.marked and not sandbox.agent_acted


class SandboxPool:
    """Lends out sandboxes, and bounds how many of them live and how many of them work at once.

    The pool has two separate budgets. One bounds the live sandboxes; one may always live. The other
    is `gate`, which bounds the work that uses the processor: starting containers and grading. Use the pool in
    an `async with` block, whose end destroys every sandbox.

    A grading that holds the sandbox of an agent may open further ones, up to `nested_sandboxes`. The budget
    keeps room for them, so that no grading waits for a sandbox that another grading holds. A budget that is
    too small for one such grading is exceeded by its nested sandboxes.

    Args:
        backend: Starts the sandboxes. The default is Docker.
        images: Ids of builds by the names of images. Any other name means its current build.
        runtime: The name of the container runtime.
        run_id: The label that the containers of a run are found by.
        memory_mb: The sum of `Limits.memory_mb` of all live sandboxes, by default a share of the free memory.
        max_sandboxes: The number of live sandboxes. Without it, only memory bounds them.
        gate_places: The number of places at the gate, by default one more than the cores.
        nested_sandboxes: The most nested leases that one block holds at the same time.
    """

    def __init__(
        self,
        backend: Backend | None = None,
        *,
        images: Mapping[str, str] | None = None,
        runtime: str = "runc",
        run_id: str | None = None,
        memory_mb: int | None = None,
        max_sandboxes: int | None = None,
        gate_places: int | None = None,
        nested_sandboxes: int = 0,
    ) -> None:
        self._gate_places = places = gate_places or count_gate_places()
        # Held by the block that has all places.
        self._alone = asyncio.Lock()
        self._alone_seconds = 0.0
        self._opened_at = time.monotonic()
        self.gate = asyncio.Semaphore(places)
        # Held while a block leases several sandboxes. Two blocks that each hold one would wait for ever.
        self.pairing = asyncio.Lock()
        self.backend = backend
        self._images = images or {}
        self._runtime = runtime
        self.run_id = run_id
        self._budget = SandboxBudget(
            free_memory_mb() if memory_mb is None else memory_mb,
            max_sandboxes,
            nested_sandboxes=nested_sandboxes,
            most_gradings=places,
        )
        self._nesting = asyncio.Semaphore(self._budget.gradings)
        # Leases wait for memory in a line, so that many small sandboxes cannot starve a large one.
        self._line = asyncio.Lock()
        self._next: _Waiting | None = None
        self._changed = asyncio.Event()
        self._idle: list[_Live] = []
        self._owners: set[asyncio.Task[None]] = set()
        # Called for each lease without a key: its settings and seconds, and the age of its sandbox if that
        # was prepared.
        self.on_claim: Callable[[SandboxSettings, float, float | None], None] = lambda *_claim: None
        self._starts: list[float] = []

    @property
    def count(self) -> int:
        """The number of live sandboxes, those that start included."""
        return self._budget.count

    @property
    def memory_mb(self) -> int:
        """The memory in MiB that all live sandboxes together may have."""
        return self._budget.memory_mb

    @property
    def starts(self) -> Sequence[float]:
        """The times of `time.monotonic` when the unfinished starts of sandboxes began."""
        return self._starts

    @contextlib.asynccontextmanager
    async def lease(
        self,
        settings: SandboxSettings,
        *,
        seconds: float,
        key: Hashable | None = None,
        working: bool = False,
        nested: bool = False,
        held: int = 0,
    ) -> AsyncIterator[Sandbox]:
        """Yield a sandbox for the duration of the block, which may last at most `seconds`.

        Leases with the same `key` and settings share a sandbox, one after the other, as long as it is clean.
        Without a key the sandbox is new, and the end of the block destroys it. A lease waits for memory and
        for the gate. A `working` block burns cores itself and keeps its place at the gate to its end. A
        `nested` lease waits for neither. It is for a block of `grade_nested`, which already holds a sandbox
        and a place at the gate, because two such blocks could wait for each other for ever. `held` is the
        number of sandboxes that the block holds already, together with `pairing`. Such a lease waits for
        memory, but not in the line, whose head may wait for a sandbox that this block holds.

        Raises EngineUnavailableError, ImageMissingError and SandboxError if a sandbox cannot start. An error
        of the block destroys the sandbox. Raises ValueError if the key is `AcrossTasks` and the sandbox is
        not one for programs under tests.
        """
        if isinstance(key, AcrossTasks):
            _require_programs_alone(settings, nested=nested)
        live = await self._enter(settings, seconds, key, nested=nested, held=held)
        if not nested and not working:
            self.gate.release()
        try:
            try:
                yield live.sandbox
            except BaseException:
                self._close(live)
                raise
            await self._take_back(live)
        finally:
            if not nested and working:
                self.gate.release()

    @contextlib.asynccontextmanager
    async def grade_nested(self) -> AsyncIterator[None]:
        """Hold a place for a grading that already holds a sandbox, and that may hold nested leases."""
        async with self._nesting, self.gate:
            yield

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold every place at the gate, so that nothing else of this pool starts or grades meanwhile.

        A lease in the block must be `nested`. The caller must hold no place. Programs decide how often this
        happens, so a block that would exceed ALONE_SHARE runs beside the others.
        """
        held = 0
        async with self._alone:
            began = time.monotonic()
            is_due = self._alone_seconds < ALONE_SECONDS + ALONE_SHARE * (began - self._opened_at)
            try:
                while is_due and held < self._gate_places:
                    await self.gate.acquire()
                    held += 1
                yield
            finally:
                for _ in range(held):
                    self.gate.release()
                if is_due:
                    self._alone_seconds += time.monotonic() - began

    async def prepare(self, settings: SandboxSettings, seconds: float) -> bool:
        """Start a sandbox for a later lease without a key, if that delays no lease. Return whether it did.

        A prepared sandbox is destroyed as soon as a lease lacks its memory. Raises as `lease` does.
        """
        if self._next is not None or self.gate.locked() or not self._budget.fits(settings.memory_mb):
            return False
        self._count_in(settings)
        async with self.gate:
            self._keep_idle(await self._open(settings, seconds, PREPARED))
        return True

    def count_idle(self, key: Hashable, settings: SandboxSettings) -> int:
        """Return the number of idle sandboxes of a key with these settings."""
        return sum(live.key == key and live.settings == settings for live in self._idle)

    def discard(self, key: Hashable, settings: SandboxSettings | None = None) -> None:
        """Destroy the idle sandboxes of a key, because no lease will ask for them any more."""
        for live in [live for live in self._idle if live.key == key and settings in (None, live.settings)]:
            self._close(live)

    async def __aenter__(self) -> SandboxPool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for live in list(self._idle):
            self._close(live)
        # The end of the run removes the containers that cannot be removed now.
        await complete_all(self._owners)

    async def _enter(
        self, settings: SandboxSettings, seconds: float, key: Hashable | None, *, nested: bool, held: int
    ) -> _Live:
        """Return the sandbox for a lease, which has a place at the gate then, unless it is nested."""
        memory_mb = settings.memory_mb
        # A lease that came earlier and waits for such a sandbox gets it first.
        is_behind = self._next is not None and self._next.wants(settings, key) and not nested
        live = None if is_behind else self._find_idle(settings, seconds, key)
        if live is None and nested:
            await self._close_idle_above_budget(memory_mb)
            self._count_in(settings)
        elif live is None and held:
            while not self._budget.fits(settings.limits.memory_mb, held=held):
                await self._free_memory()
            self._count_in(settings)
        elif live is None:
            live = await self._take_memory(settings, seconds, key)
        try:
            if not nested:
                await self.gate.acquire()
        except asyncio.CancelledError:
            if live is None:
                self._count_out(settings)
            else:
                self._close(live)
            raise
        if live is None and (live := self._find_idle(settings, seconds, key)) is not None:
            # Another lease has given this sandbox back while this one waited at the gate.
            self._count_out(settings)
        if live is not None:
            return live
        if key is None:
            self.on_claim(settings, seconds, None)
        try:
            return await self._open(settings, seconds, key)
        except BaseException:
            if not nested:
                self.gate.release()
            raise

    def _find_idle(self, settings: SandboxSettings, seconds: float, key: Hashable | None) -> _Live | None:
        """Remove a fitting sandbox from the idle ones and return it. Close those that are too old or lost."""
        wanted = PREPARED if key is None else key
        # The one that was used last comes first, so that an unneeded one grows old.
        for live in [live for live in self._idle[::-1] if live.key == wanted and live.settings == settings]:
            if time.monotonic() + seconds > live.ends or live.sandbox.is_lost:
                self._close(live)
                continue
            self._idle.remove(live)
            if key is None:
                live.key = None
                # It was started for a longer life than the lease has.
                asyncio.get_running_loop().call_later(seconds + MARGIN_SECONDS, live.closing.set)
                self.on_claim(settings, seconds, time.monotonic() - live.idle_since)
            return live
        return None

    async def _open(self, settings: SandboxSettings, seconds: float, key: Hashable | None) -> _Live:
        """Start a sandbox and return it.

        The caller has counted its memory, and the owner task releases the memory when it ends.
        """
        lasts = seconds if key is None else KEPT_SECONDS + seconds
        began = time.monotonic()
        ends = began + lasts
        opened: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
        closing = asyncio.Event()
        owner = asyncio.create_task(self._own(settings, lasts + MARGIN_SECONDS, opened, closing))
        self._owners.add(owner)
        owner.add_done_callback(functools.partial(self._forget, settings=settings))
        self._starts.append(began)
        try:
            await asyncio.wait((opened, owner), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            owner.cancel()
            raise
        finally:
            self._starts.remove(began)
        if not opened.done():
            owner.result()
        return _Live(settings, key, opened.result(), ends, owner, closing)

    async def _own(
        self,
        settings: SandboxSettings,
        deadline_seconds: float,
        opened: asyncio.Future[Sandbox],
        closing: asyncio.Event,
    ) -> None:
        """Hold a sandbox open until `closing` is set. Leases of it come and go in other tasks."""
        async with settings.kind.open(
            self._images.get(settings.image, settings.image),
            limits=settings.limits,
            runtime=self._runtime,
            seccomp=settings.seccomp,
            network=settings.network,
            terminals=settings.terminals,
            relay=settings.relay,
            foreign=settings.foreign,
            deadline_seconds=deadline_seconds,
            run_id=self.run_id,
            backend=self.backend,
        ) as sandbox:
            opened.set_result(sandbox)
            _LOGGER.debug("a sandbox of image %s is open", settings.image)
            await closing.wait()
        _LOGGER.debug("a sandbox of image %s is destroyed", settings.image)

    async def _take_back(self, live: _Live) -> None:
        """Keep the sandbox for the next lease, or destroy it. Raises SandboxError for one without a key."""
        if live.key is not None and live.is_clean and not self._is_in_the_way(live):
            self._keep_idle(live)
            return
        self._close(live)
        if live.key is None:
            await asyncio.wait((live.owner,))
            live.owner.result()

    def _keep_idle(self, live: _Live) -> None:
        live.idle_since = time.monotonic()
        self._idle.append(live)
        self._changed.set()

    def _is_in_the_way(self, live: _Live) -> bool:
        """Return whether another lease has waited for the memory of this sandbox for too long.

        A sandbox with the key `AcrossTasks` is never idle for long, so it would keep its memory to the end of
        the run.
        """
        waiting = self._next
        return (
            waiting is not None
            and not waiting.wants(live.settings, live.key)
            and time.monotonic() > waiting.since + IDLE_SECONDS
        )

    def _close(self, live: _Live) -> None:
        if live in self._idle:
            self._idle.remove(live)
        live.closing.set()

    def _forget(self, owner: asyncio.Task[None], *, settings: SandboxSettings) -> None:
        self._owners.discard(owner)
        self._count_out(settings)
        if not owner.cancelled():
            owner.exception()  # asyncio warns of an unretrieved exception

    async def _take_memory(
        self, settings: SandboxSettings, seconds: float, key: Hashable | None
    ) -> _Live | None:
        """Wait until there is memory for a new sandbox, and take the memory.

        If a fitting sandbox becomes idle first, return that and take no memory.
        """
        async with self._line:
            self._next = _Waiting(settings, key, time.monotonic())
            try:
                while not self._budget.fits(settings.limits.memory_mb, beside_mb=settings.beside_mb):
                    if (live := self._find_idle(settings, seconds, key)) is not None:
                        return live
                    await self._free_memory()
                self._count_in(settings)
            finally:
                self._next = None
        return None

    async def _free_memory(self) -> None:
        """Wait until a sandbox is given back or gone. Destroy one that has been idle for too long."""
        oldest = min(self._idle, key=lambda live: live.idle_since + live.kept_seconds, default=None)
        rest = None if oldest is None else oldest.idle_since + oldest.kept_seconds - time.monotonic()
        if oldest is not None and rest is not None and rest <= 0:
            self._close(oldest)
            await asyncio.wait((oldest.owner,))
            return
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rest):
                await self._changed.wait()

    async def _close_idle_above_budget(self, memory_mb: int) -> None:
        """Destroy idle sandboxes until a nested one fits, as far as there are any."""
        while self._idle and not self._budget.has_room(memory_mb):
            oldest = min(self._idle, key=lambda live: live.idle_since)
            self._close(oldest)
            await asyncio.wait((oldest.owner,))

    def _count_in(self, settings: SandboxSettings) -> None:
        self._budget.add(settings.limits.memory_mb, settings.beside_mb)

    def _count_out(self, settings: SandboxSettings) -> None:
        self._budget.remove(settings.limits.memory_mb, settings.beside_mb)
        self._changed.set()


def _require_programs_alone(settings: SandboxSettings, *, nested: bool) -> None:
    """Raise ValueError for a sandbox that tasks must not share, because an agent may act in it."""
    is_strict = settings.seccomp == "strict" and settings.kind is Sandbox
    if nested or settings.terminals or settings.relay or not is_strict:
        raise ValueError(f"only sandboxes for programs under tests are shared by tasks, not {settings}")
