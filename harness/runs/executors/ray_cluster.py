"""The connection of a run to a Ray cluster. Only runs on Ray import the package ray."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from harness.core.errors import UsageError, describe_installation
from harness.core.invalid_values import quote_value
from harness.core.logger import get_logger
from harness.host.retries import RunStoppedError
from harness.runs.executors.ray_nodes import EngineTaken, NodeOpener, NodeRefused, RayNode, find_alive_nodes
from harness.runs.run_secrets import list_environment_secrets

# The address that starts a cluster of this machine alone, which ends with the run.
LOCAL = "local"
# The address that finds the cluster that this machine belongs to.
AUTO = "auto"
# Ray sends statistics about its use to its makers unless this is set.
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_CONNECT_SECONDS = 10.0
# The first bytes of a client of HTTP/2 (RFC 9113, section 3.4). Ray's nodes speak to its head with it, and
# the type of the frame that each server sends first.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_FRAME_HEAD_BYTES = 9
_SETTINGS_TYPE = 4
_RAY_PREFIX = "RAY_"
# The thread of Ray that prints the messages of its own processes to standard output.
_PRINTING_THREAD = "ray_listen_error_messages"

_LOGGER = get_logger(__name__)
# How often the cluster is asked for nodes that have come, or have come back.
LOOK_SECONDS = 2.0
# A node that was lost this often is refused.
NODE_STARTS = 3


def load_ray() -> Any:
    """Return the package ray, without its statistics. Raises UsageError if it is not installed."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            f"the executor 'ray' needs the package ray: {error}", hint=describe_installation("ray")
        ) from error
    return ray


@contextlib.asynccontextmanager
async def connect_ray(address: str | None) -> AsyncIterator[Any]:
    """Yield the package ray, connected to a cluster, and disconnect at the end of the block.

    A cluster that the block has started ends with it. A connection that the process had before stays.

    Args:
        address: HOST:PORT, `auto`, or `local`. Without it, as `auto`.

    Raises:
        UsageError: if no cluster answers, or if its version of Ray or Python differs.
    """
    if address is not None and address.startswith("ray://"):
        raise UsageError(
            f"--ray-address {address}: the command must run on a node of the cluster, without a Ray Client",
            hint="log in to a node, and use --ray-address auto",
        )
    ray = await asyncio.to_thread(load_ray)
    if ray.is_initialized():
        yield ray
        return
    # Its warnings are about its own processes. Failures that matter to a run reach it as exceptions.
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    with divert_messages(), contextlib.ExitStack() as stack:
        folder = None
        if address == LOCAL:
            folder = stack.enter_context(_make_folder())
        try:
            # In another thread, because it takes seconds and would replace the handler of SIGTERM.
            await asyncio.to_thread(_initialize, ray, address or AUTO, folder)
            _restore_handler(signal.SIGTERM)
            yield ray
        finally:
            await asyncio.to_thread(ray.shutdown)


def _initialize(ray: Any, address: str, folder: str | None) -> None:
    named = os.environ.get("RAY_ADDRESS", address) if address == AUTO else address
    if named not in (AUTO, LOCAL):
        _require_answer(named)
    try:
        with _hide_secrets():
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                include_dashboard=False if address == LOCAL else None,
                _temp_dir=folder,
            )
    except ConnectionError as error:
        raise _explain_silence(address) from error
    except (RuntimeError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"the Ray cluster at {address} cannot be used: {first}",
            hint="use the same versions of Ray and Python on all nodes",
        ) from error


def _restore_handler(number: signal.Signals) -> None:
    """Install the handler of a signal again, which Ray has replaced below Python.

    Ray's handler prints a trace, and aborts the process if it still cleans up after three seconds.
    """
    handler = signal.getsignal(number)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


