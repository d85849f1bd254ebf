"""Jobs that run our own code instead of a command, in a fork that starts in a millisecond."""

from __future__ import annotations

import json
import os

from harness.sandbox.guest import files, processes
from harness.sandbox.guest.jobs import CommandJob
from harness.sandbox.guest.processor_time import read_clock
from harness.sandbox.guest.signals import SIGKILL

from . import translator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from harness.sandbox.guest.loop import Loop
    from harness.sandbox.guest.users import User

    from .database import Routine
    from .query_process import QueryProcess

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
