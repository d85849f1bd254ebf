"""A service as a host, instead of this machine."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from pydantic import BaseModel, ValidationError
from typing_extensions import Unpack

from harness.api import RunAgent, RunResult, choose_observer, find_resumed, finish_run
from harness.benchmarks.benchmark import Benchmark
from harness.client.connection import Address, Connection, open_connection, read_address
from harness.client.episode import RemoteEpisode, RemoteEpisodeSnapshot, open_remote_episode
from harness.client.grader import (
    MAX_REQUEST_SECONDS,
    SAMPLE_SECONDS,
    BatchGrader,
    SpreadGrading,
    describe_target,
    grade_sample,
    open_batch_grader,
)
from harness.client.sandbox import RemoteSandbox, RemoteSnapshot, open_remote_forks, open_remote_sandbox
from harness.core.errors import UsageError, unknown_name
from harness.core.invalid_values import quote_value
from harness.core.portal import SyncFace, hold_face
from harness.core.types import TEXT_FIELDS, PlainData, Submission, Verdict
from harness.host.local import is_graded_by_text
from harness.hosts import open_host_sync
from harness.runs.grading_service import ServiceFacts
from harness.runs.manifest import hash_definition
from harness.runs.progress import RunObserver
from harness.runs.run import open_run
from harness.runs.run_starts import plan_run
from harness.runs.selection import Selection
from harness.runs.settings import KEYS, RunConfig
from harness.runs.workspaces import find_needs
from harness.sandbox.backends.base import BackendFacts
from harness.sandbox.failures import SandboxClosed
from harness.sandbox.limits import Limits
from harness.sandbox.snapshots import open_together, require_count

if TYPE_CHECKING:
    from harness.runs.settings.keywords import RunOptions


WAIT_SECONDS = 60.0
# A request may wait in the queue of the service for as long as its grading may take.
_MOST_SECONDS = int(MAX_REQUEST_SECONDS / 2)
_LOCAL_HINT = "run it on this machine with harness.run"


class RemoteHost:
    """A service as a host, with the methods of a host of this machine. Make it with `connect`.

    It needs no block, and then opens a connection for each call. In an `async with` block all calls share one
    connection, and the end of the block refuses further calls.
    """

    def __init__(
        self, address: Address, wait_seconds: float, timeout_seconds: float = SAMPLE_SECONDS
    ) -> None:
        """Use the service at `address`.

        `wait_seconds` is how long a call waits for room at the service, and `timeout_seconds` the wall time
        of one grading.
        """
        self.address = address
        self.wait_seconds = wait_seconds
        self._timeout_seconds = timeout_seconds
        self._stack = contextlib.AsyncExitStack()
        self._shared: Connection | None = None

    async def __aenter__(self) -> Self:
        self._shared = await self._stack.enter_async_context(self._open_connection())
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    def _open_connection(self) -> contextlib.AbstractAsyncContextManager[Connection]:
        if self._shared is None:
            return open_connection(self.address, wait_seconds=self.wait_seconds)
        if self._shared.is_closed:
            raise UsageError("the host is closed", hint="use it inside its block")
        return contextlib.nullcontext(self._shared)

    @contextlib.asynccontextmanager
    async def sandbox(
        self,
        image: str = "python",
        *,
        limits: Limits | None = None,
        terminals: bool = False,
        deadline_seconds: float = 600.0,
    ) -> AsyncIterator[RemoteSandbox]:
        """Start a sandbox at the service and yield it, as `LocalHost.sandbox` does here.

        The sandbox also ends five minutes after its client has gone.

        Raises:
            UsageError: The service refuses an argument or the token, or has another version.
            ServiceBusyError: The service had no room within `wait_seconds`.
            ServiceUnreachableError: No service answers.
        """
        async with (
            self._open_connection() as connection,
            open_remote_sandbox(
                connection, image, limits=limits, terminals=terminals, deadline_seconds=deadline_seconds
            ) as sandbox,
        ):
            yield sandbox

    @overload
    def fork(
        self, snapshot: RemoteSnapshot, count: int = 1
    ) -> AbstractAsyncContextManager[list[RemoteSandbox]]: ...

    @overload
    def fork(
        self, snapshot: RemoteEpisodeSnapshot, count: int = 1
    ) -> AbstractAsyncContextManager[list[RemoteEpisode]]: ...

    @contextlib.asynccontextmanager
    async def fork(
        self, snapshot: RemoteSnapshot | RemoteEpisodeSnapshot, count: int = 1
    ) -> AsyncIterator[list[Any]]:
        """Open sandboxes or episodes at the service from a snapshot, as `LocalHost.fork` does here."""
        require_count(count)
        async with self._open_connection() as connection:
            if isinstance(snapshot, RemoteEpisodeSnapshot):
                asked = {"snapshot": snapshot.name}
                opening: AbstractAsyncContextManager[list[Any]] = open_together(
                    [
                        open_remote_episode(self.address, asked, wait_seconds=self.wait_seconds)
                        for _ in range(count)
                    ]
                )
            else:
                opening = open_remote_forks(connection, snapshot, count)
            async with opening as opened:
                yield opened

    async def grade(
        self, target: PlainData, submission: Submission | str, *, timeout_seconds: float | None = None
    ) -> Verdict:
        """Return the verdict of a target on a program, as `LocalHost.grade` does here.

        A submission that had no place at the service in time has the status `cancelled` and no score.

        Raises:
            UsageError: for a target that build_stdin_tests, build_call_tests and build_assert_tests do not
                build, or that the service refuses.
            ServiceBusyError: if the service had no room in time.
            ServiceUnreachableError: if the service is away.
        """
        text = submission.text if isinstance(submission, Submission) else submission
        return await self._grade({"tests": describe_target(target), "solution": text}, timeout_seconds)

    async def grade_task(
        self, benchmark: Benchmark | str, task_id: str, text: str, *, field: str = "solution"
    ) -> Verdict:
        """Return the verdict on a text for a task of a benchmark that the service has loaded.

        `LocalHost.grade_task` describes the arguments, and `grade` the errors. A benchmark is known by its
        name alone.
        """
        if field not in TEXT_FIELDS:
            raise unknown_name("field", str(field), TEXT_FIELDS)
        name = benchmark if isinstance(benchmark, str) else benchmark.name
        return await self._grade({"benchmark": name, "task_id": task_id, field: text}, None)

    @contextlib.asynccontextmanager
    async def environment(
        self, benchmark: Benchmark | str, task_id: str, *, seed: int = 0
    ) -> AsyncIterator[RemoteEpisode]:
        """Open the environment of a task at the service and yield an attempt, as a host of this machine does.

        Raises as `sandbox` does, and UsageError for a task that the service does not have.
        """
        name = benchmark if isinstance(benchmark, str) else benchmark.name
        async with (
            self._open_connection(),
            open_remote_episode(
                self.address,
                {"benchmark": name, "task_id": task_id, "seed": seed},
                wait_seconds=self.wait_seconds,
            ) as episode,
        ):
            yield episode

    async def _grade(self, sample: Mapping[str, Any], timeout_seconds: float | None) -> Verdict:
        seconds = timeout_seconds or self._timeout_seconds
        async with self._open_connection() as connection:
            return await grade_sample(connection, sample, seconds=seconds)

    async def run(
        self,
        benchmark: str | None = None,
        *,
        resume: str | Path | RunResult | None = None,
        agent: RunAgent | None = None,
        observer: RunObserver | None = None,
        progress: bool | None = None,
        hosts: Sequence[RemoteHost] = (),
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
            hosts: further services that grade as well. Each submission goes to the one with the fewest.
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
        watcher = choose_observer(observer, progress)
        refuse_settings(options.keys())
        planned = plan_run(
            benchmark, resume=find_resumed(resume), agent=agent, options=options, notify=watcher.note
        )
        refuse_unsupported(planned.selection)
        async with contextlib.AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(_open_grader(host, planned.selection))
                for host in (self, *hosts)
            ]
            grader = opened[0] if len(opened) == 1 else SpreadGrading(opened)
            selection = _take_settings(planned.selection, grader.facts)
            async with open_run(selection, planned.start, service=grader, notify=watcher.note) as current:
                return await finish_run(current, watcher)

    def open(self, image: str = "python", **options: Any) -> AbstractAsyncContextManager[RemoteSandbox]:
        """Return `sandbox(image, **options)`, so that a service can take the place of the class `Sandbox`."""
        return self.sandbox(image, **options)

    def open_sync(self, image: str = "python", **options: Any) -> AbstractContextManager[SyncFace]:
        """Return a context manager that opens a sandbox for blocking calls, as `Sandbox.open_sync` does."""
        return hold_face(lambda: self.sandbox(image, **options), SandboxClosed)

    def open_grader(self, *, timeout_seconds: float | None = None) -> RemoteHost:
        """Return a host whose gradings take up to `timeout_seconds` each, from 1 to 600, by default 180."""
        if timeout_seconds is not None and not 1 <= timeout_seconds <= MAX_REQUEST_SECONDS:
            raise UsageError(
                f"timeout_seconds must be from 1 to {MAX_REQUEST_SECONDS:.0f}, not {timeout_seconds}"
            )
        return RemoteHost(self.address, self.wait_seconds, timeout_seconds or SAMPLE_SECONDS)

    def open_grader_sync(self, *, timeout_seconds: float | None = None) -> AbstractContextManager[SyncFace]:
        """Return a context manager that opens a host for blocking calls, as `open_host_sync` does."""
        return open_host_sync(self.open_grader(timeout_seconds=timeout_seconds))


Remote = RemoteHost


def connect(url: str, *, token: str | None = None, wait_seconds: float = WAIT_SECONDS) -> RemoteHost:
    """Return a service as a host. The first use connects to it.

    Proxies of the environment are not used, because they would see the token.

    Args:
        url: the URL that `harness serve` prints, with the token as its last part.
        token: the token, if the URL does not have it. HARNESS_SERVE_TOKEN is the default for a URL without a
            path.
        wait_seconds: the time that a call waits while the service is busy.

    Raises UsageError for a URL or a time that cannot be used.
    """
    if not 0 <= wait_seconds < math.inf:
        raise UsageError(f"wait_seconds must be a finite number of seconds from 0 on, not {wait_seconds}")
    return RemoteHost(read_address(url, token), float(wait_seconds))


def refuse_settings(given: Collection[str]) -> None:
    """Raise UsageError if the names of the given settings have one that the service decides."""
    for name in given:
        if name in KEYS and KEYS[name].panel == "Sandboxes":
            raise UsageError(
                f"{name} has no effect on a run at a service, whose operator decides it",
                hint=f"leave it out, or {_LOCAL_HINT}",
            )


def refuse_unsupported(selection: Selection) -> None:
    """Raise UsageError if an attempt of the run needs more than text, or more time than a request has."""
    config, benchmark = selection.config, selection.benchmark
    if config.mcp_servers:
        raise UsageError(
            "mcp_servers: an agent whose submissions a service grades has no tools", hint=_LOCAL_HINT
        )
    if find_needs(selection.agent) is not None:
        raise UsageError(
            f"agent '{config.agent}' needs a sandbox, and a run at a service has submissions of text alone",
            hint=_LOCAL_HINT,
        )
    for spec in selection.environments:
        if spec.open_environment is not None:
            raise UsageError(
                f"{benchmark.name} has tasks in the environment '{spec.name}', where an agent must act, "
                "and a service grades text alone",
                hint=_LOCAL_HINT,
            )
    for planned in selection.plan:
        if not is_graded_by_text(benchmark.references[planned.task.id].target):
            raise UsageError(
                f"{benchmark.name}: task {planned.task.id} is not graded by a text", hint=_LOCAL_HINT
            )
    seconds = max(config.timeout_seconds or spec.timeout_seconds for spec in selection.environments)
    if seconds > _MOST_SECONDS:
        raise UsageError(
            f"timeout_seconds may be at most {_MOST_SECONDS} at a service, not {seconds}, because a request "
            f"takes at most {MAX_REQUEST_SECONDS:.0f} s with its time in the queue",
            hint=f"use timeout_seconds={_MOST_SECONDS}, or {_LOCAL_HINT}",
        )


class _Loaded(BaseModel):
    name: str
    split: str
    data_sha256: str
    definition_sha256: str | None
    options: dict[str, Any]
    revision: str


class _Listed(BaseModel):
    harness_version: str
    engine: dict[str, Any]
    runtime: dict[str, Any] | None
    images: dict[str, str]
    image_tags: dict[str, str]
    benchmarks: list[_Loaded]


async def find_service_facts(
    connection: Connection, benchmark: Benchmark, images: Collection[str]
) -> ServiceFacts:
    """Return the facts of a service that has loaded a benchmark.

    Args:
        connection: the connection to the service.
        benchmark: the benchmark as this machine has loaded it.
        images: the images that the tasks need.

    Raises:
        UsageError: if the service has not loaded the benchmark, or has loaded it with other data, options or
            another definition.
        ServiceUnreachableError: if the service is away.
    """
    try:
        listed = _Listed.model_validate(await connection.fetch("GET", "/v1/benchmarks"))
    except ValidationError as error:
        raise UsageError(
            f"the service's list of benchmarks cannot be read: {error.error_count()} fields are wrong",
            hint="install the same version of harness in both places",
        ) from error
    found = next((each for each in listed.benchmarks if each.name == benchmark.name), None)
    if found is None:
        names = ", ".join(each.name[:100] for each in listed.benchmarks) or "none"
        raise UsageError(
            f"the service has not loaded the benchmark '{benchmark.name}'; loaded: {names}",
            hint=f"start it with: harness serve -b {benchmark.name}",
        )
    _require_same(benchmark, found)
    backend = BackendFacts(
        listed.engine,
        listed.runtime,
        {name: listed.images[name] for name in images if name in listed.images},
        {name: listed.image_tags[name] for name in images if name in listed.image_tags},
    )
    return ServiceFacts(listed.harness_version[:40], found.revision, backend)


def _require_same(benchmark: Benchmark, found: _Loaded) -> None:
    options = {} if benchmark.recipe is None else benchmark.recipe.options
    name = benchmark.name
    for subject, ours, theirs, hint in (
        (
            "the split",
            benchmark.split,
            found.split,
            f"use the same split in both places: here split={quote_value(found.split)}, or there --split",
        ),
        (
            "the options",
            _sort(options),
            _sort(found.options),
            f"use the same options in both places: there harness serve -b {name} --option NAME=VALUE",
        ),
        (
            "the definition with the SHA-256",
            hash_definition(benchmark),
            found.definition_sha256,
            "start the service with the same file",
        ),
        (
            "data with the SHA-256",
            benchmark.source.sha256,
            found.data_sha256,
            f"use the same data in both places: data=... here, and there harness serve -b {name} --data ...",
        ),
    ):
        if ours != theirs:
            raise UsageError(
                f"the service has loaded another {name}: it has {subject} {quote_value(theirs)}, and this "
                f"machine has {quote_value(ours)}",
                hint=hint,
            )


def _sort(options: Mapping[str, Any]) -> Any:
    """Return options in the form that they have after their way through JSON."""
    return json.loads(json.dumps(dict(options), sort_keys=True, default=str))


@contextlib.asynccontextmanager
async def _open_grader(host: RemoteHost, selection: Selection) -> AsyncIterator[BatchGrader]:
    """Yield the grader of a run, after the check that the service has its benchmark. Raises as `run` does."""
    benchmark, images = selection.benchmark, tuple(selection.images)
    async with open_connection(host.address, wait_seconds=host.wait_seconds) as connection:

        async def check() -> ServiceFacts:
            return await find_service_facts(connection, benchmark, images)

        facts = await check()
        async with open_batch_grader(connection, benchmark.name, facts, check) as grader:
            yield grader


def _take_settings(selection: Selection, facts: ServiceFacts) -> Selection:
    """Return the selection with the settings that the service decides, as the manifest records them."""
    runtime = (facts.backend.runtime or {}).get("name")
    changes: dict[str, Any] = {"isolation": "run"}
    if runtime in ("runc", "runsc"):
        changes["runtime"] = runtime
    config: RunConfig = selection.config.model_copy(update=changes)
    return replace(selection, config=config)