def _make_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for the logs and the sockets of a new cluster.

    The path of a socket has at most 107 bytes, and TMPDIR may be longer than Ray leaves room for.
    """
    short = "/tmp" if os.access("/tmp", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="harness-ray-", dir=short, ignore_cleanup_errors=True)


@contextlib.contextmanager
def _hide_secrets() -> Iterator[None]:
    """Take the secrets out of the environment, which the processes of a new cluster inherit.

    The variables of Ray stay, because its own tokens are among them.
    """
    secrets = {
        name: os.environ[name] for name in list_environment_secrets() if not name.startswith(_RAY_PREFIX)
    }
    for name in secrets:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(secrets)


def _require_answer(address: str) -> None:
    """Raise UsageError if no Ray cluster listens at HOST:PORT, because Ray itself tries for minutes.

    A server of another protocol would keep Ray waiting, too, and deaf to SIGTERM.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(
            f"--ray-address must be HOST:PORT, {AUTO} or {LOCAL}, not {quote_value(address)}",
            hint="such as --ray-address head:6379",
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
                return
            connection.sendall(_GREETING)
            with connection.makefile("rb") as replies:
                head = replies.read(_FRAME_HEAD_BYTES)
    except OSError as error:
        raise _explain_silence(address) from error
    if len(head) < _FRAME_HEAD_BYTES or head[3] != _SETTINGS_TYPE:
        raise UsageError(
            f"--ray-address {address}: another server listens there, and no Ray cluster",
            hint="use the port of ray start --head, which is 6379 unless --port names another one",
        )


def _explain_silence(address: str) -> UsageError:
    return UsageError(
        f"no Ray cluster answers at {address}",
        hint="start one: ray start --head   (or try this machine alone: --ray-address local)",
    )


@contextlib.contextmanager
def divert_messages() -> Iterator[None]:
    """Log the messages that Ray prints to standard output, because the results of a command go there."""
    diverted = _Diverted(sys.stdout)
    with contextlib.redirect_stdout(diverted):
        yield


class _Diverted:
    """A stream that logs the text of one thread, and passes everything else on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if threading.current_thread().name != _PRINTING_THREAD:
            return self._stream.write(text)
        if text.strip():
            _LOGGER.debug("Ray: %s", text.strip())
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass(frozen=True, slots=True)
class _Refused:
    """The reason why a node takes no part, and the time when it was found."""

    reason: str
    since: float
    # Whether it can take part once another node leaves the engine of its machine.
    waits_for_engine: bool


class RayMembers:
    """Opens nodes, and keeps those that work.

    Args:
        ray: the package, which is connected to a cluster.
        opener: opens a node.
        note: shows a message to the user.
        wait_seconds: how long `look` waits without any node before it raises an error. None waits for ever.
        retry_seconds: how long a refused node waits until it is opened again. None refuses it for good.
    """

    def __init__(
        self,
        ray: Any,
        opener: NodeOpener,
        note: Callable[[str], None],
        *,
        wait_seconds: float | None = None,
        retry_seconds: float | None = None,
    ) -> None:
        self._ray = ray
        self._opener = opener
        self._note = note
        self._wait_seconds = wait_seconds
        self._retry_seconds = retry_seconds
        # All by the id of the node.
        self._nodes: dict[str, RayNode] = {}
        self._refused: dict[str, _Refused] = {}
        self._losses: Counter[str] = Counter()
        self._starting: set[str] = set()
        self._ending: dict[str, asyncio.Task[None]] = {}
        # The tasks that prepare nodes during the work.
        self._preparing: set[asyncio.Task[Any]] = set()
        self._alone_since: float | None = None

    def __iter__(self) -> Iterator[RayNode]:
        return iter(list(self._nodes.values()))

    async def open(self) -> None:
        """Open the nodes of the cluster. Raises UsageError if none of them can take part."""
        found = await find_alive_nodes(self._ray)
        await asyncio.gather(*(self._start(node_id, name) for node_id, name in found.items()))
        if not self._nodes:
            reasons = "; ".join(each.reason for each in self._refused.values())
            raise UsageError(
                f"no node of the Ray cluster can take part: {reasons or 'the cluster has no node'}",
                hint="each node needs this version of harness, a Docker engine and the data",
            )

    async def look(self, group: asyncio.TaskGroup, serve: Callable[[RayNode], Awaitable[None]]) -> None:
        """Open each node that comes, and call `serve` with it in a task of `group`, until a cancellation.

        Raises RunStoppedError if the head of the cluster is gone, or no node is left for `wait_seconds`.
        """
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                for node_id, name in (await find_alive_nodes(self._ray)).items():
                    if self._is_new(node_id):
                        self._starting.add(node_id)
                        group.create_task(self._start_and_serve(node_id, name, serve))
                self._require_nodes()
        finally:
            # A node that is not ready by now has nothing left to do.
            for task in self._preparing:
                task.cancel()

    def lose(self, node: RayNode, reason: str) -> None:
        """End a node that does not work any more. A further call for the same node does nothing.

        The end takes its time in a task of its own, because the node may not answer.
        """
        if self._nodes.get(node.id) is not node:
            return
        del self._nodes[node.id]
        self._losses[node.id] += 1
        self._note(f"{node.name} is lost: {reason}; other nodes repeat its work")
        if self._losses[node.id] >= NODE_STARTS:
            del self._losses[node.id]
            self._refuse(node.id, NodeRefused(f"{node.name} was lost {NODE_STARTS} times"))
        task = self._ending[node.id] = asyncio.create_task(self._end(node))
        task.add_done_callback(lambda _task: self._ending.pop(node.id))

    async def close(self) -> None:
        """End all nodes, with their work and containers."""
        nodes, self._nodes = list(self._nodes.values()), {}
        await asyncio.gather(*(self._end(node) for node in nodes), *self._ending.values())

    def _is_new(self, node_id: str) -> bool:
        """Return whether a node that is alive should be opened."""
        if any(node_id in each for each in (self._nodes, self._starting, self._ending)):
            return False
        refused = self._refused.get(node_id)
        if refused is None or refused.waits_for_engine:
            return not self._opener.is_engine_taken(node_id)
        return self._retry_seconds is not None and time.monotonic() - refused.since >= self._retry_seconds

    async def _start(self, node_id: str, name: str) -> RayNode | None:
        """Open a node and return it, None if it takes no part."""
        self._starting.add(node_id)
        try:
            node = self._nodes[node_id] = await self._opener.open_node(node_id, name)
        except NodeRefused as refused:
            self._refuse(node_id, refused)
            return None
        finally:
            self._starting.discard(node_id)
        self._refused.pop(node_id, None)
        return node

    def _refuse(self, node_id: str, refused: NodeRefused) -> None:
        known, reason = self._refused.get(node_id), str(refused)
        self._refused[node_id] = _Refused(reason, time.monotonic(), isinstance(refused, EngineTaken))
        if known is None or known.reason != reason:
            self._note(f"{reason}; it takes no part")

    async def _start_and_serve(
        self, node_id: str, name: str, serve: Callable[[RayNode], Awaitable[None]]
    ) -> None:
        task = asyncio.current_task()
        assert task is not None, "a task group runs it"  # noqa: S101
        self._preparing.add(task)
        try:
            node = await self._start(node_id, name)
        finally:
            self._preparing.discard(task)
        if node is not None:
            await serve(node)

    async def _end(self, node: RayNode) -> None:
        if (problem := await self._opener.end_node(node)) is not None:
            self._note(problem)

    def _require_nodes(self) -> None:
        if self._wait_seconds is None or self._nodes or self._starting:
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since >= self._wait_seconds:
            raise RunStoppedError(
                f"no node of the Ray cluster is left, and none came within {self._wait_seconds:.0f} s",
                hint="when a node is back, finish the run with --resume",
            )
