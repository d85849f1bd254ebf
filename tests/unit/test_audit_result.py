"""The result of an audit, and its reports, from records that the tests make."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attempt_records import make_attempt
from case_checks import each_case

from harness.audit.attack import Attack, Kind
from harness.audit.attack_kinds import ProgramAttack
from harness.audit.report import print_audit, write_audit
from harness.audit.results import Audit, AuditedAttempt
from harness.audit.suite import CONSTANT, NULL, ORACLE, Step
from harness.core.types import DataSource, Status
from harness.runs.run_files import StorageError

P, F, T, I = Status.PASSED, Status.FAILED, Status.TIMEOUT, Status.INFRA_ERROR  # noqa: E741
SOURCE = DataSource(kind="path", location="data.json", sha256="ab" * 32, rows=3)
LEAVER = ProgramAttack("leaver", Kind.LEAVING, "Leaves; beats all who let it.", ("exit()",))
LIAR = ProgramAttack("liar", Kind.LYING, "Lies twice; beats the gullible.", ("a = 1", "a = 2"))
HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]x[/] :skull: \u202e\ud800"


def attempt(step: Step, status: Status, *, task: str = "t/1", **facts: Any) -> AuditedAttempt:
    error = None if status is P else f"ended as {status}"
    return AuditedAttempt(step, make_attempt(status, **{"task_id": task, "error": error, **facts}))


def attack(status: Status, attack_: Attack = LEAVER, sample: int = 0, **facts: Any) -> AuditedAttempt:
    return attempt(Step(attack_.name, attack_.kind, attack_, sample), status, **facts)


ORACLE_PASSED, NULL_FAILED = attempt(Step(ORACLE), P), attempt(Step(NULL), F)
ORACLE_AFTER = Step(ORACLE, Kind.LEAVING)
SOUND = (ORACLE_PASSED, NULL_FAILED, attack(F), attempt(ORACLE_AFTER, P), attack(F, LIAR), attack(T, LIAR, 1))


def audit(*attempts: AuditedAttempt, left: int = 0) -> Audit:
    return Audit("mbpp", SOURCE, 7, Path("runs/audit-1"), 61.25, attempts, left)


def shown(found: Audit) -> str:
    stream = io.StringIO()
    print_audit(found, stream=stream)
    return stream.getvalue()


def test_an_audit_is_sound_if_only_references_have_passed() -> None:
    assert audit(*SOUND).sound


def test_a_pass_where_a_constant_is_right_is_a_guess() -> None:
    lucky = replace(attack(P), is_guessable=True)
    found = audit(*SOUND, replace(attempt(Step(CONSTANT), P), is_guessable=True), lucky)
    assert found.sound
    assert found.guessed == [lucky]
    assert "1 attempt passed where a program that returns True is right: t/1" in shown(found)


def test_an_empty_answer_that_passes_is_no_guess() -> None:
    assert not audit(*SOUND, replace(attempt(Step(NULL), P), is_guessable=True)).sound


def test_a_benchmark_without_solutions_has_no_reference_to_check() -> None:
    found = audit(NULL_FAILED, attack(F))
    assert found.sound
    assert "no reference to check" in shown(found)
    assert "none, because the benchmark has no solutions" in shown(found)


@each_case(
    "forged",
    [
        pytest.param(attack(P), id="attack"),
        pytest.param(attack(P, LIAR, 1), id="second sample"),
        pytest.param(attempt(Step(NULL), P), id="null"),
    ],
)
def test_a_pass_of_anything_but_a_reference_is_a_forgery(forged: AuditedAttempt) -> None:
    found = audit(*SOUND, forged)
    assert found.forged == [forged]
    assert not found.sound


@each_case("status", [F, T, Status.MEMORY_LIMIT, Status.CRASHED, Status.AGENT_ERROR])
def test_a_reference_that_does_not_pass_has_failed(status: Status) -> None:
    failed = attempt(Step(ORACLE), status)
    found = audit(failed, NULL_FAILED)
    assert found.failed == [failed]
    assert not found.sound


def test_a_reference_too_slow_for_the_limits_of_attacks_does_not_count() -> None:
    assert audit(*SOUND, attempt(ORACLE_AFTER, T)).sound


@each_case("status", [I, Status.CANCELLED])
@each_case("step", [Step(ORACLE), Step(NULL), ORACLE_AFTER], ids=["oracle", "null", "after"])
def test_an_attempt_without_a_verdict_is_unfinished_and_nothing_else(step: Step, status: Status) -> None:
    lost = attempt(step, status)
    found = audit(*SOUND, lost)
    assert (found.unfinished, found.forged, found.failed) == ([lost], [], [])
    assert not found.sound


def test_manners_of_checks_and_quarantined_and_weak_tasks_are_listed() -> None:
    manners = {
        "t/1": "sound: compares texts",
        "t/2": "sound: compares texts",
        "t/3": "programs judged as data",
    }
    quarantined = {"t/4": f"its reference fails {HOSTILE}"}
    weak = {"t/5": "line 1: the program's own class decides"}
    found = replace(audit(*SOUND), manners=manners, quarantined=quarantined, weak_tests=weak)
    lines = [line.split() for line in shown(found).splitlines()]
    assert ["sound:", "compares", "texts", "2"] in lines
    assert ["programs", "judged", "as", "data", "1", "t/3"] in lines
    assert any(line[:2] == ["t/4", "its"] for line in lines)
    assert any(line[:3] == ["t/5", "line", "1:"] for line in lines)
    assert found.sound, "a quarantined task is not a fault of the grader"


def test_signs_of_tampering_are_counted_over_attacks_alone() -> None:
    signed: dict[str, Any] = {"metrics": {"integrity": "left early"}}
    found = audit(attempt(Step(NULL), F, **signed), attack(F, **signed), attack(F, **signed), attack(F))
    assert found.integrity == {"left early": 2}


# --- as JSON


def written(found: Audit, folder: Path) -> dict[str, Any]:
    write_audit(found, folder / "audit.json")
    return dict(json.loads((folder / "audit.json").read_text()))


def test_json_has_seven_parts(tmp_path: Path) -> None:
    parts = ["schema_version", "audit", "summary", "manners", "quarantined", "weak_tests", "attempts"]
    assert list(written(audit(*SOUND), tmp_path)) == parts


def test_json_names_the_audited_benchmark(tmp_path: Path) -> None:
    assert written(audit(*SOUND), tmp_path)["audit"] == {
        "benchmark": "mbpp",
        "data": {"kind": "path", "location": "data.json", "sha256": "ab" * 32, "rows": 3, "window": None},
        "seed": 7,
        "folder": "runs/audit-1",
        "duration_seconds": 61.25,
    }


def test_json_summary_counts_everything(tmp_path: Path) -> None:
    signed = attack(F, task="t/2", metrics={"integrity": "left early"})
    found = audit(
        *SOUND, signed, attack(P, task="t/2"), attempt(Step(ORACLE), F), attempt(Step(NULL), I), left=2
    )
    assert written(found, tmp_path)["summary"] == {
        "forged": 1,
        "guessed": 0,
        "failed_references": 1,
        "unfinished": 1,
        "containers_left": 2,
        "tasks": 2,
        "attacked_tasks": 2,
        "attacks": 2,
        "attempts": 10,
        "statuses": {"passed": 1, "failed": 3, "timeout": 1},
        "integrity": {"left early": 1},
    }


def test_json_has_the_attack_and_the_verdict_of_each_attempt(tmp_path: Path) -> None:
    forged = attack(P, LIAR, 1, metrics={"tests": 3})
    assert written(audit(forged), tmp_path)["attempts"] == [
        {
            "task_id": "t/1",
            "attack": "liar",
            "class": "lying objects",
            "sample": 1,
            "forged": True,
            "guessable": False,
            "failed": False,
            "status": "passed",
            "metrics": {"tests": 3},
            "duration_seconds": 0.5,
            "error": None,
        }
    ]


def test_json_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        write_audit(audit(*SOUND), tmp_path / "nowhere" / "audit.json")


# --- on a terminal


def test_the_whole_table_of_a_sound_audit() -> None:
    assert (
        shown(audit(*SOUND))
        == """
