"""A program that searches everything in reach for the tests and the expected values finds nothing."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.core.types import ProgramTests, Status, Submission, Verdict
from harness.environments.python.programs import grade_program
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

# Each way to search returns all secrets that it meets: words of a prefix and 32 hexadecimal digits. The
# prefix is put together at run time, and the pattern does not match itself.
SEARCH = r'''
import ctypes, gc, os, re, sys, threading, time, types

PREFIX = "SEC" + "RET-"
PATTERN = re.compile(("(?:%s)[0-9a-f]{32}" % PREFIX).encode())

def found_in(data):
    if isinstance(data, str):
        data = data.encode("utf-8", "replace")
    return {match.decode() for match in PATTERN.findall(bytes(data))}

def read(path, limit=1 << 22):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(descriptor, limit)
    except OSError:
        return b""
    finally:
        os.close(descriptor)

def memory_of(pid):
    """All of a process's memory, as far as the kernel lets it be read."""
    found = set()
    try:
        maps = open(f"/proc/{pid}/maps").read().splitlines()
        memory = open(f"/proc/{pid}/mem", "rb", buffering=0)
    except OSError:
        return found
    for line in maps:
        area, rights = line.split()[:2]
        start, end = (int(part, 16) for part in area.split("-"))
        if "r" not in rights or line.endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
            continue
        try:
            memory.seek(start)
            while start < end:
                data = memory.read(min(end - start, 1 << 22))
                if not data:
                    break
                found |= found_in(data)
                start += len(data)
        except (OSError, ValueError, OverflowError):
            continue
    return found

def own_memory():
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # let this process be looked at, by itself
    return memory_of("self")

def objects():
    found, seen, waiting = set(), set(), [gc.get_objects(), sys.modules, sys._current_frames()]
    frame = sys._getframe()
    while frame is not None:
        waiting += [frame.f_globals, frame.f_locals, frame.f_code, frame.f_builtins]
        frame = frame.f_back
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or len(seen) > 500_000:
            continue
        seen.add(id(thing))
        if isinstance(thing, (str, bytes, bytearray)):
            found |= found_in(thing)
        elif isinstance(thing, types.CodeType):
            waiting += [thing.co_consts, thing.co_names]
        else:
            waiting += gc.get_referents(thing)
    return found

def processes():
    found = set()
    for pid in [str(pid) for pid in range(1, 1000) if os.path.exists(f"/proc/{pid}")]:
        for name in ("environ", "cmdline", "comm", "status", "stat", "maps", "auxv", "syscall", "stack"):
            found |= found_in(read(f"/proc/{pid}/{name}"))
        if int(pid) != os.getpid():
            found |= memory_of(pid)
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            if int(pid) != os.getpid() or int(name) > 2:
                try:
                    if os.path.isfile(f"/proc/{pid}/fd/{name}"):
                        found |= found_in(read(f"/proc/{pid}/fd/{name}"))
                except OSError:
                    pass
    return found

def files():
    found = set()
    for top in ("/work", "/tmp", "/dev/shm", "/dev/mqueue", "/run", "/var", "/opt", "/etc", "/root", "/home"):
        for folder, _, names in os.walk(top):
            for name in names:
                found |= found_in(name) | found_in(read(os.path.join(folder, name)))
    return found

