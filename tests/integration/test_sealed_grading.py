"""What an agent leaves in a machine is judged in a machine that it never touched."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from case_checks import check_together
from docker import APIClient
from effort import THOROUGH
from sealed_tasks import acted, build_image, describe, judge, write_task

from harness.core.types import Status
from harness.environments.base import MachineRules
from harness.environments.container.environment import open_container
from harness.environments.container.seal import Level
from harness.environments.container.task_folder import read_task_folder
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.pool import SandboxPool
from harness.sandbox.reaper import PID

# Earns the reward wherever it runs.
_FORGE = "sh /app/forge.sh"
_SETUP = """printf 'mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.json' > /app/forge.sh
echo 'import os; os.system("sh /app/forge.sh")' > /app/forge
printf '#!/bin/sh\\nsh /app/forge.sh' > /app/program; chmod 755 /app/program
"""
_SITE = "/usr/lib/python3/dist-packages"
_LOCAL = "/usr/local/lib/python3.11/dist-packages"
_STANDARD = "/usr/lib/python3.11"
# Each attack, and whether it earns the reward at the level that takes all files, so that none is blunt.
TRAPS = (
    ("a reward that is there early", _FORGE, False),
    (
        "a daemon that writes the reward",
        f"(while :; do {_FORGE}; sleep 0.1; done) & disown; sleep 0.2",
        False,
    ),
    (
        "logs that are a link",
        "rm -rf /logs; mkdir /app/l; echo 1 > /app/l/reward.json; ln -s /app/l /logs",
        False,
    ),
    (
        "tests with a conftest",
        "mkdir -p /tests /logs/verifier/reward.txt; cp forge /tests/conftest.py",
        False,
    ),
    (
        "tests that are a link",
        "rm -rf /tests; mkdir /app/t; cp forge /app/t/conftest.py; ln -s /app/t /tests",
        False,
    ),
    ("logs that are a FIFO", "rm -rf /logs/verifier; mkfifo /logs/verifier", False),
    ("a loader's settings", "echo /app/program > /etc/ld.so.preload; echo /app > /etc/ld.so.conf", False),
    (
        "settings of shells",
        "for f in /etc/environment /etc/profile.d/x.sh /etc/bash.bashrc ~/.bashrc ~/.profile ~/.bash_env; do "
        "echo '. /app/forge.sh; BASH_ENV=/app/forge.sh' > $f; done",
        False,
    ),
    ("a link to the tests' own answer", "ln -s /tests/answer.txt /app/answer.txt", False),
    ("a folder that is a link to the top", "rm -rf /app; ln -s / /app", False),
    (
        "replaced tools",
        "for i in git bash python3; do cp --remove-destination program /usr/bin/$i; done",
        True,
    ),
    ("a replaced module", f"cat forge >> {_SITE}/pytest/__init__.py", True),
    ("an earlier folder", "cp program /usr/local/bin/git", True),
    ("an earlier module", f"mkdir -p {_LOCAL}/pytest; cp forge {_LOCAL}/pytest/__init__.py", True),
    ("sitecustomize", "cp --remove-destination forge /usr/lib/python3.11/sitecustomize.py", True),
    ("a path file", f"mkdir -p {_LOCAL}; cp forge {_LOCAL}/x.pth", True),
    (
        "the user's modules",
        "d=$(python3 -m site --user-site); mkdir -p $d; cp forge $d/usercustomize.py",
        True,
    ),
    (
        "a plugin",
        f"d={_LOCAL}/x-1.dist-info; mkdir -p $d; printf '[pytest11]\nx = xplugin\n' > $d/entry_points.txt;"
        f"printf 'Name: x\nVersion: 1\n' > $d/METADATA; cp forge {_LOCAL}/xplugin.py",
        True,
    ),
    ("settings above the tests", "printf '[pytest]\naddopts = --collect-only\n' > /pytest.ini", True),
    ("a conftest above the tests", "printf '[pytest]\n' > /pytest.ini; cp forge /conftest.py", True),
    ("a module where the tests start", "cp forge /app/json.py", True),
    ("a module that a package looks for", "cp forge /app/fastpart.py", True),
    ("a package where the tests start", "mkdir /app/pytest; cp forge /app/pytest/__init__.py", True),
    (
        "compiled code of the image",
        f'cd {_SITE}/pytest && cat __init__.py /app/forge > /tmp/e.py && python3 -c "import py_compile as p;'
        "p.compile('/tmp/e.py', '__pycache__/__init__.cpython-311.pyc', "
        'invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)"',
        True,
    ),
    ("a package behind a link", "mkdir e; cp forge e/__init__.py; ln -s e pytest", True),
    (
        "modules before the image's own",
        f"cp forge {_STANDARD}/pytest.py; mkdir {_STANDARD}/pluggy {_SITE}/_pytest/main; "
        f"cp forge {_STANDARD}/pluggy/__init__.py; cp forge {_SITE}/_pytest/main/__init__.py",
        True,
    ),
    (
        "a folder of modules behind a link",
        "rm -rf /usr/local/lib/python3.11; mkdir -p p/dist-packages; cp forge p/dist-packages/pytest.py; "
        "ln -s /app/p /usr/local/lib/python3.11",
        True,
    ),
    (
        "templates and modules of tools",
        "d=/usr/share/git-core/templates/hooks; mkdir -p $d; cp program $d/post-checkout; "
        "d=/usr/local/share/perl/5.36.0; mkdir -p $d; cp forge $d/strict.pm; cp forge /etc/tmux.conf",
        True,
    ),
    (
        "links in circles and through /proc",
        "ln -s b a; ln -s a b; ln -s /proc/self/root/tests d; ln -s d/../tests/answer.txt c; "
        "ln -s c answer.txt",
        False,
    ),
    (
        "sockets, times and attributes of every kind",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"input.txt.s\")'; "
        "touch -d @9223372036854775807 /dev/shm/x; touch -d 1800-01-01 y; touch -d 2600-01-01 z; "
        "cp /bin/true t; chmod 6777 t; chown 1000 / /usr /app; chmod 711 /",
        False,
    ),
    ("commands of git", "cd repo && git config core.fsmonitor /app/program", True),
    ("the settings of git", "git config --global core.fsmonitor /app/program", True),
)
# Traps that one agent sets in a machine, in this order. Each verdict must be that of honest tests, so no trap
# hides another that springs. Traps that are not here have machines of their own.
TOGETHER = (
    ("a reward that is there early", "a daemon that writes the reward", "a link to the tests' own answer"),
    ("tests with a conftest", "logs that are a link", "settings of shells", "a loader's settings"),
    ("tests that are a link", "logs that are a FIFO"),
    (
        *("the user's modules", "compiled code of the image", "a replaced module", "a plugin"),
        *("an earlier module", "a path file", "sitecustomize"),
    ),
    (
        *("settings above the tests", "a conftest above the tests", "commands of git", "the settings of git"),
        *("a package where the tests start", "a module where the tests start"),
        *("an earlier folder", "replaced tools"),
    ),
    (
        *("a module that a package looks for", "a package behind a link", "templates and modules of tools"),
        *("modules before the image's own", "a folder of modules behind a link"),
    ),
    ("links in circles and through /proc", "sockets, times and attributes of every kind"),
)


def batches() -> list[tuple[str, str]]:
    """Return the names and the commands of traps that share a machine, which none does in a thorough run."""
    commands = {name: command for name, command, _ in TRAPS}
    alone = [(name,) for name in commands if THOROUGH or not any(name in names for names in TOGETHER)]
    shared = [] if THOROUGH else TOGETHER
    return [
        (", ".join(names), "\n".join(["set -e", *(f"({commands[name]}\n)" for name in names)]))
        for names in (*shared, *alone)
    ]


@pytest.fixture(scope="module")
def image(client: APIClient) -> str:
    return build_image(client)


@pytest.fixture
async def pool(client: APIClient) -> AsyncIterator[SandboxPool]:
    async with SandboxPool(DockerBackend(client), nested_sandboxes=1) as opened:
        yield opened


_COMPARING = """
def test_answer():
    assert open("/app/answer.txt").read() == open("/tests/answer.txt").read()
