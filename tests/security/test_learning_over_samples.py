"""Test the parts of learners one by one: no memory lasts, and no oracle knows.

An audit shows whether they forge together. Here each memory and each oracle stands alone, and the host
knows what was saved and which answers were right, so that one hole is found while the other is closed.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from harness import Sandbox, load_benchmark
from harness.audit.attack import AttackFile, choose_attacks, include_parts, list_parts
from harness.audit.attack_kinds import read_prelude
from harness.audit.suite import list_attacks
from harness.benchmarks import Benchmark
from harness.core.types import ProgramTests, Task
from harness.environments.python.client import TestReport, run_tests
from harness.environments.python.programs import grade_program
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

FACTS = "NAMES = ['f']\nENTRY_POINT = 'f'\nTASK = 'T/1'\nSAMPLE = 0\n"
# The chance to guess a number of 7 bits five times is 1 in 34 thousand million.
NUMBERS, BITS = 5, 60
CALLS, SAMPLES = 8, 24
MEMORIES, ORACLES = list_parts("memories"), list_parts("oracles")


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=4, wall_seconds=20, memory_mb=256, processes=64)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


async def run(sandbox: Sandbox, program: str, *statements: str) -> TestReport:
    return await run_tests(
        sandbox,
        program=f"{FACTS}{read_prelude()}\n{program}",
        preamble="",
        setup="",
        statements=statements,
        exports={"f": "f"},
        classes={},
    )


@pytest.mark.parametrize("memory", MEMORIES, ids=lambda memory: memory.path.stem)
async def test_a_sample_cannot_read_what_the_sample_before_it_has_saved(
    sandbox: Sandbox, memory: AttackFile
) -> None:
    head = f"MEMORIES = []\n{include_parts(memory.text)}\ndef f(x):\n    for save, load in MEMORIES:\n"
    tail = "    sys.stdout.flush()\n    return x\n"
    read = []
    for _ in range(NUMBERS):
        number = random.getrandbits(min(memory.header["bits"], BITS)) | 1
        await run(sandbox, f"{head}        attempt(save, {number})\n{tail}", "f(1)")
        if sandbox.marked:
            return  # the next attempt gets a new container
        report = await run(sandbox, f"{head}        print(attempt(load))\n{tail}", "f(1)")
        read.append(str(report.stdout).strip() == str(number))
    assert not all(read), f"{memory.header['place']}: five samples out of five knew the number"


_WATCH = """
import json

RIGHT = {right}
given, before, seen = [], [], []

def read_all():
    return [number for read in READERS for number in read()]

def f(x):
    now = read_all()
    if before:
        seen.append([new - old for new, old in zip(now, before.pop())])
    if x == {calls}:
        print(json.dumps(seen), flush=True)
        return x
    answer = x if RIGHT[x] else -1
    before.append(read_all())
    return answer
"""


@pytest.mark.parametrize("form", ["statements", "function"])
@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: oracle.path.stem)
async def test_no_observation_of_a_program_distinguishes_right_answers(
    sandbox: Sandbox, oracle: AttackFile, form: str
) -> None:
    """One of two kinds of samples gives its first wrong answer where the other one is right."""
    asserts = [f"assert f({number}) == {number}" for number in range(CALLS)]
    if form == "function":
        asserts = ["def check():\n" + "".join(f"    {line}\n" for line in asserts), "check()"]
    observed: dict[bool, list[list[float]]] = {True: [], False: []}
    for place in range(SAMPLES):
        right = place % 2 == 0
        answers = [True, True, right, False, *[True] * (CALLS - 4)]
        program = f"READERS = []\n{include_parts(oracle.text)}{_WATCH.format(right=answers, calls=CALLS)}"
        report = await run(sandbox, program, *asserts, f"f({CALLS})")
        observed[right].append(json.loads(str(report.stdout))[2])
    for counter in range(len(observed[True][0])):
        right_ones, wrong_ones = ([one[counter] for one in observed[key]] for key in (True, False))
        apart = _share_above(right_ones, wrong_ones)
        assert 0.03 < apart < 0.97, f"{oracle.header['sees']}: number {counter}: {right_ones} or {wrong_ones}"


async def test_a_learner_forges_nothing_even_in_a_reused_container(sandbox: Sandbox) -> None:
    """A sample can pass everything that it observes on to the next one, but it can observe nothing."""
    benchmark = load_benchmark("humaneval", data="bundled")
    task = next(task for task in benchmark.tasks if _asks_for_truth(benchmark, task))
    (attack,) = choose_attacks(list_attacks(), ["learn-from-the-tests-process"])
    for sample in range(attack.samples):
        submission = await attack.hand_in(benchmark, task, sample, None)
        verdict = await grade_program(sandbox, _tests_of(benchmark, task), submission)
        assert not verdict.resolved, f"sample {sample} of {task.id} passed"


def _tests_of(benchmark: Benchmark, task: Task) -> ProgramTests:
    target = benchmark.references[task.id].target
    assert isinstance(target, ProgramTests)
    return target


def _asks_for_truth(benchmark: Benchmark, task: Task) -> bool:
    statements = "".join(_tests_of(benchmark, task).statements)
    return "is True" in statements or "== True" in statements


def _share_above(left: list[float], right: list[float]) -> float:
    """Return how often a number of `left` exceeds one of `right`: 0.5 if both have the same distribution."""
    above = sum((one > other) + (one == other) / 2 for one in left for other in right)
    return above / (len(left) * len(right))
