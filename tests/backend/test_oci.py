"""The backend `oci`: the supervisor and its end, images without an engine, and a run."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backend.oci_fixtures import connect_oci

from harness import Sandbox
from harness.api import run
from harness.core.errors import SandboxError, UsageError
from harness.core.types import Status
from harness.sandbox import reaper
from harness.sandbox.backends import connect_backend
from harness.sandbox.backends.base import Cause, SandboxSpec
from harness.sandbox.backends.docker import fate
from harness.sandbox.backends.oci import cgroups, images
from harness.sandbox.backends.oci.backend import WEAKER_VARIABLE, OciBackend, connect, find_container
from harness.sandbox.backends.oci.config import make_config
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.limits import Limits
from harness.sandbox.machine import unpacked_images
from harness.sandbox.machine.unpacked_images import copy_files, read_instructions

OWNER = """
import asyncio, sys
from harness import Sandbox
from harness.sandbox.backends.oci.backend import connect

async def main():
    async with Sandbox.open("python", writable_root=True, run_id=sys.argv[1], backend=connect()) as sandbox:
        await sandbox.exec(["sh", "-c", "echo x > /var/tmp/file; (sleep 600 &)"])
        print(sandbox.container_id, flush=True)
        await sandbox.exec(["sleep", "600"], timeout=600)

asyncio.run(main())
"""
WAIT_SECONDS = 30.0


@pytest.fixture(scope="module")
def oci() -> Iterator[OciBackend]:
    backend = connect_oci()
    yield backend
    backend.close()


@pytest.fixture
def run_id(oci: OciBackend) -> Iterator[str]:
    run_id = f"test-{secrets.token_hex(6)}"
    yield run_id
    reaper.remove_run(oci, run_id)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextlib.contextmanager
def owner(run_id: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Yield another process that owns a sandbox, and the folder of the container."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, run_id], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        own = find_container(process.stdout.readline().strip())
        assert own is not None
        try:
            yield process, own
        finally:
            process.kill()


def find_supervisor(own: Path) -> int:
    """Return the process that supervises a container."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(own.parent).encode() in (entry / "cmdline").read_bytes():
                return int(entry.name)
    raise AssertionError(f"no process supervises {own}")


def is_gone(own: Path) -> bool:
    cgroup = f"{cgroups.PARENT}/{own.name}"
    mounts = Path("/proc/self/mountinfo").read_text()
    return not own.parent.exists() and not cgroups.list_folders(cgroup) and own.name not in mounts


def test_a_killed_owner_leaves_nothing(run_id: str) -> None:
    with owner(run_id) as (process, own):
        process.kill()
        wait_until(lambda: is_gone(own))


def test_a_killed_owner_and_supervisor_leave_nothing_after_a_clean_up(oci: OciBackend, run_id: str) -> None:
    with owner(run_id) as (process, own):
        os.kill(find_supervisor(own), signal.SIGKILL)
        process.kill()
        process.wait()
        assert [orphan.container_id for orphan in reaper.remove_orphans(oci) if orphan.run_id == run_id]
        assert is_gone(own)


def test_another_process_destroys_a_container_by_its_name(oci: OciBackend, run_id: str) -> None:
    with owner(run_id) as (_, own):
        (found,) = oci.find_containers({reaper.RUN: run_id})
        assert (found.id, found.running) == (own.name, True)
        assert oci.destroy(own.name)
        assert not own.exists()
        assert not oci.destroy(own.name)


def test_a_container_that_is_starting_can_be_destroyed(oci: OciBackend) -> None:
    """Whatever the moment, the container is gone after its start has returned and it was destroyed."""
    for pause in (0.0, 0.005, 0.02, 0.05):
        name = f"harness-{secrets.token_hex(6)}"
        spec = SandboxSpec("python", Limits(), name)

        def start(spec: SandboxSpec = spec) -> None:
            with contextlib.suppress(SandboxError):
                oci.start(spec).close()

        starting = threading.Thread(target=start)
        starting.start()
        time.sleep(pause)
        oci.destroy(name)
        starting.join()
        oci.destroy(name)
        assert find_container(name) is None
        assert cgroups.list_folders(f"{cgroups.PARENT}/{name}") == []


