"""Nothing in the memory that a program inherits depends on the program before it.

Every program is a fork of one process, so it can read whatever that process has learned about earlier ones.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from harness import Sandbox
from harness.environments.python.client import InputRun, run_on_inputs
from harness.sandbox.backends.docker.backend import DockerBackend

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

PLAIN = "x = 1"
# Each ends in another way, or with other counters, than a plain program.
PROGRAMS = {
    "memory": "x = b'x' * (100 << 20)",
    "exit code": "import os; os._exit(42)",
    "signal": "import os; os.kill(os.getpid(), 6)",
    "stopped and continued": """
import ctypes, os, signal
libc = ctypes.CDLL(None)
event, timer = (ctypes.c_int * 16)(0, 0, signal.SIGCONT), ctypes.c_void_p()
libc.timer_create(1, event, ctypes.byref(timer))
libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 20_000_000), None)
os.kill(os.getpid(), signal.SIGSTOP)
""",
    "output": "import sys; sys.stdout.write('x' * 10**6); sys.stderr.write('x' * 10**6)",
}
# Prints each writable region: its address, its size and its bytes.
DUMP = """
import ctypes, struct, sys
for line in open("/proc/self/maps").readlines():
    if "rw-p" in line and "[stack]" not in line:
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        region = ctypes.string_at(first, last - first)
        sys.stdout.buffer.write(struct.pack("QQ", first, len(region)) + region)
"""
HEAD, PAGE = struct.Struct("QQ"), 4096
# Whether each dump follows the other program. Memory changes with the number of programs too, with any period
# while an allocator uses up a free block. No such change has this order.
ORDER = (False, True, True, False, True, False, False, True)
# What depends on the random ids of users may have this order by chance, but not in each of these rounds.
ROUNDS = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=backend, seccomp="strict", deadline_seconds=600.0) as sandbox:
        yield sandbox


@pytest.mark.parametrize("name", PROGRAMS)
async def test_what_a_program_did_is_not_in_the_memory_of_the_next(sandbox: Sandbox, name: str) -> None:
    dumps: dict[bool, list[dict[int, bytes]]] = {False: [], True: []}
    found = ["not searched yet"]
    for _ in range(ROUNDS):
        for is_other in ORDER:
            dumps[is_other].append(await dump_after(sandbox, PROGRAMS[name] if is_other else PLAIN))
        found = list_telling_words(dumps[False], dumps[True])
        if not found:
            break
    assert found == []


async def dump_after(sandbox: Sandbox, program: str) -> dict[int, bytes]:
    """Return the memory, by addresses, of a program that starts when `program` has ended."""
    # The allocator uses two blocks in turn, so each dump comes after the same number of programs modulo 4.
    for each in (PLAIN, PLAIN, program):
        await run(sandbox, each)
    dump = await run(sandbox, DUMP)
    assert dump.succeeded, dump.stderr
    return dict(read_regions(dump.stdout.data))


async def run(sandbox: Sandbox, program: str) -> InputRun:
    (only,) = await run_on_inputs(sandbox, program=program.encode(), inputs=[b"x\n"], stdout_bytes=32 << 20)
    return only


def read_regions(data: bytes) -> list[tuple[int, bytes]]:
    regions, place = [], 0
    while place < len(data):
        first, size = HEAD.unpack_from(data, place)
        place += HEAD.size + size
        regions.append((first, data[place - size : place]))
    assert regions
    return regions


def list_telling_words(left: list[dict[int, bytes]], right: list[dict[int, bytes]]) -> list[str]:
    """Return the words that are the same in all dumps of a side and differ between the sides."""
    found = []
    for first in set.intersection(*map(set, [*left, *right])):
        sides = [[dump[first] for dump in side] for side in (left, right)]
        size = min(len(region) for side in sides for region in side)
        for place in range(0, size, PAGE):
            one, other = ([region[place : place + PAGE] for region in side] for side in sides)
            if one[0] == other[0]:
                continue
            for word in range(0, PAGE, 8):
                seen = [{page[word : word + 8] for page in side} for side in (one, other)]
                if len(seen[0]) == len(seen[1]) == 1 and seen[0] != seen[1]:
                    found.append(f"{first + place + word:x}: {seen[0]} or {seen[1]}")
    return found