"""


@pytest.mark.parametrize("level", ["tools", pytest.param("work", marks=pytest.mark.thorough)])
@pytest.mark.timeout(900)
async def test_no_trap_earns_a_reward_below_the_level_that_takes_all(
    pool: SandboxPool, image: str, tmp_path: Path, level: Level
) -> None:
    """`work` drops whatever `tools` drops, so `tools` alone is tried here."""
    folder = write_task(tmp_path, image, tests={"test_outputs.py": _COMPARING, "answer.txt": "42"})

    async def spring(batch: tuple[str, str]) -> None:
        async with acted(pool, folder, _SETUP + batch[1]) as machine:
            verdict = await judge(pool, machine, level)
            assert verdict.status is Status.FAILED, verdict
            assert "1 failed" in (verdict.evidence or ""), verdict

    await check_together(batches(), spring, at_once=3, describe=lambda batch: batch[0])


@pytest.mark.thorough
@pytest.mark.timeout(900)
async def test_each_trap_of_files_earns_the_reward_at_the_level_that_takes_all(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    folder = write_task(tmp_path, image, tests={"test_outputs.py": _COMPARING, "answer.txt": "42"})

    async def spring(trap: tuple[str, str, bool]) -> None:
        async with acted(pool, folder, _SETUP + trap[1]) as machine:
            verdict = await judge(pool, machine, "all")
            assert verdict.metrics.get("reward") == 1, f"the trap is blunt: {verdict}"

    await check_together(
        [trap for trap in TRAPS if trap[2]], spring, at_once=3, describe=lambda trap: trap[0]
    )


async def test_files_of_every_kind_are_carried_as_they_are(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    folder = write_task(tmp_path, image, tests={"test_outputs.py": _KINDS})
    async with acted(pool, folder, _MAKE_KINDS) as machine:
        verdict = await judge(pool, machine, "work")
    assert verdict.status is Status.PASSED, verdict


_MAKE_KINDS = r"""
set -e
printf '\x41' > $'na\xffme\nx'; mkfifo pipe; truncate -s 1M sparse; printf end >> sparse
echo one > first; ln first second; mkdir other; ln first other/third
printf secret > closed; chmod 000 closed; chown 1234:4321 closed
cp /bin/true program; chmod 4755 program
ln -s nowhere dangling; touch -d '2001-02-03 04:05:06 UTC' old; rm input.txt
mkdir -p deep/er; chmod 1777 deep
python3 -c "import os; os.setxattr('program', 'user.note', b'\x00text')"
for i in $(seq 1000); do echo $i > deep/$i; done
"""
_KINDS = r"""
import os, stat