def channel():
    """What lies unread in the sockets that this process holds."""
    import socket
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            end = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        try:
            found |= found_in(end.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            pass
        end.close()
    return found

def search(way):
    return sorted({"memory": own_memory, "objects": objects, "processes": processes, "files": files,
                   "channel": channel}[way]())
'''
WAYS = ["memory", "objects", "processes", "files", "channel"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=backend, limits=Limits(), seccomp="strict") as sandbox:
        yield sandbox


@pytest.fixture
def secret() -> str:
    return f"SECRET-{secrets.token_hex(16)}"


async def grade(
    sandbox: Sandbox, program: str, *statements: str, setup: str = "", preamble: str = ""
) -> Verdict:
    tests = ProgramTests(statements=statements, exports={"search": "search"}, setup=setup, preamble=preamble)
    verdict = await grade_program(sandbox, tests, Submission(program, agent_output=""))
    assert sandbox.clean
    return verdict


@each_case("way", ["memory", "objects"])
async def test_the_search_finds_the_arguments_of_a_program(sandbox: Sandbox, secret: str, way: str) -> None:
    verdict = await grade(
        sandbox, SEARCH, f"assert {secret!r} in search({way!r})", preamble=f"given = {secret!r}\n"
    )
    assert verdict.status is Status.PASSED, verdict


async def test_the_search_finds_an_argument_of_the_call_itself(sandbox: Sandbox, secret: str) -> None:
    program = f"{SEARCH}\nsearch_ = search\ndef search(way, _argument): return search_(way)\n"
    verdict = await grade(sandbox, program, f"assert {secret!r} in search('memory', {secret!r})")
    assert verdict.status is Status.PASSED, verdict


async def test_the_search_finds_a_file(sandbox: Sandbox, secret: str) -> None:
    program = f"{SEARCH}\nopen('/tmp/file', 'w').write({secret!r})\n"
    verdict = await grade(sandbox, program, f"assert search('files') == [{secret!r}]")
    assert verdict.status is Status.PASSED, verdict


@each_case("way", WAYS)
async def test_no_secret_of_the_tests_is_found_in_a_call(sandbox: Sandbox, secret: str, way: str) -> None:
    """The secrets are in the expected value, in another test, in the set-up and in a value of the set-up."""
    verdict = await grade(
        sandbox,
        SEARCH,
        f"assert search({way!r}) != [{secret!r}] and search({way!r}) == []",
        f"expected = {secret!r} * 2\nassert search({way!r}) == []",
        f"assert expected == {secret * 2!r}",
        setup=f"table = [{secret!r} + str(number) for number in range(1000)]\n",
    )
    assert verdict.status is Status.PASSED, verdict


@each_case("way", WAYS)
async def test_no_secret_of_the_tests_is_found_at_load(sandbox: Sandbox, secret: str, way: str) -> None:
    verdict = await grade(
        sandbox,
        f"{SEARCH}\nfound = search({way!r})\ndef search(): return found\n",
        f"assert search() == [] != {secret!r}",
    )
    assert verdict.status is Status.PASSED, verdict


@each_case("way", WAYS)
async def test_a_thread_that_waits_for_the_tests_finds_no_secret(
    sandbox: Sandbox, secret: str, way: str
) -> None:
    """A thread searches between the calls, while the tests compare and make their evidence."""
    program = (
        f"{SEARCH}\n"
        "found = set()\n"
        "done = threading.Event()\n"
        "def watch():\n"
        f"    while not done.is_set(): found.update(search_({way!r}))\n"
        "search_ = search\n"
        "watcher = threading.Thread(target=watch)\n"
        "watcher.start()\n"
        "def search(end=False):\n"
        "    if end: done.set(); watcher.join()\n"
        "    return sorted(found)\n"
    )
    verdict = await grade(
        sandbox,
        program,
        f"import time\nfor _ in range(10): time.sleep(0.01); assert search() != {secret!r}",
        "assert search(end=True) == []",
    )
    assert verdict.status is Status.PASSED, verdict


@each_case("way", WAYS)
async def test_the_second_program_finds_neither_the_first_one_nor_its_tests(
    sandbox: Sandbox, secret: str, way: str
) -> None:
    first = f"kept = {secret!r} * 100\nprint(kept)\ndef search(x): return x\n"
    first_verdict = await grade(
        sandbox, first, f"assert search({secret!r}) == {secret!r}", setup=f"x = {secret!r}"
    )
    assert first_verdict.status is Status.PASSED
    verdict = await grade(sandbox, SEARCH, f"assert search({way!r}) == []")
    assert verdict.status is Status.PASSED, verdict
