"""Look up the images that sandboxes start from."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

from harness.core.errors import ImageMissingError, SandboxError, unknown_name
from harness.sandbox.backends.base import FoundImage
from harness.sandbox.backends.docker.engine import connect, engine_errors, image_details, is_going, is_gone
from harness.sandbox.layout import HOSTS

if TYPE_CHECKING:
    from docker import APIClient


BASE = "base"

_PACKAGE = Path(__file__).parents[3]
_KERNEL = PurePosixPath("harness/sandbox/guest")


def images_dir() -> Path:
    """Return the folder `images`, which is in the package of a wheel, else at the root of the repository."""
    for folder in (_PACKAGE / "_images", _PACKAGE.parent / "images"):
        if (folder / BASE / "Dockerfile").is_file():
            return folder
    raise ImageMissingError(
        f"the folder with the Dockerfiles is neither {_PACKAGE / '_images'} nor {_PACKAGE.parent / 'images'}",
        hint="install harness again, from a checkout or a wheel of its own",
    )


@cache
def image_names() -> tuple[str, ...]:
    """Return the folders of `images` that have a Dockerfile, in build order.

    The base comes first, because every other image is built on it. Raises ImageMissingError.
    """
    found = sorted(path.parent.name for path in images_dir().glob("*/Dockerfile"))
    return (BASE, *(name for name in found if name != BASE))


@cache
def language_image_names() -> tuple[str, ...]:
    """Return the images of compilers and interpreters, each built when it is first asked for."""
    return tuple(sorted(path.parent.name for path in images_dir().glob("languages/*/Dockerfile")))


def image_folder(name: str) -> Path:
    """Return the folder with the recipe of an image."""
    folder = images_dir()
    return folder / "languages" / name if name in language_image_names() else folder / name


@cache
def image_sources(name: str) -> tuple[tuple[str, bytes], ...]:
    """Return every file of the build context of image `name`, as (path, content), sorted by path.

    A process reads them once, so that a tag always matches the build under it. Raises UsageError for a name
    that no image has.
    """
    known = (*image_names(), *language_image_names())
    if name not in known:
        raise unknown_name("image", name, known)
    files = _files(image_folder(name), "*")
    if name != BASE:
        files["Dockerfile"] += (images_dir() / "guest.dockerfile").read_bytes()
        files["hosts"] = HOSTS.encode()
        files |= _guest_files(name)
    return tuple(sorted(files.items()))


@cache
def image_tag(name: str) -> str:
    """Return `harness/<name>:<12 hex digits>`, from a hash over the sources of the image and of its base.

    The name `<image>+<agent>` belongs to an image with a prepared agent. Its tag is
    `harness/agent-<agent>:<image>-<12 hex digits>`, with the digits of the image alone.
    """
    base, is_prepared, agent = name.partition("+")
    if is_prepared:
        return f"harness/agent-{agent}:{base}-{image_tag(base).rpartition(':')[2]}"
    digest = hashlib.sha256()
    if name != BASE:
        digest.update(image_tag(BASE).encode())
    for path, content in image_sources(name):
        digest.update(f"\0{path}\0{len(content)}\0".encode())
        digest.update(content)
    return f"harness/{name}:{digest.hexdigest()[:12]}"


def build_context(name: str, fetched: Mapping[str, bytes] = MappingProxyType({})) -> io.BytesIO:
    """Return the build context of image `name` as a tar archive, with the same bytes for the same sources.

    `fetched` are files (path -> content) that the sources do not hold, but name by their hashes.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, content in sorted({**dict(image_sources(name)), **fetched}.items()):
            # A fresh TarInfo has owner 0:0, mode 0644 and time 0, whatever the checkout has.
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    archive.seek(0)
    return archive


def _guest_files(name: str) -> dict[str, bytes]:
    """Return the guest's kernel and the guest half of the image's environment, under their dotted names.

    A file `guest` in the image's folder names another environment whose half the image gets. The parent
    packages are empty, so that no other code of the host comes into the image.
    """
    files: dict[str, bytes] = {}
    named = image_folder(name) / "guest"
    owner = named.read_text(encoding="utf-8").strip() if named.is_file() else name
    for package in (_KERNEL, PurePosixPath("harness/environments", owner, "guest")):
        sources = _files(_PACKAGE.parent / package, "*.py")
        files |= {str(package / path): content for path, content in sources.items()}
        if sources:
            files |= {str(parent / "__init__.py"): b"" for parent in package.parents[:-1]}
    return files


