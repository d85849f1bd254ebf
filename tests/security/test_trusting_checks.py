"""Checks that would pass by what they trust: a login shell, a command that is missing, or an empty answer."""

from __future__ import annotations

import pytest
from contexts import environment_context
from docker import APIClient

from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.base import EnvironmentContext
from harness.environments.os.environment import OsSetup, open_machine
from harness.environments.os.grader import NO_ANSWER, UNREADABLE_FILES, StateChecks, grade_state
from harness.environments.os.scripts import Script

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]

CONTAINED = "from sys import argv\nexit(0 if argv[1].strip() in argv[2].strip() else 1)"


@pytest.fixture
def context(client: APIClient) -> EnvironmentContext:
    return environment_context(client, "os")


async def checked(
    context: EnvironmentContext, command: str, check: str, *, prompt: str = "Do the work.", init: str = "true"
) -> Verdict:
    """Run the agent's command, and return the verdict of the check on the machine."""
    task = Task("t", "test", "os", prompt, setup=OsSetup(inits=(Script("bash", init),)))
    async with open_machine(task, context) as environment:
        assert "[exit code 0]" in (await environment.call("bash", {"command": command})).text
        await environment.end_acting()
        return await grade_state(environment, StateChecks((Script("bash", check),)), Submission("", ""))


async def test_a_user_whose_shell_runs_no_command_passes_no_check(context: EnvironmentContext) -> None:
    shells = {"eve": "/bin/true", "ann": "/bin/sync"}
    async with open_machine(Task("t", "test", "os", "Do the work."), context) as environment:
        for name, shell in shells.items():
            await environment.call("bash", {"command": f"useradd -s {shell} {name}"})
        await environment.end_acting()
        for name in shells:
            target = StateChecks((Script("bash", f"su {name} <<< 'grep -q right /tmp/state'"),))
            verdict = await grade_state(environment, target, Submission("", ""))
            assert (verdict.status, verdict.tampering) == (Status.FAILED, UNREADABLE_FILES), name


async def test_users_of_the_image_and_the_set_up_keep_their_shells(context: EnvironmentContext) -> None:
    verdict = await checked(
        context,
        "useradd -m eve; echo right > /tmp/state",
        "su eve -c 'grep -q right /tmp/state' && id daemon && id idle",
        init="useradd -s /bin/true idle",
    )
    assert verdict == Verdict(Status.PASSED, 1.0)


async def test_a_task_may_ask_for_a_shell_that_runs_no_command(context: EnvironmentContext) -> None:
    check = "grep -q '^eve:.*:/bin/true$' /etc/passwd"
    prompt = "Give eve the shell /bin/true."
    verdict = await checked(context, "useradd -s /bin/true eve", check, prompt=prompt)
    assert verdict == Verdict(Status.PASSED, 1.0)


async def test_a_command_that_the_image_lacks_passes_no_check(context: EnvironmentContext) -> None:
    make = "printf '#!/bin/sh\nexit 0\n' > /usr/local/bin/xmllint; chmod 755 /usr/local/bin/xmllint"
    verdict = await checked(context, make, "xmllint --noout /root/x.xml")
    assert verdict.status is Status.FAILED
    asked = await checked(context, make, "xmllint --noout /root/x.xml", prompt="Write a command xmllint.")
    assert asked.status is Status.PASSED


async def test_a_check_may_look_at_the_whole_machine(context: EnvironmentContext) -> None:
    verdict = await checked(context, "touch /srv/TOOLS", "ls / && find / -name TOOLS | grep -x /srv/TOOLS")
    # `find` complains of the processes in /proc, which it cannot read.
    assert verdict.status is Status.PASSED, verdict.evidence


async def test_no_answer_is_not_contained_in_the_right_one(context: EnvironmentContext) -> None:
    cases = {
        ("", "echo 3"): Status.FAILED,
        (" \n", "echo 3"): Status.FAILED,
        ("3", "echo 3"): Status.PASSED,
        ("", "echo"): Status.PASSED,
    }
    async with open_machine(Task("t", "test", "os", "A question."), context) as environment:
        await environment.end_acting()
        for (answer, example), status in cases.items():
            target = StateChecks((None, Script("python", CONTAINED)), Script("bash", example))
            verdict = await grade_state(environment, target, Submission(answer, answer))
            assert verdict.status is status, (answer, example)
            assert status is Status.PASSED or verdict.evidence == NO_ANSWER
