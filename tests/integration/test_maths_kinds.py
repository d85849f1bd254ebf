"""Kinds of spellings in LaTeX: each right one passes, and answers that differ from it slightly fail.

This file is apart from the other answers, because each module's sandbox has a deadline for its whole life.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from answer_collection import rows_of_kinds
from effort import one_in_four

from harness import Sandbox
from harness.core.types import Status, Submission
from harness.environments.maths.grader import IMAGE, MathsAnswer, grade_maths
from harness.sandbox.backends.docker.backend import DockerBackend


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open(IMAGE, backend=backend) as opened:
        yield opened


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def passes(sandbox: Sandbox, gold: str, answer: str) -> bool:
    verdict = await grade_maths(sandbox, MathsAnswer(gold), Submission(answer, answer))
    return verdict.status is Status.PASSED


@pytest.mark.parametrize("kind", rows_of_kinds())
async def test_answers_of_a_kind_pass_and_their_near_misses_fail(sandbox: Sandbox, kind: str) -> None:
    offenders = [
        (row.gold, answer, right)
        for row in one_in_four(rows_of_kinds()[kind], 0)
        for right, answers in ((True, row.right), (False, row.wrong))
        for answer in answers
        if await passes(sandbox, row.gold, answer) is not right
    ]
    assert offenders == []
