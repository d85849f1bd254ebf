"""Images of folders with a Dockerfile: built once for the same bytes, on the base images that a run names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from docker import APIClient

from harness.core.errors import SandboxError, UsageError
from harness.sandbox.backends.base import BuildRules, BuiltImage
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.images import require_image

# Stands in for a base image of a registry.
BASE = "registry.invalid/base:1"
Build = Callable[..., BuiltImage]


@pytest.fixture
def build(client: APIClient, backend: DockerBackend, tmp_path: Path) -> Iterator[Build]:
    """Yield a function that writes a Dockerfile and builds it, and remove the images at the end."""
    built: set[str] = set()

    def build(text: str, *, seconds: float = 120, said: list[str] | None = None, **rules: str) -> BuiltImage:
        (tmp_path / "Dockerfile").write_text(text)
        chosen = BuildRules(((BASE, require_image(client, "os")),), **rules)
        notify = print if said is None else said.append
        image = backend.build_image(tmp_path, chosen, name="the task", seconds=seconds, notify=notify)
        built.add(image.tag)
        return image

    yield build
    for tag in built:
        client.remove_image(tag)


def test_the_same_bytes_are_built_once(build: Build, client: APIClient, tmp_path: Path) -> None:
    said: list[str] = []
    text = f"FROM {BASE} AS all\nCOPY . /all\nRUN rm /all/Dockerfile\n"
    (tmp_path / ".dockerignore").write_text("# a comment\nnotes\n")
    (tmp_path / "data").write_text("1")
    first = build(text, said=said)
    assert said == [f"building {first.tag}"]
    assert first.replaced == ((BASE, require_image(client, "os")),)
    (tmp_path / "notes").write_text("not in the context")
    assert build(text, said=said) == first
    assert len(said) == 1
    (tmp_path / "data").write_text("2")
    second = build(text, said=said)
    (tmp_path / "data").chmod(0o755)
    third = build(text, said=said)
    assert len({first.id, second.id, third.id}) == len({first.tag, second.tag, third.tag}) == 3


def test_a_failed_build_names_the_line_and_shows_its_end(build: Build, tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as error:
        build(
            f"# A comment.\nFROM {BASE}\n\nRUN echo begun \\\n  && echo went wrong >&2 && exit 3\nRUN true\n"
        )
    assert f"cannot build image of the task at {tmp_path}/Dockerfile:4; the end" in error.value.message
    assert "went wrong" in error.value.message
    assert "returned a non-zero code: 3" in error.value.message


def test_a_build_that_takes_too_long_names_the_limit(build: Build) -> None:
    with pytest.raises(SandboxError, match=r"Dockerfile:2: it took more than 2 s; the end of the log"):
        build(f"FROM {BASE}\nRUN while :; do echo busy; sleep 0.2; done\n", seconds=2)


def test_an_image_that_no_registry_gives_is_named_with_its_line(build: Build) -> None:
    with pytest.raises(UsageError) as error:
        build("ARG A=missing\n\nFROM registry.invalid/$A:1\n")
    assert "Dockerfile:3: cannot get the image registry.invalid/missing:1" in error.value.message
    assert "--base-image 'registry.invalid/missing:1=packages'" in (error.value.hint or "")


def test_a_certificate_is_trusted_in_the_build_alone(
    build: Build, backend: DockerBackend, tmp_path: Path
) -> None:
    certificate = tmp_path.parent / f"{tmp_path.name}.pem"
    certificate.write_text("PEM")
    trusted = "/usr/local/share/ca-certificates/harness-build-ca.crt"
    image = build(
        f'FROM {BASE}\nRUN test "$(cat $PIP_CERT)" = PEM && echo $SSL_CERT_FILE\n', ca_file=str(certificate)
    )
    facts = backend.inspect_image(image.id)
    assert facts is not None
    assert trusted not in facts.environment.values()
