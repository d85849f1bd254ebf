"""Keep unpacked images in a folder, and take them from archives or from a Docker engine.

Each image is one folder, whose name is the id of the image, and no sandbox can write to it. A tag is a small
file that holds the id. Containers share the folders through a mount of their own.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote

from harness.core.errors import ImageMissingError, SandboxError
from harness.core.lock import cache_dir, exclusive
from harness.sandbox.backends.docker.images import AGENT_LABEL, image_tag
from harness.sandbox.backends.oci import user_namespace
from harness.sandbox.backends.oci.config import FILES, KERNEL_MOUNTS
from harness.sandbox.layout import TEMPORARY_FOLDER, WORK_FOLDER

LOCK = "oci images"
ERROR_CHARACTERS = 2000
# The folder that every container has above its image: its own names, and the places of mounts.
LAYER_VERSION = hashlib.sha256(json.dumps(FILES).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An unpacked image. Its root file system is the folder `root` beside this description."""

    id: str
    tag: str
    labels: Mapping[str, str]
    # The source of the image, for the manifest.
    source: str

    @property
    def sources(self) -> str:
        """The tag, which ends in a hash of the sources, with the hash of a prepared agent."""
        agent = self.labels.get(AGENT_LABEL)
        return self.tag if agent is None else f"{self.tag}@{agent}"


def folder() -> Path:
    """Return the folder of images and of running containers, which only this user can enter.

    Raises SandboxError if it belongs to another user, who could change images.
    """
    path = cache_dir() / "oci"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise SandboxError(
            f"{path} is not a folder of user {os.geteuid()}", hint="set XDG_CACHE_HOME to a folder of yours"
        )
    if facts.st_mode & 0o077:
        path.chmod(0o700)
    return path


def find_root(image_id: str) -> Path:
    """Return the root file system of an image. Raises ImageMissingError."""
    root = folder() / "images" / image_id.removeprefix("sha256:") / "root"
    if not root.is_dir():
        raise ImageMissingError(f"image {image_id} is not in {folder()}", hint="run: harness setup")
    return root


