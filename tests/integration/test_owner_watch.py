"""The watch collects the containers that a process leaves, however it ends, and does nothing otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from e2e.command_line import wait_until

# Forks for each program and its argument, because an import of the watch takes a quarter of a second. A line
# with both comes in, and the end of the program goes out.
FORKS = """
import os, runpy, signal, sys
from harness.sandbox.backends.docker import container
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        sys.argv = line.split()
        errors = os.open(sys.argv[1] + ".errors", os.O_CREAT | os.O_WRONLY, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        runpy.run_path(sys.argv[0], run_name="__main__")
        break
    os.waitpid(pid, 0)
    print("ended", flush=True)
"""
# Each collection adds a line to the file that is the first argument.
PRELUDE = '''
import atexit, multiprocessing, os, signal, sys, threading, time
from harness.sandbox.backends.docker import container as watch
PATH = sys.argv[1]
watch._COLLECT = ("-c", "import sys; print('collected', file=open(sys.argv[1], 'a'))", PATH)
FAIL_ONCE = """import os, sys
if not os.path.exists(sys.argv[1] + '.tried'):
    os.mkdir(sys.argv[1] + '.tried')
    sys.exit(3)
print('collected', file=open(sys.argv[1], 'a'))"""

def kill_watch():
    import psutil
    for each in psutil.process_iter(['pid', 'cmdline']):
        if each.pid != os.getpid() and PATH in (each.info['cmdline'] or ()):
            each.kill()
            each.wait()

'''

# --- Processes that leave no container

REMOVED = "watch.expect_removal('a')\nwatch.note_removal('a')\n"
IN_A_WORKER = """
def work():
    watch.expect_removal('a')
    watch.note_removal('a')

if __name__ == '__main__':
    worker = multiprocessing.get_context('{}').Process(target=work)
    worker.start()
    worker.join()
    assert worker.exitcode == 0
"""
FINE = {
    "orderly": REMOVED,
    "none": "",
    "leave at once": f"{REMOVED}os._exit(0)",
    "killed": f"{REMOVED}os.kill(os.getpid(), signal.SIGKILL)",
    "removed at the very end": "atexit.register(watch.note_removal, 'a')\nwatch.expect_removal('a')",
    "removed twice": f"{REMOVED}watch.note_removal('a')\nwatch.note_removal('another')",
    "a thread": f"thread = threading.Thread(target=lambda: exec({REMOVED!r}))\nthread.start()",
    "fork": IN_A_WORKER.format("fork"),
    "forkserver": IN_A_WORKER.format("forkserver"),
    "spawn": IN_A_WORKER.format("spawn"),
    "a fork that removes its own": (
        "watch.expect_removal('a')\n"
        "if os.fork() == 0:\n"
        "    watch.expect_removal('b')\n    watch.note_removal('b')\n    os._exit(0)\n"
        "os.wait()\nwatch.note_removal('a')\n"
    ),
    # A supervisor kills the children of a process together with it, and a program may wait for all of them.
    "no child": (
        "import psutil\nwatch.expect_removal('a')\nassert psutil.Process().children() == []\n"
        "watch.note_removal('a')\n"
    ),
}

# --- Processes that leave one

LEFT = {
    "exit": "watch.expect_removal('a')",
    "error": "watch.expect_removal('a')\nraise SystemExit(1)",
    "killed": "watch.expect_removal('a')\nos.kill(os.getpid(), signal.SIGKILL)",
    "one of two": "watch.expect_removal('a')\nwatch.expect_removal('b')\nwatch.note_removal('b')",
    "one after another": f"{REMOVED}watch.expect_removal('b')",
    "many at once": (
        "threads = [threading.Thread(target=watch.expect_removal, args=(str(n),)) for n in range(8)]\n"
        "for each in threads: each.start()\n"
    ),
    "created at the very end": f"atexit.register(watch.expect_removal, 'b')\n{REMOVED}",
    "the watch is killed": (
        "watch.expect_removal('a')\nkill_watch()\n"
        "watch.note_removal('a')\nwatch.expect_removal('b')\nwatch.expect_removal('c')\n"
    ),
    "a fork": "if os.fork() == 0:\n    watch.expect_removal('a')\n    os._exit(0)\nos.wait()",
    "a fork while another thread starts a watch": (
        "start, starting = watch._start, threading.Event()\n"
        "def start_slowly():\n    starting.set()\n    time.sleep(0.05)\n    return start()\n"
        "watch._start = start_slowly\n"
        "thread = threading.Thread(target=watch.expect_removal, args=('a',))\n"
        "thread.start()\nstarting.wait()\n"
        "if os.fork() == 0:\n    watch.expect_removal('b')\n    os._exit(0)\n"
        "os.wait()\nthread.join()\nwatch.note_removal('a')\n"
    ),
    "a fork by a signal while its thread starts a watch": (
        "watch._lock.acquire()\nif os.fork() == 0:\n    watch.expect_removal('a')\n    os._exit(0)\nos.wait()"
    ),
    "SIGPIPE is not ignored": (
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwatch.expect_removal('a')\nkill_watch()\n"
        "watch.expect_removal('b')"
    ),
    "the first try fails": (
        "watch._PAUSES = '0 0'\nwatch._COLLECT = ('-c', FAIL_ONCE, PATH)\nwatch.expect_removal('a')"
    ),
}


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def run(forks: subprocess.Popen[str], program: str, path: Path) -> str:
    """Run a program to its end, and return its output on stderr."""
    script = path.with_name("program.py")
    script.write_text(PRELUDE + program)
    assert forks.stdin is not None
    assert forks.stdout is not None
    print(script, path, file=forks.stdin, flush=True)
    assert forks.stdout.readline() == "ended\n"
    return path.with_name(f"{path.name}.errors").read_text()


def await_watches(path: Path) -> None:
    """Wait until no process has this path as an argument."""

    def is_over() -> bool:
        commands = (each.info["cmdline"] or () for each in psutil.process_iter(["cmdline"]))
        return not any(str(path) in command for command in commands)

    wait_until(is_over, "no watch")


@pytest.mark.parametrize("case", FINE)
def test_a_process_that_has_removed_its_containers_starts_no_collection(
    forks: subprocess.Popen[str], case: str, tmp_path: Path
) -> None:
    path = tmp_path / "collections"
    errors = run(forks, FINE[case], path)
    await_watches(path)
    assert (errors, path.exists()) == ("", False)


@pytest.mark.parametrize("case", LEFT)
def test_one_collection_follows_a_process_that_leaves_a_container(
    forks: subprocess.Popen[str], case: str, tmp_path: Path
) -> None:
    path = tmp_path / "collections"
    run(forks, LEFT[case], path)
    await_watches(path)
    assert path.read_text() == "collected\n"


def test_a_fork_that_lives_on_does_not_hide_the_end_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "collections"
    reading, writing = os.pipe()
    program = f"watch.expect_removal('a')\nif os.fork() == 0:\n    os.read({reading}, 1)\n"
    script = tmp_path / "program.py"
    script.write_text(PRELUDE + program)
    subprocess.run([sys.executable, script, path], pass_fds=[reading], timeout=30, check=True)
    try:
        wait_until(path.exists, "a collection")
    finally:
        os.close(writing)
        os.close(reading)
    await_watches(path)
