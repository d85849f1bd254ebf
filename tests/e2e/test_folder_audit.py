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
def test_an_audit_names_the_tasks_that_can_be_forged_and_the_remedy(harness: Harness, tasks: Path) -> None:
    made = [attack.name for attack in list_forging_attacks() if THOROUGH or attack.name in FEW]
    names = [part for name in made for part in ("--attack", name)]
    results, page = harness.folder / "audit.json", harness.folder / "audit.md"
    ended = harness("audit", tasks, *OPTIONS, *names, "-o", results, "-o", page)
    assert ended.returncode == 1, ended
    found = json.loads(results.read_text())
    imports, reads = found["folders"]["tasks"]
    assert (imports["level"], imports["reference"], imports["empty"]) == ("work", "passed", "failed")
    assert "module-that-patches-pytest" in imports["forged"]["own"]
    assert reads["forged"]["own"] == [], reads
    assert "daemon-that-writes-the-reward" in reads["forged"]["live"]
    assert (imports["label"], reads["label"]) == ("same_process", None)
    count = "of 2 tasks, 2 can be forged as they are usually graded, 1 under our seal"
    assert count in " ".join(ended.stdout.split())
    assert count in page.read_text()
    assert "end every process of the agent before the tests run" in page.read_text()


def test_an_audit_of_a_sealed_task_exits_with_0_and_is_resumed(harness: Harness, tasks: Path) -> None:
    runs = harness.folder / "runs"
    command = ("audit", "-b", tasks, "-t", "reads", "--level", "own", "--attack", FEW[0], *OPTIONS)
    ended = harness(*command, "--output-dir", runs)
    assert ended.returncode == 0, ended
    assert "of 1 task, 0 can be forged under our seal" in ended.stdout
    (folder,) = runs.iterdir()
    resumed = harness("audit", "--resume", folder)
    assert "of 1 task, 0 can be forged under our seal" in resumed.stdout, resumed


def test_the_shards_of_an_audit_are_joined(harness: Harness, tasks: Path) -> None:
    runs, page = harness.folder / "runs", harness.folder / "audit.md"
    command = ("audit", tasks, "--level", "own", "--attack", FEW[0], *OPTIONS, "--output-dir", runs)
    for shard in ("1/2", "2/2"):
        assert harness(*command, "--shard", shard).returncode == 0
    first, second = sorted(runs.iterdir())
    joined = harness("merge", first, second, "-o", page)
    assert joined.returncode == 0, joined
    assert "of 2 tasks, 0 can be forged under our seal" in joined.stdout
    assert all(f"| `{name}` |" in page.read_text() for name in ("imports", "reads"))
    alone = harness("merge", second)
    assert (alone.returncode, "each of 2 shards is needed once" in alone.stderr) == (2, True), alone


def test_options_that_an_audit_does_not_read_are_refused(harness: Harness, tasks: Path) -> None:
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
