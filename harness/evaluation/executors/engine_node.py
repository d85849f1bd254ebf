"""The part of a node that owns the engine of its machine: it connects to it, and takes over images."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import BinaryIO, cast

from harness.errors import HarnessError, SandboxError, UsageError
from harness.evaluation.dead_runs import remove_dead_containers
from harness.evaluation.executors.inputs import hash_code
from harness.evaluation.executors.messages import ImageContent, NodeFacts, Refusal
from harness.sandbox.backends import open_default_backend
from harness.sandbox.backends.base import Backend, MovesImages
from harness.sandbox.pool import count_gate_places
from harness.sandbox.reaper import NAMESPACE_VARIABLE, remove_run
from harness.version import __version__


class EngineNode:
    """Owns the engine of its machine. Call `connect` first and `close` last.

    Another process calls the methods that return a `Refusal`, so their arguments and results are plain data.
    """

    def __init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        self._backend: Backend | None = None
        self._archive: BinaryIO | None = None

    async def connect(self, namespace: str, *, needs_engine: bool) -> NodeFacts | Refusal:
        """Connect to the engine of this machine and return its facts, or the reason why that fails.

        `namespace` goes into the labels of all containers.
        """
        os.environ[NAMESPACE_VARIABLE] = namespace
        try:
            engine_id = None
            if needs_engine:
                opening = open_default_backend()
                self._backend = await self._stack.enter_async_context(opening)
                engine_id = await asyncio.to_thread(_require_moves_images(self._backend).identify_engine)
            return NodeFacts(__version__, hash_code(), count_gate_places(), engine_id)
        except HarnessError as error:
            return Refusal(error.message, error.hint)

    async def find_missing(self, images: tuple[ImageContent, ...]) -> list[str] | Refusal:
        """Return the tags of the images that the engine lacks, or has with another content."""
        try:
            return [image.tag for image in images if await self._find_image(image) is None]
        except HarnessError as error:
            return Refusal(error.message, error.hint)

    async def receive_image(self, part: bytes) -> Refusal | None:
        """Take the next part of the archive of an image. An empty part ends it, and the engine loads it."""
        try:
            if self._archive is None:
                # Without a name, so that a kill leaves no file.
                self._archive = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  because later parts follow
            if part:
                await asyncio.to_thread(self._archive.write, part)
                return None
            archive, self._archive = self._archive, None
            with archive:
                archive.seek(0)
                await asyncio.to_thread(_require_moves_images(self._backend).load_image, archive)
        except (HarnessError, OSError) as error:
            return Refusal(f"an image could not be loaded: {error}")
        return None

    async def close(self) -> Refusal | None:
        """Remove every container, and leave the engine. Return the reason if a container stays."""
        try:
            await self._stack.aclose()
        except HarnessError as error:
            return Refusal(error.message, error.hint)
        return None

    async def find_images(self, images: Mapping[str, ImageContent]) -> dict[str, str]:
        """Return the ids of images by their names. Raises UsageError for one with another content."""
        ids = {}
        for name, image in images.items():
            if (image_id := await self._find_image(image)) is None:
                raise UsageError(
                    f"image {image.tag} has another content on this engine than where the command runs"
                )
            ids[name] = image_id
        return ids

    async def own_containers(self, run_id: str, note: Callable[[str], None]) -> None:
        """Remove the containers of a run that a dead process has left here, and again at the end.

        No other node uses this engine, so an earlier process of this node has left them.
        """
        backend = self._backend
        assert backend is not None, "only a node with an engine has containers"  # noqa: S101
        await asyncio.to_thread(remove_run, backend, run_id)
        await asyncio.to_thread(remove_dead_containers, backend, note)
        self._stack.push_async_callback(asyncio.to_thread, remove_run, backend, run_id)

    async def _find_image(self, image: ImageContent) -> str | None:
        """Return the id of an image with this content, None if the engine has none."""
        found = await asyncio.to_thread(_require_moves_images(self._backend).find_image, image.tag)
        return found.id if found is not None and found.content_sha256 == image.sha256 else None


def _require_moves_images(backend: Backend | None) -> MovesImages:
    if isinstance(backend, MovesImages):
        return backend
    raise SandboxError("the backend of this machine cannot copy images")
