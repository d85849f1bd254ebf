"""The tool of docs/adding/tool.md works in the environment `os` if its code is added as the page says."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from contexts import environment_context
from docker import APIClient

from harness.core.types import Task
from harness.environments.os import environment
from harness.sandbox.machine.images import build_images

PAGE = (Path(__file__).parents[2] / "docs" / "adding" / "tool.md").read_text()
SOURCE = Path(environment.__file__).read_text()
HANDLERS = "{BASH: functools.partial(run_bash, sandbox)}"
CLASS = "class Machine(SandboxEnvironment):\n"


async def test_the_tool_of_the_page_counts_more_files_than_the_output_keeps_bytes(
    client: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, handlers = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert SOURCE.count(HANDLERS) == SOURCE.count(CLASS) == 1
    copy = tmp_path / "environment_with_tool.py"
    copy.write_text(SOURCE.replace(HANDLERS, handlers.strip()).replace(CLASS, f"{tool}\n\n{CLASS}"))
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    assert spec is not None
    assert spec.loader is not None
    changed = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, copy.stem, changed)
    spec.loader.exec_module(changed)

    build_images(client, ["os"], notify=print)
    context = environment_context(client, "os")
    task = Task("os/1", "example", "os", "How many files?")
    async with context.pool, changed.open_machine(task, context) as machine:
        command = "mkdir /files; cd /files; seq 70000 | xargs touch"
        made = await machine.call("bash", {"command": command, "timeout_seconds": 120})
        assert "[exit code 0]" in made.text
        counted = await machine.call("count_files", {"folder": "/files"})
        await machine.end_acting()
    assert not counted.refused
    assert counted.text == "70000"
