"""A service as the place of sandboxes, graders and runs, instead of this machine."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from harness.client.connection import Address, open_connection, read_address
from harness.client.grader import MAX_REQUEST_SECONDS, RemoteGrader
from harness.client.sandbox import RemoteSandbox, open_remote_sandbox
from harness.errors import UsageError
from harness.evaluation.sync_grader import SyncGrader, hold_grader
from harness.sandbox.limits import Limits
from harness.sandbox.sync import SyncSandbox, hold_sandbox

if TYPE_CHECKING:
    from harness.api import RunAgent, RunOptions, RunResult
    from harness.evaluation.observer import RunObserver

WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Remote:
    """A service. It holds no connection, so it needs no end. Make it with `connect`."""

    address: Address
    # The seconds for which a call waits for room at the service.
    wait_seconds: float

    @contextlib.asynccontextmanager
    async def open(
        self,
        image: str = "python",
        *,
        limits: Limits | None = None,
        terminals: bool = False,
        deadline_seconds: float = 600.0,
    ) -> AsyncIterator[RemoteSandbox]:
        """Start a sandbox at the service and yield it, as `Sandbox.open` does here.

        The sandbox also ends five minutes after its client has gone. The arguments are those of
        `Sandbox.open` that a service has.

        Raises:
            UsageError: The service refuses an argument or the token, or has another version.
            ServiceBusyError: The service had no room within `wait_seconds`.
            ServiceUnreachableError: No service answers.
        """
        async with (
            open_connection(self.address, wait_seconds=self.wait_seconds) as connection,
            open_remote_sandbox(
                connection,
                image,
                limits=limits,
                terminals=terminals,
                deadline_seconds=deadline_seconds,
            ) as sandbox,
        ):
            yield sandbox

    def open_sync(
        self,
        image: str = "python",
        *,
        limits: Limits | None = None,
        terminals: bool = False,
        deadline_seconds: float = 600.0,
    ) -> contextlib.AbstractContextManager[SyncSandbox]:
        """Return a context manager that opens a sandbox for blocking calls, as `Sandbox.open_sync` does."""
        return hold_sandbox(
            lambda: self.open(image, limits=limits, terminals=terminals, deadline_seconds=deadline_seconds)
        )

    @contextlib.asynccontextmanager
    async def open_grader(self, *, timeout_seconds: float | None = None) -> AsyncIterator[RemoteGrader]:
        """Yield a grader of the service, as `harness.open_grader` does here.

        Args:
            timeout_seconds: the wall time of one grading, up to 600 and by default 180.

        Raises as `open` does.
        """
        if timeout_seconds is not None and not 1 <= timeout_seconds <= MAX_REQUEST_SECONDS:
            raise UsageError(
                f"timeout_seconds must be from 1 to {MAX_REQUEST_SECONDS:.0f}, not {timeout_seconds}"
            )
        async with open_connection(self.address, wait_seconds=self.wait_seconds) as connection:
            yield RemoteGrader(connection, timeout_seconds=timeout_seconds)

    def open_grader_sync(
        self, *, timeout_seconds: float | None = None
    ) -> contextlib.AbstractContextManager[SyncGrader]:
        """Return a context manager that opens a grader for blocking calls, as `open_grader_sync` does."""
        return hold_grader(lambda: self.open_grader(timeout_seconds=timeout_seconds))

    async def run(
        self,
        benchmark: str | None = None,
        *,
        resume: str | Path | RunResult | None = None,
        agent: RunAgent | None = None,
        observer: RunObserver | None = None,
        progress: bool | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run a benchmark as `harness.run` does, with the submissions graded at the service.

        Attempts are made on this machine, which also has the run folder and the keys of models. The agent
        submits text and needs no sandbox. The service must have loaded the benchmark with the same data. If
        it is away for longer than `wait_seconds`, the run stops and can be resumed.

        Args:
            benchmark: the name of a benchmark, or the path of your own. A resumed run needs none.
            resume: the run to resume: a run folder, its name in `runs`, `latest`, or a result of `run`.
            agent: as for `harness.run`. A resumed run has its agent, which may be given again as an object.
            observer: as for `harness.run`.
            progress: as for `harness.run`.
            options: as for `harness.run`, except for those that the service decides: `executor`,
                `ray_address`, `runtime`, `isolation`, `limits`, `max_sandboxes` and `mcp_servers`.

        Raises:
            UsageError: for an option, an agent or a benchmark that a service cannot grade, for a benchmark
                that it has not loaded, or with other data, and as `open` does.
            DataError: for data that cannot be used.
            ServiceUnreachableError: No service answers at the start.
            RunStoppedError: if the service stays away. Finished attempts are in the run folder.
            StorageError: if the run folder cannot be written.
        """
        from harness.client.runs import run_at_service  # reports take long to import

        return await run_at_service(
            self.address,
            benchmark,
            wait_seconds=self.wait_seconds,
            resume=resume,
            agent=agent,
            observer=observer,
            progress=progress,
            options=options,
        )


def connect(url: str, *, token: str | None = None, wait_seconds: float = WAIT_SECONDS) -> Remote:
    """Return a service as the place of sandboxes, graders and runs. The first use connects to it.

    Proxies of the environment are not used, because they would see the token.

    Args:
        url: the URL that `harness serve` prints, with the token as its last part.
        token: the token, if the URL does not have it. HARNESS_SERVE_TOKEN is that of a URL without a path.
        wait_seconds: the time for which a call waits while the service is busy.

    Raises UsageError for a URL or a time that cannot be used.
    """
    if not 0 <= wait_seconds < math.inf:
        raise UsageError(f"wait_seconds must be a finite number of seconds from 0 on, not {wait_seconds}")
    return Remote(read_address(url, token), float(wait_seconds))
