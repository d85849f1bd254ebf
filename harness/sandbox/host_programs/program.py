"""A program of the user on this machine, whose whole process tree ends with a block."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.shield import complete
from harness.sandbox.host_programs.supervisor import (
    CANNOT_SUPERVISE,
    IS_LINUX,
    PR_SET_CHILD_SUBREAPER,
    Process,
    end_processes,
    is_marked,
    list_children,
    list_descendants,
    set_option,
)

PR_GET_CHILD_SUBREAPER = 37


class _Adoption:
    """Whether this process adopts orphans. The kernel keeps that for the whole process, and so does this."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    def begin(self) -> None:
        with self._lock:
            if self._users == 0 and not _is_subreaper():
                set_option(PR_SET_CHILD_SUBREAPER, 1)
            elif self._users == 0:
                # Whoever made this process adopt orphans still needs that when the last program has ended.
                self._users += 1
            self._users += 1

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                set_option(PR_SET_CHILD_SUBREAPER, 0)


_ADOPTION = _Adoption()


@contextlib.contextmanager
def adopt_orphans() -> Iterator[None]:
    """Become the parent of every process below this one whose own parent ends, as long as the block lasts."""
    _ADOPTION.begin()
    try:
        yield
    finally:
        _ADOPTION.end()


def end_orphans() -> list[int]:
    """End the processes of all programs whose supervisor is dead. Return the ids of those that are left.

    The children that this process has started by other means are left alone. They lack the mark that each
    program gets, and that only a privileged process can remove.
    """
    return end_processes(_list_orphans, _list_newest, _reap)


def _list_orphans() -> list[Process]:
    # A supervisor has no mark, so a child with a mark is one that has lost its supervisor.
    return list_descendants(is_marked)


def _list_newest() -> list[int]:
    return [pid for pid in list_children()[-4:] if is_marked(pid)]


def _reap(found: list[Process]) -> None:
    own = os.getpid()
    for process in found:
        if process.parent == own and process.has_ended:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def _is_subreaper() -> bool:
    is_set = ctypes.c_int(0)
    if IS_LINUX:
        ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(is_set), 0, 0, 0)
    return bool(is_set.value)


SUPERVISOR = Path(__file__).with_name("supervisor.py")
# How long the supervisor may take to end all processes, which is longer than its own limit for that.
END_SECONDS = 10.0
POLL_SECONDS = 0.005
MAX_FACTS_BYTES = 1 << 16
DEFAULT_LINE_BYTES = 1 << 16
_SHOWN_PIDS = 10

KILLED_SUPERVISOR = "ended the process that supervises it"
LATE_SUPERVISOR = f"was not ended within {END_SECONDS:g} s by the process that supervises it"


class CannotSuperviseError(Exception):
    """A program was not started, because this machine cannot start or supervise one more."""


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """The end of a program and of all its processes."""

    # Below 0 for a signal. None if the harness, or somebody else, ended the program before it exited.
    exit_code: int | None
    seconds: float = 0.0
    # Of all its processes.
    cpu_seconds: float = 0.0
    # The ids of processes that could not be ended.
    left: tuple[int, ...] = ()
    # The reason why the harness itself had to end the processes, None if the supervisor did.
    supervisor_fault: str | None = None

    @property
    def fault(self) -> str | None:
        """Why the program did not end cleanly, or None."""
        faults = [self.supervisor_fault] if self.supervisor_fault is not None else []
        if self.left:
            shown = ", ".join(map(str, self.left[:_SHOWN_PIDS]))
            more = ", ..." if len(self.left) > _SHOWN_PIDS else ""
            faults.append(f"left {len(self.left)} process(es) that could not be ended: {shown}{more}")
        return "; ".join(faults) or None


