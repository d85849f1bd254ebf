"""`harness audit FOLDER`: which task folders an agent can pass without doing them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from docker import APIClient
from e2e.command_line import Harness
from effort import THOROUGH
from sealed_tasks import build_image, write_task

from harness.audit.forging import list_forging_attacks

# The tests of the first task read a file, and those of the second one import the agent's module.
IMPORTING = """import sys
sys.path.insert(0, "/app")
def test_it():
    import answer
    class Own(answer.Answer):  # no proxy can be subclassed
        pass
    assert Own().get() == 42
"""
FEW = ("daemon-that-writes-the-reward", "module-that-patches-pytest")
OPTIONS = ("--network", "none")


@pytest.fixture
def tasks(client: APIClient, tmp_path: Path) -> Path:
    image = build_image(client)
    write_task(tmp_path / "tasks/reads", image, solution="#!/bin/sh\necho 42 > /app/answer.txt\n")
    write_task(
        tmp_path / "tasks/imports",
        image,
        tests={"test_outputs.py": IMPORTING},
        solution="#!/bin/sh\nprintf 'class Answer:\\n    def get(self): return 42\\n' > /app/answer.py\n",
    )
    return tmp_path / "tasks"


@pytest.mark.timeout(900)
def test_shards_of_an_audit_are_joined_and_name_the_tasks_that_can_be_forged_and_the_remedy(
    harness: Harness, tasks: Path
) -> None:
    made = [attack.name for attack in list_forging_attacks() if THOROUGH or attack.name in FEW]
    names = [part for name in made for part in ("--attack", name)]
    runs, results, page = harness.folder / "runs", harness.folder / "audit.json", harness.folder / "audit.md"
    # The second task can be forged as it is usually graded, and not under our seal.
    for shard, exit_code in {"1/2": 1, "2/2": 0}.items():
        ended = harness("audit", tasks, *OPTIONS, *names, "--output-dir", runs, "--shard", shard)
        assert ended.returncode == exit_code, ended
    first, second = sorted(runs.iterdir())
    resumed = harness("audit", "--resume", second)
    assert "of 1 task, 1 can be forged as they are usually graded, 0 under our seal" in " ".join(
        resumed.stdout.split()
    ), resumed
    assert harness("merge", first, second, "-o", results).returncode == 1
    joined = harness("merge", first, second, "-o", page)
    assert joined.returncode == 1, joined
    found = json.loads(results.read_text())
    imports, reads = found["folders"]["tasks"]
    assert (imports["level"], imports["reference"], imports["empty"]) == ("work", "passed", "failed")
    assert "module-that-patches-pytest" in imports["forged"]["own"]
    assert reads["forged"]["own"] == [], reads
    assert "daemon-that-writes-the-reward" in reads["forged"]["live"]
    assert (imports["label"], reads["label"]) == ("same_process", None)
    count = "of 2 tasks, 2 can be forged as they are usually graded, 1 under our seal"
    assert count in " ".join(joined.stdout.split())
    assert count in page.read_text()
    assert "end every process of the agent before the tests run" in page.read_text()
    alone = harness("merge", second)
    assert (alone.returncode, "each of 2 shards is needed once" in alone.stderr) == (2, True), alone


def test_options_that_an_audit_does_not_read_are_refused(harness: Harness, tmp_path: Path) -> None:
    tasks = write_task(tmp_path / "tasks/one", "scratch").parent
    for arguments, message in (
        (("mbpp", "--level", "work"), "mbpp has no seal levels"),
        (("mbpp", "--data", "bundled", "--network", "none"), "does not read --network"),
        ((tasks, "-b", "mbpp"), "the benchmark is named twice"),
        ((tasks, *OPTIONS, "--level", "none"), "unknown level 'none'"),
        (("mbpp", "--data", "bundled", "-o", "audit.md"), "only the audit of task folders"),
    ):
        ended = harness("audit", *arguments)
        assert ended.returncode == 2, ended
        assert message in ended.stderr
