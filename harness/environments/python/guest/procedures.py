"""The procedures that run programs: trusted tests, calls of a function, and runs on inputs."""

from __future__ import annotations

from harness.sandbox.guest import confinement, processes
from harness.sandbox.guest.jobs import CommandJob
from harness.sandbox.guest.known_names import KnownNames

from . import marks, roles, spawner
from .conversation import LARGE_BYTES
from .marks import Counters, Marks
from .testing_job import Spawners, TestJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from harness.sandbox.guest.kernel import Kernel, Request
    from harness.sandbox.guest.messages import Hello

    from .messages import RunOnInputs


def install(kernel: Kernel) -> None:
    """Fork the spawners before this process knows anything secret, and add the procedures to the kernel."""
    confinement.prepare_rules()
    last = marks.last_process_id()
    candidates = spawner.start(roles.CANDIDATE, kernel.loop)
    spawners = Spawners(candidates=candidates, tests=spawner.start(roles.TESTS, kernel.loop))
    counts_process_ids = marks.counts_process_ids(last, forks=2)
    # A kernel without Landlock hides less than the names show.
    names = KnownNames(processes.our_pids) if confinement.has_rules() else None
    programs = Programs(kernel, spawners, names, counts_process_ids=counts_process_ids)
    kernel.on_hello(programs.greet)
    kernel.add_procedure("run_tests", programs.run_tests)
    kernel.add_procedure("run_calls", programs.run_tests)
    kernel.add_procedure("run_on_inputs", programs.run_on_inputs)
    kernel.add_procedure("compile", programs.compile)


class Compilation(CommandJob):
    """Runs a compiler, and is patient, because its wall time may decide a verdict."""

    is_patient = True


class Programs:
    """Starts the jobs of programs, and detects the marks that programs leave."""

    def __init__(
        self, kernel: Kernel, spawners: Spawners, names: KnownNames | None, *, counts_process_ids: bool
    ) -> None:
        self._kernel = kernel
        self._spawners = spawners
        self._names = names
        self._counts_process_ids = counts_process_ids
        self._marks: Marks | None = None

    def greet(self, hello: Hello) -> None:
        """Find out which counters of this container count as Linux does."""
        self._marks = Marks(
            hello["work_folder"], hello["shared_folders"], process_ids=self._counts_process_ids
        )

    def run_tests(self, request: Request) -> None:
        """Run trusted tests against a program: statements, or calls of one function."""
        finished = self._report_marks(request.finish)
        users = self._kernel.users()
        request.keep(
            TestJob(self._kernel.loop, request.fields, request.body, users, self._spawners, finished)
        )

    def run_on_inputs(self, request: Request) -> None:
        """Run a program on one input after another."""
        from .input_jobs import InputsJob

        asked: RunOnInputs = request.fields  # type: ignore[assignment]
        runs = len(asked["input_bytes"])
        # A program that reads real stdin has its own file.
        finished = self._report_marks(request.finish, runs=runs, with_files=asked["stdin"] == "real")
        users, candidates = self._kernel.users(), self._spawners.candidates
        request.keep(InputsJob(self._kernel.loop, request.fields, request.body, users, candidates, finished))

    def compile(self, request: Request) -> None:
        """Run the compiler of an untrusted program as the agent's user."""
        user, fields = self._kernel.agent_user(), request.fields
        request.keep(Compilation(self._kernel.loop, fields, b"", user, request.is_alone, request.finish))

    def _report_marks(
        self,
        finished: Callable[[dict[str, Any], bytes], None],
        *,
        runs: int = 0,
        with_files: bool = False,
    ) -> Callable[[dict[str, Any], bytes], None]:
        """Return an answer function that adds whether the program of a job that begins now has left a mark.

        Fewer than `runs` runs are a mark too, because a program decides where it ends itself. Large outputs
        and answers are one, because the time to judge them may depend on the verdict, and a later program may
        observe when it starts. A container that is running out of users counts as marked, because it must be
        replaced in time.
        """
        before = self._counters()
        users = self._kernel.users()

        def finish(reply: dict[str, Any], body: bytes) -> None:
            if "fault" in reply:
                finished(reply, body)
                return
            fewer = runs > 0 and len(reply["runs"]) < runs
            files = runs if with_files else 0
            report = reply.get("report")
            reply["marked"] = (
                fewer
                or len(body) > LARGE_BYTES
                or (report is not None and report["large"])
                or users.is_running_out
                or (self._names is not None and self._names.may_differ())
                or self._marks is None
                or self._marks.differ(before, self._counters(), files=files)
            )
            finished(reply, body)

        return finish

    def _counters(self) -> Counters | None:
        if self._marks is None:
            return None
        spawned = sum(each.spawned for each in self._spawners)
        return self._marks.counters(spawned=spawned, users=self._kernel.users().folders_made)
