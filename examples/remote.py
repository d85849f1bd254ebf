"""Run a program, grade another one, and run a benchmark, on this machine or at a service.

On this machine: `python examples/remote.py`. At a service: `harness serve -b mbpp --data bundled` prints its
URL, and then `python examples/remote.py http://127.0.0.1:8600/TOKEN`. Only the host differs.
"""

from __future__ import annotations

import asyncio
import sys

import harness
from harness import build_call_tests

PROGRAM = "import sys\nfor line in sys.stdin:\n    print(line.strip()[::-1], flush=True)\n"
TESTS = build_call_tests("add", [([1, 2], 3), ([20, 22], 42)])


async def main(url: str | None) -> None:
    """Print the output of a program as it comes, a verdict, and the result of a run."""
    async with harness.open_host() if url is None else harness.connect(url) as host:
        async with host.sandbox("python") as sandbox:
            await sandbox.write_file("reverse.py", PROGRAM.encode())
            running = sandbox.stream(["python3", "reverse.py"], stdin="abc\nxyz\n", timeout=10)
            async with running as stream:
                async for chunk in stream:
                    print(chunk.data.decode(), end="")
            print("exit code", stream.result.exit_code)

        verdict = await host.grade(TESTS, "def add(a, b):\n    return a + b\n")
        print("verdict", verdict.status.value)

        result = await host.run("mbpp", data="bundled", agent="oracle", sample_size=3, n_samples=2)
        print("resolved", result.summary.resolved, "of", result.summary.total)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
