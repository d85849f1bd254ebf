"""Work on files in a child that acts for the agent's user, so that it has no right beyond the agent's."""

from __future__ import annotations

import os

from . import frames, processes
from .cgroup import NO_START, Counters
from .signals import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .loop import Loop
    from .users import User

FILE_SECONDS = 30.0
# Work on very many files takes this much processor time by then. Other work waits, for the disk or a
# processor, which shows nothing about the files.
BUSY_SECONDS = 10.0
SLOW = f"the work on files did not end in {FILE_SECONDS:g} s, because the machine or its disk was too slow"
# No child may make a file larger than this, even if several requests write it in pieces.
MAX_FILE_BYTES = 1 << 30
MAX_REASON_CHARACTERS = 1000
REFUSED_FORK = "no process can be started for it, because the limit on processes is reached"


def start(
    loop: Loop, user: User, work: Callable[[], bytes], answer: Callable[..., None], *, alone: bool
) -> None:
    """Do `work` in a child and call `answer` with the bytes that it returns, or with its refusal.

    With `alone`, no other process of the user lives, so that none can keep the work waiting.
    """
    read_end, write_end = os.pipe()
    counters = Counters()
    try:
        pid = os.fork()
        if pid == 0:
            _work_and_exit(user, write_end, work)
    except OSError:
        os.close(read_end)
        own_limit = counters.refused_forks() > 0 or counters.memory_kills() > 0
        answer({"refused": REFUSED_FORK} if own_limit else {"fault": NO_START})
        return
    finally:
        os.close(write_end)
    FileAnswer(loop, read_end, pid, answer, alone=alone)


def _work_and_exit(user: User, write_end: int, work: Callable[[], bytes]) -> None:
    status = 1
    try:
        limits = {
            "cpu_seconds": int(FILE_SECONDS),
            "file_bytes": MAX_FILE_BYTES,
            "open_files": 64,
        }
        processes.act_for(user.uid, user.folder, limits, [write_end], user.groups)
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
    """Collects the output of a child, which is data or a refusal, and waits for its end."""

    def __init__(
        self,
        loop: Loop,
        read_end: int,
        pid: int,
        answer: Callable[[dict[str, Any], bytes], None],
        *,
        alone: bool,
    ) -> None:
        self._loop = loop
        self._read_end = read_end
        self._answer = answer
        self._data = bytearray()
        self._ended = False
        self._status: int | None = None
        self._fault: str | None = None
        self._alone = alone
        self._is_late = False
        self._pid = pid
        self._timer = loop.after(FILE_SECONDS, self._end_late)
        loop.watch(read_end, self._read)
        loop.on_exit(pid, self._on_exit)

    def _end_late(self) -> None:
        self._is_late = True
        self._end()

    def _end(self) -> None:
        if self._status is None:
            processes.send([self._pid], SIGKILL)

    def _read(self) -> None:
        data = os.read(self._read_end, 1 << 20)
        self._data += data
        if len(self._data) > frames.MAX_BODY_BYTES:
            # No work returns more than fits into an answer.
            self._end()
            data = b""
        if not data:
            self._loop.unwatch(self._read_end)
            os.close(self._read_end)
            self._ended = True
            self._finish_if_over()

    def _on_exit(self, status: int, cpu_seconds: float) -> None:
        self._status = status
        if self._is_late and self._alone and cpu_seconds < BUSY_SECONDS:
            self._fault = SLOW
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        if self._status is None or not self._ended:
            return
        self._timer.cancel()
        if self._fault is not None:
            self._answer({"fault": self._fault}, b"")
        elif self._status == 0:
            self._answer({}, bytes(self._data))
        else:
            reason = bytes(self._data[:MAX_REASON_CHARACTERS]).decode("utf-8", "backslashreplace")
            self._answer({"refused": reason or "the file job was killed"}, b"")
