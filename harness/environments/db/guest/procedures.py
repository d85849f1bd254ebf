"""The procedures of a database. Each one is a job that runs a routine of `database` in a fork.

The fork starts in a millisecond. A process that runs the agent's SQL serves one call after another, because a
fork takes longer than most SQL. It belongs to the agent's user, which owns the database anyway, so nothing
that SQL could do to the process gains the agent anything. Each call has a new connection, and with it its
transactions, temporary tables and settings end. Between two calls PID 1 stops the process. Before trusted
code reads the database, PID 1 kills every process of the agent.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import time

from harness.sandbox.guest import files, links, processes
from harness.sandbox.guest.jobs import CommandJob
from harness.sandbox.guest.processor_time import read_clock
from harness.sandbox.guest.signals import SIGCONT, SIGKILL, SIGSTOP

from . import translator
from .database import ROUTINES, prepare, query, rehearse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from harness.sandbox.guest.kernel import Kernel, Request
    from harness.sandbox.guest.links import Link
    from harness.sandbox.guest.loop import Loop, Timer
    from harness.sandbox.guest.users import User

    from .database import Prepared, Routine
    from .messages import ResetReply, RunRoutine


def install(kernel: Kernel) -> None:
    """Add a procedure for each routine to the kernel."""
    server = Server(kernel)
    for name in ROUTINES:
        kernel.add_procedure(name, functools.partial(server.run_routine, name))
    kernel.add_procedure("reset", server.reset)


class Server:
    """Runs the routines, and keeps a process for the agent's queries."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._process: QueryProcess | None = None

    def run_routine(self, name: str, request: Request) -> None:
        """Run a routine, as the agent or as a user that the agent never was."""
        asked: RunRoutine = request.fields  # type: ignore[assignment]
        if asked["translates"]:
            translator.load(for_children=True)
        if ROUTINES[name].is_of_agent:
            self._run_as_agent(name, request)
        else:
            self._run_apart(name, request)

    def reset(self, request: Request) -> None:
        """Remove the agent's user with its processes and files; answer whether nothing of it is left.

        The next routine gets a new user. The id of a user is never used twice in a container.
        """
        self._end_process()
        agent, self._kernel.agent = self._kernel.agent, None
        clean = (
            not self._kernel.jobs
            and (agent is None or self._kernel.users().close(agent))
            and processes.end_everyone()
        )
        self._kernel.loop.reap()
        reply: ResetReply = {"clean": clean}
        request.answer(reply)

    def _run_as_agent(self, name: str, request: Request) -> None:
        agent = self._kernel.agent_user()
        limits = request.fields["limits"]
        process, self._process = self._process, None
        if process is not None and (name != "query" or not process.fits(agent, limits)):
            process.end()
            process = None

        def finish(reply: dict[str, Any], body: bytes) -> None:
            request.finish(reply, body)
            if process is not None and job.stays:
                self._end_process()
                self._process = process
            else:
                # The host waits no longer, and the agent thinks.
                self._kernel.loop.after(0.0, lambda: self._prepare(agent, limits, translated=job.translated))

        job = RoutineJob(
            *(self._kernel.loop, request.fields, request.body, ROUTINES[name], agent, agent),
            request.is_alone,
            finish,
            process,
        )
        request.keep(job)

    def _run_apart(self, name: str, request: Request) -> None:
        """Run a routine as a user that the agent never was. No process of the agent lives meanwhile.

        Raises RuntimeError if a process of the agent cannot be ended.
        """
        self._end_process()
        agent = self._kernel.agent_user()
        if not processes.end_processes(frozenset((agent.uid,))):
            raise RuntimeError("a process of the agent could not be ended")
        user = self._kernel.users().open()
        finished = _closing(self._kernel, user, request.finish)
        request.keep(
            RoutineJob(
                *(self._kernel.loop, request.fields, request.body, ROUTINES[name], user),
                # A user that exists for one job has no other job.
                *(agent, lambda: True, finished),
            )
        )

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _prepare(self, agent: User, limits: dict[str, Any], *, translated: bool) -> None:
        """Prepare for the agent's next call, unless there is already another one."""
        if translated:
            translator.load(for_children=True)
        if self._process is not None or self._kernel.jobs or self._kernel.agent is not agent:
            return
        try:
            self._process = QueryProcess(self._kernel.loop, agent, limits)
        except OSError:
            pass  # the next call reports that no process can be started


