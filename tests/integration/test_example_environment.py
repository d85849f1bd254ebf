"""The environment in examples/ is found as a folder among the package's own, and an agent can act in it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from contexts import ListTranscript
from docker import APIClient

from harness import environments, run
from harness.core.types import Task
from harness.environments import environment_spec
from harness.environments.base import EnvironmentContext
from harness.environments.spec import EnvironmentSpec
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.machine.images import build_images
from harness.sandbox.pool import SandboxPool, SandboxSettings

EXAMPLES = Path(__file__).parents[2] / "examples" / "environment"
PAGE = (Path(__file__).parents[2] / "docs" / "adding" / "environment.md").read_text()
CACHED = (environments.environment_specs, environments.list_folders, environments.graders)
NOTES = (("monday", "Call Ada\nBuy milk\n"), ("tuesday", "Ada called back\n"))


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[EnvironmentSpec]:
    monkeypatch.setattr(environments, "__path__", [*environments.__path__, str(EXAMPLES)])
    for cached in CACHED:
        cached.cache_clear()
    yield environment_spec("notes")
    monkeypatch.undo()
    for cached in CACHED:
        cached.cache_clear()


async def test_an_agent_acts_in_an_environment_of_one_folder(
    client: APIClient, notes: EnvironmentSpec
) -> None:
    setup = importlib.import_module("harness.environments.notes.environment").NotesSetup(NOTES)
    build_images(client, ["python"], notify=print)
    assert notes.open_environment is not None
    assert notes.image is not None
    transcript = ListTranscript()
    task = Task("notes/1", "example", "notes", "Who called back?", setup=setup)
    async with SandboxPool(DockerBackend(client)) as pool:
        context = EnvironmentContext(
            pool, SandboxSettings(notes.image, notes.limits), 60.0, transcript, notes.turns
        )
        async with notes.open_environment(task, context) as environment:
            found = await environment.call("search", {"words": "ada"})
            assert sorted(found.text.splitlines()) == [
                "notes/monday:Call Ada",
                "notes/tuesday:Ada called back",
            ]
            hostile = await environment.call("search", {"words": "x; touch /work/made"})
            assert hostile.text == "no line has these words"
            refused = await environment.call("search", {"words": 7})
            assert refused.refused
            await environment.submit("Ada")
            await environment.end_acting()
            assert environment.submitted == "Ada"
    assert [entry["tool"] for entry in transcript.entries] == ["search", "search", "search", "submit"]


async def test_the_files_of_the_page_try_a_copy_of_the_environment(
    client: APIClient, notes: EnvironmentSpec, tmp_path: Path
) -> None:
    build_images(client, ["python"], notify=print)
    benchmark, agent = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    rows = re.findall(r"echo '(.*)' > rows.jsonl", PAGE)
    files = {"my_notes.py": benchmark, "my_agent.py": agent, "rows.jsonl": "\n".join(rows)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    result = await run(
        str(tmp_path / "my_notes.py"),
        agent=str(tmp_path / "my_agent.py"),
        data=str(tmp_path / "rows.jsonl"),
        output_dir=str(tmp_path / "runs"),
    )
    assert (result.summary.total, result.summary.rate) == (1, 1.0)
