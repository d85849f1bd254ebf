"""A writable root file system is bounded. A sandbox that exceeds the limit ends, and the limit is named."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from case_checks import each_case
from docker import APIClient
from effort import one_in_two
from failing_backend import SlowBackend

from harness import Sandbox
from harness.core.errors import SandboxError
from harness.environments.os.root_sandbox import RootSandbox
from harness.sandbox import disk_watch, reaper
from harness.sandbox.backends import base
from harness.sandbox.backends.base import Backend
from harness.sandbox.backends.docker import backend as docker_backend
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.oci import backend as oci_backend
from harness.sandbox.connection import Connection
from harness.sandbox.failures import SandboxOutOfDisk
from harness.sandbox.limits import MIB, Limits

pytestmark = pytest.mark.timeout(180)

LIMITS = Limits(disk_mb=4, file_mb=16, wall_seconds=30, memory_mb=128)
# A folder of the root file system to which everyone may write. /tmp and /work have separate limits.
FOLDER = "/var/tmp"
WRITE = "dd if=/dev/zero of={path} bs=1M count={mb} status=none"


@contextlib.asynccontextmanager
async def opened(backend: DockerBackend, run_id: str | None = None) -> AsyncIterator[Sandbox]:
    async with Sandbox.open(limits=LIMITS, writable_root=True, run_id=run_id, backend=backend) as sandbox:
        yield sandbox


async def sh(sandbox: Sandbox, script: str) -> str:
    result = await sandbox.exec(["sh", "-c", script])
    return str(result.stdout) + str(result.stderr)


async def test_the_root_is_not_writable_by_default(backend: DockerBackend) -> None:
    async with Sandbox.open(limits=LIMITS, backend=backend) as sandbox:
        said = await sh(sandbox, f"touch {FOLDER}/new")
    assert "Read-only file system" in said


async def test_files_within_the_limit_do_not_end_a_sandbox(backend: DockerBackend) -> None:
    async with opened(backend) as sandbox:
        await sh(sandbox, f"echo there > {FOLDER}/new")
        assert await sh(sandbox, f"cat {FOLDER}/new") == "there\n"
        await sh(sandbox, WRITE.format(path=f"{FOLDER}/large", mb=3))
        assert await sh(sandbox, f"echo alive; rm {FOLDER}/*") == "alive\n"
        # Deleted files count as well, and a file with many names counts once.
        deleted = (HOLD % "file = made(3)").replace("time.sleep(60)", "print('held')")
        assert str((await sandbox.exec(["python3", "-c", deleted])).stdout) == "held\n"
        links = "; ".join(f"ln {FOLDER}/large {FOLDER}/link{number}" for number in range(8))
        await sh(sandbox, f"{WRITE.format(path=f'{FOLDER}/large', mb=1)}; {links}")
        assert await sh(sandbox, f"ls {FOLDER} | wc -l") == "9\n"
        # Files in memory and extended attributes take no disk.
        memory = "import os, time; file = os.memfd_create('x'); os.write(file, bytes(6 << 20)); time.sleep(1)"
        assert (await sandbox.exec(["python3", "-c", memory])).exit_code == 0
        attribute = f"import os; os.setxattr({FOLDER!r}, 'user.a', bytes(4000))"
        result = await sandbox.exec(["python3", "-c", attribute])
        assert "Operation not supported" in str(result.stderr)


@each_case(
    "script",
    [
        f"for n in 1 2 3 4 5 6; do {WRITE.format(path=f'{FOLDER}/$n', mb=1)}; done",
        f"mkdir -m 700 {FOLDER}/hidden; {WRITE.format(path=f'{FOLDER}/hidden/.large', mb=6)}; "
        f"chmod 0 {FOLDER}/hidden/.large {FOLDER}/hidden",
        f"truncate -s 6M {FOLDER}/sparse",
    ],
    ids=["many files", "a file that nobody may look at", "a sparse file"],
)
async def test_files_over_the_limit_end_the_sandbox_and_name_the_limit(
    client: APIClient, backend: DockerBackend, script: str
) -> None:
    run_id = f"disk-{secrets.token_hex(4)}"
    async with opened(backend, run_id) as sandbox:
        for command in (script, "true"):
            with pytest.raises(SandboxOutOfDisk) as raised:
                await sh(sandbox, command)
            assert raised.value.limit == "disk_mb"
    assert client.containers(all=True, filters={"label": f"{reaper.RUN}={run_id}"}) == []


# Each program takes 6 MiB that no walk over names finds, prints a line, and stays alive.
UNNAMED = {
    "a deleted file": "file = made()",
    "a file that never had a name": "file = os.open(FOLDER, os.O_TMPFILE | os.O_RDWR); write(file, 6)",
    "many deleted files": "files = [made(1) for _ in range(6)]",
    "a file of a child": "file = made()\nif os.fork(): os.close(file)",
}
# The same for files that nobody can count. Then the lost room of the disk shows the excess. Each file is
# small, because a count may find it while it is written.
UNSEEN = {
    "files on their way through a socket": (
        "for _ in range(6): file = made(1); socket.send_fds(ends[0], [b'.'], [file]); os.close(file)"
    ),
    "mapped files": "for _ in range(6): file = made(1); mapping(file); os.close(file)",
    "files of a process that nobody may look at": "hide(); files = [made(1) for _ in range(6)]",
}
HOLD = f"""
import ctypes, os, socket, time
FOLDER, ends = {FOLDER!r}, socket.socketpair()

