"""The nodes of a Ray cluster: an actor on each, its preparation and its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import HarnessError, SandboxError
from harness.evaluation.executors.inputs import describe_config, hash_code, hash_inputs
from harness.evaluation.executors.messages import ImageContent, Lease, NodeFacts, NodeSpec, Refusal, Report
from harness.evaluation.executors.node import Node
from harness.evaluation.faults import RunStoppedError
from harness.evaluation.selection import Selection
from harness.sandbox.backends.base import Backend, MovesImages
from harness.sandbox.reaper import namespace
from harness.version import __version__

T = TypeVar("T")
# A worker of Ray starts, imports harness and asks its engine.
CONNECT_SECONDS = 120.0
# An engine writes an image to its disk, or a node downloads the data.
PREPARE_SECONDS = 900.0
# A node ends its attempts and removes its containers.
END_SECONDS = 60.0
# The most reports of an attempt that wait to be read.
WAITING_REPORTS = 4
_PART_BYTES = 4 * 1024 * 1024
_ID_CHARACTERS = 6


class NodeRefused(Exception):
    """A node takes no part in the run."""


class NodeLost(Exception):
    """A node makes no further attempts, and its attempts under way have no record."""


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node that makes attempts."""

    id: str
    name: str
    # How many attempts it makes at once.
    places: int
    _actor: Any
    _errors: type[Exception]
    _defects: type[Exception]

    async def make(self, lease: Lease) -> AsyncGenerator[Report]:
        """Make an attempt and yield its reports. Raises NodeLost."""
        stream = self._actor.make.options(
            num_returns="streaming", _generator_backpressure_num_objects=WAITING_REPORTS
        ).remote(lease)
        try:
            async for reference in stream:
                yield await reference
        except self._defects:
            raise
        except self._errors as error:
            raise NodeLost(str(error).strip().partition("\n")[0]) from error


async def find_alive_nodes(ray: Any) -> dict[str, str]:
    """Return the name of each node that is alive, by its id. Raises RunStoppedError if the head is gone."""
    try:
        nodes = await asyncio.to_thread(ray.nodes)
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise RunStoppedError(
            f"the head of the Ray cluster does not answer: {_shorten(error)}",
            hint="when it is back, finish the run with --resume",
        ) from error
    return {
        node["NodeID"]: f"node {node['NodeName']} ({node['NodeID'][:_ID_CHARACTERS]})"
        for node in nodes
        if node["Alive"]
    }


