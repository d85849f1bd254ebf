"""The kernel of the guest: it reads requests, starts jobs and answers. Environments add procedures."""

from __future__ import annotations

import os
import sys

from . import file_work, files, frames
from .jobs import KILLED, CommandJob
from .usage_watch import UsageWatch
from .users import User, Users

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from .loop import Loop
    from .messages import (
        Call,
        Exec,
        Get,
        Hello,
        HelloReply,
        Kill,
        KillReply,
        Put,
        Resize,
        Seen,
        TerminalPiece,
    )
    from .relay import RelayJob
    from .sent_output import SentOutput
    from .terminal import TerminalJob

    class Stoppable(Protocol):
        """A job, which runs for a request until it ends or is stopped."""

        def stop(self, reason: str) -> None: ...

    Procedure = Callable[["Request"], None]

# The limit on the wait for the first request. An engine that crashes right after it has started a container
# may lose it and never close its stream.
HELLO_SECONDS = 60.0
AGENT = "agent"
MAX_ERROR_CHARACTERS = 1000


class Request:
    """One request of the host, with the methods that answer it."""

    __slots__ = ("_kernel", "body", "fields", "number")

    def __init__(self, kernel: Kernel, number: int, fields: dict[str, Any], body: bytes) -> None:
        self._kernel = kernel
        self.number = number
        self.fields = fields
        self.body = body

    def answer(self, reply: Any, body: bytes = b"") -> None:
        """Send an answer to this request."""
        self._kernel.answer(self.number, reply, body)

    def keep(self, job: Stoppable) -> None:
        """Register the job that runs for this request, so that the host can end it."""
        self._kernel.jobs[self.number] = job

    def forget(self) -> bool:
        """Remove the job of this request from the register and return whether it was there."""
        return self._kernel.jobs.pop(self.number, None) is not None

    def finish(self, reply: Any, body: bytes) -> None:
        """Answer for a job that is over, unless its failure has already been answered."""
        if self.forget():
            self.answer(reply, body)

    def is_alone(self) -> bool:
        """Return whether no other command runs as the agent, so that all of its processes may be ended."""
        return not self._kernel.agent_stays and not any(
            isinstance(job, CommandJob) or number in self._kernel.terminals
            for number, job in self._kernel.jobs.items()
            if number != self.number
        )


