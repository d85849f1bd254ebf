"""An agent that is root cannot steer PID 1, end it, or change the processes that it starts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from docker import APIClient

from harness.audit.attack import Kind
from harness.audit.attack_kinds import ShellAttack
from harness.audit.suite import list_attacks
from harness.environments.os.root_sandbox import RootSandbox
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.guest.apart import RESERVED
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

LIMITS = Limits(memory_mb=256, processes=64, disk_mb=128, wall_seconds=20, cpu_seconds=20)
STEERING = [attack for attack in list_attacks() if attack.kind is Kind.STEERING]
# A script, which is a child of PID 1, prints these facts of the process `pid`.
LOOK = """
import json, os, resource, sys
pid = int(sys.argv[1])
status = dict(line.split(":\\t", 1) for line in open(f"/proc/{pid}/status") if ":\\t" in line)
print(json.dumps({
    "processors": sorted(os.sched_getaffinity(pid)),
    "policy": os.sched_getscheduler(pid),
    "priority": os.getpriority(os.PRIO_PROCESS, pid),
    "oom_score_adj": open(f"/proc/{pid}/oom_score_adj").read(),
    "limits": open(f"/proc/{pid}/limits").read(),
    "signals": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt")],
    "users": status["Uid"].split(),
    "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
}))
"""
BECOME = """
import os, sys
calls = {"setuid": 1, "seteuid": 1, "setreuid": 2, "setresuid": 3}
for name, number in calls.items():
    for place in range(number):
        arguments = [-1 if number > 1 else 0] * number
        arguments[place] = int(sys.argv[1])
        if os.fork() == 0:
            try:
                getattr(os, name)(*arguments)
                print(name, place, "became", flush=True)
            except OSError:
                pass
            os._exit(0)
        os.wait()
import ctypes
libc = ctypes.CDLL(None)
# A user id is 32 bits: what lies above is not for the filter to be led astray by.
libc.syscall(105 if os.uname().machine == "x86_64" else 146, ctypes.c_ulong(int(sys.argv[1]) | 1 << 40))
libc.setfsuid(int(sys.argv[1]))
print(sorted({int(line.split()[4]) for line in open("/proc/self/status") if line.startswith("Uid")}))
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[RootSandbox]:
    async with RootSandbox.open("os", backend=backend, limits=LIMITS) as sandbox:
        await sandbox.open_shell()
        yield sandbox


async def look(sandbox: RootSandbox, pid: str) -> dict[str, Any]:
    """Return the facts that a process started by PID 1 sees of a process: of PID 1, or of itself."""
    code = LOOK if pid == "1" else LOOK.replace("int(sys.argv[1])", "os.getpid()")
    result = await sandbox.run_script(["/usr/bin/python3", "-I", "-c", code, pid])
    assert result.exit_code == 0, str(result.stderr)
    facts: dict[str, Any] = json.loads(result.stdout.data)
    return facts


@pytest.mark.parametrize("attack", STEERING, ids=lambda attack: attack.name)
async def test_an_attack_changes_neither_the_guest_nor_its_children(
    sandbox: RootSandbox, attack: ShellAttack
) -> None:
    before = [await look(sandbox, pid) for pid in ("1", "self")]
    for command in attack.commands:
        await sandbox.run(command, timeout=attack.seconds)
    await sandbox.end_all()
    assert [await look(sandbox, pid) for pid in ("1", "self")] == before


@pytest.mark.parametrize("user", RESERVED)
async def test_nothing_in_the_machine_can_become_a_user_of_the_guest(sandbox: RootSandbox, user: int) -> None:
    result = await sandbox.run_script(["/usr/bin/python3", "-I", "-c", BECOME, str(user)])
    assert str(result.stdout) == "[0]\n"


async def test_the_guest_has_reserved_users_and_only_the_capabilities_that_it_uses(
    sandbox: RootSandbox,
) -> None:
    facts = await look(sandbox, "1")
    assert facts["users"] == ["65533", "65532", "65531", "65532"]
    chown, kill, setgid, setuid = 1 << 0, 1 << 5, 1 << 6, 1 << 7
    assert int(facts["capabilities"][2], 16) == chown | kill | setgid | setuid


async def test_the_guest_reacts_to_no_signal_but_sigchld(sandbox: RootSandbox) -> None:
    blocked, _ignored, caught = (int(mask, 16) for mask in (await look(sandbox, "1"))["signals"])
    assert (blocked, caught) == (0, 1 << 16)


async def test_root_can_still_become_other_users(sandbox: RootSandbox) -> None:
    result = await sandbox.run("setpriv --reuid 65530 --clear-groups id -u; setpriv --reuid 65534 id -u")
    assert str(result.output) == "65530\n65534\n"


async def test_names_that_are_not_text_are_reported_as_they_are(sandbox: RootSandbox) -> None:
    await sandbox.run("mkdir /root/odd; touch /root/odd/$'\\xff\\xfe' /root/odd/$'a\\nb'")
    names = (await sandbox.describe(["/root/odd"]))["/root/odd"].names
    assert sorted(names) == ["a\nb", "\udcff\udcfe"]


async def test_a_folder_deeper_than_any_stack_is_removed(sandbox: RootSandbox) -> None:
    code = "import os\nfor name in ('/root/deep', *'d' * 1100): os.mkdir(name); os.chdir(name)"
    await sandbox.run_script(["/usr/bin/python3", "-I", "-c", code])
    await sandbox.make_files(make=[{"path": "/root/deep", "kind": "absent"}])
    assert await sandbox.describe(["/root/deep"]) == {}


async def test_a_flood_of_an_older_job_is_ended_and_nothing_else(sandbox: RootSandbox) -> None:
    await sandbox.run("sleep 600 > /dev/null 2>&1 & yes &")
    result = await sandbox.run("sleep 600", timeout=20)
    assert (result.ended, result.shell_lives) == ("output", True)
    assert str((await sandbox.run("pgrep -c yes; pgrep -c sleep")).output) == "0\n1\n"
    await sandbox.end_all()


@pytest.mark.usefixtures("docker_only")
async def test_the_engine_stops_the_sandbox_at_once(client: APIClient, backend: DockerBackend) -> None:
    async with RootSandbox.open("os", backend=backend, limits=LIMITS) as own:
        settings = client.inspect_container(own.container_id)["Config"]
        assert settings["StopSignal"] == "SIGKILL"
