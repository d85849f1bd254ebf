"""The lock of the images, `images/lock.json`, and the comparison of the images on an engine with it.

It has the SHA-256 of the recipe of each image, and the version of each Debian package that the tests passed
with. The recipes pin Python packages by their hashes. The tag of an image has the hash of the guest.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.sandbox.backends.docker.images import (
    BASE,
    find_image,
    image_folder,
    image_names,
    images_dir,
    language_image_names,
)
from harness.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from docker import APIClient

LOCK = "lock.json"
_LIST_PACKAGES = ("dpkg-query", "-W", "-f", "${Package}\t${Version}\n")


def hash_recipe(name: str) -> str:
    """Return the SHA-256 of the files in an image's folder, with their names."""
    digest = hashlib.sha256()
    folder = image_folder(name)
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.name[0] != "."):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def read_lock() -> dict[str, Any]:
    """Return the lock of this version of harness."""
    lock: dict[str, Any] = json.loads((images_dir() / LOCK).read_bytes())
    return lock


def make_lock() -> dict[str, Any]:
    """Return a lock with the recipes here, and with the packages of the images on the engine.

    The images of languages are built if the engine lacks them.
    """
    names = (*image_names(), *language_image_names())
    packages = {name: _list_packages(name) for name in names if name != BASE}
    shared = dict(set.intersection(*(set(each.items()) for each in packages.values())))
    own = {name: dict(sorted(each.items() - shared.items())) for name, each in packages.items()}
    return {
        "schema_version": 1,
        "from": "debian:bookworm-slim",
        "architecture": platform.machine(),
        "recipes": {name: hash_recipe(name) for name in names},
        "packages": {BASE: dict(sorted(shared.items())), **own},
    }


def write_lock() -> None:
    """Write the lock of the images on the engine. Only a checkout has a place for it."""
    (images_dir() / LOCK).write_text(json.dumps(make_lock(), indent=1) + "\n")


def find_differences(client: APIClient) -> dict[str, list[str]]:
    """Return how each image on the engine differs from the lock, by its name, with no text for an equal one.

    The image of a language need not be built. Raises SandboxError.
    """
    lock = read_lock()
    found: dict[str, list[str]] = {}
    for name in (*image_names(), *language_image_names()):
        recipe = hash_recipe(name)
        differences = [] if recipe == lock["recipes"].get(name) else [f"its recipe has SHA-256 {recipe}"]
        if find_image(client, name) is None:
            differences += [] if name in language_image_names() else ["is not built"]
        elif name != BASE:
            locked = {**lock["packages"][BASE], **lock["packages"].get(name, {})}
            differences += _compare(locked, _list_packages(name))
        found[name] = differences
    return found


def _compare(locked: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    return [
        f"{name} is {present.get(name, 'missing')}, and was {locked.get(name, 'missing')}"
        for name in sorted({*locked, *present})
        if locked.get(name) != present.get(name)
    ]


def _list_packages(name: str) -> dict[str, str]:
    """Return the Debian packages of an image and their versions, by a sandbox on it."""
    with Sandbox.open_sync(name) as sandbox:
        done = sandbox.exec(list(_LIST_PACKAGES))
    if done.exit_code != 0:
        raise SandboxError(f"image {name}: dpkg-query exited with {done.exit_code}: {done.stderr}")
    return dict(line.split("\t") for line in str(done.stdout).splitlines())
