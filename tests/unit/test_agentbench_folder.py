"""A category of AgentBench is one folder among the environments, which no list names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SPEC = """
from harness.environments.spec import EnvironmentSpec

SPEC = EnvironmentSpec(name="riddle", image=None, description="riddles")
"""
CATEGORY = """
from harness.benchmarks.benchmark import CategoryFacts
from harness.benchmarks.category import Category
from harness.core.types import Reference, Task
from harness.environments.text.short_answers import AnswerRule, PlainAnswer


def read(row, options):
    task = Task(row.text("task_id"), "agentbench", "riddle", row.text("riddle"), category="riddle")
    gold = row.text("answer")
    return task, Reference(task.id, gold, PlainAnswer(AnswerRule.EXACT_MATCH, (gold,)), gold)


def list_rows(files, options):
    for name in files.names:
        yield from files.parse(name)


CATEGORY = Category(
    name="riddle",
    place=8,
    weight=50.0,
    aliases=("the riddles",),
    facts=CategoryFacts(task="solve a riddle", bundled="none", bring="data/riddles/"),
    folders=("riddles",),
    is_needed=lambda name: name.endswith(".jsonl"),
    rows=list_rows,
    owns=lambda row: "riddle" in row.values,
    read=read,
    turns={"fc": 3},
)
"""
PROGRAM = """
import json, sys

from harness import environments

environments.__path__.append(sys.argv[1])
from harness.benchmarks import load_benchmark
from harness.benchmarks.benchmark import TaskResult

found = load_benchmark("agentbench", data=sys.argv[2], protocol="own")
task = found.tasks[0]
scores = found.scores({task.id: TaskResult(True, 0.5)})
print(json.dumps([task.id, task.turns, found.definition.find_category("The Riddles"), scores]))
"""
ROW = {"task_id": "riddle/std/0", "riddle": "What has keys and opens nothing?", "answer": "a piano"}


def test_a_folder_is_all_that_a_new_category_needs(tmp_path: Path) -> None:
    code, data = tmp_path / "code" / "riddle", tmp_path / "data" / "riddles"
    for folder in (code, data):
        folder.mkdir(parents=True)
    (code / "__init__.py").write_text(SPEC)
    (code / "category.py").write_text(CATEGORY)
    (data / "std.jsonl").write_text(json.dumps(ROW))
    command = [sys.executable, "-c", PROGRAM, str(code.parent), str(data.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    task_id, turns, category, scores = json.loads(done.stdout)
    assert (task_id, turns, category) == ("riddle/std/0", 3, "riddle")
    assert scores["categories"] == {"riddle": {"score": 0.5, "measure": "mean score", "tasks": 1}}
    assert scores["overall"]["score"] == 1.0
