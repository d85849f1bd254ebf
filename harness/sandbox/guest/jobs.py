"""Jobs: the common base class, and the job that runs a command."""

from __future__ import annotations

import os
import time

from . import processes
from .cgroup import NO_START, PROCESSORS, Counters
from .durations import MOST_PATIENCE, find_longest
from .output import Output
from .processor_time import Account
from .signals import SIGKILL, SIGXCPU, SIGXFSZ
from .waiting import StarterTime, Waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .loop import Loop
    from .users import User

EXITED, SIGNALLED = "exited", "signal"
CPU, WALL, MEMORY, PROCESSES, OUTPUT, FILE = "cpu", "wall", "memory", "processes", "output", "file"
KILLED = "killed"
# The job ended through a fault of the machine, which is not a limit of the job (`Job.blame_machine`).
MACHINE = "machine"
BUSY = "the machine was too busy to run a program of the sandbox"
# The wait status of a first process that could not be started.
NOT_STARTED = -1
# The exit code of a shell for a command that exists and cannot be started.
CANNOT_START = 126
# The shortest wait before the next look at a job's processor time.
LOOK_SECONDS = 0.05
AGAIN_SECONDS = 0.05
LEAST_WAIT_SECONDS = 0.05


class Job:
    """The base class of jobs: outputs, the limits on time, the counters and the report of the end."""

    def __init__(
        self, loop: Loop, request: dict[str, Any], finished: Callable[[dict[str, Any], bytes], None]
    ) -> None:
        self.loop = loop
        self.limits = request["limits"]
        self.finish = finished
        self.counters = Counters()
        self.start_time = time.monotonic()
        self.stop_reason: str | None = None
        self.fault: str | None = None
        self.outputs: list[Output] = []
        self.timer = loop.after(self.limits["wall_seconds"], lambda: self.stop(WALL))

    def capture(self, uid: int) -> tuple[int, int]:
        """Make the pipes for stdout and stderr; return their writing ends, which `uid` may open by name."""
        ends = []
        for keep in (self.limits.get("stdout_bytes") or self.limits["keep_bytes"], self.limits["keep_bytes"]):
            read_end, write_end = os.pipe()
            self.outputs.append(Output(self.loop, read_end, keep, self._on_output))
            try:
                os.fchown(write_end, uid, uid)  # for /dev/stdout
            except PermissionError:
                pass  # gVisor's pipes keep their owner, so that /dev/stdout cannot be opened by name there
            ends.append(write_end)
        return ends[0], ends[1]

    def stop(self, reason: str) -> None:
        """End the job now, for this reason. Only the first reason counts."""
        raise NotImplementedError

    def blame_machine(self, fault: str) -> None:
        """End the job now. Its answer names this fault of the machine, and nothing about the job.

        A limit counts against a job only if it was measured that the job itself has reached it.
        """
        self.fault = self.fault or fault
        self.stop(MACHINE)

    def _on_output(self) -> None:
        if sum(output.total for output in self.outputs) > self.limits["output_bytes"]:
            self.stop(OUTPUT)

    def limit_processor_time(self, account: Account) -> None:
        """Stop this job once its account has reached the limit on processor time."""
        self.account = account
        self._look_at_processor_time_after(self.limits["cpu_seconds"])

    def _look_at_processor_time_after(self, seconds: float) -> None:
        # The job cannot use up these seconds sooner than this, even if it keeps every processor busy.
        wait = max(seconds / PROCESSORS, LOOK_SECONDS)
        self._processor_timer = self.loop.after(wait, self._look_at_processor_time)

    def _look_at_processor_time(self) -> None:
        left = self.limits["cpu_seconds"] - self.account.seconds()
        if left > 0:
            self._look_at_processor_time_after(left)
        else:
            self.stop(CPU)

    def _exceeds_processor_time(self, cpu_seconds: float) -> bool:
        """Return whether a job that ended by itself has used up its processor time.

        There is no tolerance, because the count is exact.
        """
        limit: float = self.limits["cpu_seconds"]
        return cpu_seconds >= limit

    def _reason(self, status: int, cpu_seconds: float) -> str:
        """Return the reason for the job's end.

        `status` is the wait status of its first process, and `cpu_seconds` come from its account.
        """
        if self.stop_reason is not None:
            return self.stop_reason
        self.fault = self.counters.find_fault()
        if status == NOT_STARTED:
            if self.counters.refused_forks() > 0:
                return PROCESSES
            if self.counters.memory_kills() > 0:
                return MEMORY
            self.fault = self.fault or NO_START
        if self.fault is not None:
            return MACHINE
        if self._exceeds_processor_time(cpu_seconds):
            return CPU
        code = exit_code(status)
        if code == 0:
            return EXITED
        # A shell reports the signal that ended its child as 128 + number, so both forms count.
        killed = -code if code < 0 else code - 128
        if killed == SIGXCPU:
            return CPU
        if killed == SIGXFSZ:
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
            head, tail = output.read_kept()
            reply[name] = {"total": output.total, "head": len(head), "tail": len(tail)}
            pieces += [head, tail]
        if self.fault is not None:
            self.finish({"fault": self.fault}, b"")
            return
        reply["duration_seconds"] = time.monotonic() - self.start_time
        reply["memory_kills"] = self.counters.memory_kills()
        reply["refused_forks"] = self.counters.refused_forks()
        self.finish(reply, b"".join(pieces))


