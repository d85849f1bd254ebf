"""The trial of references of `os` before a run, for tasks whose reference may not pass here.

A task that asks for a change is played by its reference and graded. A question about memory or processes is
asked twice, the second time in a busier machine. Other questions are not tried, because the right answer is
computed as the reference computes it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from harness.benchmarks.agentbench.tasks import play
from harness.core.errors import SandboxError
from harness.core.text import escape_text, shorten
from harness.core.types import Reference, Status, Task
from harness.environments.base import EnvironmentContext
from harness.environments.os.environment import Machine, open_machine
from harness.environments.os.grader import StateChecks, grade_state
from harness.environments.os.programs import SCRIPT_SECONDS
from harness.environments.os.scripts import Script, is_comparison, run_script
from harness.host.episode import NoTranscript
from harness.sandbox.pool import SandboxPool, SandboxSettings

ENVIRONMENT = "os"
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
            submission = await play(task, reference, machine)
            await machine.end_acting()
            verdict = await grade_state(machine, target, submission)
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
