"""`harness run` with several benchmarks or models: a run for each pair, one table, and one index."""

from __future__ import annotations

import json
import shutil

from e2e.command_line import NO_ENGINE, Harness

# Answers in text need no engine.
TWO = ("run", "-b", "gsm8k", "-b", "hotpotqa", "--data", "bundled", "-n", "2", "-q")


def test_each_benchmark_has_its_run_folder_and_all_are_in_one_table_and_one_index(harness: Harness) -> None:
    stdout = harness(*TWO, env=NO_ENGINE).stdout
    (path,) = (harness.folder / "runs").glob("matrix-*.json")
    assert stdout.splitlines()[-1] == f"index: runs/{path.name}"
    runs = json.loads(path.read_text())["runs"]
    assert [(run["benchmark"], run["exit_code"], run["run"]["rate"]) for run in runs] == [
        ("gsm8k", 0, 1.0),
        ("hotpotqa", 0, 1.0),
    ]
    table = stdout[stdout.rindex("\nrun  ") :]
    assert all(run["run"]["name"] in table for run in runs)
    assert len(json.loads(harness("runs", "--json").stdout)) == 2


def test_every_benchmark_meets_every_model(harness: Harness) -> None:
    models = ("--model", "a", "--model", "b", "--base-url", "http://127.0.0.1:1")
    planned = harness(*TWO, *models, "--dry-run", env=NO_ENGINE).stdout.splitlines()
    cells = [line.split()[1] for line in planned if line.startswith(("benchmark ", "model "))]
    assert cells == ["gsm8k", "a", "gsm8k", "b", "hotpotqa", "a", "hotpotqa", "b"]
    assert not (harness.folder / "runs").exists()


def test_a_run_that_cannot_start_keeps_no_other_from_its_end(harness: Harness) -> None:
    (harness.folder / "q.jsonl").write_text('{"question": "1 + 1?", "answer": "#### 2"}\n')
    code, stdout, stderr = harness.refused(
        *("run", "-b", "hotpotqa", "-b", "gsm8k", "--data", "q.jsonl", "-q"), env=NO_ENGINE
    )
    assert code == 2
    assert "error: hotpotqa: " in stderr
    (path,) = (harness.folder / "runs").glob("matrix-*.json")
    cells = json.loads(path.read_text())["runs"]
    assert [(cell["exit_code"], cell["folder"] is None) for cell in cells] == [(2, True), (0, False)]
    assert "gsm8k" in stdout


def test_an_unknown_benchmark_is_refused_before_the_first_run(harness: Harness) -> None:
    code, _, stderr = harness.refused(
        "run", "-b", "gsm8k", "-b", "nosuch", "--data", "bundled", "-q", env=NO_ENGINE
    )
    assert (code, "unknown benchmark 'nosuch'" in stderr) == (2, True), stderr
    assert not (harness.folder / "runs").exists()


def test_options_of_one_run_are_refused(harness: Harness) -> None:
    for options, named in (
        (("-o", "x.json"), "-o x.json"),
        (("--resume", "latest"), "cannot be read as the index of a matrix"),
        (("-b", "gsm8k"), "--benchmark gsm8k is given twice"),
    ):
        code, _, stderr = harness.refused(*TWO, *options, env=NO_ENGINE)
        assert (code, named in stderr) == (2, True), stderr


def test_a_matrix_that_was_cut_short_goes_on_where_it_was(harness: Harness) -> None:
    harness(*TWO, env=NO_ENGINE)
    (path,) = (harness.folder / "runs").glob("matrix-*.json")
    index = json.loads(path.read_text())
    first, second = index["runs"]
    # As a kill in the second run leaves it: the first run has an interrupted attempt, the second no folder.
    shutil.rmtree(harness.folder / second["folder"])
    second |= {"folder": None, "exit_code": None, "run": None}
    attempts = harness.folder / first["folder"] / "attempts.jsonl"
    attempts.write_text(attempts.read_text().splitlines(keepends=True)[0])
    (harness.folder / first["folder"] / "summary.json").unlink()
    first["exit_code"] = None
    path.write_text(json.dumps(index))

    code, _, stderr = harness.refused("run", *TWO[3:], "-b", "nq", "--resume", path, env=NO_ENGINE)
    assert (code, "its runs are of other benchmarks or models: gsm8k; hotpotqa" in stderr) == (2, True), (
        stderr
    )
    code, _, stderr = harness.refused(*TWO[:-2], "1", "-q", "--resume", path, env=NO_ENGINE)
    assert (code, "but a resumed run cannot change --sample-size" in stderr) == (2, True), stderr
    assert json.loads(path.read_text()) == index, "no run starts with other settings than the first one's"
    stdout = harness(*TWO, "--resume", path, env=NO_ENGINE).stdout
    assert "resume:" not in stdout
    runs = json.loads(path.read_text())["runs"]
    assert [(run["folder"] == first["folder"], run["run"]["rate"]) for run in runs] == [
        (True, 1.0),
        (False, 1.0),
    ]
    assert len(attempts.read_text().splitlines()) == 2
    assert len(json.loads(harness("runs", "--json").stdout)) == 2, "no run is made twice"
