"""Each attack forges a grader of the kind at which it is aimed, or a table gives the reason why it cannot.

The naive graders and the programs that they grade run in sandboxes, as the agent's user.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from docker import APIClient
from security.naive_graders import (
    CALLED,
    CALLED_BACK,
    CLOSE,
    DERIVED,
    FUNCTION,
    GRADERS,
    LATER,
    LOOKED_UP,
    MAPPED,
    MEMBER,
    NEAR,
    ON_LISTS,
    RAISES,
    RIGHT,
    TASK,
    TRUE,
    USUAL,
    WRONG,
    Form,
    Grader,
)

from harness import Sandbox
from harness.audit.attack import Kind
from harness.audit.attack_kinds import ProgramAttack
from harness.audit.suite import list_attacks_on
from harness.core.errors import SandboxError
from harness.core.types import ProgramTests, Status, Submission
from harness.environments.python.programs import grade_program
from harness.environments.python.verdicts import BROKE_PROTOCOL
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

ATTACKS = {
    attack.name: attack for attack in list_attacks_on("ProgramTests") if isinstance(attack, ProgramAttack)
}
# Attacks on one form of tests. All others are tried on the usual form.
FORMS = {
    "true-in-every-way": TRUE,
    "stop-iteration": MAPPED,
    "not-a-number": NEAR,
    "every-exception-at-once": RAISES,
    "yields-everything": MEMBER,
    "mutates-its-arguments": DERIVED,
    "call-the-tests-functions": CALLED_BACK,
    "changed-after-return": LATER,
    "hash-chameleon": LOOKED_UP,
    "lying-elements": ON_LISTS,
    "answers-with-functions": CALLED,
    "patch-builtins": NEAR,
    "patch-libraries": CLOSE,
    "import-hooks": CLOSE,
    "replace-main-module": TRUE,
}
# The grader at which most attacks of a class are aimed. It is tried first, and the others follow.
AIMED_AT = {
    Kind.EXHAUSTING: "failures noted",
    "race-the-cpu-limit": "tests beside the program",
    "race-the-wall-limit": "printed line",
    "base-exceptions": "failures noted",
    "faulthandler-exit": "failures noted",
    "poison-daemon": "failures noted",
    "hunting-daemon": "failures noted",
    "no-more-exec": "failures noted",
    "read-descriptors": "standard input",
    "ask-the-network": "tests served",
    "process-vm-writev": "unpickled answers, printed",
    "environment-of-the-next": "tests beside the program",
    "overwrite-tests": "tests beside the program",
    "poisoned-bytecode": "tests beside the program",
    "replace-the-harness": "tests beside the program",
    "frames-to-results": "result list",
    "gc-to-results": "result list",
    "read-frames": "result list",
    "read-heap": "result list",
    "read-other-memory": "result list",
    "read-own-memory": "result list",
    "remember-in-a-daemon": "result list",
    "remember-in-descriptor-flags": "result list",
    "remember-in-locks": "result list",
    "remember-in-attributes": "compared values",
    "remember-in-the-spawners-counters": "compared values",
    "swap-code": "compared values",
    "traceback-to-tests": "compared values",
    "last-word-on-stdout": "printed line",
    "verdict-then-kill": "printed line",
    "verdict-then-segfault": "printed line",
    "read-bytecode": "tests beside the program",
}
# Messages from earlier to later samples may get lost in a channel that other processes use too.
TRIES = 3

PROTOCOL = "speaks a protocol that only our grader has; what it does to that one is tested below"
FILTER = "needs a system call that the sandbox, in which the naive graders run too, refuses"
LIMITED = "is ended by a limit, which is a fail to every grader that has one; it is aimed at the others"
MACHINE = "needs a privileged container, or pytest, and there is neither"
DENIAL = "keeps others from working or cleaning up, which is a fail, not a pass, to all of these graders"
MEASURED = "returns wrong answers after too much work; test_processor_time_relays.py measures that work"
WATCHES = "watches tests in another process; where only their end tells, it does not guess: that is luck"
WEATHER = "needs pages that nobody else reads or drops meanwhile: it forges on a quiet machine only"
COUNTED = "needs a grader that keeps what its last child used; test_inherited_memory.py searches ours"
BLUNT = {
    "pretend-to-be-the-protocol": PROTOCOL,
    "replay-answers": PROTOCOL,
    "echo-questions": PROTOCOL,
    "flipped-bits": PROTOCOL,
    "oversized-frames": PROTOCOL,
    "replaced-encoder": PROTOCOL,
    "invented-handles": PROTOCOL,
    "pass-descriptors": PROTOCOL,
    "nested-lists": PROTOCOL,
    "cyclic-data": PROTOCOL,
    "slow-answers": PROTOCOL,
    "colliding-hashes": PROTOCOL,
    "huge-answers": PROTOCOL,
    "shared-references": PROTOCOL,
    "endless-iterator": PROTOCOL,
    "huge-exceptions": PROTOCOL,
    "ptrace-everything": FILTER,
    "steal-descriptors": FILTER,
    "remember-in-the-keyring": FILTER,
    "learn-from-the-tests-process": WATCHES,
    "learn-from-costly-evidence": WATCHES,
    "learn-from-the-container": WATCHES,
    "relay-chain-of-children": MEASURED,
    "relay-chain-behind-an-idle-sibling": MEASURED,
    "read-the-machine": MACHINE,
    "conftest": MACHINE,
    "remember-in-the-page-cache": WEATHER,
    "remember-in-what-the-spawner-remembers": COUNTED,
    "prlimit-everybody": DENIAL,
    "traps-for-the-cleaner": DENIAL,
    "spin-for-ever": LIMITED,
    "stop-everything": LIMITED,
    "fill-the-process-table": LIMITED,
    "fill-with-threads": LIMITED,
    "ever-new-orphans": LIMITED,
    "hide-memory-in-files": LIMITED,
    "flood-the-output": LIMITED,
}
SHARP = {name: attack for name, attack in ATTACKS.items() if name not in BLUNT}
# Two of each class. A thorough run tries them all.
REPRESENTATIVE = [
    name for kind in Kind for name in [name for name, attack in SHARP.items() if attack.kind is kind][:2]
]
# Attacks on the channel to the tests. Each must at least send something on it.
SPEAKING = (
    "faulthandler-exit",
    "flipped-bits",
    "invented-handles",
    "malformed-frames",
    "oversized-frames",
    "pass-descriptors",
    "pickles-on-descriptors",
    "pretend-to-be-the-protocol",
    "replaced-encoder",
    "write-every-descriptor",
    "exec-an-impostor",
)
CLEAR = (
    "cd /; shopt -s dotglob nullglob; for folder in /work/agent /tmp /dev/shm; do "
    "chmod -R u+rwx $folder/* 2>/dev/null; rm -rf $folder/* 2>/dev/null; done; true"
)


class Ground:
    """A sandbox for naive graders, which is replaced when it is no longer clean."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._open = contextlib.AsyncExitStack()
        self._sandbox: Sandbox | None = None

    async def passed(self, grader: Grader, programs: list[str], form: Form = USUAL) -> list[bool]:
        """Grade the programs, and return which passed: none, if they end the sandbox."""
        sandbox = await self._current()
        try:
            verdicts = await grader.passed(sandbox, programs, form)
            await sandbox.exec(["bash", "-c", CLEAR], timeout=60)
        except SandboxError:
            sandbox.clean = False
            return [False] * len(programs)
        return verdicts

    async def renew(self) -> None:
        self._sandbox = None
        await self._open.aclose()

    async def _current(self) -> Sandbox:
        if self._sandbox is None or not self._sandbox.clean:
            await self.renew()
            # A busy machine must still fill the memory and the inodes before a naive grader's time is up.
            limits = Limits(
                memory_mb=256,
                processes=96,
                disk_mb=32,
                inodes=2048,
                cpu_seconds=4,
                uncounted_sockets=True,
            )
            self._sandbox = await self._open.enter_async_context(
                Sandbox.open("python", backend=DockerBackend(self._client), limits=limits)
            )
        return self._sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground(client: APIClient) -> AsyncIterator[Ground]:
    ground = Ground(client)
    yield ground
    await ground.renew()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ours(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=2, wall_seconds=5, memory_mb=256, processes=64, uncounted_sockets=True)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


