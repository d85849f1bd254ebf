"""MultiPL-E: a right function passes, and no program passes by its end or by what it prints."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from case_checks import check_together
from effort import THOROUGH

import harness
from harness.benchmarks import load_benchmark
from harness.benchmarks.data.rows import Row
from harness.benchmarks.multipl.forms import FORMS
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
CHOSEN = tuple(FORMS) if THOROUGH else ("sh", "cpp")


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


async def test_every_published_test_is_a_call_and_an_expression(shared_data: Path) -> None:
    found = {}
    with tarfile.open(shared_data / "tasks" / "multipl-e" / "multipl-e-humaneval.tar.gz") as archive:
        for member in archive.getmembers():
            if not member.isfile() or (file := archive.extractfile(member)) is None:
                continue
            language = member.name.rpartition("-")[2].removesuffix(".jsonl")
            rows = [json.loads(line) for line in file]
            definition = load_benchmark("multipl-e", data="bundled", language=language).definition
            read = [definition.read(Row(row, member.name)) for row in rows]
            found[language] = len([each for each in read if each is not None])
            assert found[language] == definition.tasks == len(rows)
            assert all(row["stop_tokens"] == list(FORMS[language].stop) for row in rows)
    assert set(found) == set(FORMS)