def write(file, mebibytes):
    for _ in range(mebibytes):
        os.write(file, bytes(1 << 20))
    os.fsync(file)

def made(mebibytes=6):
    file = os.open(FOLDER + "/held", os.O_CREAT | os.O_RDWR)
    write(file, mebibytes)
    os.unlink(FOLDER + "/held")
    return file

def hide():
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)

def mapping(file):
    # Python's own would keep a descriptor.
    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mmap(None, 4096, 1, 2, file, 0)

%s
time.sleep(60)
"""


@each_case("name", one_in_two([*UNNAMED], 1))
async def test_a_file_without_a_name_counts_as_long_as_it_is_open(backend: DockerBackend, name: str) -> None:
    async with opened(backend) as sandbox:
        with pytest.raises(SandboxOutOfDisk) as raised:
            await sandbox.exec(["python3", "-c", HOLD % UNNAMED[name]])
    assert raised.value.limit == "disk_mb"


def set_free_bytes(monkeypatch: pytest.MonkeyPatch, free_bytes: Callable[[Path], int]) -> None:
    for module in (docker_backend, oci_backend):
        monkeypatch.setattr(module, "free_bytes", free_bytes)


@pytest.fixture
def shrinking_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the disk lose a tebibyte between two measurements, because others write to the real one."""
    free = iter(range(1 << 60, 0, -(1 << 40)))
    set_free_bytes(monkeypatch, lambda root: next(free))


@pytest.fixture
def disk_of_the_sandbox(monkeypatch: pytest.MonkeyPatch, shrinking_disk: None) -> None:
    """Let the end of the sandbox give the lost room of the disk back."""

    def give_back(destroy: Any) -> Any:
        def destroy_and_give_back(backend: Backend, container_id: str) -> bool:
            destroyed = bool(destroy(backend, container_id))
            set_free_bytes(monkeypatch, lambda root: 1 << 61)
            return destroyed

        return destroy_and_give_back

    for kind in (DockerBackend, oci_backend.OciBackend):
        monkeypatch.setattr(kind, "destroy", give_back(kind.destroy))


@pytest.mark.usefixtures("disk_of_the_sandbox")
@pytest.mark.parametrize("statement", UNSEEN.values(), ids=UNSEEN.keys())
async def test_a_file_that_nobody_can_count_is_detected_by_the_lost_room(
    backend: DockerBackend, statement: str
) -> None:
    async with opened(backend) as sandbox:
        with pytest.raises(SandboxOutOfDisk, match="cannot be counted"):
            await sandbox.exec(["python3", "-c", HOLD % statement])


