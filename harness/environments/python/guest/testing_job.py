"""Jobs that run a program under trusted tests in two processes. Judging follows the program's death."""

from __future__ import annotations

import marshal
import os
import time

from harness.sandbox.guest import json_text, links, processes
from harness.sandbox.guest.durations import MOST_PATIENCE, find_longest
from harness.sandbox.guest.jobs import (
    AGAIN_SECONDS,
    BUSY,
    LEAST_WAIT_SECONDS,
    MACHINE,
    NOT_STARTED,
    SIGNALLED,
    WALL,
    PatientJob,
    exit_code,
    make_data_file,
)
from harness.sandbox.guest.processor_time import Account, sum_seconds
from harness.sandbox.guest.signals import SIGKILL
from harness.sandbox.guest.waiting import Waiting

from .roles import HUNG_UP
from .spawner import Child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from harness.sandbox.guest.loop import Loop
    from harness.sandbox.guest.users import Users

    from .spawner import Spawner

MAX_RESULT_BYTES = 1 << 20
TESTS_NEED = ("preamble", "program", "setup", "statements", "exports", "classes")
# A dying process closes its channel some time before it can be waited for.
END_SECONDS = 0.2


class Spawners:
    """The spawners of the two roles that a program under test needs."""

    def __init__(self, candidates: Spawner, tests: Spawner) -> None:
        self.candidates = candidates
        self.tests = tests

    def __iter__(self) -> Iterator[Spawner]:
        return iter((self.candidates, self.tests))


