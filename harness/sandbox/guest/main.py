"""PID 1: reads requests from the host, runs jobs, answers. When the host is gone, so is all this."""

from __future__ import annotations

import functools
import gc
import json
import os
import signal
import sys
import time

from . import apart, contents, files, frames, held_files, marks, processes, rehearsal, roles, spawner
from .input_jobs import InputsJob
from .jobs import KILLED, CommandJob, Job, ScriptJob
from .loop import Loop
from .marks import Counters, Marks
from .routine_job import RoutineJob
from .service import Service
from .shell import Call, Shell
from .terminal import TerminalJob
from .testing_job import Spawners, TestJob
from .usage_watch import UsageWatch
from .users import User, Users

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .script_confinement import ScriptConfinement

FILE_SECONDS = 30.0
# The largest file that a machine may hold is made again in pieces.
MAX_FILE_BYTES = 1 << 30
# An engine that crashes between a container's start and its hello may forget it, and never close its stream.
HELLO_SECONDS = 60.0
AGENT = "agent"
ROOT_FOLDER = "/root"
MAX_ERROR_CHARACTERS = 1000
# How many processes that cannot be ended are listed.
MAX_LEFT = 20


class Guest:
    """The verbs of DESIGN section 5, each answered with a frame of the same id."""

    def __init__(
        self, loop: Loop, spawners: Spawners, output: int, *, counts_process_ids: bool = False
    ) -> None:
        self._loop = loop
        self._spawners = spawners
        self._counts_process_ids = counts_process_ids
        self._output = output
        self._decoder = frames.FrameDecoder()
        self._users: Users | None = None
        self._marks: Marks | None = None
        self._agent: User | None = None
        self._shell: Shell | None = None
        self._started_ns = 0
        self._script_confinement: ScriptConfinement | None = None
        self._services: dict[int, Service] = {}
        self._jobs: dict[int, Job | Call | TerminalJob | InputsJob] = {}
        self._verbs: dict[str, Callable[[int, dict[str, Any], bytes], None]] = {
            "hello": self._hello,
            "exec": self._exec,
            "inputs": self._inputs,
            "routine": self._routine,
            "serve": self._serve,
            "ask": self._ask,
            "test": self._test,
            "put": self._put,
            "get": self._get,
            "kill": self._kill,
            "bye": self._bye,
            "script": self._script,
            "shell": self._open_shell,
            "run": self._run,
            "end": self._end,
            "begin": self._begin,
            "list": self._list,
            "describe": self._describe,
            "contents": self._contents,
            "make": self._make,
            "held": lambda number, _header, _body: self._as_agent(number, held_files.report, folder="/"),
            "terminal": self._open_terminal,
            "type": lambda _number, header, body: self._with_terminal(header, lambda it: it.type(body)),
            "resize": lambda _number, header, _body: self._with_terminal(
                header, lambda it: it.resize(header["rows"], header["columns"])
            ),
            "seen": lambda _number, header, _body: self._with_terminal(
                header, lambda it: it.seen(header["bytes"])
            ),
        }
        loop.failed = self._fail
        loop.watch(0, self._read)
        self._unwanted = loop.after(HELLO_SECONDS, lambda: os._exit(4))
        for spawned in spawners:
            loop.watch(spawned.link.fileno(), spawned.read)

    def _read(self) -> None:
        data = os.read(0, 1 << 20)
        if not data:
            os._exit(0)  # the host is gone, and with PID 1 goes every process of the container
        for header, body in self._decoder.feed(data):
            self._loop.serve(header["id"], functools.partial(self._do, header, body))

    def _do(self, header: dict[str, Any], body: bytes) -> None:
        self._verbs[header["verb"]](header["id"], header, body)

    def _fail(self, number: int, error: Exception) -> None:
        """Answer a request with the error that it met, whatever it is, and end the job that it started."""
        job = self._jobs.pop(number, None)
        try:
            if job is not None:
                job.stop(KILLED)
        except Exception:
            pass
        self._answer(number, {"error": f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]})

    def _answer(self, number: int, reply: dict[str, Any], body: bytes = b"") -> None:
        try:
            frame = frames.encode_frame({"id": number, **reply}, body)
        except frames.FrameError as error:
            frame = frames.encode_frame({"id": number, "error": str(error)})
        try:
            view = memoryview(frame)
            while view:
                view = view[os.write(self._output, view) :]
        except OSError:
            os._exit(0)  # the host is gone

    def _hello(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        self._unwanted.cancel()
        self._users = Users(
            header["first_uid"], header["last_uid"], header["work_folder"], header["shared_folders"]
        )
        self._marks = Marks(
            header["work_folder"], header["shared_folders"], process_ids=self._counts_process_ids
        )
        # Both last as long as the container: they belong to no request, and their failure is its end.
        self._loop.serve(None, lambda: self._watch_over(header))
        if header.get("root_agent"):
            self._serve_root()
        self._answer(number, {"python": sys.version.split()[0], "pid": os.getpid()})

    def _watch_over(self, header: dict[str, Any]) -> None:
        self._loop.after(header["deadline_seconds"], lambda: os._exit(3))
        if "watch" in header:
            UsageWatch(self._loop, self._jobs, header["watch"])

    def _serve_root(self) -> None:
        """Let the agent be root, and PID 1 out of its reach. Nothing of the agent's runs yet."""
        from .script_confinement import ScriptConfinement

        self._script_confinement = ScriptConfinement()
        # Root may send any signal. The kernel spares PID 1 those that it has no handler for, and the engine
        # stops this container by SIGKILL.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for spawned in self._spawners:
            self._loop.unwatch(spawned.link.fileno())
            spawned.link.close()
        processes.end_everyone()
        apart.leave_root()
        refuse_imports()
        self._agent = User(0, ROOT_FOLDER)
        self._started_ns = contents.next_tick_ns()

    def _script(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        confinement = self._script_confinement if header["confined"] else None
        finished = self._finisher(number)
        self._jobs[number] = ScriptJob(self._loop, header, self._agent_user(), confinement, finished)

    def _open_shell(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        if self._shell is not None or self._agent_user().uid != 0:
            raise ValueError("a shell needs an agent that is root, and there is one shell only")
        self._shell = Shell(self._loop, header["environment"], header["folder"], header["limits"])
        self._answer(number, {})

    def _run(self, number: int, header: dict[str, Any], body: bytes) -> None:
        if self._shell is None:
            raise ValueError("there is no shell")
        self._jobs[number] = self._shell.run(
            body, header["limits"], self._finisher(number), typed=header["typed"]
        )

    def _open_terminal(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        def send(data: bytes) -> None:
            self._answer(number, {"more": True}, data)

        finished = self._finisher(number)
        self._jobs[number] = TerminalJob(self._loop, header, self._agent_user(), send, finished)

    def _with_terminal(self, header: dict[str, Any], do: Callable[[TerminalJob], None]) -> None:
        """What concerns a terminal has no answer; one that has just ended needs nothing any more."""
        job = self._jobs.get(header["job"])
        if isinstance(job, TerminalJob):
            do(job)

    def _end(self, number: int, _header: dict[str, Any], _body: bytes) -> None:
        """End every process but this one, and tell which are left: none, or something is wrong."""
        processes.end_everyone()
        self._loop.reap()
        self._answer(number, {"left": [pid for pid, _started in processes.everyone()][:MAX_LEFT]})

    def _begin(self, number: int, _header: dict[str, Any], _body: bytes) -> None:
        """Answer with a time that every earlier change is before."""
        self._answer(number, {"now_ns": contents.next_tick_ns()})

    def _list(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        since = self._started_ns if header["since_ns"] is None else header["since_ns"]
        self._as_agent(number, lambda: json.dumps(contents.list_changed(since)).encode(), folder="/")

    def _describe(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        self._as_agent(
            number, lambda: json.dumps(contents.describe_each(header["paths"])).encode(), folder="/"
        )

    def _contents(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        self._as_agent(number, lambda: contents.read_ranges(header["ranges"]), folder="/")

    def _make(self, number: int, header: dict[str, Any], body: bytes) -> None:
        def make() -> bytes:
            contents.make(header["make"])
            contents.fill(header["fill"], body)
            contents.finish(header["finish"])
            return b""

        self._as_agent(number, make, folder="/")

    def _bye(self, _number: int, _header: dict[str, Any], _body: bytes) -> None:
        os._exit(0)

    def _kill(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        job = self._jobs.get(header["job"])
        if job is not None:
            job.stop(KILLED)
        self._answer(number, {"killed": job is not None})

    def _exec(self, number: int, header: dict[str, Any], body: bytes) -> None:
        finished = self._finisher(number)
        self._jobs[number] = CommandJob(
            self._loop,
            header,
            body,
            self._agent_user(),
            lambda: self._alone(number),
            finished,
        )

    def _routine(self, number: int, header: dict[str, Any], body: bytes) -> None:
        agent = self._agent_user()
        finished = self._finisher(number)
        if RoutineJob.is_of_agent(header["routine"]):
            user, alone = agent, lambda: self._alone(number)
        else:
            user, alone = self._known_users().open(), lambda: True
            finished = self._closing(user, finished)
        self._jobs[number] = RoutineJob(self._loop, header, body, user, agent, alone, finished)

    def _closing(
        self, user: User, finished: Callable[[dict[str, Any], bytes], None]
    ) -> Callable[[dict[str, Any], bytes], None]:
        def closed(reply: dict[str, Any], body: bytes) -> None:
            reply["clean"] = self._known_users().close(user) and reply["clean"]
            finished(reply, body)

        return closed

    def _serve(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        service = Service(
            self._loop,
            header,
            self._agent_user(),
            lambda: self._alone(number),
            lambda: self._jobs.pop(number, None),
        )
        self._jobs[number] = self._services[number] = service
        self._answer(number, {"service": number})

    def _ask(self, number: int, header: dict[str, Any], body: bytes) -> None:
        self._services[header["service"]].ask(
            body, header["wall_seconds"], lambda reply, line: self._answer(number, reply, line)
        )

    def _test(self, number: int, header: dict[str, Any], body: bytes) -> None:
        finished = self._marking(self._finisher(number))
        self._jobs[number] = TestJob(self._loop, header, body, self._known_users(), self._spawners, finished)

    def _inputs(self, number: int, header: dict[str, Any], body: bytes) -> None:
        runs = len(header["input_bytes"])
        # A program that really reads stdin lies in a file of its own.
        finished = self._marking(self._finisher(number), runs=runs, with_files=header["stdin"] == "real")
        users, candidates = self._known_users(), self._spawners.candidates
        self._jobs[number] = InputsJob(self._loop, header, body, users, candidates, finished)

    def _marking(
        self,
        finished: Callable[[dict[str, Any], bytes], None],
        *,
        runs: int = 0,
        with_files: bool = False,
    ) -> Callable[[dict[str, Any], bytes], None]:
        """Add to the answer of a job that begins now whether its program has left a mark.

        Fewer than `runs` runs are a mark too: where a program ends itself decides how many there were.
        """
        before = self._counters()

        def marked(reply: dict[str, Any], body: bytes) -> None:
            fewer = runs > 0 and len(reply["runs"]) < runs
            files = runs if with_files else 0
            reply["marked"] = (
                fewer or self._marks is None or self._marks.differ(before, self._counters(), files=files)
            )
            finished(reply, body)

        return marked

    def _counters(self) -> Counters | None:
        if self._marks is None:
            return None
        spawned = sum(each.spawned for each in self._spawners)
        return self._marks.counters(spawned=spawned, users=self._known_users().opened)

    def _finisher(self, number: int) -> Callable[[dict[str, Any], bytes], None]:
        def finished(reply: dict[str, Any], body: bytes) -> None:
            # One that has failed is forgotten, and answered.
            if self._jobs.pop(number, None) is not None:
                self._answer(number, reply, body)

        return finished

    def _alone(self, number: int) -> bool:
        """Whether no other command runs as the agent, so that all of its processes may be ended."""
        if self._shell is not None:
            return False
        return not any(
            isinstance(job, (CommandJob, TerminalJob)) for other, job in self._jobs.items() if other != number
        )

    def _known_users(self) -> Users:
        if self._users is None:
            raise ValueError("hello comes first")
        return self._users

    def _agent_user(self) -> User:
        if self._agent is None:
            self._agent = self._known_users().open(AGENT)
        return self._agent

    def _put(self, number: int, header: dict[str, Any], body: bytes) -> None:
        def write() -> bytes:
            files.write(header["path"], body, header["mode"])
            return b""

        self._as_agent(number, write)

    def _get(self, number: int, header: dict[str, Any], _body: bytes) -> None:
        limit = min(header["limit"], frames.MAX_BODY_BYTES)
        self._as_agent(number, lambda: files.read(header["path"], limit))

    def _as_agent(self, number: int, work: Callable[[], bytes], *, folder: str | None = None) -> None:
        """Do `work` in a child that acts for the agent's user, and answer with the bytes that it returns."""
        user = self._agent_user()
        if folder is not None:
            user = User(user.uid, folder)
        read_end, write_end = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                _work_and_exit(user, write_end, work)
        except OSError:
            os.close(read_end)
            self._answer(
                number, {"refused": "no process is left to do it: the limit on processes is reached"}
            )
            return
        finally:
            os.close(write_end)
        FileAnswer(self._loop, read_end, pid, lambda reply, body: self._answer(number, reply, body))


def refuse_imports() -> None:
    """Import nothing any more: what lies in files is the agent's from now on."""
    sys.path.clear()
    sys.meta_path.clear()


def _work_and_exit(user: User, write_end: int, work: Callable[[], bytes]) -> None:
    status = 1
    try:
        limits = {
            "cpu_seconds": int(FILE_SECONDS),
            "file_bytes": MAX_FILE_BYTES,
            "open_files": 64,
        }
        processes.act_for(user.uid, user.folder, limits, [write_end])
        try:
            data = work()
            status = 0
        except Exception as error:
            data = (str(error) or type(error).__name__).encode("utf-8", "backslashreplace")
        view = memoryview(data)
        while view:
            view = view[os.write(write_end, view) :]
    finally:
        os._exit(status)


class FileAnswer:
    """Collects what a file child says: its data or a refusal, and its end."""

    def __init__(
        self, loop: Loop, read_end: int, pid: int, answer: Callable[[dict[str, Any], bytes], None]
    ) -> None:
        self._loop = loop
        self._read_end = read_end
        self._answer = answer
        self._data = bytearray()
        self._ended = False
        self._status: int | None = None
        self._pid = pid
        self._timer = loop.after(FILE_SECONDS, self._end)
        loop.watch(read_end, self._read)
        loop.on_exit(pid, self._exited)

    def _end(self) -> None:
        if self._status is None:
            processes.send([self._pid], signal.SIGKILL)

    def _read(self) -> None:
        data = os.read(self._read_end, 1 << 20)
        self._data += data
        if len(self._data) > frames.MAX_BODY_BYTES:
            # More than fits into an answer, and than any work of ours says.
            self._end()
            data = b""
        if not data:
            self._loop.unwatch(self._read_end)
            os.close(self._read_end)
            self._ended = True
            self._finish_if_over()

    def _exited(self, status: int, _cpu_seconds: float) -> None:
        self._status = status
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        if self._status is None or not self._ended:
            return
        self._timer.cancel()
        if self._status == 0:
            self._answer({}, bytes(self._data))
        else:
            reason = bytes(self._data[:MAX_ERROR_CHARACTERS]).decode("utf-8", "backslashreplace")
            self._answer({"refused": reason or "the file job was killed"}, b"")


def main() -> None:
    """Take the stream for ourselves, fork the spawners while nothing is known yet, and serve."""
    started = time.monotonic()
    sys.path[:] = [path for path in sys.path if not path.startswith("/opt/harness")]
    output = os.dup(1)
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    processes.default_signals()
    rehearsal.rehearse()
    loop = Loop()
    last = marks.last_process_id()
    spawners = Spawners(candidates=spawner.start(roles.CANDIDATE), tests=spawner.start(roles.TESTS))
    counts_process_ids = marks.counts_process_ids(last, forks=len(spawners))
    guest = Guest(loop, spawners, output, counts_process_ids=counts_process_ids)
    # An engine that stops asks for the end this way first, and waits. No job may send it.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: os._exit(0))
    # A collection would write to every object, and so copy every page that a fork shares.
    gc.freeze()
    guest._answer(0, {"ready": True, "startup_seconds": time.monotonic() - started})
    loop.run()
