"""`harness run --shard` and `harness merge`: the merged run is that of one process."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from e2e.command_line import Harness, RunFolder, remove_times_and_ids

RUN = ("run", "-b", "mbpp", "--data", "bundled", "--n-samples", "2", "--seed", "3", "-n", "2")
QUICK = ("run", "-b", "gsm8k", "--data", "bundled", "--agent", "null", "-n", "4")


def make_shards(harness: Harness, command: tuple[str, ...], number: int, place: str) -> list[Path]:
    folders: list[Path] = []
    for shard in range(1, number + 1):
        harness.succeed(*command, "--shard", f"{shard}/{number}", "--output-dir", f"{place}/{shard}")
        folders += (harness.folder / place / str(shard)).iterdir()
    return folders


@pytest.fixture(scope="module")
def one(module_harness: Harness) -> RunFolder:
    module_harness.succeed(*RUN, "--output-dir", "one", "--max-concurrent", "1", "-o", "one.json")
    return module_harness.only_run("one")


@pytest.fixture(scope="module")
def merged(module_harness: Harness) -> RunFolder:
    shards = make_shards(module_harness, RUN, 2, "shards")
    ended = module_harness.succeed("merge", *reversed(shards), "--output-dir", "merged", "-o", "merged.json")
    assert ended.stdout.splitlines()[1].startswith("mbpp - oracle")
    return module_harness.only_run("merged")


def test_merged_shards_equal_one_run_byte_for_byte(one: RunFolder, merged: RunFolder) -> None:
    for name in ("attempts.jsonl", "summary.json"):
        texts = [remove_times_and_ids((run.path / name).read_text()) for run in (merged, one)]
        assert texts[0] == texts[1], name


def test_merged_results_equal_those_of_one_run(
    module_harness: Harness, one: RunFolder, merged: RunFolder
) -> None:
    first, second = (module_harness.read_json(name) for name in ("merged.json", "one.json"))
    assert remove_times_and_ids(json.dumps(first["attempts"])) == remove_times_and_ids(
        json.dumps(second["attempts"])
    )
    own = {"run_id", "started_at", "folder", "duration_seconds", "merged_from", "signature"}
    for name in ("output_dir", "max_concurrent"):
        del first["run"]["config"][name], second["run"]["config"][name]
    assert {key: value for key, value in first["run"].items() if key not in own} == {
        key: value for key, value in second["run"].items() if key not in own
    }


def test_merged_transcripts_equal_those_of_one_run(one: RunFolder, merged: RunFolder) -> None:
    names = sorted(path.name for path in (one.path / "transcripts").iterdir())
    assert names == sorted(path.name for path in (merged.path / "transcripts").iterdir())
    assert len(names) == 4


def test_a_merged_run_can_be_shown_and_resumed(module_harness: Harness, merged: RunFolder) -> None:
    module_harness.succeed("show", merged.path)
    kept = merged.raw_attempts
    module_harness.succeed("run", "--resume", merged.path)
    assert merged.raw_attempts == kept


# --- what is refused, with a benchmark that needs no container


@pytest.fixture(scope="module")
def quick_shards(module_harness: Harness) -> list[Path]:
    return make_shards(module_harness, QUICK, 2, "quick")


Change = Callable[[Path], object]


def edit(section: str | None = None, **values: Any) -> Change:
    return lambda folder: RunFolder(folder).change_manifest(section, **values)


def cut_attempts(folder: Path) -> None:
    path = folder / "attempts.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def lose_verdict(folder: Path) -> None:
    path = folder / "attempts.jsonl"
    path.write_text(path.read_text().replace('"status": "failed"', '"status": "infra_error"', 1))


def copy_attempts_of_first(folder: Path) -> None:
    first = next(path for path in folder.parent.iterdir() if path != folder)
    shutil.copyfile(first / "attempts.jsonl", folder / "attempts.jsonl")


REFUSED: dict[str, tuple[Change, str]] = {
    "another number of shards": (edit("config", shard="2/3"), "is shard 2 of 3"),
    "the same shard": (edit("config", shard="1/2"), "are both shard 1 of 2"),
    "a whole run": (edit("config", shard=None), "of 2 shards is missing"),
    "other data": (edit("data", sha256="00"), "the shards differ in data.sha256"),
    "the attempts of another shard": (copy_attempts_of_first, "both hold attempt 0 of task"),
    "an infra error": (lose_verdict, "1 of 2 attempts of shard 2 have no verdict"),
    "a shard that is not finished": (cut_attempts, "1 of 2 attempts of shard 2 have no verdict"),
}


def test_what_is_not_all_shards_of_one_run_is_refused(
    harness: Harness, quick_shards: list[Path], tmp_path: Path
) -> None:
    for case, (change, message) in REFUSED.items():
        copies = [Path(shutil.copytree(each, tmp_path / case / each.name)) for each in quick_shards]
        change(copies[1])
        code, _, stderr = harness.refused("merge", *copies)
        assert (code, message in stderr) == (2, True), (case, stderr)
    assert not (harness.folder / "runs").exists(), "a refused merge leaves nothing"


def test_a_shard_under_way_is_refused(harness: Harness, quick_shards: list[Path]) -> None:
    descriptor = os.open(quick_shards[1], os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        code, _, stderr = harness.refused("merge", *quick_shards)
    finally:
        os.close(descriptor)
    assert code == 2
    assert f"{quick_shards[1]}: this run is under way" in stderr


def test_accepted_differences_that_leave_tasks_out_are_refused(harness: Harness) -> None:
    for shard, seed in (("1/2", "4"), ("2/2", "5")):
        harness.succeed(*QUICK[:-2], "--sample-size", "4", "--seed", seed, "--shard", shard)
    shards = (harness.folder / "runs").iterdir()
    stderr = harness.expect_refusal(
        "merge", *shards, "--output-dir", "merged", "--accept", "seed", "--accept", "config.seed"
    )
    assert "which is not in shard 2 of 2 of the run" in stderr
    assert "repeat the shards with other settings" in stderr


def test_shards_that_were_retried_and_made_again_are_merged(
    harness: Harness, quick_shards: list[Path], tmp_path: Path
) -> None:
    shards: list[Path] = []
    for number, shard in enumerate(quick_shards):
        harness.succeed("rerun", shard, "--output-dir", tmp_path / str(number))
        shards += (tmp_path / str(number)).iterdir()
    harness.succeed("run", "--resume", shards[1], "--retry-failed")
    harness.succeed("merge", *shards)
    merged = harness.only_run()
    assert merged.manifest["superseded_verdicts"] == 2
    repeated = [shard["rerun_of"] for shard in merged.manifest["merged_from"]]
    assert repeated == [RunFolder(shard).run_id for shard in quick_shards]
    assert "rerun_of" not in merged.manifest


def test_a_missing_shard_is_named(harness: Harness, quick_shards: list[Path]) -> None:
    stderr = harness.expect_refusal("merge", quick_shards[0])
    assert "1 of 2 shards is missing: 2" in stderr
    assert "--allow-unfinished" in stderr


def test_an_unfinished_merge_is_completed_by_resume(harness: Harness, quick_shards: list[Path]) -> None:
    ended = harness("merge", quick_shards[0], "--allow-unfinished")
    assert ended.returncode == 3
    merged = harness.only_run()
    assert merged.summary["statuses"] == {"failed": 2, "cancelled": 2}
    planned = merged.manifest["planned"]
    assert (planned["tasks"], planned["attempts"], len(planned["task_ids"])) == (4, 4, 4)
    harness.succeed("run", "--resume", merged.path)
    assert merged.summary["statuses"] == {"failed": 4}


def test_samples_from_standard_input_are_merged(harness: Harness) -> None:
    sample = '{"task_id": "%s", "answer": "1"}\n'
    tasks = [json.loads(line)["task_id"] for line in _prompts(harness)]
    text = "".join(sample % task for task in tasks for _ in range(2))
    command = ("grade", "-b", "gsm8k", "--data", "bundled", "--samples", "-", "-n", "4")
    for shard in ("1/2", "2/2"):
        harness.succeed(*command, "--shard", shard, stdin=text)
    harness.succeed("merge", *(harness.folder / "runs").iterdir(), "--output-dir", "merged")
    merged = harness.only_run("merged")
    assert merged.summary["coverage"] == {"samples": 8, "tasks": 4, "missing": 0}
    shutil.rmtree(harness.folder / "runs")
    harness.succeed("run", "--resume", merged.path)


def _prompts(harness: Harness) -> list[str]:
    return harness("data", "export", "gsm8k", "--data", "bundled").stdout.splitlines()
