"""The parts that all requests of a service share: the backend, the sandbox pool, the queue, the sessions."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from harness.core.logger import get_logger
from harness.host.engine import Engine, open_engine
from harness.host.local import LocalHost, log_note
from harness.host.retries import read_wait_seconds
from harness.sandbox.backends.base import Backend, BackendFacts
from harness.sandbox.pool import SandboxPool
from harness.sandbox.stock import Stock
from harness.service.metrics import ServiceMetrics
from harness.service.operations import Bodies
from harness.service.queue import FairQueue
from harness.service.sandboxes.models import CreateSandboxRequest
from harness.service.sandboxes.sessions import SandboxSession, SandboxSessions
from harness.service.sandboxes.shares import HeldSnapshots
from harness.service.settings import ServiceSettings
from harness.service.verdicts.samples import ServedBenchmark, index_benchmarks
from harness.service.verdicts.source_parser import SourceParser, open_source_parser
from harness.service.workers import LocalWorkers, Workers, make_host, open_ray_workers

_LOGGER = get_logger(__name__)


@dataclass(slots=True, eq=False)
class Service:
    """A service that is open. Handlers get it with each call."""

    settings: ServiceSettings
    backend: Backend
    # The engine, the runtime and the images.
    facts: BackendFacts
    # This machine.
    host: LocalHost
    queue: FairQueue
    metrics: ServiceMetrics
    # Do the work of requests that need no sandbox of their own. `work` bounds it.
    workers: Workers
    # The benchmarks that clients may name.
    benchmarks: Mapping[str, ServedBenchmark]
    # The sandboxes that clients hold from one request to the next.
    sessions: SandboxSessions
    # The files of those that clients keep.
    snapshots: HeldSnapshots
    # Read the bodies of requests.
    bodies: Bodies
    # Builds the hidden tests that clients send, and the turns to use it.
    parser: SourceParser
    parsing: FairQueue
    # The label of all of its containers.
    run_id: str
    # Set once the service takes no new requests.
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    # The requests under way.
    under_way: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pool(self) -> SandboxPool:
        """The sandboxes of this machine."""
        return self.host.pool

    def begin_request(self) -> None:
        """Count a request that begins."""
        self.under_way += 1
        self._idle.clear()

    def end_request(self) -> None:
        """Count a request that has ended."""
        self.under_way -= 1
        if not self.under_way:
            self._idle.set()

    async def drain(self) -> None:
        """Refuse new requests, and wait for those under way, for at most `drain_seconds`."""
        self.draining.set()
        if not self.under_way:
            return
        seconds = self.settings.limits.drain_seconds
        _LOGGER.info("draining", extra={"requests": self.under_way, "seconds": seconds})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    def work(
        self, client: str, *, wait_seconds: float, hold: bool = False
    ) -> contextlib.AbstractAsyncContextManager[float]:
        """Return a context manager that holds one of the service's places, after the wait in the queue.

        Arguments and errors are as in `FairQueue.enter`.
        """
        return self.queue.enter(client, wait_seconds=wait_seconds, hold=hold)

    async def open_sandbox(self, client: str, request: CreateSandboxRequest) -> SandboxSession:
        """Open a sandbox for a client and return it. Its start takes a place in the queue.

        Raises ServiceError, at once if there is no room, and HarnessError for a fault of the engine.
        """
        self.sessions.require_room(client, request)
        async with self.work(client, wait_seconds=request.wait_seconds):
            return await self.sessions.open(client, request)


@contextlib.asynccontextmanager
async def open_service(
    settings: ServiceSettings, *, backend: Backend | None = None, notify: Callable[[str], None] | None = None
) -> AsyncIterator[Service]:
    """Yield a service. The end of the block destroys all of its sandboxes.

    Raises EngineUnavailableError if no engine answers, ImageMissingError for an image that was not built, and
    UsageError for a runtime that the engine does not know, for benchmarks that cannot be served, and for a
    Ray cluster without a node that can take part.
    """
    benchmarks = index_benchmarks(settings.benchmarks)
    needed = [image for each in benchmarks.values() for image in each.images]
    images = [*dict.fromkeys([*settings.images, *needed])]
    run_id = f"serve-{secrets.token_hex(8)}"
    async with contextlib.AsyncExitStack() as stack:
        opening = open_engine(
            images, runtime=settings.runtime, backend=backend or "auto", notify=notify or log_note
        )
        engine = await stack.enter_async_context(opening)
        facts = engine.facts
        metrics = ServiceMetrics()
        host = await stack.enter_async_context(
            make_host(
                engine.backend,
                images=facts.images,
                runtime=settings.runtime,
                run_id=run_id,
                max_concurrent=settings.max_concurrent,
                wait_seconds=read_wait_seconds(),
                on_fault=metrics.faults.inc,
            )
        )
        workers = await stack.enter_async_context(
            _open_workers(settings, engine, host, f"{run_id}-node", metrics)
        )
        queue = FairQueue(
            workers.places,
            most=settings.limits.queued,
            client_share=settings.limits.client_share,
            on_begin=metrics.wait_seconds.observe,
            # Other machines do not report their starts.
            list_starts=(lambda: host.pool.starts) if settings.ray is None else tuple,
        )
        workers.watch_places(queue.resize)
        stock = await stack.enter_async_context(Stock(host.pool, metrics.count_claim))
        sessions = await stack.enter_async_context(
            SandboxSessions(host.pool, settings.limits, metrics.faults.inc)
        )
        service = Service(
            settings,
            engine.backend,
            facts,
            host,
            queue,
            metrics,
            workers,
            benchmarks,
            sessions,
            HeldSnapshots(sessions.budget),
            Bodies(settings.limits),
            await stack.enter_async_context(open_source_parser()),
            FairQueue(1, most=settings.limits.queued),
            run_id,
        )
        _watch(service, stock)
        yield service


@contextlib.asynccontextmanager
async def _open_workers(
    settings: ServiceSettings, engine: Engine, host: LocalHost, node_run_id: str, metrics: ServiceMetrics
) -> AsyncIterator[Workers]:
    """Yield the workers of a service: this machine, or the nodes of a Ray cluster.

    This machine may be a node, which must not remove the sandboxes of this process. So `node_run_id` differs
    from their label.
    """
    if settings.ray is None:
        yield LocalWorkers(host, settings.max_concurrent)
        return
    async with open_ray_workers(
        engine.backend,
        image_tags=engine.facts.image_tags,
        runtime=settings.runtime,
        run_id=node_run_id,
        address=settings.ray.address,
        max_concurrent=settings.ray.max_concurrent,
        on_faults=metrics.faults.inc,
    ) as workers:
        yield workers


def _watch(service: Service, stock: Stock) -> None:
    """Add the gauges of a service to its metrics."""
    metrics, queue, workers = service.metrics, service.queue, service.workers
    metrics.watch("harness_queue_length", "Requests that wait for a sandbox", lambda: queue.waiting)
    metrics.watch("harness_working", "Requests that work in sandboxes", lambda: queue.working)
    metrics.watch("harness_machines", "Machines that work on requests", lambda: workers.machines)
    metrics.watch("harness_prepared_sandboxes", "Sandboxes that wait for a claim", lambda: stock.ready)
    metrics.watch(
        "harness_sandboxes",
        "Live sandboxes without the prepared ones",
        lambda: _count_sandboxes(service.pool, workers) - stock.count,
    )
    metrics.watch("harness_sessions", "Sandboxes that clients hold", lambda: service.sessions.budget.count)


def _count_sandboxes(pool: SandboxPool, workers: Workers) -> int:
    """Return the live sandboxes of all machines. Other ones than this machine have pools of their own."""
    return workers.sandboxes + (0 if isinstance(workers, LocalWorkers) else pool.count)
