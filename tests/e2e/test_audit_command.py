"""`harness audit`: the grader of a benchmark under attack, as a user sees it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled
from docker import APIClient
from e2e.command_line import ForkServer, Harness, RunFolder, wait_until
from effort import THOROUGH

from harness.audit.attack import Attack
from harness.audit.suite import list_attacks_on
from harness.benchmarks import load_benchmark
from harness.core.types import Task
from harness.environments.db.grader import DatabaseAnswer
from harness.environments.os.grader import REPLACED_TOOLS, StateChecks
from harness.runs.store import AUDIT_RESULTS

# A hundred and forty attacks take this long on a busy machine.
pytestmark = pytest.mark.timeout(900)

MBPP_TASK = load_bundled("mbpp").tasks[0].id
# Attacks of many samples take minutes. Tests in tests/security make them.
EVERY_ATTACK = [attack for attack in list_attacks_on("ProgramTests") if attack.samples <= 5]
OF_EACH_CLASS = 1
# One that breaks the protocol of the tests, whose sign a test below expects.
SPEAKING = "oversized-frames"


def is_tried(attack: Attack) -> bool:
    """Return whether a quick run makes an attack: the first ones of each class."""
    of_class = [each for each in EVERY_ATTACK if each.kind is attack.kind]
    return THOROUGH or attack.name == SPEAKING or attack in of_class[:OF_EACH_CLASS]


ATTACKS = [attack for attack in EVERY_ATTACK if is_tried(attack)]
# Attacks on answers, which need no sandbox.
FEW = ("answer-that-runs", "every-number")
# This attack is slow, so that a test can interrupt the audit during it.
SLOW = ("sys-exit", "spin-for-ever")


@dataclass(frozen=True)
class Audited:
    """An audit that has ended."""

    ended: subprocess.CompletedProcess[str]
    folder: Path
    results: dict[str, Any]

    @property
    def runs(self) -> list[RunFolder]:
        return [RunFolder(manifest.parent) for manifest in self.folder.glob("*/manifest.json")]


def named(names: tuple[str, ...]) -> list[str]:
    return [part for name in names for part in ("--attack", name)]


def audited(harness: Harness, *arguments: str | Path) -> Audited:
    runs, results = harness.folder / "runs", harness.folder / "audit.json"
    ended = harness("audit", *arguments, "--output-dir", runs, "-o", results, "--force")
    (folder,) = runs.iterdir()
    return Audited(ended, folder, json.loads(results.read_text()))


@pytest.fixture(scope="module")
def full(
    tmp_path_factory: pytest.TempPathFactory, surroundings: dict[str, str], fork_server: ForkServer
) -> Audited:
    """Audit one task with every attack of ATTACKS."""
    harness = Harness(tmp_path_factory.mktemp("full"), surroundings, fork_server)
    names = tuple(attack.name for attack in ATTACKS)
    return audited(harness, "mbpp", "--data", "bundled", "-t", MBPP_TASK, *named(names))


@pytest.fixture(scope="module")
def few(
    tmp_path_factory: pytest.TempPathFactory, surroundings: dict[str, str], fork_server: ForkServer
) -> Audited:
    """Audit two tasks of another benchmark with a few attacks."""
    harness = Harness(tmp_path_factory.mktemp("few"), surroundings, fork_server)
    ids = [task.id for task in load_benchmark("gsm8k", data="bundled").tasks[:2]]
    return audited(harness, "gsm8k", "--data", "bundled", "-t", ids[0], "-t", ids[1], *named(FEW))


def test_the_folder_has_the_result_too(few: Audited) -> None:
    assert json.loads((few.folder / AUDIT_RESULTS).read_text()) == few.results


def test_no_attack_of_the_suite_gets_a_pass(full: Audited) -> None:
    assert [attempt["attack"] for attempt in full.results["attempts"] if attempt["forged"]] == []
    assert full.ended.returncode == 0, full.ended.stdout


def test_every_attack_of_the_suite_is_made_and_has_a_verdict(full: Audited) -> None:
    made = {attempt["attack"] for attempt in full.results["attempts"] if attempt["class"]} - {"oracle"}
    assert made == {attack.name for attack in ATTACKS}
    assert full.results["summary"]["unfinished"] == 0


def test_the_reference_passes_before_and_after_every_class_of_attacks(full: Audited) -> None:
    oracle = [attempt for attempt in full.results["attempts"] if attempt["attack"] == "oracle"]
    assert [attempt["class"] for attempt in oracle if not attempt["failed"]] == [
        None,
        *dict.fromkeys(attack.kind.value for attack in ATTACKS),
    ]


def test_an_empty_submission_gets_no_pass(full: Audited) -> None:
    statuses = [attempt["status"] for attempt in full.results["attempts"] if attempt["attack"] == "null"]
    assert statuses == ["failed"]


def test_every_verdict_on_an_attack_has_evidence(full: Audited) -> None:
    assert [
        attempt["attack"]
        for attempt in full.results["attempts"]
        if attempt["class"] and not attempt["error"] and attempt["attack"] != "oracle"
    ] == []


def test_the_table_has_a_line_for_every_class_that_was_tried(full: Audited) -> None:
    tried = Counter(attack.kind.value for attack in ATTACKS)
    shown = full.ended.stdout.splitlines()
    lines = {kind: [line for line in shown if line.startswith(f"{kind} ")] for kind in tried}
    numbers = {kind: [line.removeprefix(kind).split()[0] for line in lines[kind]] for kind in tried}
    assert numbers == {kind: [str(number)] for kind, number in tried.items()}


def test_signs_of_tampering_are_counted(full: Audited) -> None:
    signs = full.results["summary"]["integrity"]
    assert signs.keys() >= {"broke the tests' protocol", "exited with status 0 before its tests ended"}
    assert f"{sum(signs.values())} attempts show signs of tampering" in full.ended.stdout


def test_an_audit_leaves_no_container_and_reports_that(full: Audited, client: APIClient) -> None:
    assert "left behind   0 containers" in full.ended.stdout
    assert [run.containers(client) for run in full.runs] == [[], []]


def test_another_benchmark_is_audited_in_the_same_way(few: Audited) -> None:
    assert few.ended.returncode == 0, few.ended.stdout
    assert "no forged pass; every reference passed; 0 containers left" in few.ended.stdout


def test_only_attacks_that_were_named_are_made_on_each_task(few: Audited) -> None:
    made = {
        (attempt["task_id"], attempt["attack"]) for attempt in few.results["attempts"] if attempt["class"]
    }
    assert {attack for _, attack in made} == {*FEW, "oracle"}
    assert len(made) == 2 * len(FEW) + 2


def test_an_audit_that_has_ended_is_resumed_without_repeating_anything(
    few: Audited, harness: Harness
) -> None:
    before = [run.raw_attempts for run in few.runs]
    ended = harness("audit", "--resume", few.folder)
    assert ended.returncode == 0, ended.stderr
    assert [run.raw_attempts for run in few.runs] == before


def test_the_results_file_is_not_overwritten_without_force(few: Audited, harness: Harness) -> None:
    results = harness.folder / "audit.json"
    results.write_text("mine")
    code, _, stderr = harness.refused("audit", "--resume", few.folder, "-o", results)
    assert (code, results.read_text()) == (2, "mine")
    assert "--force" in stderr


def test_an_audit_whose_attacks_have_changed_is_not_resumed(few: Audited, harness: Harness) -> None:
    about = json.loads((few.folder / "audit.json").read_text())
    (harness.folder / "old").mkdir()
    (harness.folder / "old/audit.json").write_text(json.dumps({**about, "suite_sha256": "0" * 64}))
    code, _, stderr = harness.refused("audit", "--resume", harness.folder / "old")
    assert code == 2
    assert "the attacks have changed" in stderr


def test_limits_of_an_audit_of_somebody_else_are_accepted_first(few: Audited, harness: Harness) -> None:
    about = json.loads((few.folder / "audit.json").read_text())
    about["config"]["limits"] = {"memory_mb": 8192}
    (harness.folder / "other").mkdir()
    (harness.folder / "other/audit.json").write_text(json.dumps(about))
    code, _, stderr = harness.refused("audit", "--resume", harness.folder / "other")
    assert code == 2
    assert "use limits.memory_mb 8192" in stderr
    assert "--trust" in stderr


def test_a_wrong_reference_fails_the_audit_and_a_right_attack_is_no_forgery(
    harness: Harness,
) -> None:
    row = {"source_file": "ours", "prompt": "Write a function.", "test_imports": []}
    double = "def double(number):\n    return number * 3\n"
    wrong = {"task_id": 9001, "code": double, "test_list": ["assert double(2) == 4"]}
    even = "def even(number):\n    return number % 2 == 0\n"
    easy = {"task_id": 9002, "code": even, "test_list": ["assert even(2) == True"]}
    (harness.folder / "rows.json").write_text(json.dumps([{**row, **wrong}, {**row, **easy}]))
    found = audited(harness, "mbpp", "--data", "rows.json", "--attack", "swap-code")
    assert found.ended.returncode == 1
    assert "REFERENCE FAILED" in found.ended.stdout
    summary = found.results["summary"]
    assert (summary["failed_references"], summary["forged"], summary["guessed"]) == (2, 0, 1)


def test_an_interrupted_audit_leaves_nothing_and_can_be_resumed(harness: Harness, client: APIClient) -> None:
    runs = harness.folder / "runs"
    chosen = ("mbpp", "--data", "bundled", "-t", MBPP_TASK, *named(SLOW))
    process = harness.start("audit", *chosen, "--output-dir", runs)
    # The first run makes only the two attempts of the controls. The second run makes more.
    manifests = wait_until(
        lambda: len(found := sorted(runs.glob("*/*/manifest.json"))) == 2 and found, "the second run"
    )
    attacked = max(
        (RunFolder(path.parent) for path in manifests), key=lambda run: run.manifest["agent"] == "cheats"
    )
    wait_until(lambda: attacked.attempts, "an attack that has ended")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    kept = attacked.raw_attempts
    assert process.returncode == 130, stderr
    assert f"harness audit --resume {runs}" in stderr
    assert [RunFolder(path.parent).containers(client) for path in manifests] == [[], []]

    ended = harness("audit", "--resume", attacked.path.parent)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert attacked.raw_attempts.startswith(kept)
    assert "2 on each of 1 task" in ended.stdout


def test_both_environments_in_which_agents_act_are_attacked(harness: Harness, client: APIClient) -> None:
    names = ("replaced-bash", "every number", *(("preloaded-library",) if THOROUGH else ()))
    task_ids = [task.id for task in agentbench_tasks()]
    chosen = [part for task_id in task_ids for part in ("-t", task_id)]
    audit = audited(harness, "agentbench", "--data", "bundled", *chosen, *named(names))
    assert audit.ended.returncode == 0, audit.ended.stdout + audit.ended.stderr
    attacks = [attempt for attempt in audit.results["attempts"] if attempt["attack"] in names]
    assert {attempt["attack"] for attempt in attacks} == {*names}
    assert {attempt["task_id"] for attempt in attacks} == {*task_ids}
    # This shows that the attack did what its description promises.
    assert audit.results["summary"]["integrity"] == {REPLACED_TOOLS: len(names) - 1}
    assert [run.containers(client) for run in audit.runs] == [[], []]


def agentbench_tasks() -> list[Task]:
    """Write a task whose state is graded in a machine, and one whose answer comes from a database."""
    benchmark = load_benchmark("agentbench", data="bundled")
    first: dict[type, Task] = {}
    for task in benchmark.tasks:
        first.setdefault(type(benchmark.references[task.id].target), task)
    return [first[StateChecks], first[DatabaseAnswer]]


WRONG_USAGE: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), "the benchmark is missing"),
    (("mbppp",), "did you mean 'mbpp'?"),
    (("mbpp", "--attack", "sys-exti"), "did you mean 'sys-exit'?"),
    (("mbpp", "-t", "mbpp/none"), "mbpp/none"),
    (("mbpp", "-n", "2", "--all-tasks"), "cannot be combined"),
    (("mbpp", "-n", "0"), "--sample-size"),
    (("mbpp", "--timeout-seconds", "5"), "--timeout-seconds must be 180 to 600"),
    (("--resume", "nowhere"), "nowhere"),
    (("mbpp", "--trust"), "--trust needs an audit"),
    (("mbpp", "--resume", "nowhere"), "with its own settings"),
    (("--resume", "nowhere", "--attack", "sys-exit"), "with its own settings"),
)


def test_wrong_usage_is_refused_with_the_reason(harness: Harness) -> None:
    for arguments, said in WRONG_USAGE:
        data = ("--data", "bundled") if "mbpp" in arguments and "--resume" not in arguments else ()
        code, _, stderr = harness.refused("audit", *arguments, *data)
        assert (code, said in stderr) == (2, True), (arguments, stderr)