def _files(folder: Path, pattern: str) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob(pattern)
        if path.is_file() and not path.name.startswith(".")
    }


LABEL = "harness.image"
# The SHA-256 of the prepared files of an agent, or of their recipe.
AGENT_LABEL = "harness.agent_sha256"


@dataclass(frozen=True, slots=True)
class Image:
    """An image of harness on the engine. `tag` is None for one that lost its tag to a newer build."""

    name: str
    tag: str | None
    id: str
    size_bytes: int
    current: bool
    # The SHA-256 of the files of a prepared agent, None for an image of an environment alone.
    agent_sha256: str | None = None

    @property
    def sources(self) -> str:
        """The tag, which ends in a hash of the sources, with the hash of a prepared agent."""
        return str(self.tag) if self.agent_sha256 is None else f"{self.tag}@{self.agent_sha256}"


def require_image(client: APIClient, name: str) -> str:
    """Return the id of image `name`, as `require_build` finds it."""
    return require_build(client, name).id


def require_build(client: APIClient, name: str) -> Image:
    """Return image `name` as this version of harness builds it.

    Raises ImageMissingError if it was not built yet, and UsageError for an unknown name.
    """
    image = find_image(client, name)
    if image is None:
        _, is_prepared, agent = name.partition("+")
        raise ImageMissingError(
            f"image {image_tag(name)} is not on the engine",
            hint=f"prepare the agent: harness images build --agent {agent}   (or, with your own files: "
            f"--agent {agent}=FOLDER)"
            if is_prepared
            else "run: harness setup   (or: harness images build)",
        )
    return image


def find_image(client: APIClient, name: str) -> Image | None:
    """Return the current build of image `name`, None if the engine does not have it."""
    tag = image_tag(name)
    details = image_details(client, tag)
    if details is None:
        return None
    labels = details["Config"].get("Labels") or {}
    return Image(
        name, tag, details["Id"], details["Size"], current=True, agent_sha256=labels.get(AGENT_LABEL)
    )


PART_BYTES = 4 * 1024 * 1024
# An engine that reports no progress for this long has stopped.
LOAD_SECONDS = 600
# The settings of an image that decide how its processes start.
_SETTINGS = ("Entrypoint", "Cmd", "Env", "User", "WorkingDir", "Labels")


def find_content(client: APIClient, tag: str) -> FoundImage | None:
    """Return the image with a tag, None if the engine has none. Raises SandboxError."""
    details = image_details(client, tag)
    if details is None:
        return None
    settings = {name: details["Config"].get(name) or None for name in _SETTINGS}
    content = [details["Architecture"], details["RootFS"]["Layers"], settings]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    return FoundImage(details["Id"], digest.hexdigest())


def save_archive(client: APIClient, tag: str) -> Iterator[bytes]:
    """Yield the parts of an archive with an image and its tag. Raises SandboxError."""
    with engine_errors(f"save image {tag}"):
        yield from client.get_image(tag, chunk_size=PART_BYTES)


def load_archive(archive: BinaryIO) -> None:
    """Add the image of an archive to the engine of the environment. Raises SandboxError."""
    # The timeout of a client holds for all threads that use it.
    client = connect()
    client.timeout = LOAD_SECONDS
    try:
        with engine_errors("load an image"):
            for line in client.load_image(archive, quiet=False):  # type: ignore[no-untyped-call]
                if "error" in line:
                    raise SandboxError(f"cannot load an image: {line['error']}", outside=True)
    finally:
        client.close()


def remove_stale_volumes(client: APIClient) -> list[str]:
    """Remove the volumes of images that the engine no longer has; return their names. Raises SandboxError."""
    with engine_errors("list the volumes of guests"):
        listed = client.volumes(filters={"label": LABEL})["Volumes"] or ()
    stale = [each["Name"] for each in listed if image_details(client, each["Labels"][LABEL]) is None]
    return [name for name in stale if remove_volume(client, name)]


def remove_volume(client: APIClient, volume: str) -> bool:
    """Remove a volume unless a container uses it; return whether this call removed it."""
    from docker.errors import APIError

    with engine_errors(f"remove volume {volume}"):
        try:
            client.remove_volume(volume)
        except APIError as error:
            if not is_gone(error) and not is_going(error):
                raise
            return False
    return True