@contextlib.asynccontextmanager
async def opened(oci: OciBackend) -> AsyncIterator[Sandbox]:
    async with Sandbox.open("python", backend=oci, limits=Limits(memory_mb=64)) as sandbox:
        sandbox.agent_acted = True
        yield sandbox


async def test_a_guest_that_somebody_kills_was_ended_from_outside(oci: OciBackend) -> None:
    async with opened(oci) as sandbox:
        own = find_container(sandbox.container_id)
        assert own is not None
        os.kill(int((own / "pid").read_text()), signal.SIGKILL)
        found = await asyncio.to_thread(oci.find_fate, sandbox.container_id)
        assert (found.cause, found.exit_code) == (Cause.OUTSIDE, 137)


async def test_a_guest_that_fails_was_ended_from_inside(oci: OciBackend) -> None:
    async with opened(oci) as sandbox:
        transport = sandbox._connection._transport
        assert transport is not None
        transport.write(b"\xff" * 16)
        found = await asyncio.to_thread(oci.find_fate, sandbox.container_id)
        assert (found.cause, found.exit_code) == (Cause.INSIDE, 1)


async def test_a_guest_without_memory_was_ended_for_memory(oci: OciBackend) -> None:
    async with opened(oci) as sandbox:
        with pytest.raises(SandboxOutOfMemory):
            # PID 1 allocates more memory than there is.
            await sandbox.write_file("file", bytes(60 << 20))


async def test_silence_is_from_inside_only_while_programs_keep_the_sandbox_busy(
    oci: OciBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests may keep the machine busy.
    monkeypatch.setattr(fate, "BUSY_SHARE", 0.02)
    async with Sandbox.open("python", backend=oci) as sandbox:

        async def wait_for(cause: Cause) -> None:
            while (await asyncio.to_thread(oci.find_fate, sandbox.container_id, silent=True)).cause != cause:
                pass

        await wait_for(Cause.OUTSIDE)
        job = asyncio.create_task(sandbox.exec(["sh", "-c", "while :; do :; done"], timeout=60))
        await wait_for(Cause.INSIDE)
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)


async def test_what_a_container_writes_is_measured_at_any_depth(oci: OciBackend) -> None:
    script = (
        "cd /var/tmp; for i in $(seq 300); do mkdir aaaaaaaaaaaaaaaaaaaa; cd aaaaaaaaaaaaaaaaaaaa; done;"
        "head -c 100000 /dev/zero > one; ln one two; truncate -s 1000000 three; ln -s /usr four"
    )
    async with Sandbox.open("python", backend=oci, writable_root=True) as sandbox:
        await sandbox.exec(["sh", "-c", f"umask 0; {script}"])
        use = await asyncio.to_thread(oci.measure_disk, sandbox.container_id)
        assert use.written_bytes is not None
        assert 1_100_000 <= use.written_bytes < 1_200_000


async def test_a_run_passes(oci: OciBackend, tmp_path: Path) -> None:
    result = await run("mbpp", data="bundled", sample_size=2, backend="oci", output_dir=str(tmp_path))
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert (manifest["engine"]["backend"], manifest["config"]["backend"]) == ("oci", "oci")
    assert [attempt.status for attempt in result.attempts] == [Status.PASSED] * 2


def test_the_variable_chooses_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_BACKEND", "oci")
    assert connect_backend().name == "oci"
    assert connect_backend("docker").name == "docker"
    monkeypatch.setenv("HARNESS_BACKEND", "oc")
    with pytest.raises(UsageError, match="no backend 'oc'"):
        connect_backend()