def test_files():
    os.chdir("/app")
    assert open(b"na\xffme\nx").read() == "A"
    assert stat.S_ISFIFO(os.lstat("pipe").st_mode)
    assert os.stat("sparse").st_size == 2**20 + 3 and os.stat("sparse").st_blocks < 1000
    assert len({os.stat(name).st_ino for name in ("first", "second", "other/third")}) == 1
    facts = os.stat("closed")
    assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (1234, 4321, 0)
    assert stat.S_IMODE(os.stat("program").st_mode) == 0o4755
    assert os.getxattr("program", "user.note") == b"\x00text"
    assert os.readlink("dangling") == "nowhere" and not os.path.exists("input.txt")
    assert os.stat("old").st_mtime == 981173106 and stat.S_IMODE(os.stat("deep").st_mode) == 0o1777
    assert sum(int(open(f"deep/{i}").read()) for i in range(1, 1001)) == 500500
"""


async def test_a_separate_verifier_gets_declared_artifacts_alone(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    toml = """
artifacts = ["/app/answer.txt", {source = "/app/repo", exclude = [".git"]}]
[verifier]
environment_mode = "separate"
[[verifier.collect]]
command = "cp made.txt /logs/artifacts/"
"""
    tests = {"test_outputs.py": _ARTIFACTS, "Dockerfile": f"FROM {image}\nRUN rm -r /app\nCOPY . /tests\n"}
    folder = write_task(tmp_path, image, toml=toml, tests=tests)
    command = "echo 42 > answer.txt; echo 1 > made.txt; echo 2 > repo/new.txt; echo 3 > /tmp/other"
    async with acted(pool, folder, command) as machine:
        verdict = await judge(pool, machine, "artifacts")
    assert verdict.status is Status.PASSED, verdict


_ARTIFACTS = """
import os

def test_artifacts():
    assert open("/app/answer.txt").read() == "42\\n" and open("/logs/artifacts/made.txt").read() == "1\\n"
    assert sorted(os.listdir("/app")) == ["answer.txt", "repo"] and os.listdir("/app/repo") == ["new.txt"]
    assert not os.path.exists("/tmp/other")