def _closing(
    kernel: Kernel, user: User, finished: Callable[[dict[str, Any], bytes], None]
) -> Callable[[dict[str, Any], bytes], None]:
    def close(reply: dict[str, Any], body: bytes) -> None:
        # The reply that reports a fault of the machine has no other key.
        reply["clean"] = kernel.users().close(user) and reply.get("clean", False)
        finished(reply, body)

    return close


# The exit code of a process whose routine itself failed. stderr has the reason.
FAILED = 2
# The exit codes of a routine that has done its work: with success, and with an error for the agent.
ANSWERED = (0, 1)
# A process adds this to its exit code if it had to import the translator.
TRANSLATED = 16


class RoutineJob(CommandJob):
    """Runs one of the database's routines, as the agent or as a user that the agent never was.

    The second kind of user receives the contents of the agent's files. The process reads them with the
    agent's rights before it changes its user, and parses them only afterwards, because they may be hostile.
    The limits of the SQL itself count processor time, so that the job is patient.
    """

    is_patient = True

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        body: bytes,
        routine: Routine,
        user: User,
        agent: User,
        alone: Callable[[], bool],
        finished: Callable[[dict[str, Any], bytes], None],
        process: QueryProcess | None = None,
    ) -> None:
        self._routine = routine
        self._agent = agent
        self._process = process
        # The wait status of a process that has answered and has not ended.
        self._answered: int | None = None
        # Whether the process waits for another call.
        self.stays = False
        # Whether the process had to import the translator.
        self.translated = False
        super().__init__(loop, request, body, user, alone, finished)

    def start_leader(self, request: dict[str, Any], source: int, stdout: int, stderr: int) -> int:
        """Let the process that waits do the work, if there is one, and else fork a process."""
        if self._process is not None:
            try:
                self._process.start((source, stdout, stderr), self._stay)
                return self._process.pid
            except OSError:
                self._process.end()
                self._process = None
        return super().start_leader(request, source, stdout, stderr)

    def _stay(self, code: int) -> None:
        """Report the answer of a process that waits for another call, if no other process is left."""
        if self._process is None or self.stop_reason is not None:
            return  # The process is being killed, and its end is reported.
        pid = self._process.pid
        self._answered = code << 8
        if not self._alone() or processes.list_processes_of(frozenset((self._user.uid,))) != [pid]:
            processes.send([pid], SIGKILL)
            return
        self._pid = None
        self.stays = True
        self._process.rest()
        cpu_seconds = self.account.seconds(read_clock(pid))
        reason = self._reason(self._answered, cpu_seconds)
        self._report({"ended": reason, "exit_code": code, "cpu_seconds": cpu_seconds, "clean": True})

    def _on_leader_exit(self, status: int, cpu_seconds: float) -> None:
        if self._process is not None:
            self._process.note_end()
        if self._answered is not None:
            status = self._answered
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) & TRANSLATED:
            self.translated = True
            status &= ~(TRANSLATED << 8)
        super()._on_leader_exit(status, cpu_seconds)

    def _exec(self, request: dict[str, Any], source: int, stdout: int, stderr: int) -> None:
        status = FAILED
        try:
            take_streams((source, stdout, stderr))
            try:
                contents = self._contents()
            except (OSError, files.FileRefused) as error:
                _write(json.dumps({"fault": f"{error}"}))
                status = 1
                return
            processes.become(self._user.uid, self._user.folder, processes.loosen(self.limits), [])
            status = work(lambda asked: self._routine.work(asked, contents))
        except BaseException as error:
            _report(error)
        finally:
            os._exit(status)

    def _contents(self) -> list[bytes | None]:
        if not self._routine.files:
            return []
        os.setegid(self._agent.uid)
        os.seteuid(self._agent.uid)
        try:
            return [
                _content(os.path.join(self._agent.folder, name), most) for name, most in self._routine.files
            ]
        finally:
            os.seteuid(0)
            os.setegid(0)


def take_streams(streams: tuple[int, int, int]) -> None:
    """Make these descriptors stdin, stdout and stderr of this process."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)


def work(routine: Callable[[Any], tuple[int, str]]) -> int:
    """Read the request from stdin, write the routine's text to stdout, and return the exit code."""
    was_loaded = translator.is_loaded()
    try:
        status, text = routine(json.loads(os.read(0, os.fstat(0).st_size)))
        _write(text)
    except BaseException as error:
        _report(error)
        return FAILED
    return status if was_loaded or not translator.is_loaded() else status | TRANSLATED


