"""This machine as a host: its sandboxes, and the grading of single submissions without a run folder."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypedDict, TypeVar, overload

from typing_extensions import Unpack

from harness.core.errors import DataError, HarnessError, UsageError, unknown_name, unknown_task
from harness.core.logger import get_logger
from harness.core.shield import complete_all
from harness.core.text import escape_terminal
from harness.core.types import TEXT_FIELDS, Phase, PlainData, Status, Submission, Task, Verdict
from harness.environments import environment_spec, grader_of, spec_of
from harness.environments.base import EnvironmentContext, MachineRules, NoTranscript
from harness.environments.grading import SHARED, GradingContext, grade_submission
from harness.environments.spec import SandboxGrader, StateGrader
from harness.host.engine import open_engine, remove_containers
from harness.host.episode import Episode, EpisodeSnapshot, TaskSource, bound_life
from harness.host.retries import Fault, Retries, read_wait_seconds
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import EXTRA, Limits, bound_seconds, count_gate_places
from harness.sandbox.pool import AcrossTasks, SandboxPool, SandboxSettings
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.snapshots import Snapshot, open_together, require_count, unpack_snapshot

GradingIsolation = Literal["run", "attempt"]
"""`run` grades programs one after the other in one container, `attempt` each in a new one."""
MAX_TIMEOUT_SECONDS = 600.0
_ERROR_CHARACTERS = 500
_LOGGER = get_logger(__name__)


def log_note(text: str) -> None:
    """Write a note to the log of the package."""
    _LOGGER.warning("%s", text)


class LocalHost:
    """Opens sandboxes of this machine and grades in them, in an `async with` block that ends all of them.

    Any number of calls may be under way at once. Programs above `max_concurrent` wait in their order. The
    cancellation of a call ends its program. Gradings that are under way when the host ends get the status
    `cancelled`.
    """

    def __init__(
        self,
        pool: SandboxPool,
        retries: Retries,
        *,
        isolation: GradingIsolation = "run",
        timeout_seconds: float | None = None,
        limits: Limits | None = None,
        max_concurrent: int = 1,
        on_fault: Callable[[], None] = lambda: None,
    ) -> None:
        """Own `pool`, which the block opens and closes.

        `on_fault` is called for each fault of the infrastructure, the retried ones included.
        `harness.open_host` describes the other arguments.
        """
        self.pool = pool
        self._stack = contextlib.AsyncExitStack()
        self._retries = retries
        self._isolation = isolation
        self._timeout_seconds = timeout_seconds
        self._limits = limits
        self._places = asyncio.Semaphore(max_concurrent)
        self._on_fault = on_fault
        self._under_way: set[asyncio.Task[Verdict]] = set()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        backend, run_id = self.pool.backend, self.pool.run_id
        if backend is not None and run_id is not None:
            self._stack.push_async_callback(remove_containers, backend, run_id, self._retries.note)
        await self._stack.enter_async_context(self.pool)
        self._stack.push_async_callback(self._end_gradings)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    @contextlib.asynccontextmanager
    async def sandbox(
        self,
        image: str = "python",
        *,
        limits: Limits | None = None,
        terminals: bool = False,
        deadline_seconds: float = 600.0,
    ) -> AsyncIterator[Sandbox]:
        """Start a sandbox and yield it. The end of the block destroys it.

        It waits until the host has memory for another sandbox.

        Args:
            image: the name of an image.
            limits: the limits of the container, and of each job in it.
            terminals: whether programs may run on a terminal.
            deadline_seconds: the life of the sandbox, which ends even if the block goes on.

        Raises:
            UsageError: if an argument cannot be used, or the host is closed.
            EngineUnavailableError, ImageMissingError, SandboxError: if the sandbox cannot start.
        """
        self._require_open()
        settings = SandboxSettings(image, limits or Limits(), terminals=terminals)
        seconds = bound_seconds("deadline_seconds", deadline_seconds)
        async with self.pool.lease(settings, seconds=seconds) as sandbox:
            yield sandbox

    @overload
    def fork(
        self, snapshot: Snapshot, count: int = 1, *, deadline_seconds: float = 600.0
    ) -> contextlib.AbstractAsyncContextManager[list[Sandbox]]: ...

    @overload
    def fork(
        self, snapshot: EpisodeSnapshot, count: int = 1
    ) -> contextlib.AbstractAsyncContextManager[list[Episode]]: ...

    def fork(
        self, snapshot: Snapshot | EpisodeSnapshot, count: int = 1, *, deadline_seconds: float = 600.0
    ) -> contextlib.AbstractAsyncContextManager[list[Any]]:
        """Return a context manager that opens `count` sandboxes or episodes from a snapshot, side by side.

        Its end destroys them. An error of one ends the others.

        Args:
            snapshot: what `Sandbox.snapshot` or `Episode.snapshot` returned.
            count: their number, from 1 to 64.
            deadline_seconds: as for `sandbox`. An episode has the deadline of its task.

        Raises as `sandbox` and `environment` do.
        """
        self._require_open()
        require_count(count)
        if isinstance(snapshot, EpisodeSnapshot):
            return open_together([self._fork_episode(snapshot) for _ in range(count)])
        return open_together([self._fork_one(snapshot, deadline_seconds) for _ in range(count)])

    def _fork_episode(self, snapshot: EpisodeSnapshot) -> contextlib.AbstractAsyncContextManager[Episode]:
        return self.environment(
            snapshot.benchmark,
            snapshot.task_id,
            seed=snapshot.seed,
            machine_rules=snapshot.machine_rules,
            start=snapshot,
        )

    @contextlib.asynccontextmanager
    async def _fork_one(self, snapshot: Snapshot, deadline_seconds: float) -> AsyncIterator[Sandbox]:
        opening = self.sandbox(
            snapshot.image,
            limits=snapshot.limits,
            terminals=snapshot.terminals,
            deadline_seconds=deadline_seconds,
        )
        async with opening as sandbox:
            async with self.pool.gate:
                await unpack_snapshot(sandbox, snapshot)
            yield sandbox

    async def grade(
        self,
        target: PlainData,
        submission: Submission | str,
        *,
        timeout_seconds: float | None = None,
        owner: str = "",
    ) -> Verdict:
        """Return the verdict of a target on a submission: a program, or an answer.

        Every fault of the program is in the verdict. A fault of the infrastructure is retried as in a run,
        and then has the status `infra_error` and no score.

        Args:
            target: what the submission is judged by.
            submission: the program or the answer.
            timeout_seconds: the wall time of this grading, by default the one of the host.
            owner: programs of different owners never share a container.

        Raises:
            UsageError: if the target or the submission cannot be graded, or the host is closed.
            DataError: if tests that the target names on the disk cannot be read.
        """
        self._require_open()
        submission = _read_submission(submission)
        require_text_grading(target)
        timeout = timeout_seconds or self._timeout_seconds
        task = asyncio.create_task(self._grade_or_blame(target, submission, timeout, owner))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not self._is_closed or (caller is not None and caller.cancelling()):
                raise
            return Verdict(Status.CANCELLED, None, evidence="the host was closed", phase=Phase.EVALUATOR)

    async def grade_task(
        self, benchmark: TaskSource | str, task_id: str, text: str, *, field: str = "solution"
    ) -> Verdict:
        """Return the verdict on a text for a task of a benchmark, with the metrics that the benchmark adds.

        Args:
            benchmark: what `load_benchmark` returned, or the name of a benchmark, which is loaded once. A
                file of your own cannot be named here, because its code would run.
            task_id: the id of the task.
            text: the submission.
            field: the kind of the text, as in samples files: a `solution` or an `answer` counts as it is, a
                `completion` continues the prompt, and from a `reply` the program or answer is taken out.

        Raises:
            UsageError: if there is no such benchmark, task or field, or its tasks need an agent.
            DataError: if the data cannot be used.
        """
        if field not in TEXT_FIELDS:
            raise unknown_name("field", str(field), TEXT_FIELDS)
        if not isinstance(text, str):
            raise UsageError(f"a submission must be text, not {type(text).__name__}")
        loaded = await self.load(benchmark) if isinstance(benchmark, str) else benchmark
        task = find_task(loaded, task_id)
        verdict = await self.grade(loaded.references[task.id].target, loaded.submission(task, field, text))
        return loaded.add_metrics(verdict)

    @contextlib.asynccontextmanager
    async def environment(
        self,
        benchmark: TaskSource | str,
        task_id: str,
        *,
        seed: int = 0,
        machine_rules: MachineRules | None = None,
        before_grading: Callable[[], contextlib.AbstractAsyncContextManager[Any]] = contextlib.nullcontext,
        start: EpisodeSnapshot | None = None,
    ) -> AsyncIterator[Episode]:
        """Open the environment of a task, and yield an attempt at the task for an agent of the caller.

        Args:
            benchmark: as for `grade_task`.
            task_id: the id of the task.
            seed: for environments that draw random numbers.
            machine_rules: for environments whose machines are made from images of tasks.
            before_grading: returns a context manager to hold while the state of the environment is graded.
            start: the state of another episode at the task that this one starts from.

        Raises:
            UsageError: if there is no such benchmark or task.
            EngineUnavailableError, ImageMissingError, SandboxError: if a sandbox cannot start.
        """
        self._require_open()
        loaded = await self.load(benchmark) if isinstance(benchmark, str) else benchmark
        task = find_task(loaded, task_id)
        spec = environment_spec(task.environment)

        async def grade_text(field: str, text: str) -> Verdict:
            return await self.grade_task(loaded, task_id, text, field=field)

        async with contextlib.AsyncExitStack() as stack:
            environment = None
            if spec.open_environment is not None:
                context = EnvironmentContext(
                    self.pool,
                    SandboxSettings(spec.image or "", self._limits or spec.limits),
                    seconds=bound_life(task) + spec.agent_seconds(task) + spec.grading_seconds(task),
                    transcript=NoTranscript(),
                    turns=task.turns or spec.turns,
                    text_protocol=spec.text_protocol,
                    target=loaded.references[task.id].target if spec.is_on_host else None,
                    seed=seed,
                    machine_rules=machine_rules,
                    start=None if start is None else start.environment,
                )
                environment = await stack.enter_async_context(spec.open_environment(task, context))
                if environment.steps is not None:
                    raise UsageError(
                        f"task {task.id} has several prompts, and an episode has one", hint="make a run of it"
                    )
            yield Episode(
                loaded,
                task,
                environment,
                self.pool,
                grade_text=grade_text,
                before_grading=before_grading,
                on_fault=self._on_fault,
                start=start,
            )

    async def load(self, name: str) -> TaskSource:
        """Return a benchmark by its name. Raises UsageError for a host that loads none."""
        raise UsageError(f"this host cannot load '{name}'", hint="pass what load_benchmark returns")

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError("the host is closed", hint="use it inside its block")

    async def _grade_or_blame(
        self, target: PlainData, submission: Submission, timeout: float | None, owner: str
    ) -> Verdict:
        """Return a verdict. A failure that is not the caller's is an `infra_error`."""
        # Only a grading in a sandbox takes one of the places.
        needs_place = isinstance(grader_of(target), SandboxGrader)
        try:
            async with self._places if needs_place else contextlib.nullcontext():
                return await self._grade_in_tries(target, submission, timeout, owner)
        except (UsageError, DataError):
            raise
        except HarnessError as error:
            evidence = escape_terminal(error.message)
        except Exception as error:
            # A caller that grades thousands of programs must not end because of one of them.
            _LOGGER.exception("a grading failed")
            evidence = escape_terminal(f"internal error: {type(error).__name__}: {error}", _ERROR_CHARACTERS)
        self._on_fault()
        return Verdict(Status.INFRA_ERROR, None, evidence=evidence, phase=Phase.EVALUATOR)

    async def _grade_in_tries(
        self, target: PlainData, submission: Submission, timeout: float | None, owner: str
    ) -> Verdict:
        spec, retries, shared = spec_of(target), self._retries, self._isolation == "run"
        context = GradingContext(
            self.pool,
            timeout or float(spec.timeout_seconds),
            fresh=spec.fresh_sandbox(self._limits),
            key=AcrossTasks(type(target), owner) if shared and spec.grades_programs_alone else None,
            shared_key=SHARED if shared else None,
            check_engine=retries.check_engine,
        )

        def count_fault(_error: Fault, _tried: int) -> None:
            self._on_fault()

        verdict = await retries.repeat(
            "a submission", lambda: grade_submission(target, submission, context), on_fault=count_fault
        )
        if retries.stopped is not None and self._retries is retries:
            self._retries = retries.renew()
        return verdict

    async def _end_gradings(self) -> None:
        """Refuse further calls, and end the gradings that are under way."""
        self._is_closed = True
        for task in self._under_way:
            task.cancel()
        await complete_all(list(self._under_way))


