"""The roles of the spawners' children: a candidate under tests, a program on its own, and the tests.

A spawner rehearses its role with a small graded program, to do Python's first-time work for its children. The
first run of a function, the first lookup of an attribute and the first compilation write to memory that
stays. If a forked child did this first, it would have to copy those pages, in every sample again. The
messages of the other side are made up here, so that no other process takes part.
"""

from __future__ import annotations

import marshal
import os
import sys
import typing  # noqa: F401 - many programs and tests import it: once here, not in each of their processes
from os import O_RDWR, close, dup2, fstat, getpid, read, write
from os import open as os_open

from harness.sandbox.guest import confinement, json_text, links, processes
from harness.sandbox.guest.processes import become_limited
from harness.sandbox.guest.processor_time import COUNTER

from . import candidate, conversation, encoding, trusted_tests, values
from .assert_calls import SETUP_NAME, TESTS_NAME
from .spawner import Role, wait_for_adoption

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from .peer import Candidate
    from .spawner import Child

# The exit code of a candidate that lived until the tests closed the channel.
HUNG_UP = 71
PACKAGE_FOLDERS = ("/usr/local/lib/python3/dist-packages", "/usr/lib/python3/dist-packages")


def _prepare_candidates() -> None:
    candidate.prepare_interpreter(_package_folders)
    # A right answer may have more digits than Python converts by default.
    sys.set_int_max_str_digits(0)
    processes.restore_python_signals()
    confinement.filter_calls()


class _Standalone:
    """Settings for programs that run on their own, sent once for many children."""

    is_wanted = False
    preamble_bytes = 0
    run: ClassVar[Callable[[bytes, bytes], int]]


def _configure_candidates(settings: dict[str, Any]) -> None:
    processes.limit_children(settings["limits"])
    if settings.get("calls") or "stdin" in settings:
        from . import standalone

        standalone.warm_up()
    if "stdin" in settings:
        _Standalone.is_wanted = True
        _Standalone.preamble_bytes = settings["preamble_bytes"]
        _Standalone.run = standalone.run_mocked if settings["stdin"] == "mocked" else standalone.run
    wanted = settings["environment"]
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        os.environ[name] = value


def _warm_up_candidates() -> None:
    # Programs on their own run none of the code that is rehearsed.
    if not _Standalone.is_wanted:
        rehearse_program()


def _before_candidate(child: Child) -> None:
    os.environ["HOME"] = child.folder


def _become_confined(child: Child, keep: tuple[int, ...], rules: int) -> None:
    """Become the child's user, confined to its own resources by `rules`, or not if they are -1.

    Of the descriptors above 2, only `keep` stays open.
    """
    needed = (*keep, child.adoption) if rules < 0 else (*keep, child.adoption, rules)
    become_limited(child.uid, child.folder, child.cpu_seconds, needed)
    confinement.confine(rules)
    wait_for_adoption(child)


def _open_null(standard: tuple[int, ...]) -> None:
    """Open /dev/null anew as these descriptors.

    A child that kept the spawner's descriptor would share its flags, its owner and its locks with all other
    children.
    """
    null = os_open("/dev/null", O_RDWR)
    for number in standard:
        dup2(null, number)
    close(null)


def _be_candidate(child: Child, descriptors: tuple[int, ...]) -> None:
    """Be a candidate. `descriptors` are its channel to the tests, stdout and stderr. Does not return.

    The rules that confine it follow, if the kernel has any.
    """
    rules = -1
    if confinement.has_rules():
        *others, rules = descriptors
        descriptors = tuple(others)
    if len(descriptors) > 3:
        _be_standalone(child, descriptors, rules)
    status = 70
    try:
        channel, stdout, stderr = descriptors
        _open_null((0,))
        dup2(stdout, 1)
        dup2(stderr, 2)
        _become_confined(child, (channel,), rules)
        candidate.serve(channel)
        status = HUNG_UP
    finally:
        try:
            sys.stdout.flush()
        finally:
            os._exit(status)


def _be_standalone(child: Child, descriptors: tuple[int, ...], rules: int) -> None:
    """Be a program on its own. `descriptors` are its source, stdin, stdout and stderr. Does not return."""
    status = 70
    try:
        source, *standard = descriptors
        for number, descriptor in enumerate(standard):
            dup2(descriptor, number)
        # Read at offset 0, because all runs of the program share the descriptor and its offset.
        text = os.pread(source, fstat(source).st_size, 0)
        _become_confined(child, (), rules)
        size = _Standalone.preamble_bytes
        status = _Standalone.run(text[:size], text[size:])
    finally:
        os._exit(status)


def _prepare_tests() -> None:
    # The tests may import what the image offers, from folders of root alone. They must not import files from
    # the current folder, or from any other that a program can write to.
    sys.path[:] = [path for path in _package_folders() if path]
    sys.set_int_max_str_digits(0)
    # Threads would count against the program's limit on processes.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    # The user of the tests may have no right to do this.
    COUNTER.open()