def test_without_an_engine_auto_takes_this_backend_and_says_why() -> None:
    """The socket of a Docker engine of this machine is hidden from the process that chooses."""
    program = "from harness.sandbox.backends import connect_backend; connect_backend('auto', notify=print)"
    hide = "[ ! -e /var/run/docker.sock ] || mount --bind /dev/null /var/run/docker.sock"
    keys = ("DOCKER_HOST", "DOCKER_CONTEXT", "HARNESS_BACKEND")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{hide}; exec "$@"', "sh", sys.executable, "-c", program],
        env={key: value for key, value in os.environ.items() if key not in keys}
        | {"XDG_RUNTIME_DIR": "/nonexistent"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("sandboxes: backend oci as root, because no Docker engine answers")


def test_the_runtime_that_holds_the_promises_is_used_and_named(oci: OciBackend) -> None:
    runtimes = ["/bin/false", oci._runtime]
    backend = OciBackend(runtimes)
    facts = backend.describe(runtime="runc", images=["python"])
    backend.close()
    assert facts.runtime is not None
    assert (facts.runtime["name"], facts.runtime["limits_not_enforced"]) == (Path(runtimes[1]).name, {})


def test_a_container_without_a_promise_is_refused(oci: OciBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has the limit that the runtime was told, which is not the one of the spec here."""
    spec = SandboxSpec("python", Limits(), f"harness-{secrets.token_hex(6)}")
    wrong = {
        "memory_mb": Limits(memory_mb=2048),
        "processes": Limits(processes=256),
        "cpus": Limits(cpus=2),
        "disk_mb": Limits(disk_mb=128),
        "inodes": Limits(inodes=4096),
    }
    changed: dict[str, SandboxSpec] = {name: replace(spec, limits=each) for name, each in wrong.items()}
    changed["capabilities"] = replace(spec, root_agent=True)
    missed = []
    for name, other in changed.items():
        monkeypatch.setattr(
            "harness.sandbox.backends.oci.backend.make_config",
            lambda _spec, other=other, **rest: make_config(other, **rest),
        )
        try:
            oci.start(spec).close()
            missed.append(name)
        except (SandboxError, UsageError) as error:
            if name not in error.message:
                missed.append(f"{name}: {error.message}")
        finally:
            oci.destroy(spec.name)
    assert missed == []


# --- Images


def make_layer(*entries: tuple[str, bytes | str | None]) -> bytes:
    """Return an archive of files (bytes), folders (None) and links (text)."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            member.uid = member.gid = 1234
            member.mode = 0o1751
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            data = content if isinstance(content, bytes) else b""
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return layer.getvalue()


def make_image_config(*layers: bytes, label: str = "b") -> bytes:
    """Return the config of an image with these layers."""
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    return json.dumps({"config": {"Labels": {"a": label}}, "rootfs": {"diff_ids": digests}}).encode()


def make_archive(*layers: bytes, config: bytes | None = None) -> io.BytesIO:
    """Return an OCI archive of an image with these layers, and with the config of another one if given."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:

        def add(name: str, data: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))

        def add_blob(data: bytes) -> dict[str, str]:
            digest = hashlib.sha256(data).hexdigest()
            add(f"blobs/sha256/{digest}", data)
            return {"digest": f"sha256:{digest}"}

        blob = add_blob(config or make_image_config(*layers))
        manifest = {"config": blob, "layers": [add_blob(layer) for layer in layers]}
        add("index.json", json.dumps({"manifests": [add_blob(json.dumps(manifest).encode())]}).encode())
    archive.seek(0)
    return archive


@pytest.fixture
def own_cache(oci: OciBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_layers_of_an_archive_replace_and_remove_files(own_cache: Path) -> None:
    archive = make_archive(
        make_layer(("kept", b"1"), ("gone", b"1"), ("folder", None), ("folder/old", b"1"), ("link", "kept")),
        make_layer((".wh.gone", b""), ("folder/.wh..wh..opq", b""), ("folder/new", b"2"), ("link", b"2")),
    )
    image = images.load_archive(archive, "test:1")
    root = images.find_root(image.id)
    assert images.find_image("test:1") == image
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) == [
        *("folder", "folder/new", "kept", "link")
    ]
    assert ((root / "kept").read_bytes(), (root / "link").read_bytes()) == (b"1", b"2")
    facts = (root / "kept").stat()
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o7777) == (1234, 1234, 0o1751)


def test_of_several_images_in_an_archive_the_one_with_the_tag_is_taken(own_cache: Path) -> None:
    archive = io.BytesIO()
    names = ("a", "b")
    files = {f"{name}.tar": make_layer((name, b"1")) for name in names}
    files |= {f"{name}.json": make_image_config(files[f"{name}.tar"], label=name) for name in names}
    manifest = [
        {"Config": f"{name}.json", "Layers": [f"{name}.tar"], "RepoTags": [f"test:{name}"]} for name in names
    ]
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in {**files, "manifest.json": json.dumps(manifest).encode()}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    assert [images.load_archive(archive, f"test:{name}").labels["a"] for name in names] == ["a", "b"]
    with pytest.raises(SandboxError, match="no image with this tag"):
        images.load_archive(archive, "test:c")


def test_an_archive_cannot_give_other_files_to_the_id_of_an_image(own_cache: Path) -> None:
    layer = make_layer(("file", b"1"))
    for layers in ((make_layer(("file", b"2")),), (layer, layer), ()):
        with pytest.raises(SandboxError, match="the archive of image test:1 has"):
            images.load_archive(make_archive(*layers, config=make_image_config(layer)), "test:1")
    assert images.find_image("test:1") is None
    (image_folder,) = [path for path in own_cache.rglob("images") if path.is_dir()]
    assert list(image_folder.iterdir()) == []


def test_only_its_user_can_enter_the_folder_of_images(own_cache: Path) -> None:
    images.folder().chmod(0o777)
    assert images.folder().stat().st_mode & 0o777 == 0o700
    os.chown(images.folder(), 12345, 12345)
    with pytest.raises(SandboxError, match="is not a folder of user 0"):
        images.folder()


def test_no_link_in_an_archive_leads_out_of_the_image(own_cache: Path) -> None:
    outside = own_cache / "outside"
    outside.mkdir()
    archive = make_archive(make_layer(("way", str(outside)), ("way/file", b"x"), ("../../up", b"x")))
    with contextlib.suppress(SandboxError):
        images.load_archive(archive, "test:2")
    assert list(outside.iterdir()) == []
    assert all(path.parent.name == "root" for path in own_cache.rglob("up"))


def test_no_module_of_an_image_runs_where_it_is_unpacked(own_cache: Path) -> None:
    source = Path(images.__file__).with_name("unpack.py")
    codec = Path(os.__file__).parent / "encodings" / "cp1252.py"
    archive = make_archive(
        make_layer(
            (str(source)[1:], b"# coding: cp1252\n" + b"x = 1\n" * 500),
            (str(codec)[1:], b"import os\nos.write(2, b'FROM THE IMAGE')\n"),
            # It cannot be unpacked, so that the process reports an error.
            ("x" * 300, b""),
        )
    )
    with pytest.raises(SandboxError, match="cannot unpack a layer") as raised:
        images.load_archive(archive, "test:2")
    assert "FROM THE IMAGE" not in str(raised.value)


def test_a_dockerfile_is_read_and_its_files_are_copied(tmp_path: Path) -> None:
    text = "# a\nARG BASE\nFROM ${BASE}\n\nCOPY a b /to/\nRUN one \\\n && two\n# b\ncopy d /to/d\n"
    assert list(read_instructions(text)) == [
        ("ARG", "BASE"),
        ("FROM", "${BASE}"),
        ("COPY", "a b /to/"),
        ("RUN", "one  && two"),
        ("COPY", "d /to/d"),
    ]
    context = {"a": b"1", "b": b"2", "d/e/f": b"3"}
    copy_files(tmp_path, context, ["a", "b"], "/to/")
    copy_files(tmp_path, context, ["d"], "/to/d")
    found = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert found == {"to/a": b"1", "to/b": b"2", "to/d/e/f": b"3"}
    with pytest.raises(SandboxError, match="no missing"):
        copy_files(tmp_path, context, ["missing"], "/to/")


def test_a_step_runs_in_the_image_and_its_failure_shows_its_output(oci: OciBackend, tmp_path: Path) -> None:
    runtime = unpacked_images.provide_runtime(notify=print)
    root = tmp_path / "root"
    image = images.find_root(images.require_image("python").id)
    # A shell needs no more of the image than this.
    left_out = shutil.ignore_patterns("share", "local", "python3*", "perl*")
    shutil.copytree(image / "usr", root / "usr", symlinks=True, ignore=left_out)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc").mkdir()
    unpacked_images._run_step("python", root, "id -u > /made", runtime)
    assert (root / "made").read_text() == "0\n"
    with pytest.raises(SandboxError, match=r"`echo no; exit 7` failed with exit code 7:\nno"):
        unpacked_images._run_step("python", root, "echo no; exit 7", runtime)


def test_the_variable_allows_weaker_limits_only_if_it_is_1(
    oci: OciBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = {}
    for value in ("", "0", "false", "1"):
        monkeypatch.setenv(WEAKER_VARIABLE, value)
        allowed[value] = connect()._allows_weaker
    assert allowed == {"": False, "0": False, "false": False, "1": True}
