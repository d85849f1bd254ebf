"""Connect the standard streams of a server's program to the host, and become the program.

`sandbox_process` runs this file in a sandbox as the standard input of Python, and adds the call of `main`.
So no file lies in the sandbox, and no argument shows the token. The file uses the standard library only.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

NOT_FOUND, CANNOT_START = 127, 126


def main(order: dict[str, Any]) -> None:
    """Become the program of an order: `port`, `token`, `argv`, `env`."""
    argv: list[str] = order["argv"]
    # Two connections, because some programs take input on their standard output for its end.
    links = []
    for number in (0, 1):
        link = socket.create_connection(("127.0.0.1", order["port"]))
        link.sendall(f"{number}{order['token']}\n".encode())
        links.append(link)
    for number, link in enumerate(links):
        os.dup2(link.fileno(), number)
    try:
        os.execvpe(argv[0], argv, {**os.environ, **order["env"]})
    except FileNotFoundError:
        print(f"{argv[0]}: not found", file=sys.stderr, flush=True)
        os._exit(NOT_FOUND)
    except (OSError, ValueError) as error:
        print(f"{argv[0]}: cannot be started: {error}", file=sys.stderr, flush=True)
        os._exit(CANNOT_START)
