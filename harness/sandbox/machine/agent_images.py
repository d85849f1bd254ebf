"""Build the images of a prepared agent: the images that run programs of agents, with its files."""

from __future__ import annotations

import hashlib
import io
import secrets
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from harness.core.errors import SandboxError, UsageError
from harness.core.lock import exclusive
from harness.sandbox.backends.docker.container import remove
from harness.sandbox.backends.docker.engine import engine_errors
from harness.sandbox.backends.docker.images import AGENT_LABEL, LABEL, Image, find_image, image_tag
from harness.sandbox.layout import AGENTS_FOLDER
from harness.sandbox.machine.agent_layer import (
    PROGRAMS,
    hash_folder,
    pack_archive,
    pack_folder,
    require_agent_name,
)
from harness.sandbox.machine.images import AGENTS_LOCK, build_images, list_images, run_build

if TYPE_CHECKING:
    from docker import APIClient

LAYER = "layer.tar"
# The start of a file, which shows whether it is a Dockerfile.
START_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class AgentSource:
    """The source of a prepared agent. One of the three is set."""

    name: str
    # The files themselves.
    folder: Path | None = None
    # Builds /opt/agents/NAME on the image that it gets as the build argument BASE.
    dockerfile: Path | None = None
    # Fills a folder with the files, and a text that is different for different files.
    recipe: tuple[Callable[[Path], None], str] | None = None


def read_agent_source(name: str, path: Path) -> AgentSource:
    """Return the source at a path: a folder with the files, or a Dockerfile. Raises UsageError."""
    require_agent_name(name)
    if path.is_dir():
        return AgentSource(name, folder=path)
    if path.is_file() and _holds_instructions(path):
        return AgentSource(name, dockerfile=path)
    raise UsageError(
        f"{path}: is neither a folder nor a Dockerfile",
        hint="name a folder that holds the files of the agent, with its programs in the subfolder bin",
    )


def _holds_instructions(path: Path) -> bool:
    """Return whether the first instruction of a file is one that a Dockerfile begins with."""
    with path.open("rb") as file:
        lines = file.read(START_BYTES).splitlines()
    first = next((line.split() for line in lines if line.strip() and not line.lstrip().startswith(b"#")), [])
    return bool(first) and first[0].upper() in (b"ARG", b"FROM")


def build_agent_images(
    client: APIClient,
    source: AgentSource,
    bases: tuple[str, ...],
    *,
    notify: Callable[[str], None],
    force: bool = False,
) -> list[Image]:
    """Return an image with the agent's files for each image of `bases`, and build those that are missing.

    An image is built again if the files, the Dockerfile or the base have changed. `force` builds all of them.
    The packages of a recipe are installed only if no image on the engine has them, even one of an older base.
    No program of the agent runs in this build, except in a build of the user's own Dockerfile. Of that build,
    only the files below /opt/agents/NAME are taken. Raises UsageError for files that cannot be used, and
    SandboxError.
    """
    build_images(client, bases, notify=notify)
    digest = _hash_source(source)
    found = {base: None if force else _find(client, base, source.name, digest) for base in bases}
    if None in found.values():
        with ExitStack() as stack:
            stack.enter_context(exclusive(AGENTS_LOCK, notify=notify))
            layer: IO[bytes] | None = None
            for base in bases:
                # Another process may have built it meanwhile.
                if found[base] is None and (force or _find(client, base, source.name, digest) is None):
                    if layer is None or source.dockerfile is not None:
                        layer = stack.enter_context(tempfile.TemporaryFile())
                        old = None if force else _find_any(client, source, digest)
                        if old is not None:
                            has_program = _read_agent_folder(client, old.id, source.name, layer)
                        else:
                            has_program = _write_layer(client, source, base, layer, notify=notify)
                        if not has_program:
                            notify(_explain_no_program(source))
                    _build(client, source.name, base, layer, digest, notify=notify)
                found[base] = _find(client, base, source.name, digest)
    built = [image for image in found.values() if image is not None]
    if len(built) < len(bases):
        raise SandboxError(f"an image of agent {source.name} was built and has been removed since")
    return built


def _find(client: APIClient, base: str, agent: str, digest: str) -> Image | None:
    image = find_image(client, f"{base}+{agent}")
    return image if image is not None and image.agent_sha256 == digest else None


def _find_any(client: APIClient, source: AgentSource, digest: str) -> Image | None:
    """Return an image on any base that has the packages of the agent's recipe, None without one.

    The files of a Dockerfile may depend on the base, and a folder's files are there anyway.
    """
    if source.recipe is None:
        return None
    return next(
        (
            image
            for image in list_images(client)
            if image.agent_sha256 == digest and image.name.partition("+")[2] == source.name
        ),
        None,
    )