class HostProgram:
    """A program and the process that supervises it."""

    def __init__(
        self, process: asyncio.subprocess.Process, control: int, facts: asyncio.StreamReader
    ) -> None:
        if process.stdout is None or process.stderr is None:
            raise AssertionError("unreachable: both are pipes")
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr
        self._process = process
        self._control = control
        self._is_late = False
        self._watching = asyncio.create_task(self._watch(facts))

    @property
    def ended(self) -> ProgramEnd | None:
        """The end of the program, None as long as it runs."""
        watching = self._watching
        is_over = watching.done() and not watching.cancelled() and watching.exception() is None
        return watching.result() if is_over else None

    async def wait(self) -> ProgramEnd:
        """Wait until the program and all of its processes have ended.

        Raises CannotSuperviseError if the program was not started.
        """
        return await asyncio.shield(self._watching)

    async def wait_at_most(self, seconds: float) -> None:
        """Wait for the end of the program, or until the time is over."""
        await asyncio.wait([self._watching], timeout=seconds)

    async def end(self) -> None:
        """End the program and all of its processes."""
        if not self._watching.done():
            with contextlib.suppress(OSError):
                os.write(self._control, b"e")
            self._signal(signal.SIGCONT)
            await self.wait_at_most(END_SECONDS)
        if not self._watching.done():
            self._is_late = True
            self._signal(signal.SIGKILL)
        await asyncio.wait([self._watching])
        self._watching.exception()  # asyncio warns of an exception that nobody retrieves

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _watch(self, facts: asyncio.StreamReader) -> ProgramEnd:
        # asyncio's own wait would last until all outputs are closed, which any process may keep open.
        data = await facts.read(MAX_FACTS_BYTES)
        while self._process.returncode is None:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
        if self._process.returncode == CANNOT_SUPERVISE:
            raise CannotSuperviseError(data.decode("utf-8", "backslashreplace"))
        end = _read_facts(data) if self._process.returncode == 0 else None
        if end is not None:
            return end
        left = await asyncio.to_thread(end_orphans)
        fault = LATE_SUPERVISOR if self._is_late else KILLED_SUPERVISOR
        return ProgramEnd(None, left=tuple(left), supervisor_fault=fault)


def _read_facts(data: bytes) -> ProgramEnd | None:
    """Return the facts that a supervisor has written, None if it has written none."""
    try:
        facts = json.loads(data)
        left = tuple(map(int, facts["left"]))
        return ProgramEnd(facts["exit_code"], float(facts["seconds"]), float(facts["cpu_seconds"]), left)
    except (ValueError, KeyError, TypeError):
        return None


@contextlib.asynccontextmanager
async def open_program(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    folder: Path | None = None,
    cwd: Path | None = None,
    has_input: bool = False,
    line_bytes: int = DEFAULT_LINE_BYTES,
) -> AsyncIterator[HostProgram]:
    """Start a program and yield it. All of its processes end with the block, and with this process.

    Args:
        command: the program and its arguments.
        env: the variables of its environment.
        folder: the folder that the supervisor removes if this process is gone.
        cwd: the folder where the program starts.
        has_input: whether its standard input is a pipe. Otherwise it is empty.
        line_bytes: the most bytes that the readers of its outputs keep in memory, and of a line.

    Raises CannotSuperviseError if no supervisor can be started.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(adopt_orphans())
        order, control = os.pipe()
        stack.callback(os.close, control)
        result, written = os.pipe()
        facts = await _open_reader(result, stack)
        try:
            process = await _start(
                (str(order), str(written), str(folder or ""), *command),
                env=env,
                cwd=cwd,
                stdin=asyncio.subprocess.PIPE if has_input else asyncio.subprocess.DEVNULL,
                line_bytes=line_bytes,
                descriptors=(order, written),
            )
        finally:
            os.close(order)
            os.close(written)
        program = HostProgram(process, control, facts)
        try:
            yield program
        finally:
            try:
                await complete(program.end())
            finally:
                # asyncio closes the pipes of a process only when each of them has reached its end.
                process._transport.close()  # type: ignore[attr-defined]


async def _open_reader(descriptor: int, stack: contextlib.ExitStack) -> asyncio.StreamReader:
    """Return a reader of a pipe, which is closed with the stack."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)  # the transport closes it
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    stack.callback(transport.close)
    return reader


async def _start(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    stdin: int,
    line_bytes: int,
    descriptors: Sequence[int],
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(SUPERVISOR), *arguments),
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=line_bytes,
            cwd=cwd,
            env=env,
            pass_fds=descriptors,
            # Ctrl-C must reach the harness alone, which then ends the program in order.
            start_new_session=True,
        )
    except OSError as error:
        raise CannotSuperviseError(f"{arguments[3]}: cannot be supervised: {error}") from error
    except asyncio.CancelledError:
        # asyncio has killed the supervisor, whose program may run already.
        await complete(asyncio.to_thread(end_orphans))
        raise