HostType = TypeVar("HostType", bound=LocalHost)


class HostOptions(TypedDict, total=False):
    """The options of a host of this machine. `harness.open_host` describes them."""

    isolation: GradingIsolation
    timeout_seconds: float | None
    limits: Limits | None
    max_concurrent: int | None
    max_sandboxes: int | None
    memory_mb: int | None
    runtime: str
    backend: Backend | None


@contextlib.asynccontextmanager
async def open_local_host(
    kind: type[HostType], images: Sequence[str], **options: Unpack[HostOptions]
) -> AsyncIterator[HostType]:
    """Connect to the engine, find the images, and yield a host. The end of the block removes all sandboxes.

    `kind` is the class of the host. Without images and a backend, the host grades answers as text and needs
    no engine. Raises as `harness.open_host` does.
    """
    isolation, backend = options.get("isolation", "run"), options.get("backend")
    timeout_seconds, runtime = options.get("timeout_seconds"), options.get("runtime", "runc")
    if isolation not in ("run", "attempt"):
        raise UsageError(f"isolation must be 'run' or 'attempt', not {isolation!r}")
    if timeout_seconds is not None and not 1 <= timeout_seconds <= MAX_TIMEOUT_SECONDS:
        raise UsageError(
            f"timeout_seconds must be from 1 to {MAX_TIMEOUT_SECONDS:.0f}, not {timeout_seconds}"
        )
    for name, number in (
        ("max_concurrent", options.get("max_concurrent")),
        ("max_sandboxes", options.get("max_sandboxes")),
    ):
        if number is not None and number < 1:
            raise UsageError(f"{name} must be at least 1, not {number}")
    # With shared containers, one for each core is faster than one more, which would be started for nothing.
    places = options.get("max_concurrent") or count_gate_places() - (EXTRA if isolation == "run" else 0)
    wait_seconds = read_wait_seconds()
    async with contextlib.AsyncExitStack() as stack:
        image_ids: Mapping[str, str] = {}
        if backend is not None or images:
            opening = open_engine(images, runtime=runtime, backend=backend or "auto", notify=log_note)
            engine = await stack.enter_async_context(opening)
            backend, image_ids = engine.backend, engine.facts.images
        pool = SandboxPool(
            backend,
            images=image_ids,
            runtime=runtime,
            run_id=secrets.token_hex(8),
            memory_mb=options.get("memory_mb"),
            max_sandboxes=options.get("max_sandboxes"),
            gate_places=max(places, count_gate_places()),
        )
        host = kind(
            pool,
            Retries(backend, log_note, wait_seconds=wait_seconds),
            isolation=isolation,
            timeout_seconds=timeout_seconds,
            limits=options.get("limits"),
            max_concurrent=places,
        )
        async with host:
            yield host


