"""Jobs: what they have in common, and two kinds of them: a command, and a program under trusted tests."""

from __future__ import annotations

import json
import marshal
import os
import signal
import socket
import time
from typing import NamedTuple

from . import processes
from .cgroup import PROCESSORS, Counters
from .output import Output
from .processor_time import Account
from .roles import HUNG_UP
from .spawner import Child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .loop import Loop
    from .script_confinement import ScriptConfinement
    from .spawner import Spawner
    from .users import User, Users

EXITED, SIGNALLED = "exited", "signal"
CPU, WALL, MEMORY, PROCESSES, OUTPUT, FILE = "cpu", "wall", "memory", "processes", "output", "file"
KILLED = "killed"
# What a shell says of a command that is there and cannot be started.
CANNOT_START = 126
MAX_RESULT_BYTES = 1 << 20
TESTS_NEED = ("preamble", "program", "setup", "statements", "exports", "classes")
# How long to wait before a job's processor time is looked at again, at least.
LOOK_SECONDS = 0.05
# A process that dies closes its channel some time before it can be waited for.
END_SECONDS = 0.2
AGAIN_SECONDS = 0.05


class Spawners(NamedTuple):
    """The spawners of the two roles that a program under test has."""

    candidates: Spawner
    tests: Spawner


class Job:
    """The common part of all jobs: outputs, the limits on time, the counters and the report of the end."""

    def __init__(
        self, loop: Loop, request: dict[str, Any], finished: Callable[[dict[str, Any], bytes], None]
    ) -> None:
        self.loop = loop
        self.limits = request["limits"]
        self.finished = finished
        self.counters = Counters()
        self.started = time.monotonic()
        self.stopped_by: str | None = None
        self.outputs: list[Output] = []
        self.timer = loop.after(self.limits["wall_seconds"], lambda: self.stop(WALL))

    def capture(self, uid: int) -> tuple[int, int]:
        """Make the pipes for stdout and stderr; return their writing ends, which `uid` may open anew."""
        ends = []
        for keep in (self.limits.get("stdout_bytes") or self.limits["keep_bytes"], self.limits["keep_bytes"]):
            read_end, write_end = os.pipe()
            self.outputs.append(Output(self.loop, read_end, keep, self._output_grew))
            try:
                os.fchown(write_end, uid, uid)  # for /dev/stdout
            except PermissionError:
                pass  # gVisor's pipes keep their owner: there, /dev/stdout cannot be opened anew
            ends.append(write_end)
        return ends[0], ends[1]

    def stop(self, reason: str) -> None:
        """End the job now, for this reason (the first one counts)."""
        raise NotImplementedError

    def _output_grew(self) -> None:
        if sum(output.total for output in self.outputs) > self.limits["output_bytes"]:
            self.stop(OUTPUT)

    def limit_processor_time(self, account: Account) -> None:
        """Stop this job once the account of its processor time has reached the limit."""
        self.account = account
        self._look_at_processor_time_after(self.limits["cpu_seconds"])

    def _look_at_processor_time_after(self, seconds: float) -> None:
        # The job cannot use up these seconds any sooner, even if it keeps every processor busy.
        wait = max(seconds / PROCESSORS, LOOK_SECONDS)
        self._processor_timer = self.loop.after(wait, self._look_at_processor_time)

    def _look_at_processor_time(self) -> None:
        left = self.limits["cpu_seconds"] - self.account.seconds()
        if left > 0:
            self._look_at_processor_time_after(left)
        else:
            self.stop(CPU)

    def _exceeds_processor_time(self, cpu_seconds: float) -> bool:
        """Return whether a job that ended before it was stopped has used up its processor time.

        The count is exact, so there is no tolerance.
        """
        limit: float = self.limits["cpu_seconds"]
        return cpu_seconds >= limit

    def _reason(self, status: int, cpu_seconds: float) -> str:
        """Return what ended the job, given the wait status of its first process and the account's seconds."""
        if self.stopped_by is not None:
            return self.stopped_by
        if self._exceeds_processor_time(cpu_seconds):
            return CPU
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return EXITED
        # A shell reports its child's signal as 128 + number: both forms count.
        killed = -code if code < 0 else code - 128
        if killed == signal.SIGXCPU:
            return CPU
        if killed == signal.SIGXFSZ:
            return FILE
        if self.counters.memory_kills() > 0:
            return MEMORY
        if self.counters.refused_forks() > 0:
            return PROCESSES
        return SIGNALLED if code < 0 else EXITED

    def _close(self, output: Output) -> None:
        output.close()

    def _report(self, reply: dict[str, Any]) -> None:
        self.timer.cancel()
        self._processor_timer.cancel()
        self.account.close()
        pieces = []
        for name, output in zip(("stdout", "stderr"), self.outputs):
            self._close(output)
            head, tail = output.kept()
            reply[name] = {"total": output.total, "head": len(head), "tail": len(tail)}
            pieces += [head, tail]
        reply["duration_seconds"] = time.monotonic() - self.started
        reply["memory_kills"] = self.counters.memory_kills()
        reply["refused_forks"] = self.counters.refused_forks()
        self.finished(reply, b"".join(pieces))


