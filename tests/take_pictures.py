"""Take the pictures of the report and of the viewer in `docs/pictures` from a real run.

The sandboxes and the verdicts are real. A scripted model replies, so that the run needs no key. It solves
most tasks as the oracle does, and gives up on some attempts.

    PYTHONPATH=tests .venv/bin/python tests/take_pictures.py
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from browsers import BROWSER
from model_server import Asked, completion, serve_model
from model_solver import Solver
from playwright.sync_api import Page, expect, sync_playwright
from viewer_fixtures import serve_viewer

import harness
from harness.benchmarks import load_benchmark
from harness.core.types import Task

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
ATTEMPTS = 5
# The task and the attempt that the picture of the viewer shows.
SHOWN = "os/sample/checks/2"
MOST_BYTES = 200_000


class Narrator(Solver):
    """Explains its steps, and gives up on some attempts at some tasks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(load_benchmark("agentbench", data="bundled", categories=["os"]), **options)
        self._begun: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Mapping[str, Any]:
        reply = dict(super().__call__(asked))
        used = sum(len(str(each.get("content"))) for each in asked.messages) // 4
        reply["usage"] = {"prompt_tokens": used, "completion_tokens": 140, "total_tokens": used + 140}
        return reply

    def _act(self, task: Task, reference: Any, steps: int, last: str) -> Mapping[str, Any]:
        place = self._benchmark.tasks.index(task)
        with self._lock:
            self._begun[task.id] += steps == 0
            gives_up = self._begun[task.id] % (2 + place % 4) == 1 and place % 5 in (1, 2, 4)
        if gives_up and task.id != SHOWN:
            return completion("I cannot find it.", calls=[("submit", {"answer": "unknown"})])
        return super()._act(task, reference, steps, last)

    def _bash(self, command: str) -> Mapping[str, Any]:
        plan = (
            "The answer is in a file of this machine. My plan:\n\n"
            "1. run **one command** that computes it\n2. check its output, and `submit` it"
        )
        command = command.removeprefix("(\n").removesuffix("\n) 2>/dev/null")
        return completion(plan, calls=[("bash", {"command": command, "timeout_seconds": 60})])

    def _submit(self, task: Task, answer: str) -> Mapping[str, Any]:
        text = f"The command printed `{answer}`, which answers the question."
        return completion(text, calls=[("submit", {"answer": answer})])


def run_benchmark(output_dir: Path) -> Path:
    """Return the folder of a run with the scripted model."""
    with serve_model(Narrator()) as server:
        endpoint = {
            "model": "scripted-model",
            "base_url": server.url,
            "tool_mode": "native",
            "prices": {"input": 0.25, "output": 2.0},
        }
        result = asyncio.run(
            harness.run(
                "agentbench",
                data="bundled",
                filter_category=["os"],
                agent="chat",
                model="scripted",
                endpoints={"scripted": endpoint},
                n_samples=ATTEMPTS,
                output_dir=str(output_dir),
            )
        )
    return result.folder


def take(page: Page, name: str, scheme: str) -> None:
    """Write one picture. Raises AssertionError if it is too large."""
    path = PICTURES / f"{name}-{scheme}.png"
    page.screenshot(path=path)
    assert path.stat().st_size < MOST_BYTES, path


def main() -> None:
    """Run the benchmark and write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = run_benchmark(Path(place) / "runs")
        with sync_playwright() as playwright, serve_viewer(folder.parent) as address:
            browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
            for scheme in ("light", "dark"):
                page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
                page.set_viewport_size({"width": 1200, "height": 1150})
                page.goto(f"{(folder / 'report.html').as_uri()}#/run?show=grid")
                expect(page.locator(".grid tbody tr").first).to_be_visible()
                take(page, "report", scheme)
                page.goto(address)
                query = f"run={folder.name}&task={SHOWN.replace('/', '%2F')}&attempt=0"
                page.goto(f"{address.partition('?')[0]}#/attempt?{query}")
                expect(page.locator(".transcript .call").first).to_be_visible()
                page.get_by_role("heading", name="Transcript").evaluate("each => each.scrollIntoView()")
                take(page, "viewer", scheme)
            browser.close()


if __name__ == "__main__":
    main()
