"""Images on a real engine: built once, rebuilt when a source changes, nothing left behind by a failure."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from docker import APIClient
from docker.errors import ImageNotFound

from harness.core.errors import ImageMissingError, SandboxError, UsageError
from harness.sandbox.backends.docker import images
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.backends.docker.images import image_names, image_tag, require_image
from harness.sandbox.machine import installation
from harness.sandbox.machine.images import build_images, list_images, prune_images

Edit = Callable[[str], str]


@pytest.fixture(scope="module")
def client() -> Iterator[APIClient]:
    client = connect()
    build_images(client, notify=print)
    yield client
    client.close()


def forget_sources() -> None:
    images.image_sources.cache_clear()
    images.image_tag.cache_clear()


@pytest.fixture
def edit_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Append a line to the Dockerfile of image python in a copy, and return the tag of the changed image."""
    folder = tmp_path / "images"
    shutil.copytree(images.images_dir(), folder)

    def edit(line: str) -> str:
        with (folder / "python" / "Dockerfile").open("a") as dockerfile:
            dockerfile.write(f"{line}\n")
        monkeypatch.setattr(images, "images_dir", lambda: folder)
        forget_sources()
        return image_tag("python")

    yield edit
    monkeypatch.undo()
    forget_sources()


def test_existing_images_are_not_built_again(client: APIClient) -> None:
    said: list[str] = []
    images = build_images(client, notify=said.append)
    assert said == []
    assert [image.tag for image in images] == [image_tag(name) for name in image_names()]
    assert [image.id for image in images] == [require_image(client, name) for name in image_names()]
    assert set(images) <= set(list_images(client))


def test_tag_follows_the_sources(edit_python: Edit) -> None:
    base, python = image_tag("base"), image_tag("python")
    assert edit_python("# one more line") != python
    assert image_tag("base") == base


def test_context_is_the_same_bytes_each_time() -> None:
    first = images.build_context("python").getvalue()
    forget_sources()
    assert images.build_context("python").getvalue() == first
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        names = tar.getnames()
    assert "Dockerfile" in names
    assert all(name.endswith(".py") for name in names if name.startswith("harness/"))


@pytest.mark.parametrize("name", [name for name in image_names() if name != "base"])
def test_an_image_gets_the_kernel_and_the_half_of_its_environment(name: str) -> None:
    files = dict(images.image_sources(name))
    ours = {path for path in files if path.startswith("harness/")}
    owner = files.get("guest", name.encode()).decode().strip()
    kernel, half = "harness/sandbox/guest/", f"harness/environments/{owner}/guest/"
    assert {f"{kernel}main.py", f"{half}procedures.py"} <= ours
    parents = {path for path in ours if not path.startswith((kernel, half))}
    assert {path.rsplit("/", 1)[-1] for path in parents} == {"__init__.py"}
    assert {files[path] for path in parents} == {b""}


def test_the_guest_in_an_image_is_roots_and_compiled(client: APIClient) -> None:
    """Root owns the guest, it is compiled, and no file raises privileges."""
    script = """
cd /opt/harness/harness
find . -name '*.py' | wc -l; find . -name '*.pyc' | wc -l
find /opt/harness ! -user root -o -perm /022 | grep -c .; find / -xdev -type f -perm /6000 | grep -c .
"""
    container = client.create_container(
        require_image(client, "python"), command=["sh", "-c", script], network_disabled=True
    )
    try:
        client.start(container)
        client.wait(container)
        sources, compiled, foreign, privileged = map(int, client.logs(container).split())
    finally:
        client.remove_container(container, force=True)
    assert sources == compiled > 0
    assert (foreign, privileged) == (0, 0)


def test_a_missing_image_names_the_command_that_builds_it(client: APIClient, edit_python: Edit) -> None:
    tag = edit_python("LABEL never=built")
    with pytest.raises(ImageMissingError, match=tag) as caught:
        require_image(client, "python")
    assert "harness setup" in str(caught.value.hint)


def test_unknown_image_names_the_known_ones(client: APIClient) -> None:
    with pytest.raises(UsageError) as caught:
        require_image(client, "pyhton")
    assert "did you mean 'python'" in str(caught.value.hint)


def test_failed_build_shows_its_log_and_leaves_nothing(client: APIClient, edit_python: Edit) -> None:
    mark = f"/mark-{time.time_ns()}"
    edit_python(f"RUN touch {mark}\nRUN echo on the way && sh -c 'ls {mark}; echo the cause >&2; exit 3'")
    images = {image["Id"] for image in client.images(all=True)}
    with pytest.raises(SandboxError, match=r"(?s)on the way.*the cause.*returned a non-zero code: 3"):
        build_images(client, ["python"], notify=print)
    new = {image["Id"] for image in client.images(all=True)} - images
    layers = [layer for image in new for layer in client.history(image)]  # type: ignore[no-untyped-call]
    assert not any(mark in layer["CreatedBy"] for layer in layers)
    assert not any(mark in container["Command"] for container in client.containers(all=True))


