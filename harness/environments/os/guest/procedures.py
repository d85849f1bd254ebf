"""The procedures of a machine whose agent is root: its shell, scripts, the end of processes, and files.

A process may have set a timer that lets it go on after a pause. So nothing of a verdict depends on a pause:
it only keeps files from changing while they are read, and processes from working in the time of no agent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

# The kernel imports some of these when it needs them. Here that would be too late, because an agent that is
# root may have replaced their files.
from harness.sandbox.guest import (  # noqa: F401
    apart,
    file_work,
    held_files,
    processes,
    relay,
    sent_output,
    socket_watch,
    terminal,
)
from harness.sandbox.guest.jobs import CommandJob
from harness.sandbox.guest.signals import SIGCONT, SIGSTOP
from harness.sandbox.guest.users import User

from . import contents
from .contents import SetClock
from .foreign_image import LOGIN, MainProcess, find_dialect, find_user
from .script_job import ScriptConfinement, ScriptJob
from .shell import Shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.sandbox.guest.kernel import Kernel, Request
    from harness.sandbox.guest.messages import Hello

    from .messages import (
        BeginReply,
        ClockReply,
        Describe,
        EndAllReply,
        List,
        Make,
        OpenShell,
        ReadRanges,
        RemoveLinks,
        Run,
        RunScript,
        StartMain,
    )

ROOT_FOLDER = "/root"
# The reply lists at most this many processes that cannot be ended.
MAX_LEFT = 20
# How often a pause looks whether the shell's last command has ended.
PAUSE_SECONDS = 0.05


def install(kernel: Kernel) -> None:
    """Add the procedures of a machine to the kernel."""
    machine = Machine(kernel)
    kernel.on_hello(machine.greet)
    kernel.add_procedure("open_shell", machine.open_shell)
    kernel.add_procedure("start_main", machine.start_main)
    kernel.add_procedure("run", machine.run)
    kernel.add_procedure("run_script", machine.run_script)
    kernel.add_procedure("end_all", machine.end_all)
    kernel.add_procedure("end_shell", machine.end_shell)
    kernel.add_procedure("pause_all", machine.pause_all)
    kernel.add_procedure("resume_all", machine.resume_all)
    kernel.add_procedure("begin", machine.begin)
    kernel.add_procedure("clock", machine.check_clock)
    kernel.add_procedure("list", machine.list_changed)
    kernel.add_procedure("describe", machine.describe)
    kernel.add_procedure("read_ranges", machine.read_ranges)
    kernel.add_procedure("make", machine.make)
    kernel.add_procedure("remove_links", machine.remove_links)


class Machine:
    """The machine of an agent that is root, and the agent's only shell there."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._confinement = ScriptConfinement()
        self._shell: Shell | None = None
        self._started_ns = 0
        self._clock = SetClock()
        # The processes that were stopped before `pause_all`, None while nothing is paused.
        self._stopped_before: list[int] | None = None

    def greet(self, hello: Hello) -> None:
        """Make the agent root if the hello asks for it, and put PID 1 out of its reach.

        No agent process runs yet.
        """
        if not hello["root_agent"]:
            return
        # Root may send any signal. The kernel shields PID 1 from signals without a handler, and the engine
        # stops this container by SIGKILL.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        processes.end_everyone()
        apart.leave_root()
        refuse_imports()
        self._kernel.agent = User(0, ROOT_FOLDER)
        self._started_ns = contents.next_tick_ns()

    def open_shell(self, request: Request) -> None:
        """Start the shell. Raises ValueError for a second shell and for an agent that is not root."""
        asked: OpenShell = request.fields  # type: ignore[assignment]
        if self._shell is not None or self._kernel.agent_user().uid != 0:
            raise ValueError("the agent must be root and must not have a shell yet")
        user, environment, dialect = None, asked["environment"], LOGIN
        if "user" in asked:
            found = find_dialect(asked["shells"])
            if found is None:
                request.answer({"refused": f"the image has none of {', '.join(asked['shells'])}"})
                return
            try:
                user, environment = self._find_user(asked["user"], environment)
            except ValueError as error:
                request.answer({"refused": str(error)})
                return
            dialect = found
            # All further work of the agent is this user's.
            self._kernel.agent = User(user.uid, asked["folder"], user.groups)
        self._shell = Shell(
            *(self._kernel.loop, environment, asked["folder"], asked["limits"], self._list_sessions),
            user=user,
            dialect=dialect,
        )
        self._kernel.agent_stays = True
        request.answer({"shell": dialect.path, "environment": environment})

    @staticmethod
    def _find_user(name: str, environment: dict[str, str]) -> tuple[User, dict[str, str]]:
        """Return a user of the image, and the variables of its programs. Raises ValueError."""
        found = find_user(name)
        return found.user, {**found.describe(), **environment}

    def start_main(self, request: Request) -> None:
        """Start the main process of the image, and answer once it has prepared the machine."""
        asked: StartMain = request.fields  # type: ignore[assignment]
        user, environment = self._find_user(asked["user"], asked["environment"])
        MainProcess(self._kernel.loop, asked, user, environment, request.answer)

    def _list_sessions(self) -> set[int | None]:
        """Return the sessions of the programs that run apart from the shell."""
        return {job.session for job in self._kernel.jobs.values() if isinstance(job, CommandJob)}

    def run(self, request: Request) -> None:
        """Run the body as a command in the shell."""
        asked: Run = request.fields  # type: ignore[assignment]
        if self._shell is None:
            raise ValueError("no shell has been started")
        request.keep(self._shell.run(request.body, asked["limits"], request.finish, typed=asked["typed"]))

    def run_script(self, request: Request) -> None:
        """Run a trusted command as the agent's user, apart from the shell."""
        asked: RunScript = request.fields  # type: ignore[assignment]
        confinement = self._confinement if asked["confined"] else None
        fields, user = request.fields, self._kernel.agent_user()
        if "user" in asked:
            try:
                user, environment = self._find_user(asked["user"], asked["environment"])
            except ValueError as error:
                request.answer({"refused": str(error)})
                return
            fields = {**fields, "environment": environment}
            # A folder that is missing is named in the output.
            user.folder = "/"
        request.keep(
            ScriptJob(self._kernel.loop, fields, user, confinement, request.finish, stdin=request.body)
        )

    def end_all(self, request: Request) -> None:
        """End every process but this one, and answer with the ids of those that still live."""
        processes.end_everyone()
        self._kernel.loop.reap()
        reply: EndAllReply = {"left": [pid for pid, _started in processes.list_processes()][:MAX_LEFT]}
        request.answer(reply)

    def end_shell(self, request: Request) -> None:
        """End the agent's shell, and no process that it has left in the background."""
        if self._shell is not None:
            self._shell.end()
        request.answer({})

    def pause_all(self, request: Request) -> None:
        """Stop every process but this one, until `resume_all`. Their files do not change meanwhile."""
        if self._shell is not None and self._shell.call is not None:
            # The command is being ended, and the shell must run for that.
            self._kernel.loop.after(PAUSE_SECONDS, lambda: self.pause_all(request))
            return
        stopped_before = stop_everyone()
        if self._stopped_before is None:
            self._stopped_before = stopped_before
        request.answer({})

    def resume_all(self, request: Request) -> None:
        """Let the processes go on that `pause_all` has stopped."""
        if self._stopped_before is not None:
            continue_everyone(self._stopped_before)
            self._stopped_before = None
        request.answer({})

    def begin(self, request: Request) -> None:
        """Answer with a time that is later than every earlier change."""
        self._clock.note()
        reply: BeginReply = {"now_ns": contents.next_tick_ns()}
        request.answer(reply)

    def check_clock(self, request: Request) -> None:
        """Answer whether the times of changes can be compared with the times that `begin` returned."""
        reply: ClockReply = {"back_ns": self._clock.back_ns()}
        request.answer(reply)

    def list_changed(self, request: Request) -> None:
        """List the files that were changed since a time, or since the start."""
        asked: List = request.fields  # type: ignore[assignment]
        since = self._started_ns if asked["since_ns"] is None else asked["since_ns"]
        if "after" in asked:
            after = asked["after"]
            self._work(request, lambda: json.dumps(contents.list_page(since, after)).encode())
        else:
            self._work(request, lambda: json.dumps(contents.list_changed(since)).encode())

    def describe(self, request: Request) -> None:
        """List the paths among these that exist."""
        asked: Describe = request.fields  # type: ignore[assignment]
        self._work(request, lambda: json.dumps(contents.describe_each(asked["paths"])).encode())

    def read_ranges(self, request: Request) -> None:
        """Read ranges of files."""
        asked: ReadRanges = request.fields  # type: ignore[assignment]
        self._work(request, lambda: contents.read_ranges(asked["ranges"]))

    def make(self, request: Request) -> None:
        """Create files, fill them with the body, and give them owners, modes and times."""
        asked: Make = request.fields  # type: ignore[assignment]

        def make() -> bytes:
            contents.make(asked["make"])
            contents.fill(asked["fill"], request.body)
            contents.finish(asked["finish"])
            return b""

        self._work(request, make)

    def remove_links(self, request: Request) -> None:
        """Remove links that lead to paths that must not be reached by them."""
        asked: RemoveLinks = request.fields  # type: ignore[assignment]
        paths, kept_out = asked["paths"], asked["kept_out"]
        self._work(request, lambda: json.dumps(contents.remove_links(paths, kept_out)).encode())

    def _work(self, request: Request, work: Callable[[], bytes]) -> None:
        file_work.start(self._kernel.loop, User(0, "/"), work, request.answer, alone=True)


