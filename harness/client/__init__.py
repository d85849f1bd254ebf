"""The client of `harness serve`. Sandboxes and graders of a service have the same face as local ones.

    from harness import Sandbox                        # local
    from harness.client import connect
    Sandbox = connect("http://127.0.0.1:8600/TOKEN")   # remote

    async with Sandbox.open("python") as sandbox:
        result = await sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10)

It needs the packages of the extra `client`.
"""

from __future__ import annotations

from harness.client.errors import ServiceBusyError, ServiceUnreachableError
from harness.client.remote import Remote, connect

__all__ = ["Remote", "ServiceBusyError", "ServiceUnreachableError", "connect"]
