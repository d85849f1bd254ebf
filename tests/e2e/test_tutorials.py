"""The tutorials work as they are written: each block runs in order, in a folder of its own.

A `bash` block is a command, a block with a title is a file, and a `text` block is what the command before it
prints. In it, `...` is any text within the line, and lines in between may be left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from e2e.command_line import HANG_SECONDS
from model_server import Asked, ModelServer, completion
from model_solver import Solver

from harness.benchmarks import load_benchmark

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
WRITTEN_URL = "http://localhost:8000/v1"


class Block(NamedTuple):
    kind: str
    title: str
    text: str


def read_blocks(page: str) -> list[Block]:
    return [Block(*found.groups(default="")) for found in BLOCK.finditer((TUTORIALS / page).read_text())]


@pytest.fixture
def model_url(server: ModelServer) -> Iterator[str]:
    """Yield the URL of a server whose models solve the bundled tasks. `small-model` fails each third one."""
    solvers = {
        kind: Solver(load_benchmark(name, data="bundled", notify=print))
        for kind, name in ((False, "mbpp"), (True, "agentbench"))
    }

    def reply(asked: Asked) -> Mapping[str, Any]:
        if asked.body["model"] == "small-model" and len(str(asked.messages[0])) % 3 == 0:
            return completion("I do not know.", n=asked.body.get("n", 1))
        return solvers["tools" in asked.body](asked)

    server.script = reply
    yield server.url
    assert [solver.unknown for solver in solvers.values()] == [[], []]


def find_missing_line(expected: str, output: str) -> str | None:
    """Return the first expected line that the output does not have after the lines before it."""
    lines = iter(output.splitlines())
    for wanted in expected.splitlines():
        pattern = re.compile(".*".join(map(re.escape, wanted.split("..."))))
        if not any(pattern.search(line) for line in lines):
            return wanted
    return None


# The shortest. tests/unit/test_documented_commands.py reads the commands of all.
QUICK = "trainer.md"
PAGES = [
    pytest.param(path.name, marks=() if path.name == QUICK else pytest.mark.thorough)
    for path in sorted(TUTORIALS.glob("*.md"))
]


@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_works_as_it_is_written(
    page: str, tmp_path: Path, surroundings: dict[str, str], model_url: str
) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**surroundings, "PATH": path, "OPENAI_API_KEY": "sk-stand-in", "COLUMNS": "120"}
    output = ""
    checked = 0
    for block in read_blocks(page):
        text = block.text.replace(WRITTEN_URL, model_url)
        if block.title:
            (tmp_path / block.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.title).write_text(text)
            if block.kind == "yaml":
                yaml.safe_load(text)
        elif block.kind == "bash":
            ended = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=tmp_path,
                env=environment,
                timeout=HANG_SECONDS,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            output = ended.stdout
            assert ended.returncode == 0, f"{text}\n{output}"
        else:
            assert block.kind == "text", f"a block of {block.kind} that nothing runs"
            missing = find_missing_line(text, output)
            assert missing is None, f"{missing!r} is not in order in:\n{output}"
            checked += 1
    assert checked >= 3
