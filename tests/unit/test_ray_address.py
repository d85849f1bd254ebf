"""The address of a Ray cluster, before Ray itself connects to it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.runs.executors.ray_cluster import _require_answer

# An empty frame of settings, as a server of HTTP/2 begins.
SETTINGS = b"\0\0\0\4\0\0\0\0\0"


@contextlib.contextmanager
def listen(reply: bytes) -> Iterator[str]:
    """Yield the address of a server that answers its first client with some bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join()


def test_a_server_of_http_2_is_accepted() -> None:
    with listen(SETTINGS + b"more") as address:
        _require_answer(address)


@each_case("reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"SSH-2.0"])
def test_a_server_of_another_protocol_is_refused(reply: bytes) -> None:
    with listen(reply) as address, pytest.raises(UsageError, match="no Ray cluster"):
        _require_answer(address)
