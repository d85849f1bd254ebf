"""Machines of images that are not ours: without Python, without bash, and without anything at all."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from docker import APIClient

from harness.core.errors import SandboxError, UsageError
from harness.environments.container.machine import Machine, open_machine
from harness.environments.os.file_entries import UnreadableFiles
from harness.environments.os.root_sandbox import ShellEnd
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxPool

# A few programs with the libraries that they need, and neither Python nor bash.
SMALL = """
FROM {os} AS all
RUN mkdir -p /out/bin /out/etc /out/srv && cd /bin && cp cat id ls mkdir mknod sleep /out/bin \\
    && cp /bin/dash /out/bin/sh && cp --parents $(ldd /bin/ls /bin/id | grep -o '/lib[^ ]*' | sort -u) /out \\
    && printf 'root:x:0:0:root:/:/bin/sh\\napp:x:1000:1001::/srv:/bin/sh\\n' > /out/etc/passwd \\
    && printf 'app:x:1001:\\nmore:x:2000:app\\n' > /out/etc/group && chmod 777 /out/srv
FROM scratch
COPY --from=all /out /
ENV PATH=/bin WORD=image PYTHONHOME=/missing
USER app
WORKDIR /srv
ENTRYPOINT ["/bin/sh", "-c", "echo $0 $* > main; exec $0 $*"]
"""
EMPTY = "FROM scratch\nCOPY Dockerfile /only\nENV LD_PRELOAD=/only LD_AUDIT=/only PYTHONHOME=/only\n"
LIMITS = Limits(memory_mb=512, processes=64, disk_mb=64, file_mb=64, cpus=0.5)


def build(client: APIClient, name: str, dockerfile: str) -> str:
    text = dockerfile.format(os=require_image(client, "os")).encode()
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    context.seek(0)
    tag = f"harness-test-foreign:{name}"
    for line in client.build(fileobj=context, custom_context=True, tag=tag, rm=True, decode=True):
        assert "error" not in line, line
    return tag


@pytest.fixture(scope="module")
def small(client: APIClient) -> str:
    return build(client, "small", SMALL)


@pytest.fixture
async def pool(backend: DockerBackend) -> AsyncIterator[SandboxPool]:
    async with SandboxPool(backend) as opened:
        yield opened


async def show(machine: Machine, command: str, *, user: str | None = None, cwd: str | None = None) -> str:
    result = await machine.exec(command, timeout=20, user=user, cwd=cwd)
    return str(result.stdout) + str(result.stderr)


async def test_the_guest_needs_nothing_of_the_image(client: APIClient, pool: SandboxPool) -> None:
    async with open_machine(pool, build(client, "empty", EMPTY), seconds=60, limits=LIMITS) as machine:
        assert (await machine.read_files(["/only", "/missing"], limit=1000))["/only"] == EMPTY.encode()
        await machine.put_contents({"./new": b"text"}, "//made/x/../here/")
        assert await machine.read_files(["/made/here/new"], limit=10) == {"/made/here/new": b"text"}
        await machine.make_folders(["/made/./empty/"], mode=0o755)
        assert [each.kind for each in (await machine.sandbox.describe(["/made/empty"])).values()] == [
            "folder"
        ]
        for path in ("../there", "/there", "no\0name"):
            with pytest.raises(UsageError, match=r"is not below|zero byte"):
                await machine.put_contents({path: b""}, "/made/here")
        assert (await machine.exec(["/bin/none"], timeout=10)).exit_code == 127
        with pytest.raises(UsageError, match="the image has none of /bin/bash"):
            await machine.open_shell()


async def test_user_folder_variables_and_main_process_are_the_images(pool: SandboxPool, small: str) -> None:
    async with open_machine(pool, small, seconds=60, env={"EXTRA": "1"}) as machine:
        found = await show(machine, "id; pwd; echo $HOME $USER $PATH $WORD $EXTRA $PYTHONHOME")
        assert found.split("\n") == [
            "uid=1000(app) gid=1001(app) groups=1001(app),2000(more)",
            "/srv",
            "/srv app /bin image 1 /missing",
            "",
        ]
        assert await show(machine, "id -u; pwd", user="0", cwd="/etc") == "0\n/etc\n"
        assert await show(machine, "id -g", user="1234:more") == "2000\n"
        # The main process may need a moment for its file.
        assert await show(machine, "while ! cat main 2> /dev/null; do sleep 0.1; done") == "sleep infinity\n"
        with pytest.raises(UsageError, match="the image has no user 'stranger'"):
            await machine.exec("true", user="stranger", timeout=5)


async def test_a_plain_sh_keeps_its_state(pool: SandboxPool, small: str) -> None:
    async with open_machine(pool, small, seconds=60) as machine:
        assert await machine.open_shell() == "/bin/sh"
        run = machine.sandbox.run
        await run("cd /etc; word=kept; greet() { echo hello; }; (exit 7)")
        assert str((await run("echo $? $word $PWD; greet; id -un; echo hi > /dev/stdout")).output) == (
            "7 kept /etc\nhello\napp\nhi\n"
        )
        broken = await run("if")
        assert broken.exit_code == 2
        assert broken.shell_lives
        slow = await run("sleep 30 & wait; sleep 30", timeout=0.5)
        assert slow.ended is ShellEnd.WALL
        assert slow.shell_lives
        assert str((await run("echo $word")).output) == "kept\n"
        assert (await run("exit 3")).exit_code == 3
        assert (await run("echo $word")).renewed


async def test_files_keep_modes_links_and_owners(pool: SandboxPool, small: str, tmp_path: Path) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/run.sh").write_text("#!/bin/sh\necho ran")
    (tmp_path / "left out").write_text("")
    (tmp_path / "link").symlink_to("deep/er/run.sh")
    async with open_machine(pool, small, seconds=60) as machine:
        await show(machine, "mkdir /tests; echo old > /tests/old; ls > /tests/old2", user="root")
        names = ["deep", "deep/er", "deep/er/run.sh", "link"]
        await machine.put_files(tmp_path, "/tests", names=names, executable=["deep/er/run.sh"], fresh=True)
        found = await show(machine, "/tests/link; ls /tests; ls -nd /tests/deep")
        assert found.startswith("ran\ndeep\nlink\ndrwxr-xr-x 3 0 0 ")


async def test_a_link_leads_no_file_elsewhere(pool: SandboxPool, small: str, tmp_path: Path) -> None:
    links, files = tmp_path / "links", tmp_path / "files"
    links.mkdir()
    (links / "inner").symlink_to("/etc")
    files.mkdir()
    (files / "passwd").write_text("forged")
    async with open_machine(pool, small, seconds=60) as machine:
        await machine.put_files(links, "/tests")
        with pytest.raises(UnreadableFiles, match="a link leads /tests/inner/passwd elsewhere"):
            await machine.put_files(files, "/tests/inner")
        await machine.put_files(files, "/tests/inner", fresh=True)
        assert "forged" not in await show(machine, "cat /etc/passwd")


async def test_every_process_ends_and_files_stay(pool: SandboxPool, small: str) -> None:
    async with open_machine(pool, small, seconds=60, user="root") as machine:
        await machine.open_shell()
        await machine.sandbox.run("sleep 100 & (sleep 100 &) ; echo left > /srv/left")
        await machine.kill_processes()
        assert await machine.read_files(["/srv/left"], limit=10) == {"/srv/left": b"left\n"}
        alive = await show(machine, "for i in /proc/[0-9]*; do read name < $i/comm; echo $name; done")
        assert sorted(alive.split()) == ["loader", "sh"]


async def test_root_has_the_rights_of_a_container_and_no_power_over_the_guest(
    client: APIClient, pool: SandboxPool, small: str
) -> None:
    async with open_machine(pool, small, seconds=60, user="root", limits=LIMITS) as machine:
        status = await show(machine, "cat /proc/self/status")
        facts = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
        # Docker's own set is a80425fb.
        assert facts["CapBnd"] == facts["CapEff"] == "00000000800405fb"
        assert facts["NoNewPrivs"] == "1"
        assert facts["Seccomp"] == "2"
        refused = {
            "a device": "mknod /srv/disk b 8 0",
            "the guest's folder": "echo > /opt/harness/new",
            "the guest's interpreter": "echo > /opt/harness/python/bin/python3.bin",
            "the guest's memory": "echo > /proc/1/mem",
            "the guest's end": "kill -9 1; kill -9 -1; cat /proc/1/nothing",
        }
        done = [
            name
            for name, command in refused.items()
            if (await machine.exec(command, timeout=10)).exit_code == 0
        ]
        assert not done
        host = client.inspect_container(machine.sandbox.container_id)["HostConfig"]
        assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (512 << 20, 512 << 20, 64)
        assert (host["NanoCpus"], host["NetworkMode"], host["Privileged"]) == (500_000_000, "none", False)


async def test_too_much_on_disk_ends_the_machine(pool: SandboxPool, small: str) -> None:
    async def fill_disk() -> None:
        async with open_machine(pool, small, seconds=60, user="root", limits=LIMITS) as machine:
            for number in range(3):
                await machine.exec(f"cat /dev/zero > /srv/{number}", timeout=30)

    with pytest.raises(SandboxError, match="of 64 MiB allowed"):
        await fill_disk()


async def test_programs_find_the_calls_and_sockets_that_they_expect(
    client: APIClient, pool: SandboxPool
) -> None:
    program = """
import select, socket, os, ctypes
select.epoll().close()
assert ctypes.CDLL(None).inotify_init() >= 0
os.setxattr("/tmp", b"user.name", b"value")
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
except OSError as error:
    print(error.errno)
"""
    async with open_machine(pool, require_image(client, "os"), seconds=60) as machine:
        result = await machine.exec(["python3", "-c", program], timeout=20)
        assert (str(result.stdout), str(result.stderr)) == ("101\n", "")


async def test_a_program_of_an_agent_finds_python_in_any_image(pool: SandboxPool, small: str) -> None:
    async with open_machine(pool, small, seconds=60) as machine:
        code = "import json, ssl, subprocess, sys; print(subprocess.run([sys.executable, '-V']).returncode)"
        result = await machine.exec(
            ["/opt/harness/python/bin/python3", "-sP", "-c", code], timeout=20, env={"PYTHONHOME": ""}
        )
        assert str(result.stdout).endswith("0\n"), str(result.stderr)
