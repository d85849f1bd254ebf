"""The lock of the images fits their recipes, and a different image is found."""

from __future__ import annotations

from typing import Any

import pytest

from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.backends.docker.images import image_names, language_image_names
from harness.sandbox.machine import image_lock
from harness.sandbox.machine.images import build_images


def test_the_lock_has_the_recipe_of_every_image() -> None:
    lock = image_lock.read_lock()
    names = (*image_names(), *language_image_names())
    recipes = {name: image_lock.hash_recipe(name) for name in names}
    assert recipes == lock["recipes"], "run: harness images verify --update"
    assert set(lock["packages"]) == set(names)


def test_another_version_of_a_package_and_another_recipe_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect()
    build_images(client, ["python"], notify=print)
    lock: dict[str, Any] = {
        "recipes": {"python": "0" * 64},
        "packages": {"base": image_lock._list_packages("python") | {"bash": "0.1", "gone": "1"}},
    }
    monkeypatch.setattr(image_lock, "image_names", lambda: ("python",))
    monkeypatch.setattr(image_lock, "read_lock", lambda: lock)
    recipe, bash, gone = image_lock.find_differences(client)["python"]
    client.close()
    assert recipe.startswith("its recipe has SHA-256 ")
    assert bash.startswith("bash is 5")
    assert bash.endswith(", and was 0.1")
    assert gone == "gone is missing, and was 1"