@pytest.mark.parametrize("grader", GRADERS.values(), ids=GRADERS)
async def test_a_naive_grader_passes_a_right_program(ground: Ground, grader: Grader) -> None:
    assert await ground.passed(grader, [RIGHT]) == [True]


@pytest.mark.parametrize("grader", GRADERS.values(), ids=GRADERS)
async def test_a_naive_grader_fails_a_wrong_program(ground: Ground, grader: Grader) -> None:
    assert await ground.passed(grader, [WRONG]) == [False]


@pytest.mark.parametrize(
    "form", {form.name: form for form in FORMS.values()}.values(), ids=lambda form: form.name
)
async def test_a_wrong_program_fails_the_tests_however_they_are_written(ground: Ground, form: Form) -> None:
    assert await ground.passed(GRADERS["exit code"], [WRONG], form) == [False]


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=name, marks=[] if name in REPRESENTATIVE else pytest.mark.thorough)
        for name, attack in SHARP.items()
    ],
)
async def test_an_attack_forges_a_naive_grader(ground: Ground, attack: ProgramAttack) -> None:
    assert await _forged(ground, attack) is not None, (
        "forges none: sharpen it, or give the reason under BLUNT"
    )


@pytest.mark.parametrize("name", SPEAKING)
async def test_an_attack_on_the_protocol_reaches_the_channel_to_the_tests(ours: Sandbox, name: str) -> None:
    signs = []
    for program in ATTACKS[name].write_programs(TASK):
        tests = ProgramTests(tuple(USUAL.source.splitlines()), {FUNCTION: FUNCTION})
        verdict = await grade_program(ours, tests, Submission(program, agent_output=""))
        assert verdict.status is not Status.PASSED
        signs.append(verdict.tampering)
    assert BROKE_PROTOCOL in signs


@pytest.mark.parametrize("kind", sorted({attack.kind for attack in ATTACKS.values()}))
async def test_every_class_has_attacks_that_forge_naive_graders(kind: Kind) -> None:
    assert any(attack.kind is kind for attack in SHARP.values())


async def test_every_name_under_blunt_is_an_attack() -> None:
    assert BLUNT.keys() <= ATTACKS.keys()


async def _forged(ground: Ground, attack: ProgramAttack) -> str | None:
    """Return the name of a grader that passes a program of the attack."""
    remembers = attack.kind in (Kind.LEARNING, Kind.SAMPLING) and len(attack.templates) > 1
    before = [RIGHT] if attack.name == "answers-of-the-last-sample" else []
    programs = [*before, *attack.write_programs(TASK)]
    form = FORMS.get(attack.name, USUAL)
    for _ in range(TRIES):
        if remembers:
            await ground.renew()  # Traces of earlier attacks in the container may hide its message.
        for grader in _in_order(attack):
            verdicts = await ground.passed(grader, programs, form)
            if any(verdicts[len(before) :]):
                return grader.name
    return None


def _in_order(attack: ProgramAttack) -> list[Grader]:
    first = AIMED_AT.get(attack.name) or AIMED_AT.get(attack.kind)
    return sorted(GRADERS.values(), key=lambda grader: grader.name != first)
