"""The procedures that run programs: trusted tests, calls of a function, and runs on inputs.

Each reply tells whether the program has left a mark for the next one. Every program can read the next process
id of the container and the next inode number of a file system in memory, and both outlive it. A program that
leaves them where any other would has passed nothing on. After any other program, the host takes a new
container for the next attempt.
"""

from __future__ import annotations

import os

from harness.sandbox.guest import confinement, processes
from harness.sandbox.guest.jobs import CommandJob
from harness.sandbox.guest.known_names import KnownNames

from . import roles, spawner
from .conversation import LARGE_BYTES
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
    last = last_process_id()
    candidates = spawner.start(roles.CANDIDATE, kernel.loop)
    spawners = Spawners(candidates=candidates, tests=spawner.start(roles.TESTS, kernel.loop))
    counts_process_ids = counts_all_forks(last, forks=2)
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
        self, finished: Callable[[dict[str, Any], bytes], None], *, runs: int = 0, with_files: bool = False
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


LOAD = "/proc/loadavg"
MAX_LOAD_BYTES = 128


class Counters:
    """The last process id that the kernel assigned, and the next inode number of each folder's file system.

    `spawned` and `users` are the numbers of processes and users that this guest itself has made so far.
    """

    def __init__(self, process_id: int, inodes: tuple[int, ...], spawned: int, users: int) -> None:
        self.process_id = process_id
        self.inodes = inodes
        self.spawned = spawned
        self.users = users


class Marks:
    """Compares counters before and after a job with the numbers that this guest itself has used in between.

    Some runtimes do not count as Linux does. Without `process_ids`, the ids of processes are not compared,
    and the inodes of a folder are not compared if its numbers do not increase.
    """

    def __init__(self, work_folder: str, shared_folders: list[str], *, process_ids: bool) -> None:
        self._process_ids = process_ids
        self._work_folder = work_folder
        self._folders = [folder for folder in (work_folder, *shared_folders) if _counts_inodes(folder)]

    def counters(self, *, spawned: int, users: int) -> Counters | None:
        """Return the current counters, with None for each that cannot be read.

        Reading the inode numbers uses one number of each file system.
        """
        try:
            inodes = tuple(map(_next_inode, self._folders))
        except OSError:
            return None
        return Counters(last_process_id() if self._process_ids else 0, inodes, spawned, users)

    def differ(self, before: Counters | None, after: Counters | None, *, files: int = 0) -> bool:
        """Return whether anything but this guest has used a process id or an inode between the two.

        `files` is the number of files that this guest has written into users' folders.
        """
        if before is None or after is None:
            return True
        if self._process_ids and after.process_id - before.process_id != after.spawned - before.spawned:
            return True
        for folder, old, new in zip(self._folders, before.inodes, after.inodes):
            made = after.users - before.users + files if folder == self._work_folder else 0
            if new - old != 1 + made:
                return True
        return False


def counts_all_forks(before: int, *, forks: int) -> bool:
    """Return whether the last assigned id counts all forks. `before` is the id before some forks."""
    return before > 0 and last_process_id() - before == forks


def last_process_id() -> int:
    """Return the last process id that this container assigned, or 0 if the kernel does not report it."""
    try:
        descriptor = os.open(LOAD, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(descriptor, MAX_LOAD_BYTES).split()[4])
        finally:
            os.close(descriptor)
    except (OSError, ValueError, IndexError):
        return 0


def _counts_inodes(folder: str) -> bool:
    try:
        return _next_inode(folder) + 1 == _next_inode(folder)
    except OSError:
        return False


def _next_inode(folder: str) -> int:
    descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)
