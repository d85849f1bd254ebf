"""Programs on the host that resist their end: chains of processes, killed supervisors, left folders."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.runs.agents.agent import AgentError
from harness.runs.agents.command.place import HostPlace, open_host_place
from harness.sandbox.host_programs import folders, program
from harness.sandbox.host_programs.program import KILLED_SUPERVISOR, ProgramEnd, open_program

WAIT_SECONDS = 60.0
# Each process of the chain forks the next one and exits. It ends by itself after this time.
CHAIN_SECONDS = 60
CHAIN = """
import os, sys, time
path, always, end = sys.argv[1], sys.argv[2] == "always", time.monotonic() + float(sys.argv[3])
if os.fork():
    while not os.path.exists(path):
        time.sleep(0.01)
    os._exit(0)
os.setsid()
for descriptor in (0, 1, 2):
    os.close(descriptor)
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    if always:
        os.setsid()
    with open(path, "w") as file:
        file.write(str(os.getpid()))
"""
# Leaves a process that nothing connects with its program but its ancestors, and kills the supervisor.
LEAVE = """
setsid env -i {sleep} 600 < /dev/null > /dev/null 2>&1 &
echo $! >> {pids}
while ! grep -q sleep /proc/$!/comm; do :; done
"""


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Path]:
    """Yield the file into which a program writes the ids of its processes. They are ended after the test."""
    path = tmp_path / "pids"
    yield path
    for pid in list_living(path):
        os.kill(pid, signal.SIGKILL)


def read_pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def list_living(path: Path) -> list[int]:
    return [pid for pid in read_pids(path) if is_running(pid)]


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def wait_until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def leave(pids: Path, *, then: str) -> list[str]:
    """Return a program that leaves a process and then does `then`."""
    return ["sh", "-c", LEAVE.format(pids=pids, sleep="/bin/sleep") + then]


async def run_alone(argv: list[str]) -> ProgramEnd:
    async with open_program(argv, env=dict(os.environ)) as program:
        return await program.wait()


async def run_at(place: HostPlace, argv: list[str]) -> None:
    await place.run(argv, env={"PATH": place.path}, seconds=WAIT_SECONDS)


@pytest.mark.parametrize("sessions", ["once", "always"])
async def test_a_chain_of_processes_ends_with_its_program(tmp_path: Path, sessions: str) -> None:
    alive = tmp_path / "alive"
    argv = [sys.executable, "-c", CHAIN, str(alive), sessions, str(CHAIN_SECONDS)]
    end = await run_alone(argv)
    assert (end.exit_code, end.fault) == (0, None)
    # A process of the chain would write the file anew.
    alive.unlink()
    await asyncio.sleep(0.2)
    assert not alive.exists()


async def test_a_chain_of_processes_ends_although_its_supervisor_was_killed(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    chain = [sys.executable, "-c", CHAIN, str(alive), "once", str(CHAIN_SECONDS)]
    script = 'supervisor=$PPID; "$@"; kill -KILL $supervisor; exec sleep 600'
    end = await run_alone(["sh", "-c", script, "sh", *chain])
    assert end.fault == KILLED_SUPERVISOR
    alive.unlink(missing_ok=True)
    await asyncio.sleep(0.2)
    assert not alive.exists()


async def test_a_program_that_kills_its_supervisor_leaves_no_process_and_ends_no_other(pids: Path) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    try:
        end = await run_alone(leave(pids, then="kill -KILL $PPID; exec sleep 600"))
        assert len(read_pids(pids)) == 1
        assert list_living(pids) == []
        assert (end.exit_code, end.fault, other.returncode) == (None, KILLED_SUPERVISOR, None)
    finally:
        other.kill()
        await other.wait()


async def test_a_program_that_kills_a_supervisor_spares_the_programs_of_others(pids: Path) -> None:
    async with open_program(["cat"], env=dict(os.environ), has_input=True) as other:
        await run_alone(leave(pids, then="kill -KILL $PPID; exec sleep 600"))
        assert other.stdin is not None
        other.stdin.write(b"alive")
        other.stdin.close()
        assert await other.stdout.read() == b"alive"
        assert (await other.wait()).exit_code == 0


async def test_the_harness_adopts_orphans_only_as_long_as_a_program_runs() -> None:
    assert not program._is_subreaper()
    async with open_program(["true"], env={}) as first, open_program(["true"], env={}) as second:
        await first.wait()
        await second.wait()
        assert program._is_subreaper()
    assert not program._is_subreaper()


async def test_a_program_that_kills_its_supervisor_has_tampered() -> None:
    async with open_host_place([]) as place:
        with pytest.raises(AgentError, match="ended the process that supervises it") as caught:
            await run_at(place, ["sh", "-c", "kill -KILL $PPID; exec sleep 600"])
    assert caught.value.tampering == KILLED_SUPERVISOR


async def test_a_supervisor_ignores_every_signal_that_it_can(pids: Path) -> None:
    # The C library keeps 32 and 33, and lets nobody ignore them.
    signals = (
        "for number in $(seq 1 64); do case $number in 9|19|32|33) ;; *) kill -$number $PPID; esac; done"
    )
    end = await run_alone(leave(pids, then=f"{signals} 2> /dev/null; exit 3"))
    assert (end.exit_code, end.fault, list_living(pids)) == (3, None, [])


async def test_a_stopped_supervisor_still_ends_its_program(pids: Path) -> None:
    argv = leave(pids, then="echo $PPID; kill -STOP $PPID; sleep 600")
    async with open_program(argv, env=dict(os.environ)) as program:
        supervisor = psutil.Process(int(await program.stdout.readline()))
        await wait_until(lambda: bool(supervisor.status() == psutil.STATUS_STOPPED))
    assert program.ended is not None
    assert (program.ended.fault, len(read_pids(pids)), list_living(pids)) == (None, 1, [])


async def test_a_program_starts_with_every_signal_at_its_default() -> None:
    async with open_program(["cat", "/proc/self/status"], env=dict(os.environ)) as program:
        text = (await program.stdout.read()).decode()
        await program.wait()
    lines = [line.split() for line in text.splitlines()]
    masks = [int(line[1], 16) for line in lines if line and line[0] in ("SigBlk:", "SigIgn:", "SigCgt:")]
    # The C library keeps the signals 32 and 33 for itself, and whoever starts the tests may ignore them.
    reserved = 1 << 31 | 1 << 32
    assert [mask & ~reserved for mask in masks] == [0, 0, 0]


async def test_a_program_finds_only_its_outputs_open() -> None:
    async with open_program(["sh", "-c", "ls /proc/self/fd"], env=dict(os.environ)) as program:
        text = (await program.stdout.read()).decode()
        await program.wait()
    assert text.split() == ["0", "1", "2", "3"]  # the last one is the folder that ls reads


HARNESS = """
import asyncio, sys
from harness.runs.agents.command.place import open_host_place