class NodeOpener:
    """Starts an actor on a node, and gives it everything that the attempts of the run need.

    Reads the images of the run from the engine of this machine. Raises SandboxError.
    """

    def __init__(
        self,
        ray: Any,
        selection: Selection,
        backend: Backend | None,
        image_tags: Mapping[str, str],
        *,
        run_id: str,
        wait_seconds: float,
        start_tries: int,
    ) -> None:
        self._ray = ray
        self._backend = backend
        self._samples = None if selection.config.samples is None else Path(selection.config.samples)
        self._needs_engine = bool(selection.images)
        self._spec = NodeSpec(
            run_id=run_id,
            namespace=namespace(),
            config=describe_config(selection),
            inputs=hash_inputs(selection),
            unsound=dict(selection.benchmark.quarantined),
            images=self._find_images(image_tags) if self._needs_engine else {},
            wait_seconds=wait_seconds,
            start_tries=start_tries,
        )
        # The node that uses an engine, by the id of the engine, and the engine that a node waits for.
        self._users: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        # An engine gets one image at a time, and this machine reads one at a time.
        self._copying = asyncio.Lock()

    def is_engine_taken(self, node_id: str) -> bool:
        """Return whether another node makes attempts with the engine of this one."""
        return self._taken.get(node_id) in self._users

    async def open_node(self, node_id: str, name: str) -> RayNode:
        """Start an actor on a node, prepare it and return the node. Raises NodeRefused."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Not detached: Ray ends the actor when this process ends, however it ends.
        actor = (
            self._ray.remote(Node)
            .options(
                num_cpus=0,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
            .remote()
        )
        try:
            places = await self._prepare(actor, node_id, name)
        except BaseException as error:
            self._release(node_id)
            self._kill(actor)
            if isinstance(error, self._ray.exceptions.RayError):
                raise NodeRefused(f"{name}: {_shorten(error)}") from error
            if isinstance(error, TimeoutError):
                raise NodeRefused(f"{name}: it did not answer in time") from error
            if isinstance(error, HarnessError):
                raise NodeRefused(f"{name}: {error.message}") from error
            raise
        exceptions = self._ray.exceptions
        return RayNode(node_id, name, places, actor, exceptions.RayError, exceptions.RayTaskError)

    async def end_node(self, node: RayNode) -> str | None:
        """End a node, with its attempts and containers. Return what may have stayed, in words."""
        problem = None
        try:
            ended = await _wait_for(node._actor.close.remote(), END_SECONDS)
            if isinstance(ended, Refusal):
                problem = f"{node.name}: {ended.message}"
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.NodeDiedError):
            # The node is gone. Its containers end with their streams, and a process there removes them.
            pass
        except (self._ray.exceptions.RayError, TimeoutError) as error:
            problem = f"{node.name} did not end its work: {_shorten(error)}; run `harness gc` there"
        self._release(node.id)
        self._kill(node._actor)
        return problem

    async def _prepare(self, actor: Any, node_id: str, name: str) -> int:
        spec = self._spec
        facts = await self._ask(
            name, actor.connect.remote(spec.namespace, needs_engine=self._needs_engine), CONNECT_SECONDS
        )
        self._require_same_code(name, facts)
        if facts.engine_id is not None:
            if (user := self._users.get(facts.engine_id)) is not None:
                self._taken[node_id] = facts.engine_id
                raise NodeRefused(f"{name} has the same Docker engine as node {user[:_ID_CHARACTERS]}")
            self._users[facts.engine_id] = node_id
        wanted = tuple(spec.images.values())
        for tag in await self._ask(name, actor.find_missing.remote(wanted), CONNECT_SECONDS):
            async with self._copying:
                await self._copy_image(actor, name, tag)
        if self._samples is not None:
            for part in _read_parts(self._samples):
                await self._ask(name, actor.receive_samples.remote(part), PREPARE_SECONDS)
        places: int = await self._ask(name, actor.open.remote(spec), PREPARE_SECONDS)
        return places

    async def _copy_image(self, actor: Any, name: str, tag: str) -> None:
        assert isinstance(self._backend, MovesImages), "`_find_images` has found it"  # noqa: S101
        with contextlib.closing(self._backend.save_image(tag)) as parts:
            while part := await asyncio.to_thread(next, parts, b""):
                await self._ask(name, actor.receive_image.remote(part), PREPARE_SECONDS)
        await self._ask(name, actor.receive_image.remote(b""), PREPARE_SECONDS)

    def _find_images(self, image_tags: Mapping[str, str]) -> dict[str, ImageContent]:
        if not isinstance(self._backend, MovesImages):
            raise SandboxError("the backend of this run cannot copy images, so it cannot be used with Ray")
        images = {}
        for name, tag in image_tags.items():
            found = self._backend.find_image(tag)
            if found is None:
                raise SandboxError(f"image {tag} was removed from the Docker engine", outside=True)
            images[name] = ImageContent(tag, found.content_sha256)
        return images

    def _require_same_code(self, name: str, facts: NodeFacts) -> None:
        if facts.harness_version != __version__:
            raise NodeRefused(f"{name} has harness {facts.harness_version}, and this is {__version__}")
        if facts.code_sha256 != hash_code():
            raise NodeRefused(f"{name} has other code of harness {__version__} than this machine")

    async def _ask(self, name: str, reference: Awaitable[T | Refusal], seconds: float) -> T:
        answer = await _wait_for(reference, seconds)
        if isinstance(answer, Refusal):
            hint = f" ({answer.hint})" if answer.hint else ""
            raise NodeRefused(f"{name}: {answer.message}{hint}")
        return answer

    def _release(self, node_id: str) -> None:
        self._users = {engine: user for engine, user in self._users.items() if user != node_id}

    def _kill(self, actor: Any) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(actor)


def _read_parts(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while part := file.read(_PART_BYTES):
            yield part


async def _wait_for(reference: Awaitable[T], seconds: float) -> T:
    async def wait() -> T:
        return await reference

    return await asyncio.wait_for(wait(), seconds)


def _shorten(error: BaseException) -> str:
    text = str(error).strip()
    # The last line of an error that comes from a node names the error itself.
    lines = text.splitlines() or [type(error).__name__]
    return lines[-1] if "Traceback" in text else lines[0]