def refuse_imports() -> None:
    """Stop all further imports, because the agent can change every file from now on."""
    sys.path.clear()
    sys.meta_path.clear()


STOPPED_STATES = ("T", "t")
# The kernel holds up such a process, for instance in a vfork. It finds the signal before its next step.
HELD_STATE = "D"
STOP_SECONDS = 5.0


def list_stopped() -> tuple[list[int], list[int]]:
    """Return the ids of the processes but PID 1 that are stopped, and of those that run or may run soon."""
    stopped, running = [], []
    for pid, _started in processes.list_processes():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # Split after the last bracket, because a process may choose any name, brackets included.
                state = file.read(4096).rpartition(b")")[2].split()[0].decode()
        except processes.ENDED_MEANWHILE:
            continue
        if state in STOPPED_STATES:
            stopped.append(pid)
        elif state != HELD_STATE:
            running.append(pid)
    return stopped, running


def stop_everyone() -> list[int]:
    """Stop every process but PID 1, which must be the caller; return those that were stopped before.

    Raises OSError if a process does not stop.
    """
    before, running = list_stopped()
    deadline = time.monotonic() + STOP_SECONDS
    while running:
        if time.monotonic() > deadline:
            raise OSError(f"the processes {running[:20]} do not stop")
        try:
            os.kill(-1, SIGSTOP)
        except ProcessLookupError:
            pass
        time.sleep(0.0005)
        running = list_stopped()[1]
    return before


def continue_everyone(stopped_before: Iterable[int]) -> None:
    """Let all processes go on that `stop_everyone` has stopped, children before shells that watch them."""
    processes.send(sorted(set(list_stopped()[0]).difference(stopped_before), reverse=True), SIGCONT)
