"""Run folders for the tests of the viewer, and a viewer that serves them on a port of this host."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.core.types import AttemptRecord, Status
from harness.models.relay.serving import listen_on_loopback
from harness.reports.viewer.app import Access, make_viewer_app
from harness.reports.viewer.catalogue import Catalogue
from harness.runs.attempt_index import AttemptIndex
from harness.runs.records import to_json
from harness.runs.store import ATTEMPTS, MANIFEST, SUMMARY
from harness.runs.transcripts import TRANSCRIPTS, transcript_name

STATUSES = (Status.PASSED, Status.FAILED, Status.TIMEOUT, Status.MEMORY_LIMIT)
SCRIPT = "<script>document.title = 'taken over'</script><img src='http://198.51.100.1/x' onerror='x()'>"


def index_records(*records: AttemptRecord) -> AttemptIndex:
    """Return the index of records, each at an offset that is its place."""
    index = AttemptIndex()
    index.add((record, place) for place, record in enumerate(records))
    return index


def make_record(task: int, attempt: int = 0, status: Status | None = None, **fields: Any) -> AttemptRecord:
    """Return a record whose texts hold markup. Its status and its duration follow from the task."""
    status = status or STATUSES[task % len(STATUSES)]
    passed = status is Status.PASSED
    values: dict[str, Any] = {
        "task_id": f"Task/{task}",
        "attempt": attempt,
        "sample_line": None,
        "category": "graphs" if task % 3 else "strings",
        "resolved": passed,
        "status": status,
        "score": float(passed) if status.has_score else None,
        "metrics": {"rounds": 1},
        "agent_output": f"def answer_{task}(): ...",
        "expected_output": "42",
        "duration_seconds": float((task * 7) % 12) + attempt / 2,
        "error": None if passed else f"assert {task} == 42 {SCRIPT}",
        "submission": f"program {task} {SCRIPT}",
        "started_at": f"2026-08-01T09:30:{task % 60:02}.000Z",
    }
    return AttemptRecord(**{**values, **fields})


def write_run(
    folder: Path,
    records: Sequence[AttemptRecord],
    *,
    planned: int | None = None,
    is_finished: bool = True,
    **manifest: Any,
) -> Path:
    """Write a run folder. A run that is not finished lacks its summary."""
    (folder / TRANSCRIPTS).mkdir(parents=True)
    ids = sorted({record.task_id for record in records})
    values = {
        "schema_version": 1,
        "run_id": folder.name,
        "started_at": "2026-08-01T10:00:00Z",
        "benchmark": "mbpp",
        "agent": "chat",
        "source": "path",
        "data": {"kind": "path", "location": SCRIPT, "sha256": "0" * 64, "rows": 3},
        "images": {},
        "planned": {"tasks": len(ids), "attempts": planned or len(records), "task_ids": ids},
        "config": {"benchmark": "mbpp", "model": "some-model"},
    }
    (folder / MANIFEST).write_text(json.dumps({**values, **manifest}))
    add_records(folder, *records)
    if is_finished:
        resolved = sum(record.resolved and record.attempt == 0 for record in records)
        statuses = {status.value: sum(each.status is status for each in records) for status in STATUSES}
        summary = {
            "total": len(ids),
            "attempts": len(records),
            "resolved": resolved,
            "rate": resolved / max(len(ids), 1),
            "pass_at_k": {"1": resolved / max(len(ids), 1)},
            "statuses": statuses,
            "by_category": {},
            "duration_seconds": 61.0,
        }
        (folder / SUMMARY).write_text(json.dumps(summary))
    return folder


def read_page_data(page: str) -> Any:
    """Return the data that a page has in itself."""
    return json.loads(page.partition('id="data">')[2].partition("</script>")[0])


def read_page_texts(page: str) -> str:
    """Return all texts in the data of a page, each on lines of its own."""

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            for name, child in value.items():
                yield from () if name == "nodes" else walk(child)
        elif isinstance(value, list):
            for child in value:
                yield from walk(child)

    return "\n".join(walk(read_page_data(page)))


def add_records(folder: Path, *records: AttemptRecord) -> None:
    with open(folder / ATTEMPTS, "a") as file:
        file.writelines(to_json(record) + "\n" for record in records)


def add_entries(folder: Path, task: int, *entries: Mapping[str, Any], attempt: int = 0) -> Path:
    """Append entries to the transcript of an attempt, and return its path."""
    path = folder / TRANSCRIPTS / transcript_name(f"Task/{task}", attempt)
    with open(path, "a") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)
    return path


def make_prompt(text: str) -> dict[str, Any]:
    return {"schema_version": 1, "prompt": text}


def make_call(number: int, observation: str) -> dict[str, Any]:
    return {
        "round": number,
        "tool": "bash",
        "arguments": {"command": f"step {number}"},
        "observation": observation,
        "refused": False,
        "seconds": 0.5,
    }


@contextmanager
def serve_viewer(output_dir: Path) -> Iterator[str]:
    """Yield the address of a viewer over the runs of a folder, which another thread serves."""
    access = Access()
    app = make_viewer_app(Catalogue(output_dir), access)
    loop = asyncio.new_event_loop()
    origins: list[str] = []
    is_open, closing = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with listen_on_loopback(app) as origin:
            origins.append(origin)
            is_open.set()
            await closing.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()
            is_open.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        is_open.wait()
        yield access.describe_url(origins[0])
    finally:
        loop.call_soon_threadsafe(closing.set)
        thread.join()