class Kernel:
    """Answers each request with a frame of the same id.

    A request names a verb of the kernel. The verb `call` names a procedure, which an environment has added.
    """

    def __init__(self, loop: Loop, output: int) -> None:
        self.loop = loop
        self.jobs: dict[int, Stoppable] = {}
        # Those of the jobs that run on a terminal.
        self.terminals: dict[int, TerminalJob] = {}
        self.relays: dict[int, RelayJob] = {}
        # The outputs of the commands whose output is sent as it comes.
        self.sent_outputs: dict[int, SentOutput] = {}
        # The agent's user, which is made when it is first needed.
        self.agent: User | None = None
        # Whether processes of the agent outlive the jobs that started them.
        self.agent_stays = False
        self._output = output
        self._decoder = frames.FrameDecoder()
        self._users: Users | None = None
        self._greeters: list[Callable[[Hello], None]] = []
        self._procedures: dict[str, Procedure] = {}
        self._verbs: dict[str, Procedure] = {
            "hello": self._hello,
            "call": self._call,
            "exec": self._exec,
            "put": self._put,
            "get": self._get,
            "held": self._report_held_files,
            "kill": self._kill,
            "bye": lambda _request: os._exit(0),
            "terminal": self._open_terminal,
            "type": lambda request: self._with_terminal(request, lambda it: it.type(request.body)),
            "resize": self._resize,
            "seen": self._see,
            "relay": self._open_relay,
            "relayed": self._pass_to_relay,
        }
        loop.on_failure = self._fail
        loop.watch(0, self._read)
        self._unwanted = loop.after(HELLO_SECONDS, lambda: os._exit(frames.UNWANTED_CODE))

    def add_procedure(self, name: str, procedure: Procedure) -> None:
        """Make a procedure callable by the host."""
        self._procedures[name] = procedure

    def on_hello(self, greet: Callable[[Hello], None]) -> None:
        """Call `greet` with the fields of the hello, once there are users and before any job runs."""
        self._greeters.append(greet)

    def users(self) -> Users:
        """Return the users of jobs. Raises ValueError before the hello."""
        if self._users is None:
            raise ValueError("hello comes first")
        return self._users

    def agent_user(self) -> User:
        """Return the agent's user. Raises ValueError before the hello."""
        if self.agent is None:
            self.agent = self.users().open(AGENT)
        return self.agent

    def work_as_agent(
        self,
        request: Request,
        work: Callable[[], bytes],
        *,
        folder: str | None = None,
        alone: bool = False,
    ) -> None:
        """Do `work` in a child that acts for the agent's user, and answer with the bytes of `work`.

        With `alone`, no other process of that user lives.
        """
        user = self.agent_user()
        if folder is not None:
            user = User(user.uid, folder, user.groups)
        file_work.start(self.loop, user, work, request.answer, alone=alone)

    def answer(self, number: int, reply: dict[str, Any], body: bytes = b"") -> None:
        """Send a frame about request `number`, or an error if the answer is too large for a frame."""
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

    def _read(self) -> None:
        data = os.read(0, 1 << 20)
        if not data:
            os._exit(0)  # the host is gone, and the end of PID 1 ends every process of the container
        for header, body in self._decoder.feed(data):
            self._serve(Request(self, header["id"], header, body))

    def _serve(self, request: Request) -> None:
        self.loop.serve(request.number, lambda: self._verbs[request.fields["verb"]](request))

    def _fail(self, number: int, error: Exception) -> None:
        """Answer a request with the error that it raised, and end the job that it started."""
        job = self.jobs.pop(number, None)
        try:
            if job is not None:
                job.stop(KILLED)
        except Exception:
            pass
        self.answer(number, {"error": f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]})

    def _call(self, request: Request) -> None:
        asked: Call = request.fields  # type: ignore[assignment]
        name = asked["procedure"]
        if name not in self._procedures:
            raise ValueError(f"this image has no procedure '{name}', only: {', '.join(self._procedures)}")
        fields: dict[str, Any] = asked["request"]  # type: ignore[assignment]
        self._procedures[name](Request(self, request.number, fields, request.body))

    def _hello(self, request: Request) -> None:
        hello: Hello = request.fields  # type: ignore[assignment]
        self._unwanted.cancel()
        self._users = Users(
            hello["first_uid"], hello["last_uid"], hello["work_folder"], hello["shared_folders"]
        )
        # The deadline and the watch belong to no request, because they last as long as the container. Their
        # failure ends it.
        self.loop.serve(None, lambda: self._watch_over(hello))
        for greet in self._greeters:
            greet(hello)
        if hello["root_agent"] and (self.agent is None or self.agent.uid != 0):
            raise ValueError("this image has no agent that is root")
        reply: HelloReply = {"python": sys.version.split()[0], "pid": os.getpid()}
        request.answer(reply)

    def _watch_over(self, hello: Hello) -> None:
        self.loop.after(hello["deadline_seconds"], lambda: os._exit(frames.DEADLINE_CODE))
        if "watch" in hello:
            UsageWatch(self.loop, self.jobs, hello["watch"])
        if "most_sockets" in hello:
            from .socket_watch import SocketWatch

            SocketWatch(self.loop, hello["most_sockets"])

    def _exec(self, request: Request) -> None:
        asked: Exec = request.fields  # type: ignore[assignment]

        def finish(reply: Any, body: bytes) -> None:
            self.sent_outputs.pop(request.number, None)
            request.finish(reply, body)

        job = CommandJob(self.loop, request.fields, request.body, self.agent_user(), request.is_alone, finish)
        request.keep(job)
        if "window_bytes" in asked:
            from .sent_output import SentOutput

            self.sent_outputs[request.number] = SentOutput(job.outputs, asked["window_bytes"], request.answer)

    def _put(self, request: Request) -> None:
        asked: Put = request.fields  # type: ignore[assignment]

        def write() -> bytes:
            files.write(asked["path"], request.body, asked["mode"])
            return b""

        self.work_as_agent(request, write)

    def _get(self, request: Request) -> None:
        asked: Get = request.fields  # type: ignore[assignment]
        limit = min(asked["limit"], frames.MAX_BODY_BYTES)
        self.work_as_agent(request, lambda: files.read(asked["path"], limit))

    def _kill(self, request: Request) -> None:
        asked: Kill = request.fields  # type: ignore[assignment]
        job = self.jobs.get(asked["job"])
        if job is not None:
            job.stop(KILLED)
        reply: KillReply = {"killed": job is not None}
        request.answer(reply)

    def _report_held_files(self, request: Request) -> None:
        from . import held_files

        self.work_as_agent(request, held_files.report, folder="/")

    def _open_terminal(self, request: Request) -> None:
        from .terminal import TerminalJob

        def send(data: bytes) -> None:
            piece: TerminalPiece = {"more": True}
            request.answer(piece, data)

        def finish(reply: dict[str, Any], body: bytes) -> None:
            del self.terminals[request.number]
            request.finish(reply, body)

        job = TerminalJob(self.loop, request.fields, self.agent_user(), send, finish)
        self.terminals[request.number] = job
        request.keep(job)

    def _resize(self, request: Request) -> None:
        asked: Resize = request.fields  # type: ignore[assignment]
        self._with_terminal(request, lambda it: it.resize(asked["rows"], asked["columns"]))

    def _see(self, request: Request) -> None:
        asked: Seen = request.fields  # type: ignore[assignment]
        output = self.sent_outputs.get(asked["job"])
        if output is not None:
            output.acknowledge(asked["bytes"])
        self._with_terminal(request, lambda it: it.acknowledge(asked["bytes"]))

    def _with_terminal(self, request: Request, do: Callable[[TerminalJob], None]) -> None:
        """Call `do` with the terminal of a request, unless it has just ended. Nothing is answered."""
        number = request.fields["job"]
        if number in self.jobs and number in self.terminals:
            do(self.terminals[number])

    def _open_relay(self, request: Request) -> None:
        from .relay import RelayJob

        def finish(reply: Any) -> None:
            del self.relays[request.number]
            request.finish(reply, b"")

        self.relays[request.number] = relay = RelayJob(self.loop, request.fields, request.answer, finish)
        request.keep(relay)

    def _pass_to_relay(self, request: Request) -> None:
        """Pass an event of a connection on to its relay, unless it has just ended. Nothing is answered."""
        number = request.fields["job"]
        relay = self.relays.get(number)
        if relay is not None:
            # The relay's work then belongs to its request, and so does a failure.
            self.loop.serve(number, lambda: relay.receive(request.fields, request.body))
