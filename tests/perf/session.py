"""One run of the benchmark: its size, its data, and everything that it has to remove at the end."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docker import APIClient

from harness.benchmarks import load_benchmark
from harness.runs.faults import default_concurrency
from harness.sandbox import reaper
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.limits import Limits

SHARED = Path(os.environ.get("HARNESS_SHARED_DATA", "../shared/data"))
HUMANEVAL = SHARED / "humaneval" / "HumanEval.jsonl.gz"
LIVECODEBENCH = SHARED / "livecodebench"
# No peer that we know of runs more workers than cores by default, and the published figures have two.
PEER_WORKERS = 2
DEADLINE_SECONDS = 1200


@dataclass(frozen=True, slots=True)
class Size:
    """How much a run measures."""

    humaneval_tasks: int = 164
    # About this many programs of LiveCodeBench are taken, spread over all of them.
    programs: int = 97
    starts: int = 9
    calls: int = 200
    execs: int = 30
    command_starts: int = 5
    further_tasks: int = 12
    further_rounds: int = 3
    memory_tasks: int = 400
    is_quick: bool = False


WHOLE = Size()
QUICK = Size(
    humaneval_tasks=24,
    programs=24,
    starts=3,
    calls=50,
    execs=10,
    command_starts=3,
    further_tasks=6,
    further_rounds=1,
    memory_tasks=0,
    is_quick=True,
)


@dataclass(frozen=True, slots=True)
class Session:
    """The state that the measurements of one run share."""

    client: APIClient
    # Everything that the run writes lies in this folder, which is removed at the end.
    folder: Path
    # HumanEval's chosen rows, in the published format.
    humaneval: Path
    humaneval_tasks: int
    is_bundled: bool
    workers: int
    size: Size
    # The labels of the bare containers. `harness gc` removes them if this process is killed.
    labels: dict[str, str]
    # The versions of the peers that have been installed, by name.
    peer_versions: dict[str, str]


@contextlib.contextmanager
def open_session(size: Size, *, data: str | None, workers: int | None) -> Iterator[Session]:
    """Yield a session. At its end all bare containers and files of the run are removed.

    Without `data`, HumanEval comes from the shared folder, or from the bundled sample if there is none.
    """
    source = data or (str(HUMANEVAL) if HUMANEVAL.exists() else "bundled")
    run_id = f"bench-{secrets.token_hex(4)}"
    labels = reaper.make_labels(run_id, role="bench", deadline_seconds=DEADLINE_SECONDS)
    client = connect()
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as name:
        folder = Path(name)
        rows = [*load_benchmark("humaneval", data=source, notify=print).rows.values()]
        rows = rows[: size.humaneval_tasks]
        path = folder / "humaneval.jsonl"
        path.write_text("".join(json.dumps(dict(row)) + "\n" for row in rows))
        try:
            yield Session(
                client=client,
                folder=folder,
                humaneval=path,
                humaneval_tasks=len(rows),
                is_bundled=source == "bundled",
                workers=workers or default_concurrency(Limits()),
                size=size,
                labels=labels,
                peer_versions={},
            )
        finally:
            reaper.remove_run(DockerBackend(client), run_id)
            client.close()
