"""Every grader of text ends, and passes none of the replies that are long, deep or repetitive."""

from __future__ import annotations

import pytest
from answer_collection import Case
from case_checks import each_case
from effort import QUICK_CHARACTERS, THOROUGH, one_in_four

from harness.core.scoring.answers import MAX_REPLY_CHARACTERS
from harness.environments import grader_of
from harness.environments.spec import TextGrader

GOLDS = {
    "gsm8k": "987654321",
    "math": "987654321",
    "nq": ["nobody's answer"],
    "hotpotqa": "nobody's answer",
    "livecodebench-execution": "987654321",
    "livecodebench-test-output": "987654321",
}
PIECES = [
    *("x", "9", "9,", "9 ", "-", "- ", "^", "9^", "1{,}", "1\\,", "1\u00a0000", "1_000"),
    *("\\", "{", "(", "[", "\\{", "$", "\\boxed{", "\\boxed ", "\\text{"),
    *("```\n", "`", "<think>", "</think>", "<", "[ANSWER]", "assert ", "==", "assert f() == "),
    *("\n", " ", "\u0316", "\u2019", "\uff11", "the ", "not ", "'", '"', "#", "\0"),
]
# The longest reply that is graded, and one that is refused. A quick run grades shorter ones.
LENGTHS = (MAX_REPLY_CHARACTERS, 10_000_000) if THOROUGH else (QUICK_CHARACTERS,)
DEPTH = 40_000 if THOROUGH else 20_000
pytestmark = pytest.mark.timeout(120)


async def fails(benchmark: str, reply: str) -> bool:
    """Return whether the reply fails, without a sandbox, because such mathematics is too long for one."""
    reference, submission = Case(benchmark, GOLDS[benchmark], reply).attempt()
    grader = grader_of(reference.target)
    if not isinstance(grader, TextGrader):
        return len(submission.text) <= len(reply)
    return not (await grader.grade(reference.target, submission)).resolved


@each_case(("place", "benchmark"), enumerate(GOLDS))
@each_case("characters", LENGTHS)
async def test_long_replies_of_one_piece_fail(place: int, benchmark: str, characters: int) -> None:
    for piece in one_in_four(PIECES, place):
        assert await fails(benchmark, piece * (characters // len(piece)))


@each_case(("place", "benchmark"), enumerate(GOLDS))
@each_case(
    ("opening", "closing"),
    [
        *zip("[({", "])}", strict=True),
        ("(1,", ")"),
        ("-", "1"),
        ("\\boxed{", "}"),
        ("f(", ")"),
        ("not ", "1"),
    ],
)
async def test_deep_replies_fail(place: int, benchmark: str, opening: str, closing: str) -> None:
    deep = opening * DEPTH + closing * (DEPTH if closing in ")]}" else 1)
    replies = (deep, f"assert f(1) == {deep}", f"[ANSWER]\n{deep}\n[/ANSWER]")
    for reply in replies if THOROUGH else (replies[place % 3],):
        assert await fails(benchmark, reply)


@each_case("benchmark", GOLDS)
async def test_reply_above_the_limit_is_an_empty_submission(benchmark: str) -> None:
    _, submission = Case(benchmark, GOLDS[benchmark], "x" * (MAX_REPLY_CHARACTERS + 1)).attempt()
    assert submission.text == ""