class PatientJob(Job):
    """A job whose wall limit does not count the time that it waits for a processor (`waiting`)."""

    # The machine is to blame after this many times the wall limit, however long the job has waited.
    patience = MOST_PATIENCE

    def list_living(self) -> list[int]:
        """Return the ids of the living processes whose waiting does not count."""
        raise NotImplementedError

    def start_patience(self, starter: int = 0) -> None:
        """Replace the plain wall limit by one that begins now. Call it before the job's program can run.

        `starter` is our process that starts the job's first one, or 0. The time that it takes for this, and
        the time until the first process has become its user, do not count.
        """
        self.timer.cancel()
        self._waiting = Waiting(since_their_start=True)
        self._credit = 0.0
        self._starter_time = StarterTime(starter)
        self._patient_since = time.monotonic()
        self._look_at_time_after(self.limits["wall_seconds"])

    def forget_waiting(self) -> None:
        """Credit no more what the job has waited until now, because the limit has just begun."""
        self._credit = self._waiting.seconds(self.list_living(), self.account.seconds())

    def _look_at_time_after(self, seconds: float) -> None:
        self.timer = self.loop.after(max(seconds, LEAST_WAIT_SECONDS), self._look_at_time)

    def _look_at_time(self) -> None:
        now, limit, living = time.monotonic(), self.limits["wall_seconds"], self.list_living()
        own = now - self._patient_since - self._starter_time.seconds()
        own -= self._waiting.seconds(living, self.account.seconds()) - self._credit
        if not living:
            # Nothing of the program has run yet, because it cannot leave its user.
            own, self._patient_since = 0.0, now
        if own >= limit:
            self.stop(WALL)
        elif now - self.start_time >= find_longest(limit, self.patience):
            self.blame_machine(BUSY)
        else:
            self._look_at_time_after(limit - own)


def exit_code(status: int) -> int:
    """Return the exit code in the wait status of a first process, which may not have been started."""
    return -SIGKILL if status == NOT_STARTED else os.waitstatus_to_exitcode(status)


class CommandJob(PatientJob):
    """Runs a command as a user. The end of its first process ends all of its processes.

    Only trusted commands are patient, because an agent knows the wall limit of its own commands.
    """

    is_patient = False

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
        if self.is_patient:
            self.start_patience()
        # An agent that is root may run daemons, which belong to no job.
        self.limit_processor_time(Account(loop, self.list_living, alone=user.uid != 0))
        try:
            pid = self.start_leader(request, source, stdout, stderr)
        except OSError:
            loop.after(0.0, self._cannot_start)
        else:
            self._pid = self._session = pid
            loop.on_exit(pid, self._on_leader_exit)
        finally:
            for descriptor in (source, stdout, stderr):
                os.close(descriptor)

    def start_leader(self, request: dict[str, Any], source: int, stdout: int, stderr: int) -> int:
        """Start the first process of the job and return its id. Raises OSError."""
        pid = os.fork()
        if pid == 0:
            self._exec(request, source, stdout, stderr)
        return pid

    def confine(self) -> None:
        """Narrow the reach of the command. Runs in its process."""

    def source(self, stdin: bytes) -> int:
        """Return the descriptor that the command reads as its stdin."""
        return make_data_file(stdin)

    @property
    def session(self) -> int | None:
        """The session of the job's processes, which no process of another job can join."""
        return self._session

    def list_living(self) -> list[int]:
        """Return the ids of the processes in this job's session."""
        session, living = self._session, processes.list_processes_of(frozenset((self._user.uid,)))
        return [pid for pid in living if session is not None and processes.get_session(pid) == session]

    def stop(self, reason: str) -> None:
        if self.stop_reason is None:
            self.stop_reason = reason
            self._end_processes()

    def _end_processes(self) -> bool:
        if self._pid is not None:
            # By its id, because it may not have changed to the user yet.
            processes.send([self._pid], SIGKILL)
        if self._alone():
            if self._user.uid == 0:
                return processes.end_everyone()
            return processes.end_processes(frozenset((self._user.uid,)))
        if self._session is not None:
            try:
                os.killpg(self._session, SIGKILL)
            except ProcessLookupError:
                pass
        return True

    def _cannot_start(self) -> None:
        ended = self._reason(NOT_STARTED, 0.0)
        self._report({"ended": ended, "exit_code": CANNOT_START, "cpu_seconds": 0.0, "clean": True})

    def _on_leader_exit(self, status: int, cpu_seconds: float) -> None:
        self._pid = None
        cpu_seconds = self.account.seconds(cpu_seconds)
        reason = self._reason(status, cpu_seconds)
        clean = self._end_processes()
        self._report(
            {
                "ended": reason,
                "exit_code": exit_code(status),
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
            user = self._user
            processes.become(user.uid, user.folder, processes.loosen(self.limits), [], user.groups)
            folder = request.get("folder") or "."
            try:
                os.chdir(folder)
            except (OSError, ValueError) as error:
                os.write(2, f"cannot start in {folder}: {error}\n".encode("utf-8", "backslashreplace"))
                return
            self.confine()
            execute(argv, request["environment"])
        except FileNotFoundError:
            status = 127
            os.write(2, f"{argv[0]}: not found\n".encode("utf-8", "backslashreplace"))
        except BaseException as error:
            os.write(2, f"{argv[0]}: {error}\n".encode("utf-8", "backslashreplace"))
        finally:
            os._exit(status)


def execute(argv: list[str], environment: dict[str, str]) -> None:
    """Replace this process by `argv`, whose program is looked up in the PATH of `environment`.

    os.execvpe would import a module in every child. Raises FileNotFoundError, or another OSError if the
    program cannot be executed.
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


def make_data_file(data: bytes | memoryview) -> int:
    """Return a descriptor to read `data` from. It is a file in memory, so that nobody has to feed a pipe.

    Empty data gets such a file too, because an agent that is root may have replaced /dev/null.
    """
    descriptor = os.memfd_create("data", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