@pytest.mark.usefixtures("shrinking_disk")
async def test_a_sandbox_whose_end_gives_no_room_back_is_not_blamed(backend: DockerBackend) -> None:
    async with opened(backend) as sandbox:
        with pytest.raises(SandboxError, match="others took the room") as raised:
            await sandbox.exec(["python3", "-c", HOLD % next(iter(UNSEEN.values()))])
    assert raised.value.outside


async def test_room_that_others_took_before_the_last_complete_count_is_no_suspicion(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 1 << 60
    set_free_bytes(monkeypatch, lambda root: free)
    async with opened(backend) as sandbox:
        assert await sh(sandbox, "echo one") == "one\n"
        free -= 1 << 40
        assert await sh(sandbox, "sleep 1; echo two") == "two\n"
        hiding = (HOLD % "hide(); files = [made(1)]").replace(
            "time.sleep(60)", "time.sleep(1.5); print('held')"
        )
        assert str((await sandbox.exec(["python3", "-c", hiding])).stdout) == "held\n"


@pytest.mark.usefixtures("shrinking_disk")
async def test_files_of_processes_of_other_users_are_counted(backend: DockerBackend) -> None:
    async with RootSandbox.open("os", backend=backend) as sandbox:
        await sandbox.open_shell()
        await sandbox.run("setpriv --reuid 1234 --regid 1234 --clear-groups sleep 600 &")
        assert str((await sandbox.run("echo one; sleep 1; echo two")).output) == "one\ntwo\n"


@pytest.mark.usefixtures("shrinking_disk")
async def test_a_disk_that_others_fill_is_not_blamed_on_a_sandbox_that_can_be_counted(
    backend: DockerBackend,
) -> None:
    async with opened(backend) as sandbox:
        assert await sh(sandbox, "echo one") + await sh(sandbox, "echo two") == "one\ntwo\n"


@each_case(
    "body",
    [b"", b"{", b"null", b"[]", b"{}", b'{"bytes": "1", "unknown": false, "free_bytes": 1}', b"[" * 100_000],
    ids=["nothing", "half", "null", "a list", "no facts", "a text", "deep"],
)
def test_a_malformed_answer_leaves_the_deleted_files_unknown(body: bytes) -> None:
    assert disk_watch.decode_held_files({"id": 1}, body) == disk_watch.HeldFiles(0, True, None)


def test_a_guest_that_refuses_leaves_the_deleted_files_unknown() -> None:
    body = b'{"bytes": 1, "unknown": false, "free_bytes": 1}'
    assert disk_watch.decode_held_files({"id": 1, "refused": "x"}, body).unknown
    assert disk_watch.decode_held_files({"id": 1}, body) == disk_watch.HeldFiles(1, False, 1)


@each_case("tries", [1, disk_watch.COUNT_TRIES, 1000])
async def test_a_count_is_repeated_while_a_process_is_about_to_start_a_program(tries: int) -> None:
    """Nobody may look into such a process. The guest counts everything at the last of these tries."""
    requests: list[dict[str, str]] = []

    async def answer(request: dict[str, str]) -> tuple[dict[str, int], bytes]:
        requests.append(request)
        facts = {"bytes": 1, "unknown": len(requests) < tries, "free_bytes": 1}
        return {"id": 1}, json.dumps(facts).encode()

    connection = cast("Connection", SimpleNamespace(request=answer))
    counted = await disk_watch.count_held_files(connection)
    assert counted == disk_watch.HeldFiles(1, tries > disk_watch.COUNT_TRIES, 1)
    assert requests == [{"verb": "held"}] * min(tries, disk_watch.COUNT_TRIES)


@contextlib.asynccontextmanager
async def opened_machine(backend: DockerBackend) -> AsyncIterator[RootSandbox]:
    """Open a machine with a shell, whose disk nobody measures but its own calls."""
    async with RootSandbox.open("os", limits=LIMITS, backend=backend) as sandbox:
        await sandbox.open_shell()
        yield sandbox


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_watch, "POLL_SECONDS", 1000.0)


