"""An agent that is root attacks the scripts that grade the state that it left. No attack passes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Literal, cast

import pytest
from case_checks import check_together
from contexts import environment_context
from docker import APIClient
from effort import THOROUGH
from security.shell_attacks import ATTACKS, CHAINS, COMMANDS, COMPARE, EXAMPLE, INIT, LIBRARY_THAT_LEAVES

from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.base import EnvironmentContext
from harness.environments.os.environment import Machine, OsSetup, open_machine
from harness.environments.os.grader import PASS_UNTOUCHED, StateChecks, grade_state
from harness.environments.os.scripts import Script, run_script

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]

# Each case has two or three machines, and waits for their commands most of the time.
AT_ONCE = 3
TRIED = [name for name, attack in ATTACKS.items() if THOROUGH or attack.repeats is None]


@pytest.fixture
def context(client: APIClient) -> EnvironmentContext:
    return environment_context(client, "os")


@contextlib.asynccontextmanager
async def machine(context: EnvironmentContext, *, init: str = INIT) -> AsyncIterator[Machine]:
    setup = OsSetup(inits=(Script("bash", init),))
    task = Task("t", "test", "os", "How many files are in /root/things?", setup=setup)
    async with open_machine(task, context) as environment:
        yield environment


def checks(name: str) -> StateChecks:
    if name == "answer":
        return StateChecks((None, Script("python", COMPARE)), Script("bash", EXAMPLE))
    language, code = COMMANDS[name]
    return StateChecks((Script(cast(Literal["bash", "python"], language), code),))


async def graded(environment: Machine, target: StateChecks, answer: str) -> Verdict:
    await environment.end_acting()
    return await grade_state(environment, target, Submission(answer, answer))


async def naively_passed(environment: Machine, target: StateChecks, answer: str) -> bool:
    """Return whether AgentBench, which grades in the agent's machine, would pass the agent."""
    parameters = [answer]
    for script in target.all_scripts:
        if script.is_compiled:
            result = await run_script(environment.sandbox, script, parameters, timeout=20)
        else:
            first = ["python3", "-c"] if script.language == "python" else ["bash", "-c"]
            rest: Sequence[str] = parameters if script.language == "python" else ("--", *parameters)
            result = await environment.sandbox.run_script([*first, script.code, *rest], timeout=20)
        if result.exit_code != 0:
            return False
        parameters.append(result.stdout.data.decode())
    return True


async def test_an_honest_agent_passes_all_checks(context: EnvironmentContext) -> None:
    chain = checks("answer")
    scripts = (*chain.scripts, *(script for name in COMMANDS for script in checks(name).scripts))
    async with machine(context) as environment:
        await environment.call("bash", {"command": "echo right > /root/state"})
        verdict = await graded(environment, StateChecks(scripts, chain.example), "3")
    assert verdict == Verdict(Status.PASSED, 1.0)


async def test_an_agent_that_does_nothing_fails_each_check(context: EnvironmentContext) -> None:
    async with machine(context) as environment:
        verdicts = {name: await graded(environment, checks(name), "7") for name in CHAINS}
    assert {name: (verdict.status, verdict.metrics) for name, verdict in verdicts.items()} == dict.fromkeys(
        CHAINS, (Status.FAILED, {})
    )


async def require_fail(client: APIClient, name: str) -> None:
    """Require that an attack does not pass, in machines of its own."""
    attack = ATTACKS[name]
    target = checks(attack.deceives)
    async with machine(environment_context(client, "os")) as environment:
        # Some wait, and a busy machine must not keep the others from their end.
        await environment.call("bash", {"command": attack.command, "timeout_seconds": 60})
        if attack.naive:
            assert await naively_passed(environment, target, "7"), (
                "this attack deceives no grader, so it tests nothing"
            )
            await environment.sandbox.run_script(["/bin/dash", "-c", "echo wrong > /root/state"])
        verdict = await graded(environment, target, "7")
    assert verdict.status is Status.FAILED
    if attack.sign is not None:
        assert verdict.tampering == attack.sign


async def test_an_attack_alone_on_the_machine_does_not_pass(client: APIClient) -> None:
    await require_fail(client, TRIED[0])


@pytest.mark.timeout(900)
async def test_no_attack_passes(client: APIClient) -> None:
    await check_together(TRIED[1:], lambda name: require_fail(client, name), at_once=AT_ONCE)


async def test_an_agent_that_solved_the_task_passes_whatever_else_it_did(client: APIClient) -> None:
    """Changed tools are not copied, so the attack alone decides nothing."""

    async def require_pass(name: str) -> None:
        async with machine(environment_context(client, "os")) as environment:
            await environment.call("bash", {"command": ATTACKS[name].command})
            verdict = await graded(environment, checks("answer"), "3")
        assert verdict.status is Status.PASSED, verdict.evidence

    names = (
        *("replaced bash", "packages elsewhere", "no tools at all"),
        *("steering the guest", "changed guest", "fork bomb"),
    )
    await check_together(names, require_pass, at_once=AT_ONCE)


async def test_new_commands_that_the_agent_was_asked_for_stay(context: EnvironmentContext) -> None:
    async with machine(context, init="echo 'We need calc and calculate.' > /root/wishes") as environment:
        for path in ("/usr/bin/calc", "/usr/local/bin/calculate"):
            await environment.call("bash", {"command": f"echo 'echo $((6 * 7))' > {path}; chmod +x {path}"})
        target = StateChecks((Script("bash", "[ $(calc) = 42 ] && [ $(calculate) = 42 ]"),))
        assert await graded(environment, target, "") == Verdict(Status.PASSED, 1.0)


