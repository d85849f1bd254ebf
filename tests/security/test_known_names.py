"""No program finds out which names of /proc, /sys and /dev the program before it has used.

The use of a name could show in the duration of the next look-up and in the times of the entry. Here, a
program hides random bits in the names, and the next one tries to read them. It guesses half of them without
any help.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import pytest
from effort import one_in_two

from harness import Limits, Sandbox
from harness.environments.python.client import run_on_inputs
from harness.sandbox.backends.docker import spec
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.oci import config

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

ROUNDS = 4
MOST_BITS, LEAST_NAMES_A_BIT, MOST_NAMES_A_BIT = 64, 3, 24
# A reader without any help gets half of the bits, with a standard deviation below 0.04 in each kind of names.
CLOSED, OPEN = 0.7, 0.9
KERNEL = ("/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
# The folders where the kernel keeps no names that do not exist.
FORGETFUL = ("/proc", "/proc/1", "/proc/sys", "/dev", "/dev/pts", "/dev/mqueue", "/dev/shm", "/tmp", "/work")

PRELUDE = """
import json, os, sys, time
groups = json.loads(sys.stdin.read())
# The processes that start programs. No program is told their ids, and every one finds them.
first, second = [str(pid) for pid in range(2, 100) if pid != os.getpid() and os.path.exists(f"/proc/{pid}")]
groups = [[name.format(first=first, second=second) for name in group] for group in groups]
"""
WRITE = """
def read(name):
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(descriptor, 1)
    finally:
        os.close(descriptor)

# The kernel's clock for times of files is late by some milliseconds.
time.sleep(0.02)
print(time.time() - 0.01)
for group in groups:
    for name in group:
        for use in (os.lstat, os.stat, os.readlink, os.listdir, read):
            try:
                use(name)
            except OSError:
                pass
"""
READ = """
time.sleep(0.02)
began = time.time() - 0.01

def look(name):
    before = time.perf_counter_ns()
    try:
        facts = os.lstat(name)
    except OSError:
        facts = None
    return time.perf_counter_ns() - before, facts

for _ in range(100):
    look("/usr")
