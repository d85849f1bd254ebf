"""Checks that would pass by what they trust: a login shell, a command that is missing, or an empty answer."""

from __future__ import annotations

import pytest
from contexts import environment_context
from docker import APIClient

from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.base import EnvironmentContext
from harness.environments.os.environment import OsSetup, open_machine
from harness.environments.os.grader import UNREADABLE_FILES, StateChecks, grade_state
from harness.environments.os.scripts import Script

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]


XMLLINT = "printf '#!/bin/sh\nexit 0\n' > /usr/local/bin/xmllint; chmod 755 /usr/local/bin/xmllint"


@pytest.fixture
def context(client: APIClient) -> EnvironmentContext:
    return environment_context(client, "os")


async def checked(
    context: EnvironmentContext, command: str, *checks: str, prompt: str = "Do the work.", init: str = "true"
) -> Verdict:
    """Run the agent's command, and return the verdict of the checks on the machine."""
    task = Task("t", "test", "os", prompt, setup=OsSetup(inits=(Script("bash", init),)))
    async with open_machine(task, context) as environment:
        assert "[exit code 0]" in (await environment.call("bash", {"command": command})).text
        await environment.end_acting()
        target = StateChecks(tuple(Script("bash", check) for check in checks))
        return await grade_state(environment, target, Submission("", ""))


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


async def test_a_command_that_the_image_lacks_passes_no_check(context: EnvironmentContext) -> None:
    assert (await checked(context, XMLLINT, "xmllint --noout /root/x.xml")).status is Status.FAILED


async def test_an_agent_may_make_what_its_task_asks_for(context: EnvironmentContext) -> None:
    verdict = await checked(
        context,
        f"useradd -m eve; echo right > /tmp/state; useradd -s /bin/true ann; touch /srv/TOOLS; {XMLLINT}",
        # Users of the image and of the set-up keep their shells.
        "su eve -c 'grep -q right /tmp/state' && id daemon && id idle",
        "grep -q '^ann:.*:/bin/true$' /etc/passwd",
        "xmllint --noout /root/x.xml",
        # `find` complains of the processes in /proc, which it cannot read.
        "ls / && find / -name TOOLS | grep -x /srv/TOOLS",
        prompt="Give ann the shell /bin/true. Write a command xmllint.",
        init="useradd -s /bin/sync idle",
    )
    assert verdict == Verdict(Status.PASSED, 1.0), verdict.evidence
