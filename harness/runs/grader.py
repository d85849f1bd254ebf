"""Grade single submissions without a run folder, in sandboxes that grade one program after the other."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

from harness.benchmarks import Benchmark, load_benchmark
from harness.benchmarks.custom import is_own
from harness.core.errors import (
    DataError,
    HarnessError,
    ImageMissingError,
    SandboxError,
    UsageError,
    unknown_name,
    unknown_task,
)
from harness.core.logger import get_logger
from harness.core.shield import complete
from harness.core.text import escape_terminal
from harness.core.types import Phase, PlainData, Status, Submission, Verdict
from harness.environments import environment_spec, grader_of, spec_of
from harness.environments.grader import SandboxGrader, StateGrader
from harness.environments.grading import SHARED, GradingContext, grade_submission
from harness.environments.spec import EnvironmentSpec
from harness.runs.agents.predictions import FIELDS
from harness.runs.attempt_ends import give_up
from harness.runs.dead_runs import remove_dead_containers
from harness.runs.faults import Faults, read_wait_seconds
from harness.sandbox.backends import open_default_backend
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import Limits
from harness.sandbox.pool import EXTRA, AcrossTasks, SandboxPool, count_gate_places
from harness.sandbox.reaper import remove_run

GraderIsolation = Literal["run", "attempt"]
"""`run` grades programs one after the other in one container, `attempt` each in a new one."""
MAX_TIMEOUT_SECONDS = 600.0
_ERROR_CHARACTERS = 500
_LOGGER = get_logger(__name__)


class _LoggedNotes:
    """Writes notes to the log of the package."""

    def note(self, text: str) -> None:
        _LOGGER.warning("%s", text)


class Grader:
    """Grades submissions, each by its target. Make it with `open_grader`.

    Any number of calls may be under way at once. Those above `max_concurrent` wait in their order. The
    cancellation of a call ends its program. Calls that are under way when the block of `open_grader` ends get
    the status `cancelled`.
    """

    def __init__(
        self,
        pool: SandboxPool,
        backend: Backend | None,
        *,
        isolation: GraderIsolation,
        timeout_seconds: float | None,
        limits: Limits | None,
        max_concurrent: int,
        wait_seconds: float,
        on_fault: Callable[[], None] = lambda: None,
    ) -> None:
        """Grade in the sandboxes of `pool`, which the caller opens and closes.

        `on_fault` is called for each fault of the infrastructure, the retried ones included. The other
        arguments are those of `open_grader`. `wait_seconds` is the time to wait for a lost engine.
        """
        self._pool = pool
        self._backend = backend
        self._isolation = isolation
        self._timeout_seconds = timeout_seconds
        self._limits = limits
        self._places = asyncio.Semaphore(max_concurrent)
        self._wait_seconds = wait_seconds
        self._on_fault = on_fault
        self._faults = self._watch_faults()
        self._benchmarks: dict[str, Benchmark] = {}
        self._loading = asyncio.Lock()
        self._under_way: set[asyncio.Task[Verdict]] = set()
        self._is_closed = False

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
            timeout_seconds: the wall time of this grading, by default that of the grader.
            owner: programs of different owners never share a container.

        Raises:
            UsageError: if the target or the submission cannot be graded, or the grader is closed.
            DataError: if tests that the target names on the disk cannot be read.
        """
        if self._is_closed:
            raise UsageError("the grader is closed", hint="grade inside the block of open_grader")
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
            return Verdict(Status.CANCELLED, None, evidence="the grader was closed", phase=Phase.EVALUATOR)

    async def grade_task(
        self, benchmark: Benchmark | str, task_id: str, text: str, *, field: str = "solution"
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
        if field not in FIELDS:
            raise unknown_name("field", str(field), FIELDS)
        if not isinstance(text, str):
            raise UsageError(f"a submission must be text, not {type(text).__name__}")
        loaded = await self._load(benchmark) if isinstance(benchmark, str) else benchmark
        if task_id not in loaded.references:
            raise unknown_task(str(task_id), loaded.references, place=loaded.name)
        task = next(task for task in loaded.tasks if task.id == task_id)
        verdict = await self.grade(loaded.references[task_id].target, loaded.submission(task, field, text))
        return loaded.add_metrics(verdict)

    async def _load(self, name: str) -> Benchmark:
        if is_own(name):
            raise UsageError(
                f"'{name}' is a file, and a grader loads benchmarks by their names alone",
                hint="load it with load_benchmark, and pass the benchmark",
            )
        async with self._loading:
            if name not in self._benchmarks:
                self._benchmarks[name] = await asyncio.to_thread(
                    load_benchmark, name, notify=_LoggedNotes().note, sample_stands_in=False
                )
            return self._benchmarks[name]

    async def _grade_or_blame(
        self, target: PlainData, submission: Submission, timeout: float | None, owner: str
    ) -> Verdict:
        """Return a verdict. A failure that is not the caller's is an `infra_error`."""
        spec = spec_of(target)
        try:
            if not isinstance(grader_of(target), SandboxGrader):
                return await self._grade_in_tries(target, submission, spec, timeout, owner)
            async with self._places:
                return await self._grade_in_tries(target, submission, spec, timeout, owner)
        except (UsageError, DataError):
            raise
        except HarnessError as error:
            self._on_fault()
            evidence = escape_terminal(error.message)
            return Verdict(Status.INFRA_ERROR, None, evidence=evidence, phase=Phase.EVALUATOR)
        except Exception as error:
            # A caller that grades thousands of programs must not end because of one of them.
            _LOGGER.exception("a grading failed")
            self._on_fault()
            evidence = escape_terminal(f"internal error: {type(error).__name__}: {error}", _ERROR_CHARACTERS)
            return Verdict(Status.INFRA_ERROR, None, evidence=evidence, phase=Phase.EVALUATOR)

    async def _grade_in_tries(
        self,
        target: PlainData,
        submission: Submission,
        spec: EnvironmentSpec,
        timeout: float | None,
        owner: str,
    ) -> Verdict:
        shared = self._isolation == "run"
        faults = self._faults
        context = GradingContext(
            self._pool,
            timeout or float(spec.timeout_seconds),
            fresh=spec.fresh_sandbox(self._limits),
            key=AcrossTasks(type(target), owner) if shared and spec.grades_programs_alone else None,
            shared_key=SHARED if shared else None,
            check_engine=faults.check_engine,
        )
        for tried in itertools.count(1):
            try:
                return await grade_submission(target, submission, context)
            except (SandboxError, ImageMissingError) as error:
                self._on_fault()
                if not await faults.prepare_retry("a submission", error, tried):
                    if faults.stopped is not None and self._faults is faults:
                        # Later submissions wait for the engine again, because it may come back.
                        self._faults = self._watch_faults()
                    return give_up(error, tried, Phase.EVALUATOR)
        raise AssertionError("unreachable: the loop ends by returning")

    def _watch_faults(self) -> Faults:
        return Faults(self._backend, _LoggedNotes(), wait_seconds=self._wait_seconds)

    async def close(self) -> None:
        """Refuse further submissions, and end those that are under way."""
        self._is_closed = True
        for task in self._under_way:
            task.cancel()
        await complete(_wait_for_all(list(self._under_way)))


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


def is_graded_by_text(target: PlainData) -> bool:
    """Return whether a text can be graded by a target."""
    try:
        require_text_grading(target)
    except UsageError:
        return False
    return True


@contextlib.asynccontextmanager
async def open_grader(
    *,
    environments: Sequence[str] = ("python",),
    isolation: GraderIsolation = "run",
    timeout_seconds: float | None = None,
    limits: Limits | None = None,
    max_concurrent: int | None = None,
    max_sandboxes: int | None = None,
    memory_mb: int | None = None,
    runtime: str = "runc",
    backend: Backend | None = None,
) -> AsyncIterator[Grader]:
    """Connect to the engine, find the images, and yield a grader. The end of the block removes all sandboxes.

    Args:
        environments: the environments whose images must be there: `python` for programs, `maths` for
            mathematics. With none, the grader grades answers as text, and needs no engine.
        isolation: `run` shares containers between submissions as `--isolation run` does, which
            docs/isolation.md describes. `attempt` starts a container for each.
        timeout_seconds: the wall time of one grading, up to 600. The default is that of the environment.
        limits: the limits of a sandbox and of a program in it. The default is that of the environment.
        max_concurrent: the number of programs that are graded at once, by default one for each core.
        max_sandboxes: the number of live sandboxes. By default memory alone bounds it.
        memory_mb: the memory in MiB of all live sandboxes, by default a share of the free memory.
        runtime: the container runtime, `runc` or `runsc`.
        backend: starts the sandboxes. Without it, the grader connects to the Docker engine.

    Raises:
        EngineUnavailableError: if no engine answers.
        ImageMissingError: if the engine lacks an image. `harness setup` builds it.
        UsageError: if an argument cannot be used.
    """
    if isolation not in ("run", "attempt"):
        raise UsageError(f"isolation must be 'run' or 'attempt', not {isolation!r}")
    if timeout_seconds is not None and not 1 <= timeout_seconds <= MAX_TIMEOUT_SECONDS:
        raise UsageError(
            f"timeout_seconds must be from 1 to {MAX_TIMEOUT_SECONDS:.0f}, not {timeout_seconds}"
        )
    for name, number in (("max_concurrent", max_concurrent), ("max_sandboxes", max_sandboxes)):
        if number is not None and number < 1:
            raise UsageError(f"{name} must be at least 1, not {number}")
    # With shared containers, one for each core is faster than one more, which would be started for nothing.
    places = max_concurrent or count_gate_places() - (EXTRA if isolation == "run" else 0)
    wait_seconds = read_wait_seconds()
    names = [spec.image for spec in map(environment_spec, environments) if spec.image is not None]
    run_id = secrets.token_hex(8)
    async with contextlib.AsyncExitStack() as stack:
        images: dict[str, str] = {}
        if backend is None and names:
            backend = await stack.enter_async_context(open_default_backend())
        if backend is not None:
            facts = await asyncio.to_thread(backend.describe, runtime=runtime, images=names)
            images = dict(facts.images)
            await asyncio.to_thread(remove_dead_containers, backend, _LoggedNotes().note)
            stack.push_async_callback(_remove_containers, backend, run_id)
        pool = await stack.enter_async_context(
            SandboxPool(
                backend,
                images=images,
                runtime=runtime,
                run_id=run_id,
                memory_mb=memory_mb,
                max_sandboxes=max_sandboxes,
                gate_places=max(places, count_gate_places()),
            )
        )
        grader = Grader(
            pool,
            backend,
            isolation=isolation,
            timeout_seconds=timeout_seconds,
            limits=limits,
            max_concurrent=places,
            wait_seconds=wait_seconds,
        )
        stack.push_async_callback(grader.close)
        yield grader


async def _wait_for_all(tasks: Sequence[asyncio.Task[Verdict]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


async def _remove_containers(backend: Backend, run_id: str) -> None:
    try:
        await complete(asyncio.to_thread(remove_run, backend, run_id))
    except SandboxError as error:
        # Every verdict stands, and the containers have deadlines.
        _LOGGER.warning("%s", error.message)


def _read_submission(submission: Any) -> Submission:
    if isinstance(submission, str):
        return Submission(submission, agent_output=submission)
    if not isinstance(submission, Submission) or not isinstance(submission.text, str):
        raise UsageError(f"a submission must be text, not {type(submission).__name__}")
    return submission