def test_stale_image_goes_once_no_container_uses_it(
    client: APIClient, edit_python: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = image_tag("python")
    tag = edit_python(f"LABEL test={time.time()}")
    (built,) = build_images(client, ["python"], notify=print)
    assert (built.tag, built.current) == (tag, True)
    # Restore the real sources before anything is pruned, because their image must stay.
    monkeypatch.undo()
    forget_sources()
    states = {image.tag: image.current for image in list_images(client)}
    assert (states[tag], states[current]) == (False, True)
    user = client.create_container(tag, command=["true"])
    try:
        assert tag not in prune_images(client, notify=print)
    finally:
        client.remove_container(user, force=True)
    removed = prune_images(client, notify=print)
    assert tag in removed
    assert current not in removed
    with pytest.raises(ImageNotFound):
        client.inspect_image(tag)  # type: ignore[no-untyped-call]
    require_image(client, "python")


def test_an_image_that_a_user_builds_from_ours_is_not_ours(client: APIClient) -> None:
    (built,) = build_images(client, ["python"], notify=print)
    assert built.tag is not None
    named = f"harness-test-own-{time.time_ns()}:1"
    own = []
    try:
        for number, tag in enumerate((named, None)):
            recipe = f'FROM {built.tag}\nRUN true {time.time_ns()}{number}\nCMD ["true"]\n'.encode()
            events = [*client.build(fileobj=io.BytesIO(recipe), tag=tag, rm=True, decode=True)]
            own += [event["aux"]["ID"] for event in events if "aux" in event]
        client.tag(built.id, named.removesuffix(":1"), "2")
        listed = list_images(client)
        assert len(own) == 2
        assert not {image.id for image in listed} & {*own}
        assert [image.tag for image in listed if image.id == built.id] == [built.tag]
    finally:
        for name in (*own, named.removesuffix(":1") + ":2"):
            client.remove_image(name)


def test_two_builds_at_once_build_once(client: APIClient, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    shutil.copytree(images.images_dir(), folder)
    with (folder / "python" / "Dockerfile").open("a") as dockerfile:
        dockerfile.write(f"LABEL test={time.time()}\nRUN sleep 1\n")
    program = f"""
from pathlib import Path
from harness.sandbox.backends.docker import images
images.images_dir = lambda: Path({str(folder)!r})
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.machine.images import build_images
print(build_images(connect(), ["python"], notify=print)[0].id)
"""
    builds = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [build.communicate()[0].splitlines() for build in builds]
    try:
        assert [build.returncode for build in builds] == [0, 0]
        assert said[0][-1] == said[1][-1]
        assert sum("building" in line for lines in said for line in lines) == 1
    finally:
        client.remove_image(said[0][-1], force=True)


class Registry(BaseHTTPRequestHandler):
    """The part of a registry that a pull of one image needs: its manifest, and its blobs by digest."""

    blobs: dict[str, bytes]
    manifest: bytes

    def do_GET(self) -> None:
        parts = self.path.strip("/").split("/")
        if parts == ["v2"]:
            self.answer(b"{}", "application/json")
        elif "manifests" in parts:
            self.answer(self.manifest, "application/vnd.docker.distribution.manifest.v2+json")
        else:
            self.answer(self.blobs[parts[-1]], "application/octet-stream")

    do_HEAD = do_GET

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest_of(body))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def one_layer_image(architecture: str) -> tuple[bytes, dict[str, bytes]]:
    """Return the manifest and blobs of a tiny image, which no other pull has seen."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        member = tarfile.TarInfo(f"made-{time.time_ns()}")
        tar.addfile(member)
    blob = layer.getvalue()
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(blob)]},
        }
    ).encode()
    vendor = "application/vnd.docker"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{vendor}.distribution.manifest.v2+json",
        "config": {
            "mediaType": f"{vendor}.container.image.v1+json",
            "size": len(config),
            "digest": digest_of(config),
        },
        "layers": [
            {"mediaType": f"{vendor}.image.rootfs.diff.tar", "size": len(blob), "digest": digest_of(blob)}
        ],
    }
    return json.dumps(manifest).encode(), {digest_of(blob): blob, digest_of(config): config}


def test_an_image_in_a_registry_is_pulled(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    Registry.manifest, Registry.blobs = one_layer_image(client.version()["Arch"])
    # The engine talks plain HTTP to registries on 127.0.0.0/8.
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    reference = f"127.0.0.1:{server.server_port}/debian:bookworm-slim"
    monkeypatch.setattr(installation, "DEBIAN", reference)
    said: list[str] = []
    try:
        assert installation.pull_debian(client, notify=said.append) is None
        assert len(said) == 1
        client.inspect_image(reference)  # type: ignore[no-untyped-call]
        assert installation.pull_debian(client, notify=said.append) is None
        assert len(said) == 1, "what is there is not pulled again"
    finally:
        server.shutdown()
        server.server_close()
        client.remove_image(reference, force=True)


def test_silent_registry_counts_as_out_of_reach(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    class Silent(Registry):
        def do_GET(self) -> None:
            over.wait()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(installation, "DEBIAN", f"127.0.0.1:{server.server_port}/debian:bookworm-slim")
    monkeypatch.setattr(installation, "PULL_SILENCE_SECONDS", 1)
    reason = installation.pull_debian(client, notify=print)
    over.set()
    server.shutdown()
    server.server_close()
    assert reason is not None
    assert "cannot be reached" in reason


def test_without_registry_and_root_the_error_names_a_remedy(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "can_install_packages", lambda: False)
    with pytest.raises(ImageMissingError, match="no route") as caught:
        installation.bootstrap_base(client, "harness/base:test", reason="no route", notify=print)
    assert "docker pull" in str(caught.value.hint)
    assert "mmdebstrap" in str(caught.value.hint)
