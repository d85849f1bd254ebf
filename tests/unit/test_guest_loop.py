"""The guest's loop: an error in one request belongs to that request, and the others go on."""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from case_checks import each_case

from harness.environments.python.guest import spawner
from harness.sandbox.guest import kernel as kernel_module
from harness.sandbox.guest import links
from harness.sandbox.guest import loop as loop_module
from harness.sandbox.guest.frames import FrameDecoder
from harness.sandbox.guest.jobs import NOT_STARTED
from harness.sandbox.guest.kernel import Kernel, Request
from harness.sandbox.guest.loop import Loop

ERRORS = [
    MemoryError(),
    RecursionError("too deep"),
    OSError(24, "no descriptor"),
    UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates"),
    KeyError("\udcff"),
    AssertionError("x" * 10_000_000),
]


class Done(BaseException):
    """Leave a loop that runs for ever."""


def leave() -> None:
    raise Done


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    """Yield a loop that does not change the signals of this process."""
    quiet = SimpleNamespace(SIGCHLD=17, set_handler=lambda *_: None, set_wakeup_fd=lambda *_, **__: None)
    monkeypatch.setattr(loop_module, "signals", quiet)
    return Loop()


@pytest.fixture
def failures(loop: Loop) -> list[tuple[int, Exception]]:
    failed: list[tuple[int, Exception]] = []
    loop.on_failure = lambda owner, error: failed.append((owner, error))
    return failed


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


@pytest.fixture
def pair() -> Iterator[tuple[links.Link, links.Link]]:
    """Yield the end of a spawner and the end of its starter."""
    ours, theirs = links.message_pair()
    with contextlib.closing(ours), contextlib.closing(theirs):
        yield ours, theirs


@pytest.fixture
def null() -> Iterator[int]:
    with open(os.devnull, "rb") as file:
        yield file.fileno()


def set_ends(monkeypatch: pytest.MonkeyPatch, *ends: tuple[int, int]) -> None:
    """Let the kernel report the ends of these children, given by id and status, and then of none."""
    usage = SimpleNamespace(ru_utime=1.0, ru_stime=0.5)
    waiting = list(ends)
    monkeypatch.setattr(os, "wait4", lambda *_: (*(waiting.pop(0) if waiting else (0, 0)), usage))


def fail_with(error: BaseException) -> Any:
    def fail(*_: object) -> None:
        raise error

    return fail


def run(loop: Loop) -> None:
    with pytest.raises(Done):
        loop.run()


@pytest.mark.parametrize("kind", ["timer", "reader", "writer"])
def test_an_error_belongs_to_the_request_that_asked_for_the_call_and_does_not_repeat(
    loop: Loop, failures: list[Any], pipe: tuple[int, int], kind: str
) -> None:
    reading, writing = pipe
    os.write(writing, b"x")
    error = ValueError("x")
    ask: dict[str, Callable[[], object]] = {
        "timer": lambda: loop.after(0, fail_with(error)),
        "reader": lambda: loop.watch(reading, fail_with(error)),
        "writer": lambda: loop.watch_writing(writing, fail_with(error)),
    }

    def serve() -> None:
        ask[kind]()

    loop.serve(7, serve)
    loop.after(0.001, leave)
    run(loop)
    assert failures == [(7, error)]


def test_a_descriptor_that_can_be_written_and_read_gets_both_calls(loop: Loop) -> None:
    ours, theirs = socket.socketpair()
    calls: list[str] = []

    def read() -> None:
        calls.append(ours.recv(1).decode())

    def write() -> None:
        calls.append("written")
        loop.unwatch_writing(ours.fileno())
        theirs.send(b"x")

    loop.watch(ours.fileno(), read)
    loop.watch_writing(ours.fileno(), write)
    loop.after(0.01, leave)
    run(loop)
    assert calls == ["written", "x"]
    ours.close()
    theirs.close()


