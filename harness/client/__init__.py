"""The client of `harness serve`. Sandboxes, graders and runs of a service have the same face as local ones.

    from harness import Sandbox                        # local
    from harness.client import connect
    Sandbox = connect("http://127.0.0.1:8600/TOKEN")   # remote

    async with Sandbox.open("python") as sandbox:
        result = await sandbox.exec(["python3", "-c", "print(6 * 7)"], timeout=10)

    run = connect("http://127.0.0.1:8600/TOKEN").run   # instead of: from harness import run
    result = await run("mbpp", samples="samples.jsonl")

It needs the packages of the extra `client`.
"""

from __future__ import annotations

from harness.client.connection import ServiceBusyError, ServiceUnreachableError
from harness.client.remote import Remote, connect

__all__ = ["Remote", "ServiceBusyError", "ServiceUnreachableError", "connect"]