class CommandJob(Job):
    """Runs a command as a user. When its first process ends, whatever else it started is ended too."""

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        stdin: bytes,
        user: User,
        alone: Callable[[], bool],
        finished: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        super().__init__(loop, request, finished)
        self._user = user
        self._alone = alone
        self._pid: int | None = None
        self._session: int | None = None
        stdout, stderr = self.capture(user.uid)
        source = self.source(stdin)
        # An agent that is root may have daemons, which are no part of any job.
        self.limit_processor_time(Account(loop, self._living, alone=user.uid != 0))
        try:
            pid = os.fork()
            if pid == 0:
                self._exec(request, source, stdout, stderr)
        except OSError:
            # Others of this container have used up all processes that there may be, or the memory for one.
            loop.after(0.0, self._cannot_start)
        else:
            self._pid = self._session = pid
            loop.on_exit(pid, self._leader_ended)
        finally:
            for descriptor in (source, stdout, stderr):
                os.close(descriptor)

    def confine(self) -> None:
        """Narrow the reach of the command, in its process."""

    def source(self, stdin: bytes) -> int:
        """Return the descriptor that the command reads as its stdin."""
        return file_of(stdin)

    def _living(self) -> list[int]:
        """Return the ids of the processes in this job's session."""
        session, living = self._session, processes.processes_of(frozenset((self._user.uid,)))
        return [pid for pid in living if session is not None and processes.session_of(pid) == session]

    def stop(self, reason: str) -> None:
        if self.stopped_by is None:
            self.stopped_by = reason
            self._end_processes()

    def _end_processes(self) -> bool:
        if self._pid is not None:
            # By its id too: it may not have become the user yet.
            processes.send([self._pid], signal.SIGKILL)
        if self._alone():
            if self._user.uid == 0:
                return processes.end_everyone()
            return processes.end_processes(frozenset((self._user.uid,)))
        if self._session is not None:
            try:
                os.killpg(self._session, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return True

    def _cannot_start(self) -> None:
        self._report({"ended": PROCESSES, "exit_code": CANNOT_START, "cpu_seconds": 0.0, "clean": True})

    def _leader_ended(self, status: int, cpu_seconds: float) -> None:
        self._pid = None
        cpu_seconds = self.account.seconds(cpu_seconds)
        reason = self._reason(status, cpu_seconds)
        clean = self._end_processes()
        self._report(
            {
                "ended": reason,
                "exit_code": os.waitstatus_to_exitcode(status),
                "cpu_seconds": cpu_seconds,
                "clean": clean,
            }
        )

    def _exec(self, request: dict[str, Any], source: int, stdout: int, stderr: int) -> None:
        argv = request["argv"]
        status = CANNOT_START
        try:
            for number, descriptor in enumerate((source, stdout, stderr)):
                os.dup2(descriptor, number)
            processes.become(self._user.uid, self._user.folder, processes.loosen(self.limits), [])
            folder = request.get("folder") or "."
            try:
                os.chdir(folder)
            except (OSError, ValueError) as error:
                os.write(2, f"cannot start in {folder}: {error}\n".encode("utf-8", "backslashreplace"))
                return
            self.confine()
            _execute(argv, request["environment"])
        except FileNotFoundError:
            status = 127
            os.write(2, f"{argv[0]}: not found\n".encode("utf-8", "backslashreplace"))
        except BaseException as error:
            os.write(2, f"{argv[0]}: {error}\n".encode("utf-8", "backslashreplace"))
        finally:
            os._exit(status)


class ScriptJob(CommandJob):
    """Runs a trusted script as root, and leaves alive what it has started: a task may need its daemons.

    `confinement` is None where the script may do all that root may.
    """

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        user: User,
        confinement: ScriptConfinement | None,
        finished: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        self._confinement = confinement
        super().__init__(loop, request, b"", user, lambda: False, finished)

    def confine(self) -> None:
        if self._confinement is not None:
            self._confinement.apply()

    def _end_processes(self) -> bool:
        if self._pid is not None:
            processes.send([self._pid], signal.SIGKILL)
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return True

    def _close(self, output: Output) -> None:
        output.let_go()


def _execute(argv: list[str], environment: dict[str, str]) -> None:
    """Become `argv`, looked for on its PATH. Not os.execvpe: that imports a module in every child.

    Raises FileNotFoundError, or another OSError where what was found cannot be executed.
    """
    if "/" in argv[0]:
        os.execve(argv[0], argv, environment)
    refused: OSError = FileNotFoundError(argv[0])
    for folder in environment.get("PATH", "").split(":"):
        try:
            os.execve(f"{folder or '.'}/{argv[0]}", argv, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused = error
    raise refused


def _for_the_tests(request: dict[str, Any], body: bytes, candidate_uid: int) -> bytes:
    """What the tests' process has to know of a request, the statements compiled."""
    if "calls" in request:
        return marshal.dumps({**request, "body": body, "candidate_uid": candidate_uid})
    from . import asserts  # not above: the spawners would have its modules to copy in each fork

    wanted = {name: request[name] for name in TESTS_NEED}
    wanted["compiled_setup"] = asserts.compile_setup_ahead(request["setup"])
    with_classes = bool(request["classes"])
    wanted["compiled"] = [
        asserts.compile_ahead(statement, with_classes=with_classes) for statement in request["statements"]
    ]
    return marshal.dumps(wanted)


def file_of(data: bytes | memoryview) -> int:
    """A descriptor to read `data` from: a file in memory, so that nobody has to feed a pipe.

    Empty data too: an agent that is root may have put anything in the place of /dev/null.
    """
    descriptor = os.memfd_create("data", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class TestJob(Job):
    """Runs trusted tests in one process against a candidate in another, and reports their verdict.

    Each is a child of its own spawner, under its own user. The tests first drive the candidate, which ends
    where they have made their last call, or is lost before. Once no process of it is left they get the word
    to judge, and the job is over when they have ended.
    """

    __test__ = False  # not a pytest class

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        body: bytes,
        users: Users,
        spawners: Spawners,
        finished: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        user = users.open()
        super().__init__(loop, request, finished)
        self._users = users
        self._user = user
        self._tests_uid = users.identify()
        self._result = bytearray()
        self._result_ended = False
        self._tests_ended = False
        self._driven: dict[str, Any] | None = None
        self._candidate: tuple[int, float] | None = None
        self._clean = False
        self._cpu_seconds = 0.0
        self._judging = False
        self._concluded = False
        self._outlived = False
        stdout, stderr = self.capture(user.uid)
        ours, theirs = socket.socketpair()
        source = file_of(_for_the_tests(request, body, user.uid))
        self._result_read, result_write = os.pipe()
        word_read, self._word_write = os.pipe()
        try:
            limits = {name: self.limits[name] for name in ("file_bytes", "open_files")}
            candidate = Child(user.uid, user.folder, processes.backstop(self.limits["cpu_seconds"]))
            uids = frozenset((user.uid,))
            self.limit_processor_time(
                Account(loop, lambda: processes.processes_of(uids), trusted_uid=self._tests_uid)
            )
            environment = {**request["environment"], "HOME": "", "TMPDIR": "/tmp"}
            spawners.candidates.spawn(
                candidate,
                {"limits": limits, "environment": environment},
                [theirs.fileno(), stdout, stderr],
                self._candidate_exited,
            )
            # They wait for the candidate most of the time: the wall limit is what bounds them.
            tests = Child(self._tests_uid, "/", 2 * int(self.limits["wall_seconds"]) + 1)
            spawners.tests.spawn(
                tests,
                {"limits": limits},
                [ours.fileno(), source, result_write, word_read],
                self._tests_exited,
            )
        finally:
            ours.close()
            theirs.close()
            for descriptor in (source, stdout, stderr, result_write, word_read):
                os.close(descriptor)
        os.set_blocking(self._result_read, False)
        loop.watch(self._result_read, self._read_result)

    def stop(self, reason: str) -> None:
        if self.stopped_by is None:
            self.stopped_by = reason
            self._end_processes()

    def _end_processes(self) -> None:
        if not self._tests_ended or self._candidate is None:
            processes.end_processes(frozenset((self._user.uid, self._tests_uid)))
            # One that has not become its user yet was not hit: again, until both are known to have ended.
            self.loop.after(AGAIN_SECONDS, self._end_processes)

    def _read_result(self) -> None:
        try:
            data = os.read(self._result_read, 1 << 16)
        except BlockingIOError:
            return
        self._result += data
        if not data or len(self._result) > MAX_RESULT_BYTES:
            self._close_result()
        self._go_on()

    def _close_result(self) -> None:
        if not self._result_ended:
            self._result_ended = True
            self.loop.unwatch(self._result_read)
            os.close(self._result_read)

    def _tests_exited(self, _status: int, cpu_seconds: float) -> None:
        self._tests_ended = True
        if not self._judging:
            # It works for this job until the candidate is dead: what it uses then is not the candidate's.
            self.account.trusted_ended(cpu_seconds)
        self._go_on()

    def _candidate_exited(self, status: int, cpu_seconds: float) -> None:
        self._candidate = (status, cpu_seconds)
        # A child that it left behind may hold the channel and go on answering: it may not.
        processes.kill_all_of(self._user.uid)
        self._go_on()

    def _go_on(self) -> None:
        """Do the next step for which all is there: end the candidate, have it judged, conclude."""
        if self._driven is None:
            self._driven = self._line(0)
            if self._driven is None and not (self._tests_ended and self._result_ended):
                return
            self._end_driving()
        if self._candidate is None:
            return
        if not self._judging:
            self._judging = True
            self._begin_judging(self._candidate[1])
        # With the whole report there, the tests' process may still be ending while the host reads it.
        report = self._line(1)
        if not self._concluded and (report is not None or (self._tests_ended and self._result_ended)):
            self._concluded = True
            self._close_result()
            self._conclude(self._candidate[0], report)

    def _end_driving(self) -> None:
        """End the candidate, which the tests have no more use for. Its spawner reports its end."""
        if self._candidate is not None:
            return
        if self._driven is not None and self._driven["lost"] is None:
            processes.kill_all_of(self._user.uid)
        elif self._driven is not None and self._driven["breach"] is not None:
            self._end_candidate()
        else:
            self.loop.after(END_SECONDS, self._end_candidate)

    def _begin_judging(self, first_seconds: float) -> None:
        """Let the tests judge, under a wall limit of their own, once no process of the candidate is left."""
        self._clean = self._users.close(self._user)
        self._cpu_seconds = self.account.seconds(first_seconds)
        self._processor_timer.cancel()
        dead = self._clean or not processes.processes_of(frozenset((self._user.uid,)))
        self.timer.cancel()
        self.timer = self.loop.after(self.limits["wall_seconds"], lambda: self.stop(WALL))
        try:
            if dead:
                os.write(self._word_write, b"\n")
        except BrokenPipeError:
            pass  # the tests have been killed
        finally:
            os.close(self._word_write)  # without the word they end, and report nothing

    def _end_candidate(self) -> None:
        if self._candidate is None:
            uids = frozenset((self._user.uid,))
            self._outlived = bool(processes.processes_of(uids))
            processes.end_processes(uids)

    def _conclude(self, status: int, report: dict[str, Any] | None) -> None:
        lost = report is None or report["lost"] is not None
        code = os.waitstatus_to_exitcode(status)
        # A child may have answered in its place: then it has not seen the tests' end.
        left = not lost and code not in (HUNG_UP, -signal.SIGKILL)
        over = self._exceeds_processor_time(self._cpu_seconds)
        ended = self._reason(status, self._cpu_seconds) if lost or left or over else None
        if lost and ended == SIGNALLED and self._outlived and code == -signal.SIGKILL:
            ended = None  # that was us: it lived on after it had broken the protocol or hung up
        self._report(
            {
                "ended": ended,
                "exit_code": code,
                "cpu_seconds": self._cpu_seconds,
                "report": report,
                "clean": self._clean,
            }
        )

    def _line(self, number: int) -> dict[str, Any] | None:
        """Return line `number` of the tests' two, or None where they have not written all of it."""
        lines = bytes(self._result).split(b"\n")
        if len(lines) < number + 2:
            return None
        try:
            value: dict[str, Any] = json.loads(lines[number])
        except ValueError:
            return None
        return value