durations, moments = [], []
for group in groups:
    longer, times = [], []
    for name in group:
        duration, facts = look(name)
        longer.append(duration - min(look(name)[0] for _ in range(3)))
        times += [] if facts is None else [facts.st_atime, facts.st_mtime, facts.st_ctime]
    durations.append(sorted(longer)[len(longer) // 2])
    moments.append([moment for moment in times if moment < began])
print(json.dumps([durations, moments]))
"""


@contextlib.contextmanager
def without_masks() -> Iterator[None]:
    """Have new containers mask nothing. Their guests then look up no names either."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (spec, config):
            patch.setattr(module, "list_masked_paths", lambda _spec: ())
        yield


@contextlib.asynccontextmanager
async def open_sandbox(backend: DockerBackend, limits: Limits | None = None) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=backend, seccomp="strict", limits=limits) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def names(backend: DockerBackend) -> Mapping[str, Sequence[str]]:
    """Return the names of each kind, as a container has them that masks nothing, and one that does."""
    return asyncio.run(list_names(backend))


async def list_names(backend: DockerBackend) -> Mapping[str, Sequence[str]]:
    with without_masks():
        async with open_sandbox(backend) as sandbox:
            everything = await find(sandbox)
    async with open_sandbox(backend) as sandbox:
        there = await find(sandbox)
    process = [name for name in everything if name.startswith("/proc/1/") and "/net/" not in name]
    process += [f"{folder}/ns/{kind}" for folder in ("/proc/1", "/proc/1/task/1") for kind in NAMESPACES]
    return {
        "processes": [
            name.replace("/proc/1", f"/proc/{each}").replace("/task/1", f"/task/{each}")
            for name in process
            for each in ("1", "{first}", "{second}")
        ],
        "networks": [name for name in everything if name.startswith("/proc/1/") and "/net/" in name],
        "not masked": [name for name in there if not is_in_process(name)],
        "masked": sorted({name for name in everything if not is_in_process(name)} - set(there)),
        "missing": [f"{folder}/x{number}" for folder in FORGETFUL for number in range(MOST_BITS * 3)],
    }


def is_in_process(name: str) -> bool:
    parts = name.split("/")
    return len(parts) > 2 and parts[1] == "proc" and parts[2].isdecimal()


async def find(sandbox: Sandbox) -> list[str]:
    result = await sandbox.exec(["find", *KERNEL, "-print0"], keep_bytes=16 << 20)
    names = result.stdout.data.decode().split("\0")
    return [name for name in names if name and not set("{}") & set(name)]


async def run(sandbox: Sandbox, program: str, groups: Sequence[Sequence[str]]) -> Any:
    (only,) = await run_on_inputs(
        sandbox,
        program=f"{PRELUDE}{program}".encode(),
        inputs=[json.dumps(groups).encode()],
        stdout_bytes=1 << 22,
    )
    assert only.succeeded, only
    return json.loads(only.stdout.data)


async def read_bits(sandbox: Sandbox, names: Sequence[str], rng: random.Random) -> dict[str, list[bool]]:
    """Hide bits in the names; return for each way to read them whether each was read right."""
    chosen = rng.sample(names, min(len(names), MOST_BITS * MOST_NAMES_A_BIT))
    number = min(MOST_BITS, len(chosen) // LEAST_NAMES_A_BIT) // 2 * 2
    groups = [chosen[place::number] for place in range(number)]
    bits = rng.sample([True, False] * (number // 2), number)
    written = await run(sandbox, WRITE, [group for group, bit in zip(groups, bits, strict=True) if bit])
    durations, moments = await run(sandbox, READ, groups)
    used = [sum(moment >= written for moment in each) for each in moments]
    scores = {"durations": [-duration for duration in durations], "times": used}
    return {way: compare(score, bits, rng) for way, score in scores.items()}


def compare(scores: Sequence[float], bits: Sequence[bool], rng: random.Random) -> list[bool]:
    """Return whether each bit is right if the higher half of the scores is read as ones."""
    order = sorted(range(len(bits)), key=lambda place: (scores[place], rng.random()))
    ones = set(order[len(bits) // 2 :])
    return [(place in ones) == bit for place, bit in enumerate(bits)]


async def read_all(
    backend: DockerBackend, names: Mapping[str, Sequence[str]], kinds: Sequence[str], rounds: int = ROUNDS
) -> dict[tuple[str, str], float]:
    """Return the share of bits that are read by each kind of name and way, over all rounds."""
    rng = random.Random(1)
    right: dict[tuple[str, str], list[bool]] = {}
    for _ in range(rounds):
        async with open_sandbox(backend) as sandbox:
            # The start of a container leaves its traces in the caches of the processor.
            await run(sandbox, WRITE, [])
            for kind in kinds:
                for way, found in (await read_bits(sandbox, names[kind], rng)).items():
                    right.setdefault((kind, way), []).extend(found)
            assert sandbox.clean
    return {each: sum(found) / len(found) for each, found in right.items()}


async def test_no_use_of_a_name_can_be_read(
    backend: DockerBackend, names: Mapping[str, Sequence[str]]
) -> None:
    shares = await read_all(backend, names, list(names))
    assert {each: share for each, share in shares.items() if share > CLOSED} == {}


async def test_without_the_masks_and_look_ups_each_use_of_a_name_can_be_read(
    backend: DockerBackend, names: Mapping[str, Sequence[str]]
) -> None:
    with without_masks():
        shares = await read_all(backend, names, ["processes", "masked"], rounds=1)
    assert {each: share for each, share in shares.items() if share < OPEN} == {}


TOUCHED = (
    *("/proc/self", "/proc/mounts", "/proc/1/exe", "/proc/1/task/1/cwd", "/proc/{first}/ns/net"),
    *("/proc/1/timerslack_ns", "/proc/{first}/attr/current", "/proc/{second}/task/{second}/attr/exec"),
)
TOUCH = """
os.utime(groups[0][0], follow_symlinks=False)
print(0)
"""


async def test_a_set_time_of_a_name_marks_the_container(backend: DockerBackend) -> None:
    unmarked = []
    for name in one_in_two(TOUCHED, 0):
        async with open_sandbox(backend) as sandbox:
            await run(sandbox, WRITE, [[name]])
            assert not sandbox.marked, f"the use of {name} is a mark"
            await run(sandbox, TOUCH, [[name]])
            unmarked += [] if sandbox.marked else [name]
    assert unmarked == []


async def test_full_memory_marks_the_container_because_the_kernel_then_forgets_names(
    backend: DockerBackend,
) -> None:
    async with open_sandbox(backend, Limits(memory_mb=128, disk_mb=1)) as sandbox:
        await run(sandbox, WRITE, [])
        assert not sandbox.marked
        await run_on_inputs(sandbox, program=b"x = bytearray(1 << 30)", inputs=[b""], stdout_bytes=100)
        assert sandbox.marked