def find_image(tag: str) -> StoredImage | None:
    """Return the image with a tag, None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        image_id = (folder() / "tags" / quote(tag, safe="")).read_text()
        return StoredImage(**json.loads((_image_folder(image_id) / "image.json").read_text()))
    return None


def require_image(name: str) -> StoredImage:
    """Return the current build of an image of harness, from this folder or else from a Docker engine.

    Raises ImageMissingError if neither has it, UsageError for an unknown name.
    """
    tag = image_tag(name)
    image = find_image(tag)
    if image is None:
        with exclusive(LOCK, notify=lambda line: None):
            image = find_image(tag) or take_from_engine(tag)
    if image is None:
        raise ImageMissingError(
            f"image {tag} is neither in {folder()} nor on a Docker engine",
            hint="prepare the agent on a Docker engine, from where the image is taken"
            if "+" in name
            else f"run: harness images build {name} --backend oci",
        )
    return image


def take_from_engine(tag: str) -> StoredImage | None:
    """Unpack an image of the Docker engine of the environment; return None if there is none."""
    from harness.core.errors import EngineUnavailableError
    from harness.sandbox.backends.docker.engine import connect, image_details
    from harness.sandbox.backends.docker.images import save_archive

    try:
        client = connect()
    except EngineUnavailableError:
        return None
    with contextlib.closing(client):
        if image_details(client, tag) is None:
            return None
        with tempfile.TemporaryFile(dir=folder()) as archive:
            for part in save_archive(client, tag):
                archive.write(part)
            archive.seek(0)
            return load_archive(archive, tag, source="docker")


def load_archive(archive: IO[bytes], tag: str, *, source: str = "archive") -> StoredImage:
    """Unpack an image of an archive, as `docker save` or an OCI layout has it, and give it a tag.

    Of several images it takes the one with this tag. Raises SandboxError if the archive has no such image,
    or none that can be unpacked here.
    """
    archive.seek(0)
    with tarfile.open(fileobj=archive) as outer:
        try:
            config, layers = _read_manifest(outer, tag)
            image_id = hashlib.sha256(config).hexdigest()
            values = json.loads(config)
            labels = (values.get("config") or {}).get("Labels") or {}
            digests = [str(digest) for digest in values["rootfs"]["diff_ids"]]
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise SandboxError(f"the archive of image {tag} cannot be read: {error!r}") from error
        image = StoredImage(f"sha256:{image_id}", tag, labels, source)
        # The id of an image identifies its files only if each layer is the one that the config names.
        if len(layers) != len(digests):
            raise SandboxError(f"the archive of image {tag} has {len(layers)} of {len(digests)} layers")
        with new_image() as root:
            for layer, digest in zip(layers, digests, strict=True):
                opened = outer.extractfile(layer)
                if opened is None:
                    raise SandboxError(f"the archive of image {tag} lacks layer {layer}")
                if f"sha256:{unpack_layer(opened, root)}" != digest:
                    raise SandboxError(f"the archive of image {tag} has another layer {layer} than {digest}")
            keep(image, root)
    return image


def _read_manifest(outer: tarfile.TarFile, tag: str) -> tuple[bytes, list[str]]:
    """Return the config of an image of an archive, and the names of its layers in their order.

    It is the image with this tag, or the only one. Raises KeyError if there is none.
    """

    def read(name: str) -> bytes:
        opened = outer.extractfile(name)
        if opened is None:
            raise KeyError(name)
        return opened.read()

    def blob(entry: Mapping[str, Any]) -> str:
        return "blobs/" + str(entry["digest"]).replace(":", "/")

    if "manifest.json" in outer.getnames():
        found = json.loads(read("manifest.json"))
        if len(found) > 1:
            found = [each for each in found if tag in (each.get("RepoTags") or ())]
        if not found:
            raise KeyError("no image with this tag")
        return read(found[0]["Config"]), list(found[0]["Layers"])
    manifest = json.loads(read("index.json"))
    while "manifests" in manifest:
        manifest = json.loads(read(blob(manifest["manifests"][0])))
    return read(blob(manifest["config"])), [blob(layer) for layer in manifest["layers"]]


@contextlib.contextmanager
def new_image() -> Iterator[Path]:
    """Yield the folder of a root file system under construction, which is removed unless it is kept."""
    images = folder() / "images"
    images.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=".new-", dir=images))
    try:
        (path / "root").mkdir(mode=0o755)
        yield path / "root"
    finally:
        remove_tree(path)


def remove_tree(path: Path) -> None:
    """Remove a folder, if it is there, with the files of users of sandboxes."""
    shutil.rmtree(path, ignore_errors=True)
    try:
        os.lstat(path)
    except FileNotFoundError:
        return
    except PermissionError:
        pass  # it is in a folder of such a user
    if user_namespace.is_needed():
        subprocess.run(user_namespace.wrap(["rm", "-rf", str(path)]), capture_output=True, check=False)


def keep(image: StoredImage, root: Path) -> None:
    """Move a finished root file system to its place, and set the tag."""
    target = _image_folder(image.id)
    (root.parent / "image.json").write_text(json.dumps(asdict(image)))
    if target.exists():
        os.rename(root.parent / "image.json", target / "image.json")
    else:
        os.rename(root.parent, target)
    tags = folder() / "tags"
    tags.mkdir(exist_ok=True)
    part = tags / f".{quote(image.tag, safe='')}.part"
    part.write_text(image.id)
    part.rename(tags / quote(image.tag, safe=""))


def unpack_layer(layer: IO[bytes], root: Path) -> str:
    """Unpack one layer into a root file system; return the SHA-256 of its archive. Raises SandboxError."""
    head = layer.read(4)
    layer.seek(0)
    if head == b"\x28\xb5\x2f\xfd":
        raise SandboxError(
            "a layer is compressed with zstd", hint="save the image with gzip, or uncompressed"
        )
    stream = gzip.GzipFile(fileobj=layer) if head[:2] == b"\x1f\x8b" else layer
    program = Path(__file__).with_name("unpack.py")
    with tempfile.TemporaryFile() as errors:
        unpacking = subprocess.Popen(
            user_namespace.wrap([sys.executable, "-I", str(program), str(root)]),
            stdin=subprocess.PIPE,
            stderr=errors,
        )
        digest = hashlib.sha256()
        with unpacking, contextlib.suppress(BrokenPipeError):
            while part := stream.read(1 << 20):
                digest.update(part)
                cast(IO[bytes], unpacking.stdin).write(part)
        # The program may end before the padding of the archive does.
        while part := stream.read(1 << 20):
            digest.update(part)
        if unpacking.returncode != 0:
            errors.seek(0)
            text = errors.read().decode(errors="replace")[-ERROR_CHARACTERS:].strip()
            raise SandboxError(f"cannot unpack a layer of an image: {text}")
    return digest.hexdigest()


def provide_layer() -> Path:
    """Return the folder that every container has above its image."""
    layer = folder() / f"layer-{LAYER_VERSION}"
    if not layer.is_dir():
        part = Path(tempfile.mkdtemp(prefix=".layer-", dir=folder()))
        part.chmod(0o755)
        for path, _, _ in KERNEL_MOUNTS[:1] + KERNEL_MOUNTS[1:2] + KERNEL_MOUNTS[3:4]:
            (part / path[1:]).mkdir(mode=0o755)
        for path, mode in ((WORK_FOLDER, 0o755), (TEMPORARY_FOLDER, 0o1777), ("/etc", 0o755)):
            (part / path[1:]).mkdir()
            (part / path[1:]).chmod(mode)
        for name, text in FILES.items():
            (part / name).write_text(text)
            (part / name).chmod(0o644)
        if user_namespace.is_needed():
            subprocess.run(user_namespace.wrap(["chown", "-R", "0:0", str(part)]), check=True)
        try:
            part.rename(layer)
        except OSError:
            # Another process was faster.
            remove_tree(part)
    return layer


def _image_folder(image_id: str) -> Path:
    return folder() / "images" / image_id.removeprefix("sha256:")
