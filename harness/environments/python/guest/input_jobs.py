"""Jobs that run a program on one input after another, each time from a fresh start."""

from __future__ import annotations

import os
import time

from harness.sandbox.guest import processes
from harness.sandbox.guest.jobs import (
    AGAIN_SECONDS,
    BUSY,
    EXITED,
    MACHINE,
    NOT_STARTED,
    OUTPUT,
    WALL,
    PatientJob,
    exit_code,
    make_data_file,
)
from harness.sandbox.guest.processor_time import Account

from .spawner import Child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from harness.sandbox.guest.loop import Loop
    from harness.sandbox.guest.users import Users

    from .spawner import Spawner

# A reply stops at this many bytes of outputs, and the next request returns the rest of the runs. Even with a
# last output of 32 MiB, the reply fits into a frame.
REPLY_BYTES = 16 << 20
# Processes that a program leaves behind may write for this long, without the time that they wait for a
# processor.
LEFT_SECONDS = 2.0


class InputJob(PatientJob):
    """One run of a program on one input, under its own user.

    As whoever reads a pipe to its end, the run waits for the output of processes that the program has left
    behind, but not for long. It is over when no process of that user and no file of it but its output is
    left.
    """

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        program: int,
        data: memoryview,
        users: Users,
        candidates: Spawner,
        finished: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        self._users = users
        self._user = user = users.open()
        super().__init__(loop, request, finished)
        self._ended = False
        # The wait status and the CPU time of the first process, once it has ended.
        self._first: tuple[int, float] | None = None
        stdout, stderr = self.capture(user.uid)
        source = make_data_file(data)
        settings = {
            "limits": {name: self.limits[name] for name in ("file_bytes", "open_files")},
            "environment": {**request["environment"], "HOME": "", "TMPDIR": "/tmp"},
            "preamble_bytes": request["preamble_bytes"],
            "stdin": request["stdin"],
        }
        child = Child(user.uid, user.folder, processes.compute_backstop(self.limits["cpu_seconds"]))
        self.start_patience(candidates.pid)
        self.limit_processor_time(Account(loop, self.list_living))
        try:
            candidates.spawn(child, settings, [program, source, stdout, stderr], self._finish)
        finally:
            for descriptor in (source, stdout, stderr):
                os.close(descriptor)

    def list_living(self) -> list[int]:
        return processes.list_processes_of(frozenset((self._user.uid,)))

    def stop(self, reason: str) -> None:
        if reason == WALL and self._first is not None:
            # The program has ended in time, and only what it left behind has not.
            self._conclude()
        elif self.stop_reason is None and not self._ended:
            self.stop_reason = reason
            self._end_processes()

    def _on_output(self) -> None:
        if self.outputs[0].total > self.limits["stdout_bytes"]:
            self.stop(OUTPUT)
        super()._on_output()
        if self._first is not None and not self.outputs[0].is_open:
            self._conclude()

    def _end_processes(self) -> None:
        if not self._ended:
            processes.end_processes(frozenset((self._user.uid,)))
            # The signal misses a process that has not become its user yet, so it is sent until the process
            # has ended.
            self.loop.after(AGAIN_SECONDS, self._end_processes)

    def _finish(self, status: int, cpu_seconds: float) -> None:
        self._first = status, cpu_seconds
        self._ended_at = time.monotonic()
        self._waited_before: float | None = None
        self._look_at_children()

    def _look_at_children(self) -> None:
        """Conclude once nobody can write any more, or the processes that are left have had their time."""
        living = self.list_living() if self._could_still_pass() else []
        if not living:
            self._conclude()
            return
        waited = self._waiting.seconds(living, self.account.seconds())
        if self._waited_before is None:
            self._waited_before = waited
        own = time.monotonic() - self._ended_at - max(0.0, waited - self._waited_before)
        if own >= LEFT_SECONDS:
            self._conclude()
        else:
            self.loop.after(AGAIN_SECONDS, self._look_at_children)

    def _could_still_pass(self) -> bool:
        return self.stop_reason is None and (self._first or (1,))[0] == 0 and self.outputs[0].is_open

    def _conclude(self) -> None:
        if self._ended:
            return
        self._ended = True
        status, cpu_seconds = self._first or (NOT_STARTED, 0.0)
        cpu_seconds = self.account.seconds(cpu_seconds)
        reply = {
            "ended": self._reason(status, cpu_seconds),
            "exit_code": exit_code(status),
            "cpu_seconds": cpu_seconds,
        }
        # The children must end before the output is read, so that none of them adds to it.
        reply["clean"] = self._users.close(self._user)
        self._report(reply)


class InputsJob:
    """Runs a program on its inputs, in order, up to the first run that fails.

    The inputs stay in PID 1's memory. Each run sees only its own input and can pass nothing to the next run.
    """

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        body: bytes,
        users: Users,
        candidates: Spawner,
        finished: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        self._loop = loop
        self._request = request
        self._users = users
        self._candidates = candidates
        self._finished = finished
        self._started = time.monotonic()
        self._stopped_by: str | None = None
        self._runs: list[dict[str, Any]] = []
        self._outputs: list[bytes] = []
        view = memoryview(body)
        self._program = make_data_file(view[: request["program_bytes"]])
        self._inputs = view[request["program_bytes"] :]
        # Each run has its own limits, and reaches them sooner on a machine that is not too busy.
        self._timer = loop.after(request["wall_seconds"], lambda: self._blame_machine())
        self._current: InputJob | None = None
        self._next()

    def stop(self, reason: str) -> None:
        """End the current run for this reason, and begin no other."""
        self._stopped_by = self._stopped_by or reason
        if self._current is not None:
            self._current.stop(reason)

    def _blame_machine(self) -> None:
        self._stopped_by = self._stopped_by or MACHINE
        if self._current is not None:
            self._current.blame_machine(BUSY)

    def _next(self) -> None:
        place = len(self._runs)
        size = self._request["input_bytes"][place]
        limits = {**self._request["limits"], "stdout_bytes": self._request["stdout_bytes"]}
        request = {**self._request, "limits": limits}
        data, self._inputs = self._inputs[:size], self._inputs[size:]
        self._current = InputJob(
            self._loop, request, self._program, data, self._users, self._candidates, self._finish_run
        )

    def _finish_run(self, run: dict[str, Any], output: bytes) -> None:
        if "fault" in run:
            self._timer.cancel()
            os.close(self._program)
            self._finished(run, b"")
            return
        self._runs.append(run)
        self._outputs.append(output)
        well = run["ended"] == EXITED and run["exit_code"] == 0 and run["clean"]
        more = well and self._stopped_by is None and len(self._runs) < len(self._request["input_bytes"])
        full = sum(map(len, self._outputs)) > REPLY_BYTES
        if more and not full:
            self._next()
            return
        self._timer.cancel()
        os.close(self._program)
        clean = all(run["clean"] for run in self._runs)
        duration = time.monotonic() - self._started
        reply = {"runs": self._runs, "clean": clean, "full": more and full, "duration_seconds": duration}
        self._finished(reply, b"".join(self._outputs))
