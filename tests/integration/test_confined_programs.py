"""Ordinary programs run in confinement as they run elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.environments.python.client import run_on_inputs, run_tests
from harness.sandbox.backends.docker.backend import DockerBackend

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

# name -> (program that reads the line "input", and its output).
PROGRAMS = {
    "input by its path": ("print(open('/dev/stdin').read(), end='')", "input\n"),
    "input by its descriptor": ("print(open(0).read(), end='')", "input\n"),
    "input by its link in /proc": ("print(open('/proc/self/fd/0').read(), end='')", "input\n"),
    "output by its path": ("print('a', file=open('/dev/stdout', 'w'))", "a\n"),
    "null device": ("print(open('/dev/null', 'w').write('x'), open('/dev/null').read() == '')", "1 True\n"),
    "random device": ("print(len(open('/dev/urandom', 'rb').read(4)))", "4\n"),
    "temporary files": (
        "import os, tempfile\n"
        "with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile('w+') as file:\n"
        "    file.write('kept'); file.seek(0)\n"
        "    os.makedirs(f'{folder}/a/b'); open(f'{folder}/x', 'w').close()\n"
        "    os.rename(f'{folder}/x', f'{folder}/a/b/x'); os.link(f'{folder}/a/b/x', f'{folder}/y')\n"
        "    os.truncate(f'{folder}/y', 3); os.symlink('y', f'{folder}/z')\n"
        "    print(file.read(), os.listdir(f'{folder}/a/b'), os.stat(f'{folder}/z').st_size)",
        "kept ['x'] 3\n",
    ),
    "files in its own folder": (
        "import pathlib\npathlib.Path('d').mkdir(); pathlib.Path('d/f').write_text('x')\n"
        "print([str(path) for path in pathlib.Path().rglob('?')])",
        "['d', 'd/f']\n",
    ),
    "threads": (
        "import threading\nthreading.stack_size(1 << 26)\n"
        "thread = threading.Thread(target=print, args=('in a thread',)); thread.start(); thread.join()",
        "in a thread\n",
    ),
    "processes": (
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, 2]))",
        "[1, 2]\n",
    ),
    "shared memory and queues": (
        "import multiprocessing\nfrom multiprocessing import shared_memory\n"
        "block = shared_memory.SharedMemory(create=True, size=8)\n"
        "queue = multiprocessing.Queue(); lock = multiprocessing.Lock()\n"
        "child = multiprocessing.Process(target=lambda: queue.put(bytes(block.buf[:2])))\n"
        "block.buf[:2] = b'ab'; child.start(); print(queue.get()); child.join()\n"
        "block.close(); block.unlink()",
        "b'ab'\n",
    ),
    "another program": (
        "import subprocess\n"
        "print(subprocess.run(['sort', '-r'], input=b'a\\nb\\n', capture_output=True, check=True).stdout)",
        "b'b\\na\\n'\n",
    ),
    "a shell": (
        "import subprocess\nscript = 'echo $((1 + 2)) > f; cat f | tee /dev/stderr; ls /usr | wc -l > n'\n"
        "subprocess.run(script, shell=True, check=True)",
        "3\n",
    ),
    "another interpreter": (
        "import subprocess, sys\nprogram = 'import multiprocessing, json; print(json.dumps([1]))'\n"
        "subprocess.run([sys.executable, '-c', program], check=True)",
        "[1]\n",
    ),
    "signals": (
        "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('caught'))\n"
        "child = os.fork()\n"
        "if child == 0: os.kill(os.getppid(), signal.SIGUSR1); os._exit(0)\n"
        "os.waitpid(child, 0)",
        "caught\n",
    ),
    "local sockets": (
        "import socket\none, other = socket.socketpair(); one.send(b'x'); print(other.recv(1))\n"
        "server = socket.socket(socket.AF_UNIX); server.bind('s'); server.listen()\n"
        "client = socket.socket(socket.AF_UNIX); client.connect('s'); print(server.accept()[0].send(b'x'))",
        "b'x'\n1\n",
    ),
    "an event loop": (
        "import asyncio\nasync def main(): print(await asyncio.to_thread(abs, -1))\nasyncio.run(main())",
        "1\n",
    ),
    "arrays": ("import numpy\nprint(numpy.ones((200, 200)).dot(numpy.ones((200, 200)))[0, 0])", "200.0\n"),
    "clocks": (
        "import threading, time\ntime.clock_gettime(time.pthread_getcpuclockid(threading.get_ident()))\n"
        "print(time.process_time() > 0, time.thread_time() > 0, time.monotonic() > 0)",
        "True True True\n",
    ),
    "its own memory": (
        "import resource\nprint('VmRSS' in open('/proc/self/status').read(),"
        " len(open('/proc/self/statm').read().split()),"
        " resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0)",
        "True 7 True\n",
    ),
    "its descriptors": ("import os\nprint({'0', '1', '2'} < set(os.listdir('/proc/self/fd')))", "True\n"),
    "the machine": (
        "import os, platform\nprint(os.cpu_count() >= 1, os.sysconf('SC_PHYS_PAGES') > 1000,"
        " platform.system(), 'processor' in open('/proc/cpuinfo').read())",
        "True True Linux True\n",
    ),
    "advice on files": (
        "import os\nfile = open('/usr/bin/env', 'rb')\nos.posix_fadvise(file.fileno(), 0, 0, 4)\n"
        "print(os.preadv(file.fileno(), [bytearray(4)], 0))",
        "4\n",
    ),
    "libraries": (
        "import ctypes.util, locale, zoneinfo, sqlite3, ssl, uuid, curses\n"
        "print(sqlite3.connect(':memory:').execute('select 1').fetchone(), len(str(uuid.uuid4())))",
        "(1,) 36\n",
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=backend, seccomp="strict") as sandbox:
        yield sandbox


@each_case("name", PROGRAMS)
async def test_an_ordinary_program_runs_as_it_would_elsewhere(sandbox: Sandbox, name: str) -> None:
    program, printed = PROGRAMS[name]
    (run,) = await run_on_inputs(sandbox, program=program.encode(), inputs=[b"input\n"], stdout_bytes=1 << 16)
    assert (run.stdout.data.decode(), run.exit_code) == (printed, 0), run.stderr.data.decode()
    assert sandbox.clean


@each_case("name", PROGRAMS)
async def test_an_ordinary_program_loads_under_tests(sandbox: Sandbox, name: str) -> None:
    if "input" in name:
        pytest.skip("under tests there is no input")
    program, printed = PROGRAMS[name]
    # Under tests a main guard does not run, and the tests do not wait for code that they do not call.
    program = program.replace("__name__ == '__main__'", "True") + "\nimport sys\nsys.stdout.flush()"
    report = await run_tests(sandbox, program=program, statements=["pass"], exports={})
    assert report.results == (True,), report.evidence
    assert report.stdout.data.decode() == printed
