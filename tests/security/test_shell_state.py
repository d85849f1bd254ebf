"""An agent that is root attacks the scripts that grade the state that it left. No attack passes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Literal, cast

import pytest
import pytest_asyncio
from case_checks import check_together
from contexts import environment_context
from docker import APIClient
from effort import THOROUGH
from security.shell_attacks import ATTACKS, COMMANDS, COMPARE, EXAMPLE, INIT, LIBRARY_THAT_LEAVES

from harness.core.types import Status, Submission, Task, Verdict
from harness.environments.os.environment import Machine, OsSetup, open_machine
from harness.environments.os.grader import PASS_UNTOUCHED, StateChecks, grade_state
from harness.environments.os.scripts import Script, run_script

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

# Each case has two or three machines, and waits for their commands most of the time.
AT_ONCE = 3
# Attacks that one agent makes in a machine, in this order. Each verdict must be the one on a machine without
# an attack, so no attack hides another that deceives. In a thorough run each has a machine of its own.
TOGETHER = (
    (
        *("start-up files of the shell", "exported functions and aliases", "signals to the guest"),
        *("steering the guest", "forged end of a command", "changed guest"),
        *("provider of OpenSSL", "changed header", "module of Perl", "alternative", "shim earlier on PATH"),
        *("command replaced under its old size and time", "changed compiled module"),
        *("folder of libraries replaced", "module in the working folder"),
        *("path file with a name that is not a text", "path file of the user", "customised start of Python"),
        "settings of a virtual environment beside the interpreter",
        "search path beside the interpreter",
        "modules below the folder of the interpreter",
    ),
    (
        *("library loaded before all others", "replaced library", "packages elsewhere"),
        *("command replaced by a link", "replaced bash", "no tools at all"),
        *("device without end in the place of the empty one", "fork bomb"),
    ),
)
SHARING = {name for names in TOGETHER for name in names}
ALONE = [
    name for name, attack in ATTACKS.items() if THOROUGH or (attack.repeats is None and name not in SHARING)
]
FAILED = dict.fromkeys(COMMANDS, Verdict(Status.FAILED, 0.0, evidence="check 1 of 1 exited with code 1"))
FAILED["answer"] = Verdict(Status.FAILED, 0.0, evidence="check 2 of 2 exited with code 1")


@contextlib.asynccontextmanager
async def machine(client: APIClient, *, init: str = INIT) -> AsyncIterator[Machine]:
    setup = OsSetup(inits=(Script("bash", init),))
    task = Task("t", "test", "os", "How many files are in /root/things?", setup=setup)
    async with open_machine(task, environment_context(client, "os")) as environment:
        yield environment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def left(client: APIClient) -> AsyncIterator[Machine]:
    """Yield the machine that an honest agent left. Its set-up changed a tool, and started a process."""
    init = (
        "mv /usr/bin/wc /usr/bin/count; echo 'count \"$@\"' > /usr/bin/wc; chmod +x /usr/bin/wc\n"
        "echo 'We need calc and calculate.' > /root/wishes; setsid sleep 4711 > /dev/null 2>&1 &"
    )
    async with machine(client, init=f"{INIT}; {init}") as environment:
        observation = await environment.call("bash", {"command": "echo \ud800"})
        assert observation.text == "a command must not contain '\\ud800'"
        await environment.call("bash", {"command": "echo right > /root/state"})
        for path in ("/usr/bin/calc", "/usr/local/bin/calculate"):
            await environment.call("bash", {"command": f"echo 'echo $((6 * 7))' > {path}; chmod +x {path}"})
        await environment.end_acting()
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


async def judged(left: Machine, *codes: str) -> Verdict:
    scripts = tuple(Script("bash", code) for code in codes)
    return await grade_state(left, StateChecks(scripts), Submission("", ""))


async def test_an_honest_agent_passes_all_checks(left: Machine) -> None:
    """The checks call the `wc` of the set-up."""
    chain = checks("answer")
    in_bash = "\n".join(f"({code}) || exit" for language, code in COMMANDS.values() if language == "bash")
    others = (script for name in ("c", "hash") for script in checks(name).scripts)
    target = StateChecks((*chain.scripts, Script("bash", in_bash), *others), chain.example)
    assert await graded(left, target, "3") == Verdict(Status.PASSED, 1.0)


@pytest.mark.timeout(900)
async def test_no_attack_that_shares_a_machine_changes_a_verdict(client: APIClient) -> None:
    async def require_same(names: Sequence[str]) -> None:
        async with machine(client) as environment:
            for name in names:
                await environment.call("bash", {"command": ATTACKS[name].command})
            for chain in {ATTACKS[name].deceives for name in names}:
                verdict = await graded(environment, checks(chain), "7")
                assert replace(verdict, tampering=None) == FAILED[chain]

    await check_together(TOGETHER, require_same, at_once=AT_ONCE)


async def require_fail(client: APIClient, name: str) -> None:
    """Require that an attack does not pass, in machines of its own."""
    attack = ATTACKS[name]
    target = checks(attack.deceives)
    async with machine(client) as environment:
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


@pytest.mark.timeout(900)
async def test_no_attack_passes(client: APIClient) -> None:
    await check_together(ALONE, lambda name: require_fail(client, name), at_once=AT_ONCE)


async def test_an_agent_that_solved_the_task_passes_whatever_else_it_did(client: APIClient) -> None:
    """Changed tools are not copied, so the attack alone decides nothing."""

    async def require_pass(names: Sequence[str]) -> None:
        async with machine(client) as environment:
            for name in names:
                await environment.call("bash", {"command": ATTACKS[name].command})
            verdict = await graded(environment, checks("answer"), "3")
        assert verdict.status is Status.PASSED, verdict.evidence

    cases = (
        ("steering the guest", "changed guest", "packages elsewhere", "replaced bash", "no tools at all"),
        ("fork bomb",),
    )
    await check_together(cases, require_pass, at_once=AT_ONCE)


async def test_new_commands_that_the_agent_was_asked_for_stay(left: Machine) -> None:
    assert await judged(left, "[ $(calc) = 42 ] && [ $(calculate) = 42 ]") == Verdict(Status.PASSED, 1.0)


async def test_a_check_that_passes_without_an_agent_passes_nobody(left: Machine) -> None:
    """No copy has the processes of the set-up, so the check would pass an agent that does nothing."""
    verdict = await judged(left, "! pgrep -f 'sleep 471[1]'")
    assert (verdict.status, verdict.evidence) == (Status.FAILED, PASS_UNTOUCHED)


async def test_a_check_fails_by_a_signal_and_by_too_much_output(left: Machine) -> None:
    killed, long = await judged(left, "kill -9 $$"), await judged(left, "head -c 9M /dev/zero")
    assert (killed.status, killed.evidence) == (Status.FAILED, "check 1 of 1 exited with code -9")
    assert (long.status, long.limit) == (Status.OUTPUT_LIMIT, "output_mb")


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
    "writes to the memory of the check": (PROGRAM_THAT_WRITES_MEMORY, ("calc\nsleep 0.1\nexit 1",)),
}


async def test_a_program_that_a_check_starts_does_not_make_a_check_pass(client: APIClient) -> None:
    passing = []
    async with machine(client) as environment:
        await environment.call("bash", {"command": LIBRARY_THAT_LEAVES})
        for number, (program, _) in enumerate(STARTED.values()):
            text = program if program.startswith("#!") else f"#!/bin/bash\n{program}\n"
            await environment.sandbox.write_file(f"/usr/local/bin/calc{number}", text.encode(), mode=0o755)
        for number, (name, (_, codes)) in enumerate(STARTED.items()):
            scripts = (Script("bash", code.replace("calc", f"calc{number}")) for code in codes)
            target = StateChecks(tuple(scripts))
            if name == "writes to the memory of the check":
                assert await naively_passed(environment, target, ""), (
                    "this deceives no grader, so it tests nothing"
                )
            if (await graded(environment, target, "")).status is not Status.FAILED:
                passing.append(name)
    assert passing == []
