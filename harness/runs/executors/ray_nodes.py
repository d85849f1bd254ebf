"""The nodes of a Ray cluster: an actor on each, its preparation and its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness.core.errors import HarnessError, SandboxError
from harness.core.version import __version__
from harness.host.retries import RunStoppedError
from harness.runs.executors.messages import ImageContent, NodeFacts, Refusal, hash_code
from harness.sandbox.backends.base import Backend, MovesImages
from harness.sandbox.reaper import namespace

if TYPE_CHECKING:
    from harness.runs.executors.node import EngineNode

T = TypeVar("T")
# A worker of Ray starts, imports harness and asks its engine.
CONNECT_SECONDS = 120.0
# An engine writes an image to its disk, or a node downloads the data.
PREPARE_SECONDS = 900.0
# A node ends its work and removes its containers.
END_SECONDS = 60.0
# The most results of a stream that wait to be read.
WAITING_RESULTS = 4
_ID_CHARACTERS = 6


class NodeRefused(Exception):
    """A node takes no part."""


class EngineTaken(NodeRefused):
    """Another node works with the engine of this one."""


class NodeLost(Exception):
    """A node works no more, and its work under way has no result."""


@dataclass(frozen=True, slots=True, eq=False)
class RayNode:
    """A node that works."""

    id: str
    name: str
    # How much it does at once: attempts of a run, or requests of a service.
    places: int
    _ray: Any
    _actor: Any

    async def ask(self, method: str, argument: Any) -> Any:
        """Return what a method of the actor returns. A cancellation ends the method. Raises NodeLost."""
        reference = getattr(self._actor, method).remote(argument)
        try:
            with _catch_lost(self._ray):
                return await reference
        except asyncio.CancelledError:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(reference)
            raise

    async def stream(self, method: str, argument: Any) -> AsyncGenerator[Any]:
        """Yield what a method of the actor yields. Raises NodeLost."""
        stream = (
            getattr(self._actor, method)
            .options(num_returns="streaming", _generator_backpressure_num_objects=WAITING_RESULTS)
            .remote(argument)
        )
        with _catch_lost(self._ray):
            async for reference in stream:
                yield await reference


@contextlib.contextmanager
def _catch_lost(ray: Any) -> Iterator[None]:
    """Raise NodeLost for an error of Ray, unless a method of the actor has raised one."""
    try:
        yield
    except ray.exceptions.RayError as error:
        # A node that is closed cancels its work, which Ray reports as an exception of the method too.
        cancelled = isinstance(error, ray.exceptions.TaskCancelledError)
        if isinstance(error, ray.exceptions.RayTaskError) and not cancelled:
            raise  # a defect, which would occur on every node
        raise NodeLost(shorten(error)) from error


async def find_alive_nodes(ray: Any) -> dict[str, str]:
    """Return the name of each node that is alive, by its id. Raises RunStoppedError if the head is gone."""
    try:
        nodes = await asyncio.to_thread(ray.nodes)
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise RunStoppedError(
            f"the head of the Ray cluster does not answer: {shorten(error)}",
            hint="when it is back, finish the run with --resume",
        ) from error
    return {
        node["NodeID"]: f"node {node['NodeName']} ({node['NodeID'][:_ID_CHARACTERS]})"
        for node in nodes
        if node["Alive"]
    }


class Ask(Protocol):
    """Waits for the answer of a node. Raises NodeRefused if it is a refusal, and TimeoutError."""

    async def __call__(self, answer: Awaitable[T | Refusal], seconds: float) -> T: ...


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The work that nodes are opened for."""

    # The class of the actor, which gets no arguments.
    actor: type[EngineNode]
    # The images that every node needs, by their names. Without any, a node needs no engine.
    images: Mapping[str, ImageContent]
    # Prepares an actor that has the images, and returns how much it does at once.
    prepare: Callable[[Any, Ask], Awaitable[int]]


def describe_images(backend: Backend, image_tags: Mapping[str, str]) -> dict[str, ImageContent]:
    """Return the content of images of this machine's engine, by their names. Raises SandboxError."""
    if not isinstance(backend, MovesImages):
        raise SandboxError("this backend cannot copy images, so it cannot be used with Ray")
    images = {}
    for name, tag in image_tags.items():
        found = backend.find_image(tag)
        if found is None:
            raise SandboxError(f"image {tag} was removed from the Docker engine", outside=True)
        images[name] = ImageContent(tag, found.content_sha256)
    return images


