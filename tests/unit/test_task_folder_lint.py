"""The faults of task folders that are found in their files, and in the attempts of a reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attempt_records import make_attempt
from sealed_tasks import write_task

from harness.audit.lint import (
    IMAGE_BYTES,
    LEAKED,
    MOST_IMAGE_BYTES,
    conclude_lint,
    judge_attempts,
    write_findings,
)
from harness.audit.lint_files import Finding, Severity, lint_folder
from harness.core.types import AttemptRecord, Status
from harness.environments.container.task_folder import read_task_folder

CANARY = "# canary GUID 1\n"
TOML = 'schema_version = "1.4"\n[agent]\ntimeout_sec = 100\n[verifier]\ntimeout_sec = 60\n'
SCRIPT = f"#!/bin/bash\n{CANARY}pytest -rA /tests/test_outputs.py && echo 1 > /logs/verifier/reward.txt\n"
FILES = {
    "task.toml": TOML,
    "environment/Dockerfile": "FROM debian:12\nRUN pip install -q 'pytest==8.4.1' uv==0.7\n",
    "environment/data.txt": "a line of data that is long enough to be no chance\n",
    "tests/test.sh": SCRIPT,
    "tests/test_outputs.py": f"{CANARY}def test_answer():\n    assert open('/app/answer.txt').read()\n",
    "solution/solve.sh": f"#!/bin/sh\n{CANARY}echo 42 > /app/answer.txt\n",
}
KEY = "AKIA" + "Q" * 16
# Changed files, and the finding: its check, file and line, and a word of its text.
Fault = tuple[dict[str, str], tuple[str, str | None, int | None, str]]
FAULTS: tuple[Fault, ...] = (
    ({"task.toml": f"{TOML}retries = 2\n"}, ("schema", "task.toml", 6, "'verifier.retries' is unknown")),
    ({"task.toml": TOML[22:]}, ("schema", "task.toml", None, "names no schema_version")),
    ({"task.toml": 'schema_version = "1.4"\n'}, ("schema", "task.toml", None, "no limit for the agent")),
    ({"instruction.md": "\n"}, ("schema", "instruction.md", None, "is empty")),
    ({"solution/solve.sh": "#!/bin/sh\n"}, ("canary", None, None, "no file of solution has a canary")),
    ({"solution/solve.sh": ""}, ("reference", None, None, "there is no reference")),
    (
        {"environment/Dockerfile": "FROM debian:12\nCOPY --chown=1 ../tests /data\n"},
        ("leak", "environment/Dockerfile", 2, "copies"),
    ),
    (
        {"environment/data.txt": FILES["solution/solve.sh"]},
        ("leak", "environment/data.txt", None, "has the bytes of solution/solve.sh"),
    ),
    ({"environment/data.txt": f"one\ntwo {KEY}\n"}, ("secret", "environment/data.txt", 2, "a key of AWS")),
    (
        {"environment/Dockerfile": "FROM debian\n"},
        ("version", "environment/Dockerfile", 1, "builds on debian"),
    ),
    (
        {"environment/Dockerfile": "FROM debian:12 AS a\nFROM a\nRUN pip3 install -r x pandas 'a==1'\n"},
        ("version", "environment/Dockerfile", 3, "installs pandas in any version"),
    ),
    (
        {"environment/Dockerfile": "FROM debian:12\nRUN git clone https://a.b/c\n"},
        ("version", "environment/Dockerfile", 2, "clones the newest commit"),
    ),
    (
        {"tests/test.sh": f"{SCRIPT}uvx --with pytest==8 -w x pytest\n"},
        ("version", "tests/test.sh", 4, "installs x in any version"),
    ),
    ({"tests/test.sh": f"{SCRIPT}apt-get install -y curl\n"}, ("network", "tests/test.sh", 4, "its tools")),
    (
        {"tests/test.sh": f"{SCRIPT}curl -s https://a.b/c | sh\n"},
        ("network", "tests/test.sh", 4, "needs the network in each grading: curl -s https://"),
    ),
    ({"tests/test.sh": SCRIPT[12:]}, ("tests", "tests/test.sh", None, "no first line")),
    ({"tests/test.sh": SCRIPT.replace("\n", "\r\n")}, ("tests", "tests/test.sh", None, "ends of Windows")),
    ({"tests/test.sh": f"#!/bin/bash\n{CANARY}true\n"}, ("tests", "tests/test.sh", None, "writes a reward")),
    ({"tests/test.sh": SCRIPT.replace("-rA ", "")}, ("tests", "tests/test.sh", None, "report each test")),
)


def lint(folder: Path, changed: dict[str, str]) -> list[Finding]:
    write_task(folder, "scratch", solution="")
    for name, text in {**FILES, **changed}.items():
        (folder / name).write_bytes(text.encode())
    if not (folder / "solution/solve.sh").read_bytes():
        (folder / "solution/solve.sh").unlink()
    return lint_folder(folder)[1]


def test_a_sound_folder_has_no_finding(tmp_path: Path) -> None:
    assert lint(tmp_path / "task", {}) == []
    assert lint(tmp_path / "old", {"task.toml": TOML.replace("schema_version", "version")}) == []


def test_each_fault_is_found_with_its_place(tmp_path: Path) -> None:
    missed = []
    for number, (changed, (*expected, word)) in enumerate(FAULTS):
        found = lint(tmp_path / str(number), changed)
        if not any([each.check, each.file, each.line] == expected and word in each.message for each in found):
            missed.append((changed, expected, word, found))
    assert missed == []


def attempt(line: int, status: Status, **metrics: Any) -> AttemptRecord:
    return make_attempt(
        status,
        attempt=line - 1,
        sample_line=line,
        metrics={"seal": "work", "tests_seconds": 1.0, **metrics},
        duration_seconds=2.0,
        error=None if status is Status.PASSED else "no",
    )


def test_attempts_show_a_reference_that_fails_and_an_empty_agent_that_passes(tmp_path: Path) -> None:
    p, f = Status.PASSED, Status.FAILED
    lint(tmp_path / "task", {})
    folder = read_task_folder(tmp_path / "task")
    cases: tuple[tuple[list[AttemptRecord], list[str]], ...] = (
        ([attempt(1, p), attempt(2, p), attempt(3, f)], []),
        ([attempt(3, f)], []),
        ([attempt(1, f), attempt(2, f), attempt(3, f)], ["reference"]),
        ([attempt(1, p), attempt(2, f), attempt(3, f)], ["flaky"]),
        ([attempt(1, p), attempt(2, Status.INFRA_ERROR), attempt(3, f)], []),
        ([attempt(1, p), attempt(2, p), attempt(3, p)], ["empty agent"]),
        ([attempt(1, p, seal="all"), attempt(2, p), attempt(3, f)], ["seal"]),
        ([attempt(1, p, tests_seconds=31.0), attempt(2, p), attempt(3, f)], ["wall time"]),
        ([attempt(1, p), attempt(3, f, **{LEAKED: ["/tests/a"]})], ["leak"]),
        ([attempt(1, p), attempt(3, f, **{IMAGE_BYTES: MOST_IMAGE_BYTES + 1})], ["image size"]),
    )
    for records, checks in cases:
        assert [each.check for each in judge_attempts(folder, records, 2)] == checks, records


def test_findings_are_written_as_markdown(tmp_path: Path) -> None:
    found = [Finding("leak", Severity.ERROR, "t", "copies `tests` | all", "leave it out", "a/Dockerfile", 3)]
    write_findings(found, 2, tmp_path / "lint.md")
    page = (tmp_path / "lint.md").read_text()
    assert conclude_lint(found, 2) == "2 tasks: 1 error in 1 of them, 0 warnings"
    assert "| error | `t/a/Dockerfile:3` | leak |" in page
    assert page.count("|") == 3 * 6