async def test_tools_that_the_set_up_changed_are_copied(context: EnvironmentContext) -> None:
    init = "mv /usr/bin/wc /usr/bin/count; echo 'count \"$@\"' > /usr/bin/wc; chmod +x /usr/bin/wc"
    async with machine(context, init=f"{INIT}; {init}") as environment:
        assert await graded(environment, checks("answer"), "3") == Verdict(Status.PASSED, 1.0)


# A program of the agent that a check starts, and the checks, none of which passes without an action of it.
STARTED = {
    "replaces the interpreter of the next check": (
        "for path in /usr/{local/,}bin/bash; do cp --remove-destination /bin/true $path; done",
        ("calc", "exit 1"),
    ),
    "leaves a daemon to the next check": (
        "setsid bash -c 'while sleep 0.02; do echo right > /root/state; done' > /dev/null 2>&1 &",
        ("calc", "sleep 0.5; grep -q right /root/state"),
    ),
    "replaces a command that the check calls next": (
        "printf '#!/bin/sh\nexit 0\n' > /root/fake; chmod 755 /root/fake; mv -f /root/fake /usr/bin/grep",
        ("calc; grep -q right /root/state",),
    ),
    "lets a library be loaded into the commands that the check calls next": (
        "cp /root/f.so /etc/f.so; echo /root/f.so > /etc/ld.so.preload",
        ("calc; grep -q right /root/state",),
    ),
}
PROGRAM_THAT_WRITES_MEMORY = """#!/usr/bin/python3
import os
parent = os.getppid()
with open(f"/proc/{parent}/maps") as maps, open(f"/proc/{parent}/mem", "r+b", 0) as memory:
    for line in maps:
        span, rights = line.split()[:2]
        if not rights.startswith("rw"):
            continue
        start, end = (int(number, 16) for number in span.split("-"))
        memory.seek(start)
        data = memory.read(end - start)
        at = data.find(b"exit 1")
        while at >= 0:
            memory.seek(start + at)
            memory.write(b"exit 0")
            at = data.find(b"exit 1", at + 1)
"""


async def test_a_program_that_a_check_starts_does_not_make_a_check_pass(client: APIClient) -> None:
    async def require_no_pass(name: str) -> None:
        program, scripts = STARTED[name]
        async with machine(environment_context(client, "os")) as environment:
            await environment.call("bash", {"command": LIBRARY_THAT_LEAVES})
            await environment.sandbox.write_file(
                "/usr/local/bin/calc", f"#!/bin/bash\n{program}\n".encode(), mode=0o755
            )
            target = StateChecks(tuple(Script("bash", code) for code in scripts))
            verdict = await graded(environment, target, "")
        assert verdict.status is Status.FAILED

    await check_together(STARTED, require_no_pass, at_once=AT_ONCE)


async def test_a_program_that_a_check_starts_does_not_write_to_the_memory_of_the_check(
    context: EnvironmentContext,
) -> None:
    check = Script("bash", "calc\nsleep 0.1\nexit 1")
    async with machine(context) as environment:
        await environment.sandbox.write_file(
            "/usr/local/bin/calc", PROGRAM_THAT_WRITES_MEMORY.encode(), mode=0o755
        )
        assert await naively_passed(environment, StateChecks((check,)), ""), (
            "this deceives no grader, so it tests nothing"
        )
        verdict = await graded(environment, StateChecks((check,)), "")
    assert verdict.status is Status.FAILED


async def test_a_check_that_passes_without_an_agent_passes_nobody(context: EnvironmentContext) -> None:
    """No copy has the processes of the set-up, so the check would pass an agent that does nothing."""
    init = "setsid sleep 4711 > /dev/null 2>&1 &"
    async with machine(context, init=init) as environment:
        verdict = await graded(environment, StateChecks((Script("bash", "! pgrep -f 'sleep 471[1]'"),)), "")
    assert (verdict.status, verdict.evidence) == (Status.FAILED, PASS_UNTOUCHED)


async def test_a_command_that_is_not_text_is_refused(context: EnvironmentContext) -> None:
    async with machine(context) as environment:
        observation = await environment.call("bash", {"command": "echo \ud800"})
    assert observation.text == "a command must not contain '\\ud800'"


async def test_a_check_that_ends_by_a_signal_fails(context: EnvironmentContext) -> None:
    async with machine(context) as environment:
        verdict = await graded(environment, StateChecks((Script("bash", "kill -9 $$"),)), "")
    assert verdict.status is Status.FAILED
    assert "exited with code -9" in (verdict.evidence or "")


async def test_a_check_that_writes_too_much_fails_though_it_ends_well(context: EnvironmentContext) -> None:
    async with machine(context) as environment:
        verdict = await graded(environment, StateChecks((Script("bash", "head -c 9M /dev/zero"),)), "")
    assert (verdict.status, verdict.limit) == (Status.OUTPUT_LIMIT, "output_mb")


async def test_output_of_a_check_is_escaped_in_the_evidence(context: EnvironmentContext) -> None:
    async with machine(context) as environment:
        check = Script("bash", "printf 'a\\033[2Jb\\u202e' >&2; exit 1")
        verdict = await graded(environment, StateChecks((check,)), "")
    assert verdict.evidence == r"check 1 of 1 exited with code 1: a\x1b[2Jb\u202e"