class NodeOpener:
    """Starts an actor on a node, and gives it the images and everything else that its work needs.

    It reads the images from `backend`, the engine of this machine.
    """

    def __init__(self, ray: Any, work: NodeWork, backend: Backend | None) -> None:
        self._ray = ray
        self._work = work
        self._backend = backend
        # The node that uses an engine, by the id of the engine, and the engine that a node waits for.
        self._users: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        # An engine gets one image at a time, and this machine reads one at a time.
        self._copying = asyncio.Lock()

    def is_engine_taken(self, node_id: str) -> bool:
        """Return whether another node works with the engine of this one."""
        return self._taken.get(node_id) in self._users

    async def open_node(self, node_id: str, name: str) -> RayNode:
        """Start an actor on a node, prepare it and return the node. Raises NodeRefused."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Not detached: Ray ends the actor when this process ends, however it ends.
        actor = (
            self._ray.remote(self._work.actor)
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
                raise NodeRefused(f"{name}: {shorten(error)}") from error
            if isinstance(error, TimeoutError):
                raise NodeRefused(f"{name}: it did not answer in time") from error
            if isinstance(error, HarnessError):
                raise NodeRefused(f"{name}: {error.message}") from error
            raise
        return RayNode(node_id, name, places, self._ray, actor)

    async def end_node(self, node: RayNode) -> str | None:
        """End a node, with its work and containers. Return what may have stayed, in words."""
        problem = None
        try:
            ended = await _wait_for(node._actor.close.remote(), END_SECONDS)
            if isinstance(ended, Refusal):
                problem = f"{node.name}: {ended.message}"
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.NodeDiedError):
            # The node is gone. Its containers end with their streams, and a process there removes them.
            pass
        except (self._ray.exceptions.RayError, TimeoutError) as error:
            problem = f"{node.name} did not end its work: {shorten(error)}; run `harness gc` there"
        self._release(node.id)
        self._kill(node._actor)
        return problem

    async def _prepare(self, actor: Any, node_id: str, name: str) -> int:
        async def ask(answer: Awaitable[T | Refusal], seconds: float) -> T:
            return await _ask(name, answer, seconds)

        images = tuple(self._work.images.values())
        facts = await ask(actor.connect.remote(namespace(), needs_engine=bool(images)), CONNECT_SECONDS)
        _require_same_code(name, facts)
        if facts.engine_id is not None:
            if (user := self._users.get(facts.engine_id)) is not None:
                self._taken[node_id] = facts.engine_id
                raise EngineTaken(f"{name} has the same Docker engine as node {user[:_ID_CHARACTERS]}")
            self._users[facts.engine_id] = node_id
        for tag in await ask(actor.find_missing.remote(images), CONNECT_SECONDS):
            async with self._copying:
                await self._copy_image(actor, ask, tag)
        return await self._work.prepare(actor, ask)

    async def _copy_image(self, actor: Any, ask: Ask, tag: str) -> None:
        assert isinstance(self._backend, MovesImages), "`describe_images` has read it"  # noqa: S101
        with contextlib.closing(self._backend.save_image(tag)) as parts:
            while part := await asyncio.to_thread(next, parts, b""):
                await ask(actor.receive_image.remote(part), PREPARE_SECONDS)
        await ask(actor.receive_image.remote(b""), PREPARE_SECONDS)

    def _release(self, node_id: str) -> None:
        self._users = {engine: user for engine, user in self._users.items() if user != node_id}

    def _kill(self, actor: Any) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(actor)


def _require_same_code(name: str, facts: NodeFacts) -> None:
    if facts.harness_version != __version__:
        raise NodeRefused(f"{name} has harness {facts.harness_version}, and this is {__version__}")
    if facts.code_sha256 != hash_code():
        raise NodeRefused(f"{name} has other code of harness {__version__} than this machine")


async def _ask(name: str, reference: Awaitable[T | Refusal], seconds: float) -> T:
    answer = await _wait_for(reference, seconds)
    if isinstance(answer, Refusal):
        hint = f" ({answer.hint})" if answer.hint else ""
        raise NodeRefused(f"{name}: {answer.message}{hint}")
    return answer


async def _wait_for(reference: Awaitable[T], seconds: float) -> T:
    async def wait() -> T:
        return await reference

    return await asyncio.wait_for(wait(), seconds)


def shorten(error: BaseException) -> str:
    """Return an error of Ray in one line, without its last full stop, because more text follows."""
    text = str(error).strip()
    # The last line of an error that comes from a node names the error itself.
    lines = text.splitlines() or [type(error).__name__]
    return (lines[-1] if "Traceback" in text else lines[0]).rstrip(".")
