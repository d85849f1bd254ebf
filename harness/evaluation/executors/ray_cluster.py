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
from collections.abc import AsyncIterator, Iterator
from typing import Any, TextIO

from harness.errors import UsageError, describe_installation, quote_value
from harness.evaluation.run_secrets import list_environment_secrets
from harness.logger import get_logger

# The address that starts a cluster of this machine alone, which ends with the run.
LOCAL = "local"
# The address that finds the cluster of which this machine is a node.
AUTO = "auto"
# Ray sends statistics about its use to its makers unless this is set.
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_CONNECT_SECONDS = 10.0
# The first bytes of a client of HTTP/2 (RFC 9113, section 3.4), with which Ray's nodes speak to its head, and
# the type of the frame that each server sends first.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_FRAME_HEAD_BYTES = 9
_SETTINGS_TYPE = 4
_RAY_PREFIX = "RAY_"
# The thread of Ray that prints the messages of its own processes to standard output.
_PRINTING_THREAD = "ray_listen_error_messages"

_LOGGER = get_logger(__name__)


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

    That of Ray prints a trace, and aborts the process if it still cleans up after three seconds.
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
