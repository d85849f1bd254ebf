"""Code of an agent that tests import runs as another user, and cannot earn what it did not do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from docker import APIClient
from sealed_tasks import acted, build_image, judge, write_task

from harness.core.types import Status
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.pool import SandboxPool

_TESTS = '''
import importlib.util
import sys
from pathlib import Path

import pytest


def load():
    path = Path("/app/solution.py")
    assert path.exists()
    spec = importlib.util.spec_from_file_location("solution", path)
    solution = importlib.util.module_from_spec(spec)
    sys.modules["solution"] = solution
    spec.loader.exec_module(solution)
    return solution


def test_results():
    solution = load()
    assert solution.add(2, 3) == 5
    assert solution.add([1], [2]) == [1, 2]
    numbers = [3, 1]
    solution.sort(numbers)
    assert numbers == [1, 3]


def test_errors_and_classes():
    solution = load()
    with pytest.raises(solution.Empty):
        solution.Stack().pop()
    stack = solution.Stack()
    stack.push(4)
    assert stack.items == [4] and isinstance(stack, solution.Stack)
    assert solution.LIMIT == 10 and not hasattr(solution, "missing")
'''
_SOLUTION = '''cat > /app/solution.py <<'END'
LIMIT = 10
class Empty(Exception): pass
class Stack:
    def __init__(self): self.items = []
    def push(self, item): self.items.append(item)
    def pop(self):
        if not self.items: raise Empty("empty")
        return self.items.pop()
def add(a, b): return a + b
def sort(numbers): numbers.sort()
END
'''


@pytest.fixture(scope="module")
def image(client: APIClient) -> str:
    return build_image(client)


@pytest.fixture
async def pool(client: APIClient) -> AsyncIterator[SandboxPool]:
    async with SandboxPool(DockerBackend(client), nested_sandboxes=1) as opened:
        yield opened


async def test_a_solution_passes_through_proxies(pool: SandboxPool, image: str, tmp_path: Path) -> None:
    folder = write_task(tmp_path, image, tests={"test_outputs.py": _TESTS})
    async with acted(pool, folder, _SOLUTION) as machine:
        verdict = await judge(pool, machine, "proxied")
    assert verdict.status is Status.PASSED, verdict
    assert verdict.metrics["agent_code"] == ["/app/solution.py"]
