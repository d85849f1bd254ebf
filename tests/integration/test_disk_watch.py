"""A writable root file system is bounded: what goes over ends the sandbox, and the limit is named."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from docker import APIClient

from harness import Sandbox
from harness.errors import SandboxError
from harness.sandbox import disk_watch, reaper
from harness.sandbox.failures import SandboxOutOfDisk
from harness.sandbox.images import build_images
from harness.sandbox.limits import MIB, Limits

pytestmark = pytest.mark.timeout(60)

LIMITS = Limits(disk_mb=4, file_mb=16, wall_seconds=30, memory_mb=128)
# A folder of the root file system that everyone may write to; /tmp and /work are bounded apart.
FOLDER = "/var/tmp"
WRITE = "dd if=/dev/zero of={path} bs=1M count={mb} status=none"


@pytest.fixture(scope="module", autouse=True)
def image(client: APIClient) -> None:
    build_images(client, ["python"], notify=print)


@contextlib.asynccontextmanager
async def opened(client: APIClient, run_id: str | None = None) -> AsyncIterator[Sandbox]:
    async with Sandbox.open(limits=LIMITS, writable_root=True, run_id=run_id, client=client) as sandbox:
        yield sandbox


async def sh(sandbox: Sandbox, script: str) -> str:
    result = await sandbox.exec(["sh", "-c", script])
    return str(result.stdout) + str(result.stderr)


async def test_a_root_that_is_not_asked_to_be_writable_is_not(client: APIClient) -> None:
    async with Sandbox.open(limits=LIMITS, client=client) as sandbox:
        said = await sh(sandbox, f"touch {FOLDER}/new")
    assert "Read-only file system" in said


async def test_a_writable_root_keeps_what_is_written_for_the_next_command(client: APIClient) -> None:
    async with opened(client) as sandbox:
        await sh(sandbox, f"echo there > {FOLDER}/new")
        assert await sh(sandbox, f"cat {FOLDER}/new") == "there\n"


async def test_what_fits_is_no_reason_to_end_a_sandbox(client: APIClient) -> None:
    async with opened(client) as sandbox:
        await sh(sandbox, WRITE.format(path=f"{FOLDER}/large", mb=3))
        assert await sh(sandbox, "echo alive") == "alive\n"


@pytest.mark.parametrize(
    "script",
    [
        WRITE.format(path=f"{FOLDER}/large", mb=6),
        f"for n in 1 2 3 4 5 6; do {WRITE.format(path=f'{FOLDER}/$n', mb=1)}; done",
        f"mkdir -m 700 {FOLDER}/hidden; {WRITE.format(path=f'{FOLDER}/hidden/.large', mb=6)}; "
        f"chmod 0 {FOLDER}/hidden/.large {FOLDER}/hidden",
        f"truncate -s 6M {FOLDER}/sparse",
    ],
    ids=["one file", "many files", "a file that nobody may look at", "a sparse file"],
)
async def test_more_than_fits_is_a_limit_with_a_name(client: APIClient, script: str) -> None:
    async with opened(client) as sandbox:
        with pytest.raises(SandboxOutOfDisk) as raised:
            await sh(sandbox, script)
    assert raised.value.limit == "disk_mb"


async def test_a_file_with_many_names_counts_once(client: APIClient) -> None:
    links = "; ".join(f"ln {FOLDER}/large {FOLDER}/link{number}" for number in range(8))
    async with opened(client) as sandbox:
        await sh(sandbox, f"{WRITE.format(path=f'{FOLDER}/large', mb=1)}; {links}")
        assert await sh(sandbox, f"ls {FOLDER} | wc -l") == "9\n"


async def test_a_command_that_goes_on_after_it_wrote_too_much_is_ended(client: APIClient) -> None:
    async with opened(client) as sandbox:
        with pytest.raises(SandboxOutOfDisk):
            await sandbox.exec(["sh", "-c", WRITE.format(path=f"{FOLDER}/large", mb=6) + "; sleep 60"])


async def test_a_file_put_there_by_the_host_counts_too(client: APIClient) -> None:
    async with opened(client) as sandbox:
        with pytest.raises(SandboxOutOfDisk):
            await sandbox.write_file(f"{FOLDER}/large", bytes(6 * MIB))


async def test_a_sandbox_that_was_ended_says_so_again(client: APIClient) -> None:
    async with opened(client) as sandbox:
        with pytest.raises(SandboxOutOfDisk):
            await sh(sandbox, WRITE.format(path=f"{FOLDER}/large", mb=6))
        with pytest.raises(SandboxOutOfDisk):
            await sh(sandbox, "true")


async def test_a_sandbox_that_was_ended_leaves_no_container(client: APIClient) -> None:
    run_id = f"disk-{secrets.token_hex(4)}"
    async with opened(client, run_id) as sandbox:
        with pytest.raises(SandboxOutOfDisk):
            await sh(sandbox, WRITE.format(path=f"{FOLDER}/large", mb=6))
    assert client.containers(all=True, filters={"label": f"{reaper.RUN}={run_id}"}) == []


async def test_a_disk_that_is_almost_full_is_nobodys_limit(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(client) as sandbox:
        monkeypatch.setattr(disk_watch, "RESERVE_BYTES", 1 << 62)
        with pytest.raises(SandboxError, match="almost full") as raised:
            await sh(sandbox, "true")
    assert not isinstance(raised.value, SandboxOutOfDisk)


async def test_a_layer_that_takes_too_long_to_count_is_over_its_limit(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(client) as sandbox:
        monkeypatch.setattr(disk_watch, "LOOK_SECONDS", 0.0)
        with pytest.raises(SandboxOutOfDisk, match="could not be counted"):
            await sh(sandbox, "true")


def test_there_is_room_where_there_is_more_than_the_reserve(tmp_path: Path) -> None:
    assert disk_watch.scarce(tmp_path) is None


def test_too_few_free_files_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_watch, "RESERVE_FILES", 1 << 62)
    assert "files free" in (disk_watch.scarce(tmp_path) or "")