def _read_submission(submission: Any) -> Submission:
    if isinstance(submission, str):
        return Submission(submission, agent_output=submission)
    if not isinstance(submission, Submission) or not isinstance(submission.text, str):
        raise UsageError(f"a submission must be text, not {type(submission).__name__}")
    return submission


def find_task(benchmark: TaskSource, task_id: str) -> Task:
    """Return a task by its id. Raises UsageError if the benchmark has no such task."""
    if task_id not in benchmark.references:
        raise unknown_task(str(task_id), benchmark.references, place=benchmark.name)
    return next(task for task in benchmark.tasks if task.id == task_id)


def require_text_grading(target: PlainData) -> None:
    """Raise UsageError for a target that no text can be graded by."""
    try:
        grader = grader_of(target)
    except TypeError as error:
        raise UsageError(
            str(error), hint="build a target with build_stdin_tests or a similar function"
        ) from error
    if isinstance(grader, StateGrader):
        raise UsageError(
            f"{type(target).__name__} is graded by the state that an agent leaves, and not by a text",
            hint="run the benchmark: harness run",
        )


def list_grading_images(target: PlainData) -> list[str]:
    """Return the image of the sandbox that grades by a target, if one does."""
    grader = grader_of(target)
    if not isinstance(grader, SandboxGrader):
        return []
    image = grader.choose_image(target) or grader.image or spec_of(target).image
    return [] if image is None else [image]


def is_graded_by_text(target: PlainData) -> bool:
    """Return whether a text can be graded by a target."""
    try:
        require_text_grading(target)
    except UsageError:
        return False
    return True
