"""The client of `harness serve`. A service is a host, with the methods of a host of this machine.

    host = connect("http://127.0.0.1:8600/TOKEN")      # instead of: async with open_host() as host
    verdict = await host.grade(tests, program)

It can take the place of the class `Sandbox`, and its method `run` the place of the function:

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
from harness.client.remote import Remote, RemoteHost, connect

__all__ = ["Remote", "RemoteHost", "ServiceBusyError", "ServiceUnreachableError", "connect"]
