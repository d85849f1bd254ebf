"""The procedure `ask`: put a question to a command that answers line by line until the container ends."""

from __future__ import annotations

import os

from harness.sandbox.guest.jobs import OUTPUT, WALL, CommandJob
from harness.sandbox.guest.output import PASS_ON_SECONDS, READ_BYTES, Output

from .bounds import MAX_QUESTION_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from harness.sandbox.guest.kernel import Kernel, Request
    from harness.sandbox.guest.loop import Loop
    from harness.sandbox.guest.users import User

    from .messages import Ask


def install(kernel: Kernel) -> None:
    """Add the procedure to the kernel."""
    kernel.add_procedure("ask", Services(kernel).ask)


class Services:
    """The running commands, by their arguments."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._running: dict[tuple[str, ...], Service] = {}

    def ask(self, request: Request) -> None:
        """Pass the body to the command. Start the command if it is not running."""
        asked: Ask = request.fields  # type: ignore[assignment]
        key = tuple(asked["argv"])
        seconds = asked["wall_seconds"]
        service = self._running.get(key)
        if service is None or service.ended is not None:
            seconds += asked["start_seconds"]
            service = self._running[key] = Service(
                self._kernel.loop, request.fields, self._kernel.agent_user(), request.is_alone, request.forget
            )
            request.keep(service)
        service.ask(request.body, seconds, request.answer)


MAX_ANSWER_BYTES = 1 << 20


class Service(CommandJob):
    """Runs one trusted command. A question is a line on its stdin, and one question is open at a time.

    `ended` holds the fields of the report on its end, and None while the command runs.
    """

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        user: User,
        alone: Callable[[], bool],
        forget: Callable[[], object],
    ) -> None:
        self._forget = forget
        self._question = -1
        self._unsent = b""
        self._answered: Callable[[dict[str, Any], bytes], None] | None = None
        self.ended: dict[str, Any] | None = None
        super().__init__(loop, request, b"", user, alone, self._over)

    def ask(self, question: bytes, seconds: float, answered: Callable[[dict[str, Any], bytes], None]) -> None:
        """Put a question. `answered` receives the next line, or how the service ended. Raises ValueError."""
        if self._answered is not None or len(question) > MAX_QUESTION_BYTES or b"\n" in question:
            raise ValueError(
                "a question must be one short line, and the previous question must have its answer"
            )
        self._answered = answered
        if self.ended is not None:
            self._answer({"ended": self.ended})
            return
        self.timer.cancel()
        self.timer = self.loop.after(seconds, lambda: self.stop(WALL))
        self._unsent = question + b"\n"
        self._pass_on()

    def _pass_on(self) -> None:
        """Write as much as fits into the pipe. It is small if other containers hold the user's pipe pages."""
        if not self._unsent or self._answered is None:
            return
        try:
            self._unsent = self._unsent[os.write(self._question, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            return  # The service is about to end, and its end will be the answer.
        if self._unsent:
            self.loop.after(PASS_ON_SECONDS, self._pass_on)

    def source(self, stdin: bytes) -> int:
        read_end, self._question = os.pipe()
        os.set_blocking(self._question, False)
        return read_end

    def capture(self, uid: int) -> tuple[int, int]:
        stdout, answers = os.pipe()
        stderr, complaints = os.pipe()
        self.outputs += [
            Answers(self.loop, stdout, self._line),
            Output(self.loop, stderr, self.limits["keep_bytes"], self._on_output),
        ]
        return answers, complaints

    def _line(self, line: bytes | None) -> None:
        if line is None:
            self.stop(OUTPUT)
        elif self._answered is not None:
            self.timer.cancel()
            self._answer({}, line)

    def _answer(self, reply: dict[str, Any], body: bytes = b"") -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(reply, body)

    def _over(self, reply: dict[str, Any], body: bytes) -> None:
        os.close(self._question)
        self._question = -1
        if "fault" in reply:
            self.ended = {"by": "fault", "exit_code": 0, "clean": True, "stderr": reply["fault"]}
            self._forget()
            self._answer(reply)
            return
        self.ended = {
            "by": reply["ended"],
            "exit_code": reply["exit_code"],
            "clean": reply["clean"],
            "stderr": body.decode("utf-8", "backslashreplace"),
        }
        self._forget()
        self._answer({"ended": self.ended})


class Answers(Output):
    """The stdout of a service. Passes on each line, or None if a line is too long."""

    def __init__(self, loop: Loop, descriptor: int, line: Callable[[bytes | None], None]) -> None:
        super().__init__(loop, descriptor, READ_BYTES, lambda: None)
        self._line = line
        self._part = bytearray()

    def _keep(self, data: bytes) -> None:
        self._part += data
        *lines, rest = bytes(self._part).split(b"\n")
        self._part = bytearray(rest)
        for line in lines:
            self._line(line)
        if len(self._part) > MAX_ANSWER_BYTES:
            self._part.clear()
            self._line(None)
