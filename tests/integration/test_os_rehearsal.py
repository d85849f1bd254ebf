"""A run tries references of `os` that may not pass here, and quarantines the tasks of those that cannot."""

from __future__ import annotations

import pytest
from contexts import environment_context
from docker import APIClient
from effort import THOROUGH

from harness.core.types import Reference, Task
from harness.environments.os.environment import OsSetup
from harness.environments.os.grader import StateChecks
from harness.environments.os.scripts import Script
from harness.environments.os.soundness import find_unsound

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(240)]

EQUAL = Script("python", "from sys import argv\nassert argv[1].strip() == argv[2].strip()")
MADE = "printf '#!/bin/sh\\nls $1 | wc -l\\n' > /usr/local/bin/tally; chmod 755 /usr/local/bin/tally"
QUESTIONS = {
    "used memory": "free -m | awk 'NR==2{print $3}'",
    "all memory": "free -m | awk 'NR==2{print $2}'",
    "load": "cut -d ' ' -f 1 /proc/loadavg",
    "processes": "ps aux | wc -l",
    "a daemon": "pgrep -x sshd > /dev/null && echo yes || echo no",
    "files": "ls / | wc -l",
}
CHANGES = {
    "a mode": ("touch /root/x", "chmod 640 /root/x", '[ "$(stat -c %a /root/x)" = 640 ]'),
    "a mode that root ignores": ("touch /root/x", "chmod 444 /root/x", "[ ! -w /root/x ]"),
    "nothing": ("touch /root/x", "chmod 444 /root/x", "[ -r /root/x ]"),
    "a program": ("true", MADE, "[ `tally /usr`x = `ls /usr | wc -l`x ]"),
    "a program that writes": (
        "true",
        "install /dev/stdin /usr/local/bin/t <<< 'touch /root/y'",
        "[ -z $(t) ]",
    ),
}
UNSOUND = ("a mode that root ignores", "a program that writes")


def question(name: str, example: str) -> tuple[Task, Reference]:
    target = StateChecks((None, EQUAL), Script("bash", example))
    return Task(name, "test", "os", "A question."), Reference(name, example, target, "")


def change(name: str, init: str, example: str, check: str) -> tuple[Task, Reference]:
    target = StateChecks((Script("bash", check),), Script("bash", example))
    setup = OsSetup(inits=(Script("bash", init),))
    return Task(name, "test", "os", f"Do {name}: tally, t.", setup=setup), Reference(
        name, example, target, ""
    )


async def test_a_question_about_the_moment_is_quarantined(client: APIClient) -> None:
    context = environment_context(client, "os")
    tried = [question(name, example) for name, example in QUESTIONS.items()]
    unsound = await find_unsound(context.pool, context.settings, tried)
    assert sorted(unsound) == ["load", "processes", "used memory"]
    assert "in a busier machine" in unsound["processes"]


async def test_a_change_that_its_reference_cannot_make_is_quarantined(client: APIClient) -> None:
    context = environment_context(client, "os")
    # Each has machines of its own.
    names = [name for name in CHANGES if THOROUGH or name in ("a mode", *UNSOUND)]
    tried = [change(name, *CHANGES[name]) for name in names]
    unsound = await find_unsound(context.pool, context.settings, tried)
    assert sorted(unsound) == sorted([*UNSOUND, "nothing"] if THOROUGH else UNSOUND)
    assert all(reason.startswith("its own reference fails: ") for reason in unsound.values())
