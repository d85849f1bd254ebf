"""Hostile programs that read stdin: none passes, none reaches another test, and none is left over."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from harness import Sandbox
from harness.audit.attack_kinds import ProgramAttack
from harness.audit.run import LIMITS
from harness.audit.suite import list_attacks_on
from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.python.client import run_on_inputs
from harness.environments.python.stdin_programs import StdinTest, StdinTests, grade_stdin
from harness.sandbox.backends.docker.backend import DockerBackend

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

TASK = Task(
    "parity", "livecodebench", "python", "Print Yes where the number is even, and No where it is odd."
)
# Neither answer is always right, and the last one cannot be guessed.
TESTS = tuple(
    StdinTest(f"{number}\n", f"{'No' if number % 2 else 'Yes'}\n") for number in (2, 3, 7, 10, 12, 15)
)
LAST = StdinTest("8461\n", "secret 5179\n")
RIGHT = "n = int(input())\nprint('secret 5179' if n == 8461 else ('Yes', 'No')[n % 2])"
OWN = [
    attack
    for attack in list_attacks_on("StdinTests")
    if isinstance(attack, ProgramAttack) and not attack.name.endswith("-on-stdin")
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=backend, limits=LIMITS, seccomp="strict") as sandbox:
        yield sandbox


async def grade(sandbox: Sandbox, program: str, *tests: StdinTest, shown: int = 1) -> Verdict:
    chosen = tests or (*TESTS, LAST)
    return await grade_stdin(sandbox, StdinTests(tuple(chosen), shown), Submission(program, ""))


async def outputs(sandbox: Sandbox, program: str, *inputs: bytes) -> list[bytes]:
    runs = await run_on_inputs(sandbox, program=program.encode(), inputs=inputs, stdout_bytes=1 << 16)
    assert [run.succeeded for run in runs] == [True] * len(inputs), runs
    assert sandbox.clean
    return [run.stdout.data for run in runs]


async def test_the_right_program_passes(sandbox: Sandbox) -> None:
    assert (await grade(sandbox, RIGHT)).status is Status.PASSED


async def test_there_are_at_least_eight_attacks_on_stdin_programs() -> None:
    assert len(OWN) >= 8


@pytest.mark.parametrize("attack", OWN, ids=[attack.name for attack in OWN])
async def test_no_attack_passes_and_the_right_program_passes_after_it(
    sandbox: Sandbox, attack: ProgramAttack
) -> None:
    for program in attack.write_programs(TASK):
        verdict = await grade(sandbox, program)
        assert verdict.status is not Status.PASSED, verdict
        assert verdict.score == 0.0
    assert sandbox.clean
    assert (await grade(sandbox, RIGHT)).status is Status.PASSED


async def test_samples_that_learn_get_no_further_from_one_to_the_next(sandbox: Sandbox) -> None:
    """The number of runs does not depend on hidden answers, so a program learns nothing from another run."""
    (learner,) = [attack for attack in OWN if attack.name == "learn-through-files"]
    asked = [
        (await grade(sandbox, program, *TESTS)).metrics["tests_run"]
        for program in learner.write_programs(TASK)
    ]
    assert asked[0] == 1, "the first sample is wrong about a test that the prompt shows"
    assert set(asked[1:]) == {len(TESTS)}


async def test_a_daemon_is_dead_before_the_next_run(sandbox: Sandbox) -> None:
    program = (
        "import os, time\n"
        "def other(pid):\n    try: os.kill(pid, 0)\n    except OSError as error: return error.errno == 1\n"
        # For a moment, the guest may have processes that count open files.
        "end = time.monotonic() + 5\n"
        "while (found := sum(map(bool, map(other, range(1, 1000))))) > 3 and time.monotonic() < end:\n"
        "    time.sleep(0.05)\n"
        "print(found)\n"
        "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  import time; time.sleep(60)\n os._exit(0)\n"
    )
    assert await outputs(sandbox, program, b"", b"", b"") == [b"3\n"] * 3  # PID 1 and the spawners


async def test_nothing_is_left_in_any_folder_for_the_next_run(sandbox: Sandbox) -> None:
    program = (
        "import os\n"
        "for folder in ('.', '/tmp', '/dev/shm', '/dev/mqueue', '/work'):\n"
        "    print(os.listdir(folder) if folder != '/work' else len(os.listdir(folder)))\n"
        "    try: os.mkdir(f'{folder}/left'); open(f'{folder}/left/file', 'w').write('x')\n"
        "    except OSError: pass\n"
    )
    first, second = await outputs(sandbox, program, b"", b"")
    assert first == second == b"['candidate.py']\n[]\n[]\n[]\n1\n"


async def test_the_inputs_of_later_tests_are_nowhere_to_be_read(sandbox: Sandbox) -> None:
    program = (
        "import os\n"
        "found = []\n"
        "for pid in range(1, 300):\n"
        "    if pid == os.getpid() or not os.path.exists(f'/proc/{pid}'): continue\n"
        "    for name in ('mem', 'environ', 'cmdline', *[f'fd/{n}' for n in range(64)], 'maps'):\n"
        "        try: data = open(f'/proc/{pid}/{name}', 'rb', buffering=0).read(1 << 20)\n"
        "        except OSError: continue\n"
        "        if name != 'cmdline' and data: found.append((pid, name))\n"
        "print(found, input())\n"
    )
    assert await outputs(sandbox, program, b"first", b"second") == [b"[] first\n", b"[] second\n"]


async def test_a_program_has_no_descriptor_but_the_three(sandbox: Sandbox) -> None:
    program = (
        "import os\n"
        "def there(n):\n    try: os.fstat(n)\n    except OSError: return False\n    return True\n"
        "print([n for n in range(256) if there(n)])"
    )
    assert await outputs(sandbox, program, b"x") == [b"[0, 1, 2]\n"]


async def test_writes_of_a_run_to_its_input_do_not_reach_the_next_run(sandbox: Sandbox) -> None:
    program = (
        "import os\nprint(open('/dev/stdin').read())\n"
        "try: os.truncate('/proc/self/fd/0', 0); open('/proc/self/fd/0', 'r+').write('mine')\n"
        "except OSError: pass"
    )
    assert await outputs(sandbox, program, b"a", b"a", b"b") == [b"a\n", b"a\n", b"b\n"]


async def test_a_run_that_kills_all_it_can_reaches_nobody(sandbox: Sandbox) -> None:
    verdict = await grade(sandbox, "import os\nos.kill(-1, 9)\nprint('Yes')", TESTS[0])
    assert verdict.status is Status.PASSED, "the program itself is spared by the kernel"
    assert (await grade(sandbox, RIGHT)).status is Status.PASSED