def _configure_tests(settings: dict[str, Any]) -> None:
    processes.limit_children(settings["limits"])
    if settings["calls"]:
        from . import call_tests  # noqa: F401 - so that no child imports it


def _be_tests(child: Child, descriptors: tuple[int, ...]) -> None:
    """Be the tests.

    `descriptors` are the channel to the candidate, the request, the result and PID 1's signal.
    Does not return. No other descriptor is open, so the tests cannot write anywhere else. They write three
    lines of JSON. The first says that the tests' own set-up has ended, and no code of the candidate has run
    before. After their last call, they write how the candidate was lost. They write the report when PID 1 has
    signalled that no process of the candidate is alive.
    """
    try:
        channel, request, result, word = descriptors
        _open_null((0, 1, 2))
        kept = (*descriptors, child.adoption, *COUNTER.descriptors)
        become_limited(child.uid, child.folder, child.cpu_seconds, kept)
        wait_for_adoption(child)

        def announce() -> None:
            _write_line(result, {"ready": True})

        def until_dead(peer: Candidate) -> None:
            close(channel)
            _write_line(result, {"lost": peer.lost, "breach": peer.breach, "pid": getpid()})
            if not read(word, 1):
                os._exit(1)

        asked = marshal.loads(read(request, fstat(request).st_size))
        if "calls" in asked:
            from . import call_tests

            announce()
            report = call_tests.run(channel, asked, until_dead)
        else:
            report = trusted_tests.run(channel, asked, until_dead, announce)
        _write_line(result, report)
    finally:
        os._exit(0)


def _write_line(descriptor: int, value: dict[str, Any]) -> None:
    view = memoryview(json_text.encode(value).encode() + b"\n")
    while view:
        view = view[write(descriptor, view) :]


def _package_folders() -> list[str]:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    local = f"/usr/local/lib/{version}/dist-packages"
    return [*sys.path, *(folder for folder in (local, *PACKAGE_FOLDERS) if os.path.isdir(folder))]


ROUNDS = 3
REHEARSED_PROGRAM = (
    "from typing import List\n\n\ndef f(items: List[int]) -> List[int]:\n    return sorted(items)\n"
)
REHEARSED_TESTS = "def check(f):\n    assert f([2, 1]) == [1, 2]\n    assert f([]) == []\n\n\ncheck(f)\n"


def rehearse_tests() -> None:
    """Run tests on prepared answers."""
    compiled = marshal.dumps(
        (compile(REHEARSED_TESTS, TESTS_NAME, "exec"), compile(REHEARSED_TESTS, TESTS_NAME, "exec"))
    )
    request = {
        "preamble": "",
        "program": REHEARSED_PROGRAM,
        "setup": "",
        "compiled_setup": marshal.dumps(compile("", SETUP_NAME, "exec")),
        "statements": [REHEARSED_TESTS],
        "compiled": [compiled],
        "beginning": marshal.dumps(None),
        "exports": {"f": "f"},
        "classes": {},
    }
    encoder = encoding.Encoder(lambda _function: (values.CALLABLE, 0, None))
    for _ in range(ROUNDS):
        tests, program = links.stream_pair()
        for answer in (None, (object(), None), [1, 2], []):
            conversation.send(program.fileno(), conversation.VALUE, encoder.encode(answer))
        report = trusted_tests.run(
            tests.fileno(), marshal.loads(marshal.dumps(request)), lambda _candidate: None
        )
        json_text.encode(report)
        tests.close()
        program.close()


def rehearse_program() -> None:
    """Run a program with the requests of prepared tests."""
    main = sys.modules["__main__"]
    encoder = encoding.Encoder(lambda _function: (values.CALLABLE, 0, None))
    for _ in range(ROUNDS):
        tests, program = links.stream_pair()
        conversation.send(tests.fileno(), conversation.LOAD, encoder.encode(("", REHEARSED_PROGRAM)))
        conversation.send(tests.fileno(), conversation.GET, encoder.encode("f"))
        for argument in ([2, 1], []):
            conversation.send(tests.fileno(), conversation.CALL, encoder.encode((object(), (argument,), {})))
        tests.shutdown(1)
        candidate.serve(program.fileno())
        tests.close()
        program.close()
    sys.modules["__main__"] = main
    del sys.modules[candidate.MODULE_NAME]


CANDIDATE = Role(
    _prepare_candidates,
    _configure_candidates,
    _warm_up_candidates,
    _before_candidate,
    _be_candidate,
    attach=confinement.new_ruleset,
)
TESTS = Role(_prepare_tests, _configure_tests, rehearse_tests, lambda _child: None, _be_tests)
