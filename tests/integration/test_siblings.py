"""Python and the C library work in a sibling as after a fork, and its parent waits for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# This process, the parent, forks one for each check, which forks the sibling that runs the check.
PROGRAM = """
import os, random, subprocess, sys, threading, time
from harness.environments.python.guest.spawner import Forker

def check_ids():
    assert os.getppid() == parent and threading.get_native_id() == os.getpid() != forker_id

def check_threads():
    seen, lock = [], threading.RLock()
    def work():
        with lock:
            seen.append(threading.get_native_id())
    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads: each.start()
    for each in threads: each.join()
    assert len(seen) == 8 and os.getpid() not in seen
    assert threading.main_thread() is threading.current_thread()

def check_forks():
    child = os.fork()
    if child == 0:
        os._exit(5 if os.getppid() != forker_id else 6)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True).stdout == b"42\\n"

def check_random():
    assert random.random() != expected

def check_clock():
    time.clock_gettime(time.pthread_getcpuclockid(threading.get_ident()))

def run_in_a_sibling(check):
    pid = Forker().fork()
    if pid == 0:
        status = 1
        try:
            check()
            status = 0
        except BaseException as error:
            print(check.__name__, repr(error), flush=True)
        os._exit(status)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        os.write(out[1], pid.to_bytes(8, "big"))
        os._exit(0)
    os._exit(1)

parent, out = os.getpid(), os.pipe()
for check in (check_ids, check_threads, check_forks, check_random, check_clock):
    middle = os.fork()
    if middle == 0:
        forker_id = os.getpid()
        random.seed(1)
        state = random.getstate()
        expected = random.random()
        random.setstate(state)
        run_in_a_sibling(check)
    if os.waitstatus_to_exitcode(os.waitpid(middle, 0)[1]) != 0:
        print(check.__name__, "has a child for a sibling")
    else:
        sibling = int.from_bytes(os.read(out[0], 8), "big")
        if os.waitstatus_to_exitcode(os.waitpid(sibling, 0)[1]) != 0:
            print(check.__name__, "failed")
"""
NO_ROOM = """
import os, resource
from harness.environments.python.guest.spawner import Forker
forker = Forker()
os.setuid(65432)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    forker.fork()
except BlockingIOError:
    print(forker.is_possible)
"""
UNKNOWN = """
from harness.environments.python.guest import spawner
forker = spawner.Forker()
forker._calls.clone = 100_000
try:
    forker.fork()
except OSError:
    print(forker.is_possible)
"""


def run(program: str) -> str:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_sibling_works_as_a_fork_does() -> None:
    assert run(PROGRAM) == ""


def test_a_lack_of_room_does_not_rule_out_siblings() -> None:
    assert run(NO_ROOM) == "True\n"


def test_a_kernel_without_siblings_is_recognised() -> None:
    assert run(UNKNOWN) == "False\n"


# This process stands for PID 1. The child exits with 7 if this process is its parent when it goes on.
SPAWNED = """
import ctypes, os
from harness.environments.python.guest import spawner
from harness.sandbox.guest import processes
from harness.sandbox.guest.loop import Loop

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # adopt the orphans of descendants, as PID 1 does
if not {siblings}:
    spawner.CALLS.clear()
parent, loop, ends = os.getpid(), Loop(), []

def live(child, descriptors):
    processes.close_others([child.adoption])
    spawner.wait_for_adoption(child)
    os._exit(7 if os.getppid() == parent else 8)

def end(status, _seconds):
    ends.append(os.waitstatus_to_exitcode(status))
    if len(ends) < 3:
        start()
    else:
        print(ends, starter.spawned, flush=True)
        os._exit(0)

def start():
    starter.spawn(spawner.Child(5000 + len(ends), "/", 1), {}, [0, 1, 2], end)

nothing = lambda *_: None
starter = spawner.start(spawner.Role(nothing, nothing, nothing, nothing, live), loop)
start()
loop.run()
"""


@pytest.mark.parametrize(("siblings", "processes"), [(True, 3), (False, 6)], ids=["sibling", "starter"])
def test_each_child_of_a_spawner_ends_for_the_parent_of_the_spawner(siblings: bool, processes: int) -> None:
    assert run(SPAWNED.replace("{siblings}", str(siblings))) == f"[7, 7, 7] {processes}\n"
