"""A persistent shell: one bash that runs command after command and keeps their state.

The guest feeds bash through a pipe, line by line. A second pipe reports the end of each command by a mark
with a token of that command. Commands inherit neither pipe. Only the text that the agent sees depends on
these pipes, so an agent that forges a mark deceives only itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import termios
import time

from harness.sandbox.guest import processes
from harness.sandbox.guest.cgroup import Counters
from harness.sandbox.guest.output import PASS_ON_SECONDS, Output
from harness.sandbox.guest.users import User

from .foreign_image import LOGIN, Dialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from harness.sandbox.guest.loop import Loop, Timer
    from harness.sandbox.guest.messages import JobLimits

# These values of `ended` add to the names of the limits: the command ended by itself, or with its shell.
DONE, SHELL_ENDED, KILLED = "done", "shell", "killed"
WALL, OUTPUT, PROCESSES = "wall", "output", "processes"
F_SETPIPE_SZ = 1031
PIPE_BYTES = 1 << 20
MAX_MARK_BYTES = 4096
BEGUN = b"begun"
# A child of PID 1 uses no number from here on.
FIRST_FREE = 200
# An exit code has no more digits.
MAX_CODE_DIGITS = 3
# The shell has this long to continue after an interrupt. Then the command's processes are killed, then the
# shell.
INTERRUPT_SECONDS = 0.3
SWEEP_SECONDS = 0.05
SWEEPS = 60
# The limits of the child that looks for the processes that flood the output.
SEARCH_SECONDS = 2.0
SEARCH_LIMITS = {"cpu_seconds": 2, "file_bytes": 0, "open_files": 64}
TICKS = os.sysconf("SC_CLK_TCK")


class Shell:
    """Runs one shell at a time. If it has ended, `run` starts a new one."""

    def __init__(
        self,
        loop: Loop,
        environment: dict[str, str],
        folder: str,
        limits: JobLimits,
        list_others: Callable[[], set[int | None]],
        *,
        user: User | None = None,
        dialect: Dialect = LOGIN,
    ) -> None:
        self._loop = loop
        self._user = user or User(0, folder)
        self._dialect = dialect
        # Returns the sessions of programs that run apart from the shell. The end of a command spares them.
        self.list_others = list_others
        self._environment = environment
        self._folder = folder
        self._limits = limits
        self._read_end, self._write_end = os.pipe()
        if self._user.uid != 0:
            os.fchown(self._write_end, self._user.uid, -1)  # for /dev/stdout
        self._null = os.open("/dev/null", os.O_RDWR)
        self._terminal = self._open_terminal()
        self._commands = -1
        self._unsent = b""
        # The input of the command under way, and how many bytes of it follow the command itself.
        self._input = b""
        self._mark_bytes = 0
        # The input to repeat after an interrupt.
        self._repeated = b""
        self._marks = -1
        self._last_code = 0
        self.pid: int | None = None
        self.call: Call | None = None
        self.start(first=True)

    def start(self, *, first: bool) -> None:
        """Start the shell. Raises OSError if no process or descriptor is left for it."""
        commands_read, self._commands = os.pipe()
        try:
            self._marks, marks_write = os.pipe()
        except OSError:
            os.close(commands_read)
            os.close(self._commands)
            raise
        try:
            # The containers of this user have used up the pages for pipes.
            with contextlib.suppress(PermissionError):
                fcntl.fcntl(self._commands, F_SETPIPE_SZ, PIPE_BYTES)
            os.set_blocking(self._commands, False)
            os.set_blocking(self._marks, False)
            pid = os.fork()
            if pid == 0:
                argv = self._dialect.make_argv(first=first)
                self._exec_shell(argv, commands_read, marks_write)
        except OSError:
            self._close_pipes()
            raise
        finally:
            os.close(commands_read)
            os.close(marks_write)
        self.pid = pid
        self._unsent = b""
        self._last_code = 0
        self._loop.watch(self._marks, self._read_mark)
        self._loop.on_exit(pid, self._finish)
        self.send(self._dialect.greeting)

    def run(
        self,
        command: bytes,
        limits: JobLimits,
        finished: Callable[[dict[str, Any], bytes], None],
        *,
        typed: bool = False,
    ) -> Call:
        """Run one command. Raises ValueError if it is too long or if another one runs.

        A shell that a `typed` command starts replaces this one, because it reads the lines that follow.
        """
        if self.call is not None:
            raise ValueError("the shell is busy with another command")
        token = os.urandom(8).hex()
        dialect = self._dialect
        mark = _format_mark(dialect, token, b'"$?" "$-"') + b"\n"
        if typed:
            # The new shell must read the rest of the input, so this one must not have read it already.
            begun = _format_mark(dialect, token, BEGUN + b" -") + b"; "
            streams = b">&%d 2>&%d" % (dialect.out, dialect.out)
            line = _format_line(dialect, command, self._last_code, before=begun, streams=streams)
        else:
            streams = b"<&%d >&%d 2>&%d %d>&- %d<&- %d>&-" % (
                *(dialect.input, dialect.out, dialect.out),
                *(dialect.out, dialect.input, dialect.mark),
            )
            line = _format_line(dialect, command, self._last_code, streams=streams) + mark
        if len(line) > PIPE_BYTES:
            raise ValueError("the command is too long")
        renewed = self.pid is None
        if renewed:
            self._renew()
        output = os.dup(self._read_end)
        self.call = Call(self, self._loop, limits, token, output, renewed, finished)
        self.call.rest = mark if typed else b""
        self._input, self._mark_bytes = line, 0 if typed else len(mark)
        self._repeated = mark if dialect.forgets_input else b""
        self.send(line)
        return self.call

    def _renew(self) -> None:
        """Start the next bash. If no process is left for it, end all others first."""
        try:
            self.start(first=False)
        except OSError:
            processes.end_everyone()
            self._loop.reap()
            self.start(first=False)

    def _open_terminal(self) -> int:
        """Return the descriptor that the shell prompts on.

        It is a terminal, because bash sets the modes of a terminal, but bash does not control it. No command
        inherits it, so none waits for a person to type.
        """
        try:
            master, slave = os.openpty()
        except OSError:
            return self._null

        def read() -> None:
            try:
                os.read(master, 1 << 16)
            except OSError:
                self._loop.unwatch(master)

        self._loop.watch(master, read)
        return slave

    def send(self, script: bytes) -> None:
        self._unsent += script
        if len(self._unsent) > PIPE_BYTES and self.pid is not None:
            # The shell has not read its earlier input, so it will never read this.
            processes.send([self.pid], signal.SIGKILL)
        self._pass_on()

    def _pass_on(self) -> None:
        """Write as much as fits into the pipe. It is small if other containers hold the user's pipe pages."""
        if not self._unsent:
            return
        try:
            self._unsent = self._unsent[os.write(self._commands, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            return  # The shell is about to end.
        if self._unsent:
            self._loop.after(PASS_ON_SECONDS, self._pass_on)

    def set_free(self, code: int) -> None:
        """Mark the shell as free, and store the exit code that its next command must find."""
        self.call = None
        self._last_code = code

    def end_writers(self, ended: Callable[[int, float], None]) -> int | None:
        """Start a child that kills all processes that write to the shell's output, and return its id.

        The shell itself is spared. Only root may inspect the descriptors of other users' processes, and PID 1
        is not root. `ended` is called when the child ends. Returns None if no process is left for the child.
        In that case, the sweep kills all processes.
        """
        pipe = os.fstat(self._read_end)
        try:
            pid = os.fork()
        except OSError:
            return None
        if pid == 0:
            try:
                processes.act_for(self._user.uid, "/", SEARCH_LIMITS, [])
                processes.send(self._writers(pipe), signal.SIGKILL)
            finally:
                os._exit(0)
        self._loop.on_exit(pid, ended)
        return pid

    def _writers(self, pipe: os.stat_result) -> list[int]:
        found = []
        for pid, _started in processes.list_processes():
            for number in (1, 2):
                try:
                    facts = os.stat(f"/proc/{pid}/fd/{number}")
                except OSError:
                    continue
                if (facts.st_dev, facts.st_ino) == (pipe.st_dev, pipe.st_ino) and pid != self.pid:
                    found.append(pid)
        return found

    def interrupt(self) -> None:
        """Send the signal that Ctrl-C sends."""
        if self.pid is not None:
            try:
                os.killpg(self.pid, signal.SIGINT)
            except ProcessLookupError:
                pass
            # A mark that appears twice is not the next command's.
            self.send(self._repeated)

    def end(self) -> None:
        """Kill the shell itself. The loop then calls `_finish`."""
        if self.pid is not None:
            processes.send([self.pid], signal.SIGKILL)

    def _read_mark(self) -> None:
        try:
            data = os.read(self._marks, MAX_MARK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.unwatch(self._marks)
            return
        if self.call is not None:
            self.call.read_marks(data)

    def _finish(self, status: int, _cpu_seconds: float) -> None:
        self.pid = None
        # The shell may have written a mark just before its end.
        try:
            if self.call is not None:
                self.call.read_marks(os.read(self._marks, MAX_MARK_BYTES))
        except BlockingIOError:
            pass
        unread = self._count_unread()
        self._close_pipes()
        if self.call is None:
            return
        if unread > self._mark_bytes and self.call.take_new_shell():
            # The shell has not read the end of the command's line, so nothing of the command has run.
            self._renew()
            self.send(self._input)
        else:
            self.call.conclude_with_shell(os.waitstatus_to_exitcode(status))

    def _count_unread(self) -> int:
        """Return how many bytes for the shell it has not read. Bash reads a pipe byte by byte."""
        waiting: int = struct.unpack("i", fcntl.ioctl(self._commands, termios.FIONREAD, bytes(4)))[0]
        return waiting + len(self._unsent)

    def _close_pipes(self) -> None:
        self._loop.unwatch(self._marks)
        os.close(self._marks)
        os.close(self._commands)
        # A timer may still run, and the number of the descriptor may soon belong to another file.
        self._unsent = b""

    def _exec_shell(self, argv: list[str], commands: int, marks: int) -> None:
        own = [self._dialect.out, self._dialect.input, self._dialect.mark]
        try:
            streams = (commands, self._null, self._terminal, self._write_end, self._null, marks)
            # PID 1 may use the numbers itself.
            above = [fcntl.fcntl(each, fcntl.F_DUPFD, FIRST_FREE) for each in streams]
            for descriptor, number in zip(above, (0, 1, 2, *own)):
                os.dup2(descriptor, number)
            processes.become(self._user.uid, self._folder, self._limits, own, self._user.groups)
            os.execve(argv[0], argv, self._environment)
        finally:
            os._exit(127)


class Call:
    """One command in the shell, with its output, its limits and its end."""

    def __init__(
        self,
        shell: Shell,
        loop: Loop,
        limits: JobLimits,
        token: str,
        output: int,
        renewed: bool,
        finished: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        self._shell = shell
        self._loop = loop
        self._limits = limits
        self._token = token.encode()
        self._renewed = renewed
        self._finished = finished
        # The shell must read this once the command has begun.
        self.rest = b""
        self._heard = bytearray()
        self._counters = Counters()
        self._started = time.monotonic()
        self._started_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)
        # These processes are older than the command, although the clock shows the same tick.
        self._older = frozenset(processes.list_processes_since(self._started_ticks))
        self._stopped_by: str | None = None
        # The child that looks for the processes that flood the output, and the end that waits for it.
        self._search: int | None = None
        self._end: tuple[str, int, int] | None = None
        self._sweeps = 0
        self._output = Output(loop, output, limits["keep_bytes"], self._check_output)
        self._timer: Timer = loop.after(limits["wall_seconds"], lambda: self.stop(WALL))

    def stop(self, reason: str) -> None:
        """End the command now. Interrupt it first, then kill its processes, then the shell."""
        if self._stopped_by is None and self._shell.call is self:
            self._stopped_by = reason
            self._timer.cancel()
            self._shell.interrupt()
            if reason == OUTPUT:
                # An older background job may be the one that floods the output.
                self._search = self._shell.end_writers(self._finish_search)
                self._loop.after(SEARCH_SECONDS, self._end_search)
            self._timer = self._loop.after(INTERRUPT_SECONDS, self._sweep)

    def take_new_shell(self) -> bool:
        """Return whether the command may run in a new shell: once, and unless it has to end."""
        if self._renewed or self._stopped_by is not None:
            return False
        self._renewed = True
        return True

    def read_marks(self, data: bytes) -> None:
        """Read this command's mark, its exit code and the shell's options from the data of the pipe."""
        self._heard += data
        *marks, rest = bytes(self._heard).split(b"\0")
        self._heard = bytearray(rest[-MAX_MARK_BYTES:])
        for mark in marks:
            token, _, facts = mark.partition(b" ")
            code, _, options = facts.partition(b" ")
            if token == self._token and code == BEGUN and self.rest:
                self.rest, rest = b"", self.rest
                self._shell.send(rest)
            elif token == self._token and code.isdigit() and len(code) <= MAX_CODE_DIGITS:
                # A shell with `set -e` would exit when the next command restores a code other than 0.
                last_code = 0 if b"e" in options else int(code) & 255
                self._conclude(self._stopped_by or DONE, int(code) & 255, last_code)
                return

    def conclude_with_shell(self, code: int) -> None:
        """Conclude a command that ended the shell itself."""
        if self._stopped_by is None and self._counters.memory_kills() > 0 and code == -signal.SIGKILL:
            self._stopped_by = "memory"
        self._conclude(self._stopped_by or SHELL_ENDED, code, 0)

    def _check_output(self) -> None:
        if self._output.total > self._limits["output_bytes"]:
            self.stop(OUTPUT)

    def _finish_search(self, _status: int, _cpu_seconds: float) -> None:
        self._search = None
        if self._end is not None:
            self._conclude(*self._end)

    def _end_search(self) -> None:
        if self._search is not None:
            processes.send([self._search], signal.SIGKILL)

    def _sweep(self) -> None:
        if self._shell.call is not self:
            return
        if self._counters.refused_forks() > 0:
            # The limit on processes is reached, so nothing works before all of them have ended, whoever owns
            # them.
            processes.end_everyone()
            return
        processes.send(self._own_processes(), signal.SIGKILL)
        self._sweeps += 1
        if self._sweeps > SWEEPS:
            self._shell.end()
        self._timer = self._loop.after(SWEEP_SECONDS, self._sweep)

    def _own_processes(self) -> list[int]:
        """Return the processes that started after the command and belong to it, or to no other program."""
        young = processes.list_processes_since(self._started_ticks)
        others = self._shell.list_others()
        return [
            pid
            for pid in young
            if pid not in (self._shell.pid, self._search)
            and pid not in self._older
            and (not others or processes.get_session(pid) not in others)
        ]

    def _conclude(self, ended: str, code: int, last_code: int) -> None:
        self._timer.cancel()
        if self._search is not None:
            self._end = ended, code, last_code
            return
        self._shell.set_free(last_code)
        if self._stopped_by is not None:
            # If each process forks the next one and exits, a single sweep may miss one.
            for _ in range(SWEEPS):
                left = self._own_processes()
                if not left:
                    break
                processes.send(left, signal.SIGKILL)
                self._loop.reap()
                time.sleep(0.001)
            else:
                processes.end_everyone()
                self._loop.reap()
        self._output.close()
        head, tail = self._output.read_kept()
        if (fault := self._counters.find_fault()) is not None:
            self._finished({"fault": fault}, b"")
            return
        self._finished(
            {
                "ended": ended,
                "exit_code": code,
                "shell": self._shell.pid is not None,
                "renewed": self._renewed,
                "stdout": {"total": self._output.total, "head": len(head), "tail": len(tail)},
                "stderr": {"total": 0, "head": 0, "tail": 0},
                "duration_seconds": time.monotonic() - self._started,
                "memory_kills": self._counters.memory_kills(),
                "refused_forks": self._counters.refused_forks(),
            },
            head + tail,
        )


def _format_line(
    dialect: Dialect, command: bytes, last_code: int, *, before: bytes = b"", streams: bytes
) -> bytes:
    """Return the line that makes the shell run one command.

    The quotes contain the command, whatever its text. The shell itself opens the redirections, so it undoes
    them whatever the command does to its outputs.
    """
    quoted = command.replace(b"'", b"'\\''")
    # The command must find the exit code of the previous command, which the mark has overwritten.
    word = dialect.word
    code = b"(%s exit %d)\n" % (word, last_code) if last_code else b""
    return code + before + word + b" eval '" + quoted + b"' " + streams + b"\n"


def _format_mark(dialect: Dialect, token: str, facts: bytes) -> bytes:
    """Return the command that makes the shell report under this token."""
    parts = dialect.word, token.encode(), facts, dialect.mark
    return b"%s printf '%%s %%s %%s\\0' %s %s >&%d" % parts
