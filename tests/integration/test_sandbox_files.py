"""Files in and out of a sandbox: as the agent's user, regular files only, and at most the requested size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.core.errors import UsageError
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.guest.frames import MAX_BODY_BYTES
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

# A command of the agent makes every kind of file that is not a plain one.
SCENE = """
mkfifo pipe
mkdir -p folder closed/inner
echo secret > unreadable; chmod 000 unreadable
echo inner > closed/inner/file; chmod 000 closed
ln -s /etc/passwd link
ln -s nowhere dangling
ln -s /etc linked-folder
: > empty
echo hidden > .hidden
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(disk_mb=128, file_mb=64)
    async with Sandbox.open("python", backend=backend, limits=limits) as sandbox:
        result = await sandbox.exec(["sh", "-ec", SCENE])
        assert result.exit_code == 0, str(result.stderr)
        yield sandbox


async def test_relative_paths_start_at_the_agents_folder(sandbox: Sandbox) -> None:
    await sandbox.write_file("here", b"x")
    assert await sandbox.read_file("/work/agent/here") == b"x"


async def test_folders_on_the_way_are_made(sandbox: Sandbox) -> None:
    await sandbox.write_file("new/deep/file", b"x")
    assert await sandbox.read_file("new/deep/file") == b"x"


async def test_names_can_be_any_text(sandbox: Sandbox) -> None:
    await sandbox.write_file("a b\n'é\udcff", b"x")
    assert await sandbox.read_file("a b\n'é\udcff") == b"x"


async def test_the_temporary_folder_can_be_written_to(sandbox: Sandbox) -> None:
    await sandbox.write_file("/tmp/file", b"x")
    assert await sandbox.read_file("/tmp/file") == b"x"


async def test_a_file_as_large_as_a_body_goes_in_and_comes_out(sandbox: Sandbox) -> None:
    data = bytes(MAX_BODY_BYTES - 1) + b"x"
    await sandbox.write_file("largest", data)
    got = await sandbox.read_file("largest")
    await sandbox.exec(["rm", "largest"])
    assert got == data


async def test_more_than_a_body_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError, match="too much"):
        await sandbox.write_file("file", bytes(MAX_BODY_BYTES + 1))


async def test_many_files_at_once_do_not_get_mixed_up(sandbox: Sandbox) -> None:
    names = [f"many/{number}" for number in range(20)]
    await asyncio.gather(*(sandbox.write_file(name, name.encode() * 1000) for name in names))
    got = await asyncio.gather(*(sandbox.read_file(name) for name in names))
    assert got == [name.encode() * 1000 for name in names]


@each_case(
    ("path", "reason"),
    [
        ("missing", "No such file"),
        ("missing/file", "No such file"),
        ("", "No such file"),
        ("folder", "not a regular file"),
        (".", "not a regular file"),
        ("/", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("/dev/tty", "No such device"),
        ("dangling", "symbolic link"),
        ("unreadable", "Permission denied"),
        ("closed/inner/file", "Permission denied"),
        ("/etc/shadow", "Permission denied"),
        ("/proc/1/environ", "Permission denied"),
        ("/proc/1/mem", "Permission denied"),
        ("/proc/self/environ", "Permission denied"),
        ("/proc/self/mem", "Permission denied"),
        ("/root/file", "Permission denied"),
        ("folder/../pipe", "not a regular file"),
        ("file\0name", ""),
        ("\ud800", ""),
        ("x" * 5000, "too long"),
    ],
)
async def test_reading_is_refused_with_the_reason(sandbox: Sandbox, path: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"cannot read .*{reason}"):
        await sandbox.read_file(path)


@each_case(
    ("path", "reason"),
    [
        ("", "No such file"),
        ("folder", "Is a directory"),
        ("pipe", "No such device"),
        ("/dev/null", "not a regular file"),
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("linked-folder/file", "Read-only file system|Permission denied"),
        ("closed/file", "Permission denied"),
        ("empty/file", "exists|Not a directory"),
        ("/etc/file", "Read-only file system|Permission denied"),
        ("/work/file", "Permission denied"),
        ("/opt/harness/harness/sandbox/guest/main.py", "Read-only file system|Permission denied"),
        ("/proc/self/comm", "Permission denied"),
        ("/proc/1/oom_score_adj", "Permission denied"),
        ("file\0name", ""),
    ],
)
async def test_writing_is_refused_with_the_reason(sandbox: Sandbox, path: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"cannot write .*({reason})"):
        await sandbox.write_file(path, b"x")


@each_case("path", ["file\0name", "\ud800"], ids=["NUL", "surrogate"])
async def test_an_invalid_path_is_named_in_the_error(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(UsageError) as caught:
        await sandbox.read_file(path)
    assert "killed" not in caught.value.message


async def test_a_refused_file_leaves_the_sandbox_at_work(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError):
        await sandbox.read_file("missing")
    assert await sandbox.read_file(".hidden") == b"hidden\n"


async def test_a_file_of_exactly_the_limit_is_read(sandbox: Sandbox) -> None:
    await sandbox.write_file("five", b"12345")
    assert await sandbox.read_file("five", limit=5) == b"12345"


@each_case("limit", [0, 1, 4])
async def test_a_file_over_the_limit_is_refused(sandbox: Sandbox, limit: int) -> None:
    await sandbox.write_file("five", b"12345")
    with pytest.raises(UsageError, match=f"larger than {limit} bytes"):
        await sandbox.read_file("five", limit=limit)


async def test_a_file_that_never_ends_is_refused(sandbox: Sandbox) -> None:
    growing = asyncio.create_task(sandbox.exec(["sh", "-c", "while :; do echo line; done > growing"]))
    while (await sandbox.exec(["test", "-s", "growing"])).exit_code != 0:
        pass
    with pytest.raises(UsageError, match="larger than 1 bytes"):
        await sandbox.read_file("growing", limit=1)
    await sandbox.exec(["pkill", "-KILL", "sh"])
    growing.cancel()
    await asyncio.wait([growing])


async def test_a_full_disk_is_reported(sandbox: Sandbox) -> None:
    await sandbox.write_file("half", bytes(60 << 20))
    await sandbox.write_file("other-half", bytes(60 << 20))
    with pytest.raises(UsageError, match="No space left"):
        await sandbox.write_file("too-much", bytes(60 << 20))
    await sandbox.exec(["rm", "-f", "half", "other-half", "too-much"])