def _report(error: BaseException) -> None:
    os.write(2, f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace"))


def _content(path: str, most: int) -> bytes | None:
    try:
        return files.read(path, most)
    except FileNotFoundError:
        return None


def _write(text: str) -> None:
    view = memoryview(text.encode("utf-8", "backslashreplace"))
    while view:
        view = view[os.write(1, view) :]


# The process has these limits from its fork.
LIMITS = ("cpu_seconds", "file_bytes", "open_files")
# After a call, the process has this long to prepare for the next one, before PID 1 stops it.
STOP_SECONDS = 0.05
# A process that has used more than this does not stay, so that each call starts with nearly the same limits.
MOST_CPU_SECONDS = 0.5
MOST_GROWTH_KIB = 16 * 1024
START = b"\0"


class QueryProcess:
    """A process of the agent's user that waits for queries, and serves one at a time."""

    def __init__(self, loop: Loop, user: User, limits: Mapping[str, Any]) -> None:
        """Fork the process. Raises OSError if that is not possible."""
        self.user = user
        self._loop = loop
        self._limits = {name: limits[name] for name in LIMITS}
        self._translates = translator.is_loaded()
        self._link, theirs = links.message_pair()
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _serve(theirs, user, self._limits)
        except OSError:
            self._link.close()
            raise
        finally:
            theirs.close()
        self._lives = True
        self._is_stopped = False
        self._timer: Timer | None = None
        self.rest()

    def fits(self, user: User, limits: Mapping[str, Any]) -> bool:
        """Return whether the process can serve a call of this user with these limits at once."""
        return (
            self._lives
            and user is self.user
            and self._translates == translator.is_loaded()
            and all(limits[name] == value for name, value in self._limits.items())
        )

    def start(self, streams: tuple[int, int, int], stayed: Callable[[int], None]) -> None:
        """Let the process serve a call with these streams. Raises OSError if it has ended.

        `stayed(exit code)` is called if the process has served the call and waits for another one. Otherwise
        it ends with the exit code of the call. The caller watches for the end.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._is_stopped:
            self._is_stopped = False
            processes.send([self.pid], SIGCONT)
        links.send_with_descriptors(self._link, START, list(streams))
        self._loop.watch(self._link.fileno(), lambda: self._read(stayed))

    def rest(self) -> None:
        """Expect no call for now. The process is stopped when it has had time to prepare for one."""
        self._loop.on_exit(self.pid, lambda _status, _cpu_seconds: self.note_end())
        self._timer = self._loop.after(STOP_SECONDS, self._stop)

    def end(self) -> None:
        """Kill the process, because no call will need it. Its end is not awaited."""
        self._close()
        if self._lives:
            processes.send([self.pid], SIGKILL)

    def note_end(self) -> None:
        """Record that the process has ended."""
        self._lives = False
        self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.unwatch(self._link.fileno())
        self._link.close()

    def _read(self, stayed: Callable[[int], None]) -> None:
        self._loop.unwatch(self._link.fileno())
        try:
            word = self._link.recv(1)
        except OSError:
            word = b""
        if word and word[0] in ANSWERED:
            stayed(word[0])
        elif word:
            processes.send([self.pid], SIGKILL)

    def _stop(self) -> None:
        if self._lives:
            self._is_stopped = True
            processes.send([self.pid], SIGSTOP)


def _serve(link: Link, user: User, limits: Mapping[str, Any]) -> None:
    """Serve calls, and exit with the code of the last one. Runs in the process."""
    status = FAILED
    try:
        # The streams of PID 1 must not be within reach of a call.
        null = os.open(os.devnull, os.O_RDWR)
        nothing = (null, null, null)
        take_streams(nothing)
        processes.become(user.uid, user.folder, processes.loosen(limits), [link.fileno(), null])
        rehearse()
        least = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        while True:
            prepared = prepare()
            word, streams = links.receive_with_descriptors(link, len(START))
            if word != START:
                break
            status = _serve_one(prepared, streams)
            if status not in ANSWERED or not _may_stay(least):
                break
            # Whoever reads the output must not have to wait for this process.
            take_streams(nothing)
            link.send(bytes((status,)))
            prepared.connection.close()
    finally:
        os._exit(status)


def _serve_one(prepared: Prepared, streams: tuple[int, ...]) -> int:
    stdin, stdout, stderr = streams
    take_streams((stdin, stdout, stderr))
    for descriptor in streams:
        os.close(descriptor)
    return work(lambda request: query(request, [], prepared))


def _may_stay(least: int) -> bool:
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - least
    return time.process_time() < MOST_CPU_SECONDS and grown < MOST_GROWTH_KIB