async def main():
    async with open_host_place([]) as place:
        print(place.scratch, flush=True)
        await place.run(sys.argv[1:], env={"PATH": place.path}, seconds=600)

asyncio.run(main())
"""


@contextlib.contextmanager
def start_harness(argv: list[str], temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Yield a process of harness that runs a program, and the folder of that program."""
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-c", HARNESS, *argv]
    env = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as harness:
        try:
            assert harness.stdout is not None
            yield harness, Path(harness.stdout.readline().strip()).parent
        finally:
            harness.kill()


async def test_the_supervisor_of_a_killed_harness_removes_the_folder(tmp_path: Path, pids: Path) -> None:
    locked = "mkdir -p locked/inner; chmod 0 locked; sleep 600"
    with start_harness(leave(pids, then=locked), tmp_path / "tmp") as (harness, folder):
        await wait_until(lambda: (folder / "home" / "locked").exists())
        assert list_living(pids) != []
        harness.kill()
        await wait_until(lambda: not folder.exists())
        await wait_until(lambda: list_living(pids) == [])


async def test_only_folders_whose_harness_is_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(folders, "SHORTEST_AGE_SECONDS", 0.0)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    with start_harness(["sleep", "600"], temporary) as (_, owned):
        assert owned.parent == temporary
        abandoned = temporary / f"{folders.PREFIX}abandoned"
        (abandoned / "harness").mkdir(parents=True)
        (abandoned / "link").symlink_to(outside)
        (temporary / f"{folders.PREFIX}link").symlink_to(outside)
        (temporary / "other").mkdir()
        assert folders.remove_abandoned_folders() == [abandoned]
        assert owned.exists()
    assert (outside / "kept").exists()


def test_a_new_folder_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    new, old = tmp_path / f"{folders.PREFIX}new", tmp_path / f"{folders.PREFIX}old"
    new.mkdir()
    old.mkdir()
    os.utime(old, (time.time() - 3600,) * 2)
    assert folders.remove_abandoned_folders() == [old]


@pytest.mark.parametrize(
    "script",
    [
        "ln -s /proc/self/environ answer",
        "ln -s ../../secret answer",
        "mkfifo real; ln -s real answer",
        "mkfifo answer",
        "mkdir elsewhere; echo x > elsewhere/answer; ln -s elsewhere folder",
    ],
)
async def test_a_link_or_a_pipe_is_no_submission(script: str) -> None:
    async with open_host_place([]) as place:
        await run_at(place, ["sh", "-c", script])
        name = "folder/answer" if "folder" in script else "answer"
        assert await place.read_file(name, limit=1 << 20) is None


async def test_a_replaced_scratch_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "submission").write_text("secret")
    async with open_host_place([]) as place:
        await place.write_file("prompt.txt", b"", mode=0o600)
        moves = f"mv {place.scratch} {place.scratch}.old && ln -s {tmp_path} {place.scratch}"
        await run_at(place, ["sh", "-c", moves])
        assert await place.read_file(f"{place.scratch}/submission", limit=100) is None


async def test_a_file_in_the_folder_is_a_submission() -> None:
    async with open_host_place([]) as place:
        await place.write_file("prompt.txt", b"", mode=0o600)
        script = f"mkdir made; echo one > made/answer; echo two > {place.scratch}/submission"
        await run_at(place, ["sh", "-c", script])
        assert await place.read_file("made/answer", limit=100) == b"one\n"
        assert await place.read_file(f"{place.scratch}/submission", limit=100) == b"two\n"
