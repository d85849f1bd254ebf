"""The tasks of `os` that no grader can rely on, which a run leaves out by default.

The gold of some of upstream's tasks is wrong or depends on the host. These are named here. The check of
others believes the agent, as its structure tells (`harness.environments.os.checks`). The rest is tried before
a run: a task that asks for a change is played by its reference and graded. A question about memory or
processes is asked twice, the second time in a busier machine. Other questions are not tried, because the
right answer is computed as the reference computes it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from harness.core.errors import SandboxError
from harness.core.text import escape_text, shorten
from harness.core.types import Reference, Status, Submission, Task
from harness.environments.base import EnvironmentContext, NoTranscript
from harness.environments.os.environment import Machine, open_machine
from harness.environments.os.grader import AnswerMatch, StateChecks, grade_state, solve
from harness.environments.os.programs import SCRIPT_SECONDS
from harness.environments.os.scripts import Script, is_comparison, run_script
from harness.sandbox.pool import SandboxPool, SandboxSettings

_HOST_PROCESSES = "its gold counts processes, and their number depends on the host and the moment"
_NO_SUCH_SHELL = (
    "its set-up ends in `su - jack`, which has no effect on the agent's shell, so that ~/test does not exist"
)
AT_ONCE = 3
SECONDS = 180.0
TRIES = 2
KEPT_CHARACTERS = 100
# The sources of figures that change with the programs of the machine, or of the host.
_START = r"(?:^|[|;&(`\n]|\b(?:do|then|sudo)\s)\s*"
_LIVE = re.compile(
    rf"{_START}(?:free|lsof|netstat|pgrep|pidof|ps|pstree|ss|w|who)\b|/proc/(?:meminfo|\d|\*|\[|\$|net|self)"
)
_NEVER_THE_SAME = re.compile(
    rf"{_START}(?:uptime|vmstat|top|mpstat|iostat)\b|loadavg|RANDOM|urandom|/proc/stat\b"
)
_BURDEN = Script(
    "bash",
    "for number in {1..12}; do sleep 60 > /dev/null 2>&1 & done\n"
    "python3 -c \"import time; text = b'x' * (300 << 20); open('/dev/shm/busy', 'w'); time.sleep(60)\""
    " > /dev/null 2>&1 &\n"
    "until [ -e /dev/shm/busy ]; do sleep 0.05; done",
)


# The tasks that are not sound, and the reason. `*` is the name of a file.
QUARANTINE = {
    "os/dev/8": 'its check reads sizes as integers, and fails on "8.0K", the answer of its own example',
    "os/dev/24": _NO_SUCH_SHELL,
    "os/4/N11": "its example leaves out names with a k, but its text asks for names without a u",
    "os/4/Q09/0": (
        "its set-up writes to file descriptor 123321, because it lacks a blank before >, and that fails "
        "unless the host's limit of open files (nofile) is above that number"
    ),
    "os/4/Q47/0": (
        "its checks accept any file of that name, so that they cannot tell a move from a new file"
    ),
    "os/6/new/0": _NO_SUCH_SHELL,
    "os/6/new/1": _NO_SUCH_SHELL,
    "os/6/new/8": "its gold installs a package from the network, which no sandbox has",
    "os/7/*/0": _HOST_PROCESSES,
    "os/7/*/4": _HOST_PROCESSES,
    "os/7/*/75": _HOST_PROCESSES,
}


def why_quarantined(task_id: str) -> str | None:
    """Return the reason why a task is quarantined, or None if it is not."""
    return next((reason for tasks, reason in QUARANTINE.items() if fnmatchcase(task_id, tasks)), None)


def why_trusting(target: object) -> str | None:
    """Return the reason why a target's check believes the agent, or None if it does not."""
    if not isinstance(target, StateChecks) or target.judgement.kind != "trusting":
        return None
    return target.judgement.reason


def describe_manner(reference: Reference) -> str | None:
    """Return how the check of a task of `os` judges, in words, and None for a task of another environment."""
    target = reference.target
    if isinstance(target, AnswerMatch):
        return "sound: the host compares the answer"
    if not isinstance(target, StateChecks):
        return None
    judgement = target.judgement
    if judgement.kind == "trusting":
        return f"trusting: {judgement.reason}"
    if judgement.kind == "data":
        return f"programs judged as data: {judgement.reason}"
    compares = all(is_comparison(script) for script in target.scripts if script is not None)
    return "sound: compares texts" if compares else "sound: looks at the machine"


async def find_unsound(
    pool: SandboxPool, settings: SandboxSettings, tried: Sequence[tuple[Task, Reference]]
) -> Mapping[str, str]:
    """Return the reason for each reference that cannot pass, by task id. Raises SandboxError."""
    places = asyncio.Semaphore(AT_ONCE)
    context = EnvironmentContext(pool, settings, SECONDS, NoTranscript())

    async def try_one(task: Task, reference: Reference) -> str | None:
        async with places:
            return await _try(context, task, reference)

    async with asyncio.TaskGroup() as group:
        found = {task.id: group.create_task(try_one(task, reference)) for task, reference in tried}
    return {task_id: reason for task_id, each in found.items() if (reason := each.result()) is not None}


async def _try(context: EnvironmentContext, task: Task, reference: Reference) -> str | None:
    """Return the reason why a reference cannot pass, None if it may."""
    target = reference.target
    if not isinstance(target, StateChecks) or target.example is None:
        return None
    if None in target.scripts:
        return await _ask_twice(context, task, target.example)
    if all(is_comparison(script) for script in target.scripts if script is not None):
        return None
    reason: str | None = None
    for _try in range(TRIES):
        reason = await _play(context, task, reference, target)
        if reason is None:
            return None
    return reason


async def _play(
    context: EnvironmentContext, task: Task, reference: Reference, target: StateChecks
) -> str | None:
    """Return the reason why the reference fails, None if it passes or if the trial itself failed."""
    try:
        async with open_machine(task, context) as machine:
            answer = await solve(machine, reference)
            await machine.submit(answer)
            await machine.end_acting()
            verdict = await grade_state(machine, target, Submission(answer, agent_output=answer))
    except SandboxError:
        return None
    if verdict.status is not Status.FAILED:
        return None
    return f"its own reference fails: {verdict.evidence or 'no evidence'}"


async def _ask_twice(context: EnvironmentContext, task: Task, example: Script) -> str | None:
    """Return the reason why no second machine can give the answer of the first, None if it can."""
    if _NEVER_THE_SAME.search(example.code):
        return "its gold is a figure of the moment, such as the load of the host, and is never the same twice"
    if not _LIVE.search(example.code):
        return None
    try:
        async with open_machine(task, context) as machine:
            first = await _answer(machine, example)
            await run_script(machine.sandbox, _BURDEN, timeout=SCRIPT_SECONDS)
            second = await _answer(machine, example)
    except SandboxError:
        return None
    if first == second:
        return None
    return f"its gold depends on the programs that run: it is {first}, and {second} in a busier machine"


async def _answer(machine: Machine, example: Script) -> str:
    result = await run_script(machine.sandbox, example, timeout=SCRIPT_SECONDS)
    return escape_text(repr(shorten(str(result.stdout).strip(), KEPT_CHARACTERS)))