def test_a_broken_descriptor_is_reported_to_its_writer(loop: Loop, pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    while select.select([], [writing], [], 0)[1]:
        os.write(writing, bytes(4096))
    os.close(reading)
    loop.watch_writing(writing, leave)
    run(loop)


def test_an_event_of_a_closed_descriptor_is_not_that_of_the_next_with_its_number(loop: Loop) -> None:
    first, second, third = os.pipe(), os.pipe(), os.pipe()
    calls: list[str] = []

    def replace() -> None:
        loop.unwatch(first[0])
        loop.unwatch(second[0])
        # Now the number of the second pipe, which had an event, is that of an empty one.
        os.dup2(third[0], second[0])
        loop.watch(second[0], lambda: calls.append("stale"))

    for pipe in (first, second):
        os.write(pipe[1], b"x")
    loop.watch(first[0], replace)
    loop.watch(second[0], lambda: calls.append("second"))
    loop.after(0.001, leave)
    run(loop)
    assert calls == []
    for pipe in (first, second, third):
        for end in pipe:
            os.close(end)


def test_an_error_at_the_end_of_a_child_belongs_to_the_request_that_started_it(
    loop: Loop, failures: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_ends(monkeypatch, (5, 0))
    error = ValueError("x")
    loop.serve(7, lambda: loop.on_exit(5, fail_with(error)))
    loop.reap()
    assert failures == [(7, error)]


def test_callbacks_of_callbacks_have_the_same_owner(loop: Loop, failures: list[Any]) -> None:
    error = ValueError("x")

    def serve() -> None:
        loop.after(0, again)

    def again() -> None:
        loop.after(0, fail_with(error))
        loop.after(0.001, leave)

    loop.serve(7, serve)
    run(loop)
    assert failures == [(7, error)]


def test_an_error_of_no_request_is_raised(loop: Loop, failures: list[Any]) -> None:
    loop.after(0, fail_with(ValueError("x")))
    with pytest.raises(ValueError, match="x"):
        loop.run()
    assert failures == []


class Answers:
    """A kernel with one procedure, which runs a function of the test, and the kernel's answers."""

    def __init__(self, loop: Loop) -> None:
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        self.kernel = Kernel(loop, writing)
        # The kernel would end this process at the end of its input.
        loop.unwatch(0)

    def to(self, procedure: Any) -> list[dict[str, Any]]:
        self.kernel.add_procedure("procedure", procedure)
        return self.to_header({"id": 3, "verb": "call", "procedure": "procedure", "request": {}})

    def to_header(self, header: dict[str, Any]) -> list[dict[str, Any]]:
        self.kernel._serve(kernel_module.Request(self.kernel, 3, header, b""))
        return [header for header, _body in FrameDecoder().feed(os.read(self._reading, 1 << 16))]


@pytest.fixture
def answers(loop: Loop) -> Answers:
    return Answers(loop)


@each_case("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_error_of_a_procedure_is_answered_in_few_words(answers: Answers, error: Exception) -> None:
    (answer,) = answers.to(fail_with(error))
    assert (answer["id"], answer["error"].startswith(type(error).__name__)) == (3, True)
    assert len(answer["error"]) <= kernel_module.MAX_ERROR_CHARACTERS


def test_an_unknown_verb_is_an_error_of_the_request(answers: Answers) -> None:
    (answer,) = answers.to_header({"id": 3, "verb": "no such"})
    assert answer == {"id": 3, "error": "KeyError: 'no such'"}


def test_an_unknown_procedure_is_an_error_that_names_those_of_the_image(answers: Answers) -> None:
    answers.kernel.add_procedure("play", lambda request: request.answer({}))
    (answer,) = answers.to_header({"id": 3, "verb": "call", "procedure": "sing", "request": {}})
    assert answer["error"] == "ValueError: this image has no procedure 'sing', only: play"


@each_case(
    ("reply", "body"),
    [({"x": "\udcff" * 3_000_000}, b""), ({}, bytes((64 << 20) + 1))],
    ids=["header", "body"],
)
def test_a_reply_that_no_frame_holds_is_an_error_of_the_request(
    answers: Answers, reply: dict[str, Any], body: bytes
) -> None:
    (answer,) = answers.to(lambda request: request.answer(reply, body))
    assert answer["error"].startswith("frame too large")


def test_a_job_that_fails_is_stopped_and_answers_once(answers: Answers) -> None:
    stopped: list[str] = []

    def start_and_fail(request: Request) -> None:
        request.keep(SimpleNamespace(stop=stopped.append))
        answers.kernel.loop.after(0, lambda: request.finish({}, b""))
        raise MemoryError

    (answer,) = answers.to(start_and_fail)
    answers.kernel.loop.after(0.001, leave)
    run(answers.kernel.loop)
    assert (answer["error"], stopped) == ("MemoryError: ", ["killed"])
    with pytest.raises(BlockingIOError):
        os.read(answers._reading, 1)


def test_a_child_that_is_reported_only_when_it_has_ended_is_no_orphan(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_ends(monkeypatch, (7, 9), (8, 0))
    seen: list[tuple[int, float]] = []
    reports = [7]

    def read_reports() -> None:
        if reports:
            loop.on_exit(reports.pop(), lambda *end: seen.append(end))

    loop.before_orphans(read_reports)
    loop.reap()
    assert seen == [(9, 1.5)]
    assert loop.orphan_seconds == 1.5


def test_a_child_that_is_collected_is_reported_later(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    set_ends(monkeypatch, (7, 9))
    seen: list[tuple[int, float]] = []
    loop.on_exit(7, lambda *end: seen.append(end))
    loop.collect_ended()
    assert seen == []
    # The kernel may now give its id to another child.
    loop.on_exit(7, fail_with(AssertionError("the end of another child")))
    loop.reap()
    assert seen == [(9, 1.5)]


def test_orphans_that_end_without_a_pause_keep_no_timer_waiting(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "MOST_ENDS", 10)
    usage = SimpleNamespace(ru_utime=0.0, ru_stime=0.0)
    monkeypatch.setattr(os, "wait4", lambda *_: (8, 0, usage))
    loop.after(0.001, leave)
    run(loop)


def test_a_program_starts_after_the_end_of_all_that_the_one_before_left(
    loop: Loop, pair: tuple[links.Link, links.Link], null: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    theirs.setblocking(False)
    waited: list[None] = []

    def wait(*_: object) -> tuple[int, int, Any]:
        with pytest.raises(BlockingIOError):
            theirs.recv(1 << 16)
        waited.append(None)
        return 0, 0, None

    monkeypatch.setattr(os, "wait4", wait)
    of_candidates = spawner.Spawner(ours, lambda: -1, loop)
    of_candidates.spawn(spawner.Child(5000, "/", 1), {}, [null] * 3, lambda *_: None)
    assert waited
    _, passed = links.receive_with_descriptors(theirs, 1 << 16)
    for descriptor in passed:
        os.close(descriptor)


def test_a_program_that_cannot_start_ends_in_a_later_round(
    loop: Loop, pair: tuple[links.Link, links.Link], null: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A report may be read in the middle of another start.
    set_ends(monkeypatch)
    ours, theirs = pair
    of_candidates = spawner.Spawner(ours, lambda: -1, loop)
    ended: list[tuple[int, float]] = []

    def end(status: int, seconds: float) -> None:
        ended.append((status, seconds))
        leave()

    of_candidates.spawn(spawner.Child(5000, "/", 1), {}, [null] * 3, end)
    theirs.send(marshal.dumps((5000, 0, 0)))
    of_candidates._read()
    assert ended == []
    run(loop)
    assert ended == [(NOT_STARTED, 0.0)]


def test_a_program_whose_end_cannot_be_handled_fails_the_request_that_started_it(
    loop: Loop,
    failures: list[Any],
    pair: tuple[links.Link, links.Link],
    null: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_ends(monkeypatch)
    ours, theirs = pair
    of_candidates = spawner.Spawner(ours, lambda: -1, loop)
    error = OSError("no user ids left")
    child = spawner.Child(5000, "/", 1)
    loop.serve(7, lambda: of_candidates.spawn(child, {}, [null] * 3, fail_with(error)))
    theirs.send(marshal.dumps((5000, 0, 0)))

    def leave_after_failure() -> None:
        if failures:
            leave()
        loop.after(0.001, leave_after_failure)

    loop.after(0.001, leave_after_failure)
    run(loop)
    assert failures == [(7, error)]


def test_a_child_waits_for_its_adoption_in_one_call(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another call could block less often, which the memory of the program would show.
    child = spawner.Child(5000, "/", 1)
    child.adoption, adopted = pipe
    calls: list[int] = []

    def read(descriptor: int, size: int) -> bytes:
        calls.append(descriptor)
        os.write(adopted, b"1")
        return os.read(descriptor, size)

    monkeypatch.setattr(spawner, "read", read)
    spawner.wait_for_adoption(child)
    assert calls == [child.adoption]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(child.adoption)


def test_a_child_whose_starter_was_killed_exits(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = spawner.Child(5000, "/", 1)
    child.adoption, adopted = pipe
    os.close(adopted)
    monkeypatch.setattr(spawner, "_exit", fail_with(Done()))
    with pytest.raises(Done):
        spawner.wait_for_adoption(child)


def test_a_sibling_that_was_reaped_before_its_report_has_ended(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "waitid", fail_with(ChildProcessError()))
    set_ends(monkeypatch)
    seen: list[tuple[int, float]] = []
    loop.on_exit_of_sibling(9, lambda *end: seen.append(end))
    loop.reap()
    assert seen == [(signal.SIGKILL, 0.0)]


def test_a_sibling_whose_report_is_read_as_it_is_reaped_has_its_own_end(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "waitid", fail_with(ChildProcessError()))
    set_ends(monkeypatch, (9, 7))
    seen: list[tuple[int, float]] = []
    loop.before_orphans(lambda: loop.on_exit_of_sibling(9, lambda *end: seen.append(end)))
    loop.reap()
    assert seen == [(7, 1.5)]
