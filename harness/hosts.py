"""Hosts for users: this machine, whose host also loads benchmarks by their names and makes whole runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.custom import is_own
from harness.benchmarks.loading import load_benchmark
from harness.core.errors import UsageError
from harness.core.portal import SyncFace, hold_face
from harness.environments import environment_spec
from harness.host.local import HostOptions, LocalHost, log_note, open_local_host

if TYPE_CHECKING:
    from harness.api import RunResult


class Host(LocalHost):
    """This machine as a host. Make it with `open_host`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._benchmarks: dict[str, Benchmark] = {}
        self._loading = asyncio.Lock()

    async def load(self, name: str) -> Benchmark:
        """Return a benchmark by its name. It is loaded once. Raises UsageError for the name of a file."""
        if is_own(name):
            raise UsageError(
                f"'{name}' is a file, and a host loads benchmarks by their names alone",
                hint="load it with load_benchmark, and pass the benchmark",
            )
        async with self._loading:
            if name not in self._benchmarks:
                self._benchmarks[name] = await asyncio.to_thread(
                    load_benchmark, name, notify=log_note, sample_stands_in=False
                )
            return self._benchmarks[name]

    async def run(self, benchmark: str | None = None, **options: Any) -> RunResult:
        """Run a benchmark with the engine of this host. See `harness.run` for the arguments.

        The run has sandboxes and a memory budget of its own, so that other work of the host cannot slow it.
        """
        from harness.api import run  # the reports take long to import

        self._require_open()
        if options.get("hosts"):
            raise UsageError("this machine and services cannot share a run", hint="name services alone")
        return await run(benchmark, backend=self.pool.backend, **options)


@contextlib.asynccontextmanager
async def open_host(
    *, environments: Sequence[str] = ("python",), **options: Unpack[HostOptions]
) -> AsyncIterator[Host]:
    """Connect to the engine, find the images, and yield a host. The end of the block removes all sandboxes.

    Args:
        environments: the environments whose images must be there: `python` for programs, `maths` for
            mathematics. With none, the host grades answers as text, and needs no engine.
        isolation: `run` shares containers between submissions as `--isolation run` does, which
            docs/isolation.md describes. `attempt` starts a container for each.
        timeout_seconds: the wall time of one grading, up to 600, by default the one of the environment.
        limits: the limits of a sandbox that grades and of a program in it. The default is the one of
            the environment.
        max_concurrent: the number of programs that are graded at once, by default one for each core.
        max_sandboxes: the number of live sandboxes. By default memory alone bounds it.
        memory_mb: the memory in MiB of all live sandboxes, by default a share of the free memory.
        runtime: the container runtime, `runc` or `runsc`.
        backend: starts the sandboxes. Without it, the host connects to the Docker engine.

    Raises:
        EngineUnavailableError: if no engine answers.
        ImageMissingError: if the engine lacks an image. `harness setup` builds it.
        UsageError: if an argument cannot be used.
    """
    images = [spec.image for spec in map(environment_spec, environments) if spec.image is not None]
    async with open_local_host(Host, images, **options) as host:
        yield host


def open_host_sync(
    host: AbstractAsyncContextManager[Any] | None = None, **options: Any
) -> AbstractContextManager[SyncFace]:
    """Return a context manager that opens a host for blocking calls, without an event loop.

    Args:
        host: the host, such as `connect(URL)`. Without it, the host is this machine.
        options: the arguments of `open_host`.

    Raises as `open_host` does.
    """
    if host is not None and options:
        raise UsageError("options describe this machine, and the host is another", hint="leave them out")
    return hold_face(lambda: host or open_host(**options), _build_closed_error)


def _build_closed_error() -> UsageError:
    return UsageError("the host is closed", hint="use it inside its block")