mbpp - audit
============
source        path: data.json
              3 rows, sha256 abababababab
oracle        1 of 1 passed
null          0 of 1 passed
attacks       2 on each of 1 task (seed 7)
oracle after  1 of 1 passed in the same sandboxes
integrity     no attempt shows signs of tampering
left behind   0 containers
duration      1 min 01 s

class          attacks  attempts  forged  how they ended
leaving early        1         1       0  failed 1
lying objects        1         2       0  failed 1, timeout 1
all                  2         3       0  failed 2, timeout 1

no forged pass; every reference passed; 0 containers left
audit folder: runs/audit-1
"""
    )


@each_case(
    ("found", "texts"),
    [
        (
            audit(*SOUND, attack(P, LIAR, 1, task="t/9")),
            [
                "liar    t/9   1       passed",
                "liar: Lies twice; beats the gullible.",
                "1 attempt forged",
            ],
        ),
        (
            audit(*SOUND, attempt(ORACLE_AFTER, F)),
            [
                "oracle after leaving early  t/1   0       failed  ended as failed",
                "1 attempt of a reference failed",
            ],
        ),
        (audit(*SOUND, attack(I)), ["NO VERDICT", "1 attempt without a verdict"]),
        (
            audit(*SOUND, left=1),
            ["left behind   1 container\n", "1 container left: harness gc removes them"],
        ),
    ],
    ids=["forged", "failed reference", "no verdict", "container"],
)
def test_each_fault_is_named_with_its_cause_and_the_audit_is_not_called_sound(
    found: Audit, texts: list[str]
) -> None:
    text = shown(found)
    assert [each for each in texts if each not in text] == []
    assert "no forged pass" not in text


def test_hostile_text_stays_text() -> None:
    text = shown(audit(*SOUND, attack(P, task=HOSTILE, error=HOSTILE)))
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "[bold red]x[/]" in text
