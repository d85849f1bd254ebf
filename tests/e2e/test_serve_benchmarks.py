"""`harness serve -b`: the operator chooses the benchmarks whose tasks clients may name."""

from __future__ import annotations

import requests
from e2e.command_line import HANG_SECONDS, Harness
from e2e.served_process import start_service

from harness import load_benchmark


def test_a_client_names_a_task_of_a_benchmark_that_the_operator_has_chosen(
    harness: Harness,
) -> None:
    easy = load_benchmark("livecodebench", data="bundled", difficulty=["easy"])
    task_id = easy.tasks[0].id
    solution = easy.references[task_id].solution
    sample = {"benchmark": "livecodebench", "task_id": task_id, "solution": solution}
    chosen = ("--split", "test", "--option", "difficulty=[easy]")
    with start_service(harness, "-b", "livecodebench", "--data", "bundled", *chosen) as served:
        (loaded,) = requests.get(f"{served.url}/v1/benchmarks", timeout=HANG_SECONDS).json()["benchmarks"]
        reply = requests.post(f"{served.url}/v1/grade", json={"samples": [sample]}, timeout=HANG_SECONDS)
    assert (loaded["split"], loaded["tasks"]) == ("test", len(easy.tasks))
    assert loaded["options"] == {"difficulty": ["easy"]}
    (verdict,) = reply.json()["verdicts"]
    assert (verdict["id"], verdict["status"], verdict["score"]) == (0, "passed", 1.0)


REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("--data", "bundled"), "error: --data is an option of a benchmark, and none is served"),
    (("--split", "train"), "error: --split is an option of a benchmark, and none is served"),
    (("--option", "a=1"), "error: --option is an option of a benchmark, and none is served"),
    (
        ("-b", "mbpp", "-b", "gsm8k", "--option", "a=1"),
        "error: --option a=1 is an option of one benchmark",
    ),
    (("-b", "gsm8k", "--data", "bundled", "--option", "a=1"), "error: gsm8k has no options, such as 'a'"),
    (("-b", "gsm8k", "--data", "bundled", "--split", "a"), "error: gsm8k has no split 'a'"),
    (("--seal", "work"), "error: --seal is an option of a benchmark, and none is served"),
    (
        ("-b", "gsm8k", "--data", "bundled", "--seal", "work"),
        "error: an option for images of tasks has no effect",
    ),
    (("-b", "no-such"), "error: unknown benchmark 'no-such'"),
    (
        ("-b", "mbpp", "-b", "humaneval", "--data", "rows.jsonl"),
        "error: --data rows.jsonl is the data of",
    ),
    (("-b", "mbpp", "-b", "mbpp", "--data", "bundled"), "error: the benchmark 'mbpp' is named twice"),
    # There is no hub, and a few bundled tasks must not stand in for a benchmark.
    (("-b", "mbpp"), "error:"),
)


def test_benchmarks_that_cannot_be_served_are_refused(harness: Harness) -> None:
    for options, message in REFUSED:
        code, output, error = harness.refused("serve", "--port", "0", *options)
        assert (code, output) == (2, ""), options
        assert message in error
        assert "hint:" in error
