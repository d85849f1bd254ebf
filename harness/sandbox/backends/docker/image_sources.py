"""The sources of each image, and the tag that holds a hash of them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from harness.errors import ImageMissingError, unknown_name

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
    """Return the folders of `images` that have a Dockerfile, in the order in which they are built.

    The base comes first, because every other image stands on it. Raises ImageMissingError.
    """
    found = sorted(path.parent.name for path in images_dir().glob("*/Dockerfile"))
    return (BASE, *(name for name in found if name != BASE))


@cache
def image_sources(name: str) -> tuple[tuple[str, bytes], ...]:
    """Return every file of the build context of image `name`, as (path, content), sorted by path.

    A process reads them once, so that a tag always matches the build under it. Raises UsageError for a name
    that is not in `image_names()`.
    """
    if name not in image_names():
        raise unknown_name("image", name, image_names())
    files = _files(images_dir() / name, "*")
    if name != BASE:
        files["Dockerfile"] += (images_dir() / "guest.dockerfile").read_bytes()
        files |= _guest_files(name)
    return tuple(sorted(files.items()))


@cache
def image_tag(name: str) -> str:
    """Return `harness/<name>:<12 hex digits>`, from a hash over the sources of the image and of its base.

    The name `<image>+<agent>` is that of an image with a prepared agent. Its tag is
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

    The parent packages are empty, so that no other code of the host comes into the image.
    """
    files: dict[str, bytes] = {}
    for package in (_KERNEL, PurePosixPath("harness/environments", name, "guest")):
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