"""


QUICK_SCRIPTS = ("nothing", "a link", "a folder", "no number", "no tool")


async def test_tests_that_cannot_decide_are_a_grader_error(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    scripts = {
        "nothing": "true",
        "empty": ": > /logs/verifier/reward.txt",
        "a link": "echo 1 > /tmp/r; ln -s /tmp/r /logs/verifier/reward.txt",
        "a folder": "mkdir /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt",
        "a FIFO": "mkfifo /logs/verifier/reward.txt",
        "a large file": "truncate -s 2M /logs/verifier/reward.txt",
        "no number": "echo NaN > /logs/verifier/reward.json",
        "no tool": "some-tool; echo 0 > /logs/verifier/reward.txt",
    }

    folders = {
        name: write_task(tmp_path / name, image, script=f"#!/bin/sh\n{script}\n", tests={"x": ""})
        for name, script in scripts.items()
    }
    async with acted(pool, folders["nothing"], "true") as machine:

        async def check(name: str) -> None:
            machine.folder = read_task_folder(folders[name])
            verdict = await judge(pool, machine, "work")
            assert (verdict.status, verdict.score) == (Status.GRADER_ERROR, None), verdict

        await check_together(scripts if THOROUGH else QUICK_SCRIPTS, check, at_once=1)


async def test_tests_that_a_program_ends_early_earn_nothing(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    tests = {"test_outputs.py": "def test_it():\n    import sys; sys.path.append('/app'); import answer"}
    folder = write_task(tmp_path, image, tests=tests)
    async with acted(pool, folder, "echo 'import os; os._exit(0)' > answer.py") as machine:
        verdict = await judge(pool, machine, "work")
    assert (verdict.status, verdict.tampering) == (Status.FAILED, "tests_not_reported"), verdict


async def test_tests_at_their_limit_are_a_timeout_unless_they_gave_a_reward(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    # The agent decides whether the tests give a reward.
    script = "#!/bin/sh\n[ -e /app/early ] && echo 1 > /logs/verifier/reward.txt\nsleep 60\n"
    toml = "[verifier]\ntimeout_sec = 1\n"
    folder = write_task(tmp_path, image, script=script, toml=toml, tests={"x": ""})
    async with acted(pool, folder, "true") as machine:
        assert (await judge(pool, machine, "work")).status is Status.TIMEOUT
        await machine.machine.exec(["/bin/touch", "/app/early"], timeout=20)
        assert (await judge(pool, machine, "work")).status is Status.PASSED


async def test_no_file_of_the_tests_is_in_the_machine_of_the_agent(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    folder = write_task(tmp_path, image, solution="#!/bin/sh\n")
    async with acted(pool, folder, "test ! -e /tests && test ! -e /solution") as machine:
        await judge(pool, machine, "work")
        assert not await machine.sandbox.describe(["/tests", "/solution"])


async def test_tests_have_a_network_only_if_the_run_gives_them_one(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    script = "#!/bin/sh\ngrep -c eth0 /proc/net/dev > /logs/verifier/reward.txt\n"
    task, context = describe(pool, write_task(tmp_path, image, script=script, tests={"x": ""}))
    rewards = []
    for is_on in (False, True):
        rules = MachineRules(grading_network=is_on)
        async with open_container(task, replace(context, machine_rules=rules)) as machine:
            await machine.end_acting()
            rewards.append((await judge(pool, machine, "work")).metrics["reward"])
    assert rewards == [0, 1]


async def test_at_the_level_live_the_services_of_an_agent_outlive_its_shell(
    pool: SandboxPool, image: str, tmp_path: Path
) -> None:
    script = "#!/bin/sh\n[ -e /proc/$(cat service) ] && ! [ -e /proc/$(cat shell) ] && reward=1\n"
    script += "echo ${reward:-0} > /logs/verifier/reward.txt\n"
    folder = write_task(tmp_path, image, script=script, tests={"x": ""})
    async with open_container(*describe(pool, folder)) as machine:
        machine.seal_level = "live"
        await machine.call("bash", {"command": "sleep 600 & echo $! > service; echo $$ > shell"})
        await machine.end_acting()
        assert (await judge(pool, machine, "live")).status is Status.PASSED


@pytest.mark.thorough
@pytest.mark.timeout(900)
async def test_twenty_tasks_side_by_side_stay_within_the_memory(
    client: APIClient, image: str, tmp_path: Path
) -> None:
    budget_mb, memory_mb, most = 2048, 256, 0
    folder = write_task(
        tmp_path,
        image,
        script="#!/bin/sh\ncp /app/answer.txt /logs/verifier/reward.txt\n",
        tests={"x": ""},
        toml=f"[environment]\nmemory_mb = {memory_mb}\n",
    )
    backend = DockerBackend(client)
    async with SandboxPool(backend, memory_mb=budget_mb, nested_sandboxes=1) as pool:

        async def solve() -> Status:
            nonlocal most
            async with acted(pool, folder, "echo 1 > /app/answer.txt") as machine:
                found = await asyncio.to_thread(backend.find_containers, {PID: str(os.getpid())})
                most = max(most, sum(each.running for each in found))
                return (await judge(pool, machine, "work")).status

        statuses = await asyncio.gather(*(solve() for _ in range(20)))
    assert statuses == [Status.PASSED] * 20
    assert 1 < most <= budget_mb / memory_mb
