"""Agents that are root forge checks by what these believe. Each such check is known by its structure."""

from __future__ import annotations

import shlex

import pytest
from contexts import environment_context
from docker import APIClient
from effort import THOROUGH, one_in_two
from security.forged_checks import FORGERIES

from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.base import EnvironmentContext
from harness.environments.os.checks import shell_tools
from harness.environments.os.checks.judgement import judge_check
from harness.environments.os.environment import OsSetup, open_machine
from harness.environments.os.grader import StateChecks, grade_state
from harness.environments.os.scripts import Script, run_script

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(240)]

CLEAN = Script("bash", "cd /; rm -rf /root /tmp/* /usr/local/bin/*; mkdir -m 700 /root")
PROMPT = "Make a command `square` that prints the square of its argument."
EXAMPLE = Script(
    "bash",
    "printf '#!/bin/bash\\necho $(($1 * $1))\\n' > /usr/local/bin/square; chmod 755 /usr/local/bin/square; "
    "touch /root/done",
)
# The program judges itself in the first three checks.
CHECKS_OF_SQUARE = (
    "for n in 3 4 5; do [ `square $n`x != $((n * n))x ] && exit 1; done; exit 0",
    'check() { python3 -c "print($(square $1) == $1 * $1)"; }; [ `check 3`x != Truex ] && exit 1\n'
    "[ `check 7`x != Truex ] && exit 1; exit 0",
    "[ $(square 3) -ne 9 ] && exit 1; [ $(square 12) -ne 144 ] && exit 1; [ -e /root/done ]",
)
FORGED_SQUARES = (
    "echo 'exit(print(True))#'",
    "echo two words",
    "echo x",
    "exit 0",
    "kill -9 $PPID",
    "echo 9",
)
RIGHT_SQUARES = ("echo $(($1 ** 2))", 'python3 -c "print($1 * $1.0)"', "expr $1 \\* $1")


@pytest.fixture
def context(client: APIClient) -> EnvironmentContext:
    return environment_context(client, "os")


async def test_each_check_that_an_agent_forges_is_quarantined_or_judged_as_data(
    context: EnvironmentContext,
) -> None:
    """Every forgery passes its check, so that the table proves something."""
    honest, sound = [], []
    async with open_machine(Task("t", "test", "os", "Any."), context) as machine:
        for forgery in FORGERIES:
            await run_script(machine.sandbox, CLEAN, timeout=20)
            await run_script(machine.sandbox, Script("bash", forgery.commands), timeout=20)
            result = await run_script(machine.sandbox, forgery.check, [forgery.answer], timeout=20)
            if result.exit_code != 0:
                honest.append((forgery.check.code, result.exit_code, str(result.stderr)))
            if judge_check(forgery.check).kind == "sound":
                sound.append(forgery.check.code)
    assert not honest, f"these forgeries do not pass: {honest}"
    assert sound == []


async def squared(
    context: EnvironmentContext,
    check: str,
    body: str,
    *,
    also: str = "touch /root/done",
    example: Script = EXAMPLE,
    init: str = "true",
) -> Verdict:
    """Make a command `square` with this body, and return the verdict of a check of it."""
    target = StateChecks((Script("bash", check),), example)
    assert target.judgement.kind == "data"
    program = shlex.quote(f"#!/bin/bash\n{body}")
    make = f"install -m 755 /dev/stdin /usr/local/bin/square <<< {program}"
    setup = OsSetup(inits=(Script("bash", init),))
    async with open_machine(Task("t", "test", "os", PROMPT, setup=setup), context) as machine:
        await machine.call("bash", {"command": f"{also}; {make}"})
        await machine.end_acting()
        return await grade_state(machine, target, Submission("", ""))


async def test_programs_that_deceive_their_check_are_compared_with_the_reference(
    context: EnvironmentContext,
) -> None:
    forged = [
        (check, body, verdict)
        for check, body in one_in_two([*zip(CHECKS_OF_SQUARE * 2, FORGED_SQUARES, strict=True)], 0)
        if (verdict := await squared(context, check, body)).status is not Status.FAILED
    ]
    assert forged == []


async def test_a_right_program_passes_whatever_its_check_believes(context: EnvironmentContext) -> None:
    wrong = [
        (check, verdict)
        for check, body in [*zip(CHECKS_OF_SQUARE, RIGHT_SQUARES, strict=True)][0 if THOROUGH else 2 :]
        if (verdict := await squared(context, check, body)) != Verdict(Status.PASSED, 1.0)
    ]
    assert wrong == []


async def test_a_check_of_programs_looks_at_the_agents_other_files(context: EnvironmentContext) -> None:
    verdict = await squared(context, CHECKS_OF_SQUARE[2], "echo $(($1 ** 2))", also="true")
    assert verdict.status is Status.FAILED


async def test_the_parts_of_the_references_program_are_its_own(context: EnvironmentContext) -> None:
    """The agent's file takes the name of a part, which would make the reference's program print the same."""
    make = (
        "echo 'echo $(($1 * $1))' > /root/part.sh; printf 'bash /root/part.sh $1\\n' > /usr/local/bin/square"
    )
    example = Script("bash", f"{make}; chmod 755 /usr/local/bin/square")
    hostile = "echo 'exit(print(True))#'"
    plant = f"echo {shlex.quote(hostile)} > /root/part.sh"
    forged = await squared(context, CHECKS_OF_SQUARE[1], hostile, also=plant, example=example)
    right = await squared(context, CHECKS_OF_SQUARE[1], "echo $(($1 ** 2))", also=plant, example=example)
    assert (forged.status, right.status) == (Status.FAILED, Status.PASSED)


async def test_files_of_the_agent_do_not_speak_through_the_references_program(
    context: EnvironmentContext,
) -> None:
    """The reference's program prints the agent's file, so that the check would read `[ x -o x = hello ]`."""
    example = Script("bash", "echo 'cat /root/text' | install -m 755 /dev/stdin /usr/local/bin/square")
    plant, init = "echo x -o x > /root/text", "echo hello > /root/text"
    check = "[ $(square) = hello ]"
    verdict = await squared(context, check, "echo x -o x", also=plant, example=example, init=init)
    assert (verdict.status, verdict.evidence) == (
        Status.FAILED,
        "the files that the agent left decide what square prints",
    )


async def test_a_check_of_another_program_than_the_references_fails(context: EnvironmentContext) -> None:
    check = "[ $(square 3) = 9 ] && [ $(git -C /root/r log | wc -l) = 5 ]"
    example = Script("bash", f"{EXAMPLE.code}; git init -q /root/r")
    verdict = await squared(context, check, "echo $(($1 ** 2))", example=example)
    assert verdict.status is Status.FAILED


async def test_the_image_has_every_tool_that_checks_may_start(context: EnvironmentContext) -> None:
    """An agent could make a tool that the image lacks."""
    look = Script("bash", 'for name; do type -- "$name" > /dev/null 2>&1 || echo "$name"; done')
    async with open_machine(Task("t", "test", "os", "Any.", setup=OsSetup()), context) as machine:
        result = await run_script(machine.sandbox, look, sorted(shell_tools.list_tools()), timeout=20)
    assert str(result.stdout) == ""
