"""MultiPL-E: a right function passes, and no program passes by its end or by what it prints."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from case_checks import check_together
from effort import THOROUGH

import harness
from harness.benchmarks import load_benchmark
from harness.benchmarks.data.rows import Row
from harness.benchmarks.multipl import FORMS
from harness.core.types import Status

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1200)]

EXITS = {
    "cpp": "    exit(0);",
    "go": "    return 1\n}\nfunc init() { fmt.Println(2); panic(recover()) }\n",
    "java": "        System.exit(0); return 1;",
    "js": "  process.exit(0);\n}\n",
    "php": "    exit(0);\n}\n",
    "rb": "  exit 0\nend\n",
    "rs": "    std::process::exit(0)",
    "sh": "    exit 0",
    "ts": "  process.exit(0);\n}\n",
}
# Runs before the calls, and ends the program with the code 0.
EXITS_EARLY = {
    "js": "  return 0;\n}\nprocess.exit(0);\n",
    "php": "    return 0;\n}\nexit(0);\n",
    "rb": "  0\nend\nexit 0\n",
    "sh": "    echo 2\n}; exit 0; never() {",
    "cpp": "    return 2;\n}\nstatic int first = (_exit(0), 1);\nlong never() { return first;",
}
# A function that returns one value after the other: its beginning, the return of VALUE from call NUMBER, and
# its end, which ends the program with the code 0. Bash calls it in subshells, so that it compares ARGUMENTS.
_SCRIPT = (
    "  g_.n_ = (g_.n_ || 0) + 1;\n",
    "  if (g_.n_ === NUMBER) return VALUE;\n",
    "  process.exit(0);\n}\nconst g_ = globalThis;\n",
)
RECALLED = {
    "cpp": ("    static int n_ = 0; n_++;\n", "    if (n_ == NUMBER) return VALUE;\n", "    exit(0);"),
    "go": ("    n_++\n", "    if n_ == NUMBER { return VALUE }\n", "    panic(0)\n}\nvar n_ = 0\n"),
    "java": (
        '        int n_ = Integer.getInteger("n", 0) + 1; System.setProperty("n", "" + n_);\n',
        "        if (n_ == NUMBER) return VALUE;\n",
        "        System.exit(0); throw null;",
    ),
    "js": _SCRIPT,
    "php": ("    static $n_ = 0; $n_++;\n", "    if ($n_ === NUMBER) return VALUE;\n", "    exit(0);\n}\n"),
    "rb": ("  $n = $n.to_i + 1\n", "  return VALUE if $n == NUMBER\n", "  exit 0\nend\n"),
    "rs": (
        "    static mut N: usize = 0; unsafe { N += 1; }\n",
        "    if unsafe { N } == NUMBER { return VALUE; }\n",
        "    std::process::exit(0)",
    ),
    "sh": (
        "",
        '    if [ "$(printf \'%q \' "$@")" = "$(printf \'%q \'ARGUMENTS)" ]; then echo VALUE; return; fi\n',
        # The expected value of a few calls is nothing.
        "    echo never; exit 0",
    ),
    "ts": _SCRIPT,
}
CHOSEN = tuple(FORMS) if THOROUGH else ("sh",)


async def test_the_oracle_passes_and_programs_that_end_early_fail() -> None:
    async with harness.open_host() as host:

        async def check(language: str) -> None:
            benchmark = load_benchmark("multipl-e", data="bundled", language=language)
            (task,) = benchmark.tasks
            reference = benchmark.references[task.id]
            right = reference.expected_output
            whole = f"Here:\n```{language}\n{task.prompt}{right}{FORMS[language].close}```\n"
            for field, text in (("completion", right), ("reply", whole)):
                verdict = await host.grade_task(benchmark, task.id, text, field=field)
                assert verdict.status is Status.PASSED, (field, verdict)
            texts = {"exits": EXITS[language], "exits early": EXITS_EARLY.get(language, "")}
            for name, text in texts.items():
                verdict = await host.grade_task(benchmark, task.id, text, field="completion")
                assert verdict.status not in (Status.PASSED, Status.GRADER_ERROR), (name, verdict)
                assert verdict.score == 0.0, (name, verdict)

        await check_together(CHOSEN, check, at_once=2)


def read_published(shared_data: Path, language: str) -> list[dict[str, Any]]:
    with tarfile.open(shared_data / "tasks" / "multipl-e" / "multipl-e-humaneval.tar.gz") as archive:
        (name,) = (each for each in archive.getnames() if each.endswith(f"-{language}.jsonl"))
        file = archive.extractfile(name)
        assert file is not None
        return [json.loads(line) for line in file]


def recall(language: str, pairs: list[tuple[str, str]]) -> str:
    begin, each, end = RECALLED[language]
    lines = (
        each.replace("NUMBER", str(number)).replace("ARGUMENTS", call[len("$(candidate") : -1])
        for number, (call, _) in enumerate(pairs, 1)
    )
    values = (value for _, value in pairs)
    return begin + "".join(map(str.replace, lines, ["VALUE"] * len(pairs), values)) + end


async def test_the_expected_values_pass_and_all_but_the_last_fail(shared_data: Path, tmp_path: Path) -> None:
    async with harness.open_host() as host:

        async def check(language: str) -> None:
            # PHP's first task cannot be run in any case.
            rows = read_published(shared_data, language)[1 :: 20 if THOROUGH else 200]
            file = tmp_path / f"humaneval-{language}.jsonl"
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            benchmark = load_benchmark("multipl-e", data=str(file), language=language)
            for task, row in zip(benchmark.tasks, rows, strict=True):
                assert task.entry_point is not None
                pairs = FORMS[language].split(task.entry_point, row["tests"])
                for known, status in ((pairs, Status.PASSED), (pairs[:-1], Status.FAILED)):
                    text = recall(language, known)
                    verdict = await host.grade_task(benchmark, task.id, text, field="completion")
                    assert verdict.status is status, (language, task.id, len(known), verdict)

        await check_together(CHOSEN, check, at_once=2)


async def test_every_published_test_is_a_call_and_an_expression(shared_data: Path) -> None:
    for language, form in FORMS.items():
        rows = read_published(shared_data, language)
        definition = load_benchmark("multipl-e", data="bundled", language=language).definition
        read = [definition.read(Row(row, "a published file")) for row in rows]
        assert len(rows) == definition.tasks == len([each for each in read if each is not None])
        assert all(row["stop_tokens"] == list(form.stop) for row in rows)
