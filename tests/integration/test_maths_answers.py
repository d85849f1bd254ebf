"""Mathematics is compared in its container: right and wrong answers, and texts that could hang or fool it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from answer_collection import Case, cases
from bundled import load_bundled
from case_checks import each_case

from harness import Sandbox
from harness.audit.attack import Attack, Kind
from harness.audit.suite import list_attacks_on
from harness.core.errors import SandboxError
from harness.core.types import Reference, Status, Submission, Verdict
from harness.environments.maths.grader import IMAGE, MathsAnswer, grade_maths
from harness.sandbox.backends.docker.backend import DockerBackend

BUNDLED = load_bundled("math")
MORE = ", which differs from the gold answer or says more than a value"
QUICK = [attack for attack in list_attacks_on("MathsAnswer") if attack.kind is not Kind.EXHAUSTING]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open(IMAGE, backend=backend) as opened:
        yield opened


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def verdict(sandbox: Sandbox, gold: str, answer: str) -> Verdict:
    return await grade_maths(sandbox, MathsAnswer(gold), Submission(answer, answer))


@each_case(
    ("gold", "answer"),
    [
        (r"\frac12", "0.5"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        ("1,2", "2,1"),
        (r"5\text{ cm}", "5"),
        ("10,000", "10000"),
        (r"(-\infty,2]\cup[3,\infty)", r"[3,\infty) \cup (-\infty, 2]"),
    ],
)
async def test_same_mathematics_passes(sandbox: Sandbox, gold: str, answer: str) -> None:
    assert await verdict(sandbox, gold, answer) == Verdict(
        Status.PASSED, 1.0, {"solved": 1.0, "answer": gold}
    )


@each_case(
    ("gold", "answer", "said"),
    [
        ("8", "7", "answered 7"),
        ("8", "not 7 but 8", f"answered not 7 but 8{MORE}"),
        ("8", "\x1b[2J\u202e8", rf"answered \x1b[2J\u202e8{MORE}"),
        ("8", " ", "no answer"),
        ("8", "8" * 2001, "the answer has 2,001 characters; the limit is 2,000"),
        (r"\text{ }", "8", "answered 8; the gold answer is not mathematics, so only the same text passes"),
    ],
)
async def test_other_mathematics_fails_with_evidence(
    sandbox: Sandbox, gold: str, answer: str, said: str
) -> None:
    found = await verdict(sandbox, gold, answer)
    assert (found.status, found.score, found.evidence) == (Status.FAILED, 0.0, said)


HOSTILE = [
    "9^{9^{9^{9}}}",
    "(" * 900 + "1" + ")" * 900,
    *(pytest.param(text, marks=pytest.mark.thorough) for text in ("(10^{9})!", r"10^{10^{8}}")),
]


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda text: text[:20])
async def test_mathematics_without_end_fails_only_its_own_answer(sandbox: Sandbox, answer: str) -> None:
    try:
        ended = await verdict(sandbox, "2", answer)
    except SandboxError as error:
        if not error.outside:  # The machine may be too busy to tell.
            raise
    else:
        assert ended.status in (Status.TIMEOUT, Status.MEMORY_LIMIT, Status.FAILED, Status.CRASHED)
        assert ended.score == 0.0
    assert sandbox.clean
    assert (await verdict(sandbox, "2", "2.0")).status is Status.PASSED
    assert (await verdict(sandbox, "2", "3")).status is Status.FAILED


@each_case("attack", QUICK, ids=lambda attack: attack.name)
async def test_no_attack_passes_as_the_answer(sandbox: Sandbox, attack: Attack) -> None:
    task = BUNDLED.tasks[0]
    for sample in range(attack.samples):
        submission = await attack.hand_in(BUNDLED, task, sample, None)
        found = await grade_maths(sandbox, target_of(BUNDLED.references[task.id]), submission)
        assert found.status is not Status.PASSED, (sample, submission.text[:80])


def target_of(reference: Reference) -> MathsAnswer:
    assert isinstance(reference.target, MathsAnswer)
    return reference.target


async def passes(sandbox: Sandbox, case: Case) -> bool:
    reference, submission = case.attempt()
    return case.passes(await grade_maths(sandbox, target_of(reference), submission))


def of_maths(name: str) -> list[Case]:
    return [case for case in cases(name) if case.benchmark == "math"]


async def test_right_answers_in_a_usual_style_pass(sandbox: Sandbox) -> None:
    failed = [case for case in of_maths("right") if not await passes(sandbox, case)]
    assert [(case.gold, case.reply) for case in failed] == []


async def test_wrong_answers_that_look_right_fail(sandbox: Sandbox) -> None:
    passed = [case for case in of_maths("wrong") + of_maths("unjudged") if await passes(sandbox, case)]
    assert [(case.gold, case.reply) for case in passed] == []


async def test_no_text_writes_a_file(sandbox: Sandbox) -> None:
    found = await sandbox.exec(["/bin/ls", "-A", "/tmp", "/dev/shm"])
    assert "forged" not in str(found.stdout)


async def test_golds_are_right_and_those_of_the_next_problem_wrong(sandbox: Sandbox) -> None:
    golds = [target_of(BUNDLED.references[task.id]).gold for task in BUNDLED.tasks]
    for gold, other in itertools.pairwise(golds):
        assert (await verdict(sandbox, gold, f"{gold} ")).status is Status.PASSED
        assert (await verdict(sandbox, gold, other)).status is Status.FAILED


async def test_a_service_that_hangs_altogether_is_no_limit_of_an_answer(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = ("/usr/bin/python3", "-S", "-c", "import time; time.sleep(600)")
    monkeypatch.setattr("harness.environments.maths.grader.COMMAND", hanging)
    monkeypatch.setattr("harness.environments.maths.grader._WALL_SECONDS", 0.2)
    monkeypatch.setattr("harness.environments.maths.grader._START_SECONDS", 0.2)
    with pytest.raises(SandboxError, match="did not answer in time") as raised:
        await asyncio.wait_for(verdict(sandbox, "2", "2"), 30)
    assert raised.value.outside