class TestJob(PatientJob):
    """Runs trusted tests in one process against a candidate in another, and reports their verdict.

    Each has its own spawner and its own user. The tests' own set-up runs before the candidate loads its
    program. Then the tests drive the candidate, until they have made their last call or the candidate is
    lost. When no process of the candidate is left, PID 1 signals them to judge.
    The job is over when the tests have ended.
    """

    __test__ = False  # pytest must not collect this class.
    # The set-up and the judging have a wall limit too, and the host waits for all three.
    patience = MOST_PATIENCE - 1

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        body: bytes,
        users: Users,
        spawners: Spawners,
        finished: Callable[[dict[str, Any], bytes], None],
    ) -> None:
        user = users.open()
        super().__init__(loop, request, finished)
        self._users = users
        self._user = user
        self._tests_uid = users.identify()
        self._result = bytearray()
        self._result_ended = False
        self._tests_ended = False
        self._could_start = True
        self._is_ready = False
        self._driven: dict[str, Any] | None = None
        self._candidate: tuple[int, float] | None = None
        self._clean = False
        self._cpu_seconds = 0.0
        self._judging = False
        self._concluded = False
        self._outlived = False
        # The calls of a function have their own limits.
        self._is_bounded_as_whole = "calls" not in request
        self._starter = spawners.candidates.pid
        stdout, stderr = self.capture(user.uid)
        ours, theirs = links.stream_pair()
        source = make_data_file(_for_the_tests(request, body, user.uid))
        self._result_read, result_write = os.pipe()
        word_read, self._word_write = os.pipe()
        try:
            limits = {name: self.limits[name] for name in ("file_bytes", "open_files")}
            candidate = Child(user.uid, user.folder, processes.compute_backstop(self.limits["cpu_seconds"]))
            if "calls" not in request:
                self.timer.cancel()
                self._bound_tests(self.patience)
            else:
                # Each call has its own limits, and reaches them sooner on a machine that is not too busy.
                self.timer.cancel()
                self.timer = loop.after(self.limits["wall_seconds"], lambda: self.blame_machine(BUSY))
            self.limit_processor_time(Account(loop, self.list_living, trusted_uid=self._tests_uid))
            environment = {**request["environment"], "HOME": "", "TMPDIR": "/tmp"}
            spawners.candidates.spawn(
                candidate,
                {"limits": limits, "environment": environment, "calls": "calls" in request},
                [theirs.fileno(), stdout, stderr],
                self._finish_candidate,
            )
            # The tests wait for the candidate most of the time, so the wall limits bound them.
            tests = Child(self._tests_uid, "/", 3 * int(self.limits["wall_seconds"]) + 1)
            spawners.tests.spawn(
                tests,
                {"limits": limits, "calls": "calls" in request},
                [ours.fileno(), source, result_write, word_read],
                self._finish_tests,
            )
        finally:
            ours.close()
            theirs.close()
            for descriptor in (source, stdout, stderr, result_write, word_read):
                os.close(descriptor)
        os.set_blocking(self._result_read, False)
        loop.watch(self._result_read, self._read_result)

    def list_living(self) -> list[int]:
        return processes.list_processes_of(frozenset((self._user.uid,)))

    def stop(self, reason: str) -> None:
        if self.stop_reason is None:
            self.stop_reason = reason
            self._end_processes()

    def _end_processes(self) -> None:
        if not self._tests_ended or self._candidate is None:
            processes.end_processes(frozenset((self._user.uid, self._tests_uid)))
            # The signal misses a process that has not become its user yet, so it is sent until both have
            # ended.
            self.loop.after(AGAIN_SECONDS, self._end_processes)

    def _read_result(self) -> None:
        try:
            data = os.read(self._result_read, 1 << 16)
        except BlockingIOError:
            return
        self._result += data
        if not data or len(self._result) > MAX_RESULT_BYTES:
            self._close_result()
        self._go_on()

    def _close_result(self) -> None:
        if not self._result_ended:
            self._result_ended = True
            self.loop.unwatch(self._result_read)
            os.close(self._result_read)

    def _finish_tests(self, status: int, cpu_seconds: float) -> None:
        self._tests_ended = True
        if status == NOT_STARTED:
            self._could_start = False
            self._reason(status, 0.0)  # finds the fault
        if not self._judging:
            # Until the candidate is dead, the CPU time of the tests' process must not count as the
            # candidate's.
            self.account.record_trusted_end(cpu_seconds)
        self._go_on()

    def _finish_candidate(self, status: int, cpu_seconds: float) -> None:
        self._candidate = (status, cpu_seconds)
        # A child that the candidate left may hold the channel and must not continue to answer.
        processes.kill_all_of(self._user.uid)
        self._go_on()

    def _go_on(self) -> None:
        """Take the next step that is ready: begin the driving, end it, start the judging, or conclude."""
        if not self._is_ready and self._line(0) is not None:
            self._is_ready = True
            if self._is_bounded_as_whole:
                self.start_patience(self._starter)
                self.forget_waiting()
        if self._driven is None:
            self._driven = self._line(1)
            if self._driven is None and not (self._tests_ended and self._result_ended):
                return
            if self._driven is not None:
                self.account.record_trusted_process(self._driven["pid"])
            self._end_driving()
        if self._candidate is None:
            return
        if not self._judging:
            self._judging = True
            self._begin_judging(self._candidate[1])
        # If the whole report is there, the tests' process may still be ending while the host reads the
        # report.
        report = self._line(2)
        if not self._concluded and (report is not None or (self._tests_ended and self._result_ended)):
            self._concluded = True
            self._close_result()
            self._conclude(self._candidate[0], report)

    def _end_driving(self) -> None:
        """End the candidate, which the tests no longer need. Its spawner reports its end."""
        if self._candidate is not None:
            return
        if self._driven is not None and self._driven["lost"] is None:
            processes.kill_all_of(self._user.uid)
        elif self._driven is not None and self._driven["breach"] is not None:
            self._end_candidate()
        else:
            self.loop.after(END_SECONDS, self._end_candidate)

    def _begin_judging(self, first_seconds: float) -> None:
        """Let the tests judge, under their own wall limit, when no process of the candidate is left."""
        self._clean = self._users.close(self._user)
        self._cpu_seconds = self.account.seconds(first_seconds)
        self._processor_timer.cancel()
        dead = self._clean or not processes.list_processes_of(frozenset((self._user.uid,)))
        self.timer.cancel()
        self._bound_tests(MOST_PATIENCE)
        try:
            if dead:
                os.write(self._word_write, b"\n")
        except BrokenPipeError:
            pass  # The tests have been killed.
        finally:
            os.close(self._word_write)  # Without the signal, the tests end and report nothing.

    def _list_tests(self) -> list[int]:
        return processes.list_processes_of(frozenset((self._tests_uid,)))

    def _bound_tests(self, patience: int) -> None:
        """End the tests when they have run for too long, without the time that they had to wait.

        The machine is to blame after `patience` times the wall limit since the job began.
        """
        began, limit = time.monotonic(), self.limits["wall_seconds"]
        tests = self._list_tests()
        waiting, used = Waiting(tests), sum_seconds(tests)

        def look() -> None:
            now, tests = time.monotonic(), self._list_tests()
            own = now - began - waiting.seconds(tests, sum_seconds(tests) - used)
            if own >= limit:
                self.stop(WALL)
            elif now - self.start_time >= find_longest(limit, patience):
                self.blame_machine(BUSY)
            else:
                self.timer = self.loop.after(max(limit - own, LEAST_WAIT_SECONDS), look)

        self.timer = self.loop.after(limit, look)

    def _end_candidate(self) -> None:
        if self._candidate is None:
            uids = frozenset((self._user.uid,))
            self._outlived = bool(processes.list_processes_of(uids))
            processes.end_processes(uids)

    def _find_broken(self, report: dict[str, Any] | None) -> str | None:
        """Return why the tests' own set-up failed, or None. It runs before any code of the candidate."""
        if report is not None:
            return report.get("broken")
        if self._is_ready or self.fault is not None or not self._could_start:
            return None
        if self.stop_reason == WALL:
            return f"the tests' own set-up ran for more than {self.limits['wall_seconds']:g} s"
        return None if self.stop_reason is not None else "the tests' own set-up ended their process"

    def _conclude(self, status: int, report: dict[str, Any] | None) -> None:
        lost = report is None or report["lost"] is not None
        code = exit_code(status)
        if report is not None and report.get("timeout") == MACHINE:
            self.fault = BUSY
        # A child may have answered in place of the candidate, which then has not seen the tests' end.
        left = not lost and code not in (HUNG_UP, -SIGKILL)
        over = self._exceeds_processor_time(self._cpu_seconds)
        ended = self._reason(status, self._cpu_seconds) if lost or left or over else None
        if lost and ended == SIGNALLED and self._outlived and code == -SIGKILL:
            # The guest killed the candidate, which lived on after it had broken the protocol or closed the
            # channel.
            ended = None
        self._report(
            {
                "ended": ended,
                "exit_code": code,
                "cpu_seconds": self._cpu_seconds,
                "report": report,
                "broken": self._find_broken(report),
                "clean": self._clean,
            }
        )

    def _line(self, number: int) -> dict[str, Any] | None:
        """Return line `number` of the tests' three lines, or None if they have not written all of it."""
        lines = bytes(self._result).split(b"\n")
        if len(lines) < number + 2:
            return None
        try:
            value: dict[str, Any] = json_text.decode(lines[number].decode())
        except ValueError:
            return None
        return value


def _for_the_tests(request: dict[str, Any], body: bytes, candidate_uid: int) -> bytes:
    """Return the part of a request that the tests' process needs, with the statements compiled."""
    if "calls" in request:
        return marshal.dumps({**request, "body": body, "candidate_uid": candidate_uid})
    # Imported here, because the spawners would otherwise have to copy its modules in each fork.
    from . import compiled_tests

    wanted = {name: request[name] for name in TESTS_NEED}
    wanted["compiled_setup"] = compiled_tests.compile_setup_ahead(request["setup"])
    wanted["beginning"] = compiled_tests.compile_beginning_ahead(
        tuple(request["statements"]), frozenset(request["exports"])
    )
    with_classes = bool(request["classes"])
    wanted["compiled"] = [
        compiled_tests.compile_ahead(statement, with_classes=with_classes)
        for statement in request["statements"]
    ]
    return marshal.dumps(wanted)
