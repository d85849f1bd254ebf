"""Run a program, grade another one, and run a benchmark, on this machine or at a service.

On this machine: `python examples/remote.py`. At a service: `harness serve -b mbpp --data bundled` prints its
URL, and then `python examples/remote.py http://127.0.0.1:8600/TOKEN`. Only the first lines of `main` depend
on the place.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import harness
from harness import build_call_tests
from harness.client import connect

PROGRAM = "import sys\nfor line in sys.stdin:\n    print(line.strip()[::-1], flush=True)\n"
TESTS = build_call_tests("add", [([1, 2], 3), ([20, 22], 42)])


async def main(url: str | None) -> None:
    """Print the output of a program as it comes, a verdict, and the result of a run."""
    remote: Any = None if url is None else connect(url)
    Sandbox = remote or harness.Sandbox
    open_grader = harness.open_grader if remote is None else remote.open_grader
    run = harness.run if remote is None else remote.run

    async with Sandbox.open("python") as sandbox:
        await sandbox.write_file("reverse.py", PROGRAM.encode())
        running = sandbox.stream(["python3", "reverse.py"], stdin="abc\nxyz\n", timeout=10)
        async with running as stream:
            async for chunk in stream:
                print(chunk.data.decode(), end="")
        print("exit code", stream.result.exit_code)

    async with open_grader() as grader:
        verdict = await grader.grade(TESTS, "def add(a, b):\n    return a + b\n")
        print("verdict", verdict.status.value)

    result = await run("mbpp", data="bundled", agent="oracle", sample_size=3, n_samples=2)
    print("resolved", result.summary.resolved, "of", result.summary.total)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