@pytest.mark.usefixtures("no_polls")
async def test_a_command_of_a_shell_that_writes_too_much_ends_the_machine(backend: DockerBackend) -> None:
    async with opened_machine(backend) as sandbox:
        with pytest.raises(SandboxOutOfDisk):
            await sandbox.run(WRITE.format(path=f"{FOLDER}/large", mb=6))


@pytest.mark.usefixtures("no_polls")
async def test_a_command_of_a_shell_that_writes_nothing_needs_no_measurement(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_machine(backend) as sandbox:
        monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bfree=1 << 50, f_frsize=4096))
        monkeypatch.setattr(DockerBackend, "measure_disk", refuse_to_measure)
        assert str((await sandbox.run("echo alive")).output) == "alive\n"


def refuse_to_measure(backend: DockerBackend, container_id: str) -> NoReturn:
    raise AssertionError("the engine was asked")


@pytest.mark.usefixtures("no_polls")
async def test_a_count_that_the_end_of_all_processes_kills_is_repeated(backend: DockerBackend) -> None:
    async with opened_machine(backend) as sandbox:
        connection = sandbox._connection
        for _ in range(20):
            counted, _ended = await asyncio.gather(disk_watch.count_held_files(connection), sandbox.end_all())
            assert counted is not None
            assert not counted.unknown


@pytest.mark.usefixtures("no_polls")
async def test_the_end_of_a_machine_finds_files_that_take_no_room(backend: DockerBackend) -> None:
    async with opened_machine(backend) as sandbox:
        await sandbox.run(f"truncate -s 6M {FOLDER}/sparse")
        with pytest.raises(SandboxOutOfDisk):
            await sandbox.end_all()


async def test_a_file_put_there_by_the_host_counts_too(backend: DockerBackend) -> None:
    async with opened(backend) as sandbox:
        with pytest.raises(SandboxOutOfDisk):
            await sandbox.write_file(f"{FOLDER}/large", bytes(6 * MIB))


async def test_a_disk_that_is_almost_full_is_no_limit_of_a_sandbox(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(backend) as sandbox:
        monkeypatch.setattr(base, "RESERVE_BYTES", 1 << 62)
        with pytest.raises(SandboxError, match="almost full") as raised:
            await sh(sandbox, "true")
    assert not isinstance(raised.value, SandboxOutOfDisk)


async def test_a_sandbox_that_a_slow_engine_cannot_measure_ends_without_blame(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_watch, "LOOK_SECONDS", 1.0)
    slow = SlowBackend(client)
    async with opened(slow) as sandbox:
        sandbox.agent_acted = True
        slow.seconds = 3.0
        with pytest.raises(SandboxError, match="did not measure") as raised:
            await sh(sandbox, WRITE.format(path=f"{FOLDER}/large", mb=3))
    assert type(raised.value) is SandboxError
    assert raised.value.outside


async def test_a_sandbox_with_more_files_than_can_be_counted_in_time_is_over_its_limit(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_watch, "LOOK_SECONDS", 1.0)
    monkeypatch.setattr(disk_watch, "MANY_FILES", 3000)
    slow = SlowBackend(client)
    make = f"import os; [os.close(os.open(f'{FOLDER}/{{n}}', os.O_CREAT)) for n in range(9000)]"
    async with opened(slow) as sandbox:
        await sandbox.exec(["python3", "-c", make])
        slow.seconds = 3.0
        with pytest.raises(SandboxOutOfDisk, match=r"removed [0-9]+ files"):
            await sh(sandbox, "true")


def test_a_disk_with_more_than_the_reserve_has_room(tmp_path: Path) -> None:
    assert base.find_shortage(tmp_path) is None


def test_too_few_free_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "RESERVE_FILES", 1 << 62)
    assert "files free" in (base.find_shortage(tmp_path) or "")