def _hash_source(source: AgentSource) -> str:
    if source.folder is not None:
        return hash_folder(source.folder)
    if source.dockerfile is not None:
        text = hash_folder(source.dockerfile.parent) + source.dockerfile.name
    else:
        assert source.recipe is not None  # noqa: S101  because one of the three is set
        text = source.recipe[1]
    return hashlib.sha256(text.encode()).hexdigest()


def _write_layer(
    client: APIClient, source: AgentSource, base: str, file: IO[bytes], *, notify: Callable[[str], None]
) -> bool:
    """Write the layer of an agent to `file`, and return whether a program of it is on the PATH."""
    if source.folder is not None:
        return pack_folder(source.folder, file)
    if source.dockerfile is not None:
        return _pack_dockerfile(client, source.name, source.dockerfile, base, file, notify=notify)
    assert source.recipe is not None  # noqa: S101  because one of the three is set
    notify(f"agent {source.name}: installing its packages")
    with tempfile.TemporaryDirectory() as folder:
        source.recipe[0](Path(folder))
        return pack_folder(Path(folder), file)


def _explain_no_program(source: AgentSource) -> str:
    folder = f"{AGENTS_FOLDER}/{source.name}"
    return (
        f"warning: agent {source.name} has no executable file in {folder}/{PROGRAMS}, so --agent-cmd finds "
        f"none by its name; add one to the subfolder {PROGRAMS}, or write a path such as {folder}/FILE"
    )


def _pack_dockerfile(
    client: APIClient,
    name: str,
    dockerfile: Path,
    base: str,
    file: IO[bytes],
    *,
    notify: Callable[[str], None],
) -> bool:
    """Build a user's Dockerfile on image `base`, and write the files of its agent folder to `file`.

    Returns whether a program of it is on the PATH.
    """
    from docker.errors import NotFound

    notify(f"agent {name}: building {dockerfile} on image {base}")
    tag = f"harness/agent-build:{secrets.token_hex(8)}"
    folder = f"{AGENTS_FOLDER}/{name}"
    try:
        run_build(
            client,
            f"of {dockerfile}",
            path=str(dockerfile.parent),
            dockerfile=dockerfile.name,
            buildargs={"BASE": image_tag(base)},
            tag=tag,
        )
        try:
            return _read_agent_folder(client, tag, name, file, source=str(dockerfile))
        except FileNotFoundError as error:
            raise UsageError(
                f"{dockerfile}: makes no folder {folder}",
                hint="harness takes only this folder, so install the agent there",
            ) from error
    finally:
        # An error from here is suppressed, because it would hide the error of the build.
        with suppress(SandboxError), engine_errors(f"remove {tag}"), suppress(NotFound):
            client.remove_image(tag)


def _read_agent_folder(
    client: APIClient, image: str, name: str, file: IO[bytes], *, source: str | None = None
) -> bool:
    """Write the files of an agent in an image to `file`, and return whether a program of it is on the PATH.

    The engine reads the files, because programs of the image could lie about them. `source` names the image
    in errors. Raises FileNotFoundError for an image without the agent's folder.
    """
    from docker.errors import NotFound

    folder = f"{AGENTS_FOLDER}/{name}"
    source = source or image
    with engine_errors(f"read {folder} of {source}"), tempfile.TemporaryFile() as archive:
        container = client.create_container(image, command=["true"], network_disabled=True)["Id"]
        try:
            chunks, _facts = client.get_archive(container, folder)
            for chunk in chunks:
                archive.write(chunk)
        except NotFound as error:
            raise FileNotFoundError(folder) from error
        finally:
            remove(client, container)
        archive.seek(0)
        return pack_archive(archive, file, source=source)


def _build(
    client: APIClient, agent: str, base: str, layer: IO[bytes], digest: str, *, notify: Callable[[str], None]
) -> None:
    name = f"{base}+{agent}"
    notify(f"image {name}: building {image_tag(name)}")
    # Without a RUN, no program runs in the build.
    dockerfile = f"ARG BASE\nFROM ${{BASE}}\nADD {LAYER} {AGENTS_FOLDER}/{agent}/\n".encode()
    with tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            layer.seek(0, io.SEEK_END)
            for path, content, size in (
                ("Dockerfile", io.BytesIO(dockerfile), len(dockerfile)),
                (LAYER, layer, layer.tell()),
            ):
                content.seek(0)
                member = tarfile.TarInfo(path)
                member.size = size
                tar.addfile(member, content)
        context.seek(0)
        run_build(
            client,
            name,
            fileobj=context,
            custom_context=True,
            tag=image_tag(name),
            labels={LABEL: name, AGENT_LABEL: digest},
            buildargs={"BASE": image_tag(base)},
        )
