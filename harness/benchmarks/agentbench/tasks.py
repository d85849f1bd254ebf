"""AgentBench's records as tasks and references, and how the oracle plays them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.benchmarks.agentbench.options import AgentBenchOptions
from harness.benchmarks.agentbench.prompts import database_prompt, flat_prompt, shell_prompt
from harness.benchmarks.agentbench.records import (
    DatabaseRecord,
    FlatRecord,
    OsRecord,
    Script,
    kind_of,
    parse,
)
from harness.benchmarks.agentbench.scores import Outcome, scores
from harness.benchmarks.agentbench.worlds import worlds
from harness.benchmarks.benchmark import Benchmark, TaskResult
from harness.data.rows import Row
from harness.environments import environment_spec
from harness.environments.base import Environment
from harness.environments.db import environment as db
from harness.environments.db.environment import DatabaseSetup, make_table
from harness.environments.db.grader import DatabaseAnswer, DatabaseState
from harness.environments.os import scripts
from harness.environments.os.environment import MOST_COMMAND_SECONDS, OsSetup
from harness.environments.os.grader import AnswerMatch, StateChecks
from harness.environments.text.expected_text import ExpectedText
from harness.scoring.thoughts import drop_thoughts
from harness.types import PlainData, Reference, Submission, Task

_NAME = "agentbench"
_DONE = "done"
# The file name of the split that the paper calls std. In `os` it has a folder for each numbered group.
_SPLITS = {"standard": "std"}
_SETUPS: Mapping[str, PlainData] = {"os": OsSetup(), "db": DatabaseSetup(())}


def read(row: Row, options: AgentBenchOptions | None = None) -> tuple[Task, Reference]:
    """Return the task and the reference of a record. Raises DataError with the row's place."""
    for category in worlds().values():
        if category.owns(row):
            given = (options or AgentBenchOptions()).of(category)
            task, reference = category.read(row, given)
            turns = category.turns.get(given.protocol, task.turns)
            return _label_split(replace(task, turns=turns)), reference
    record = parse(row)
    match record:
        case OsRecord():
            task, reference = _shell_task(record)
            return _label_split(task), reference
        case DatabaseRecord():
            task, reference = _database_task(record, row)
            return _label_split(task), reference
        case FlatRecord():
            return _flat_task(record)


def _label_split(task: Task) -> Task:
    """Return the task with the name of upstream's split as a label, by which a run can select it."""
    parts = task.id.split("/")
    if len(parts) < 3 or parts[0] != task.category:
        return task
    name = parts[2] if parts[1] == "zh" else parts[1]
    if task.category == "os" and name.isdigit():
        name = "std"
    return replace(task, labels={**task.labels, "split": _SPLITS.get(name, name)})


def submit(task: Task, field: str, text: str) -> Submission:
    """Return the submission: the text is the answer. A reply loses its thoughts, and blanks around it.

    A text changes no environment.
    """
    return Submission(drop_thoughts(text).strip() if field == "reply" else text, agent_output=text)


async def play(task: Task, reference: Reference, environment: Environment) -> Submission:
    """Solve the task in its environment and return the submission. Raises SandboxError."""
    answer = await _solve(task, reference, environment)
    await environment.submit(answer)
    return Submission(answer, agent_output=answer)


async def _solve(task: Task, reference: Reference, environment: Environment) -> str:
    """Bring about the state that the target describes, if it does, and return the answer."""
    solve = environment_spec(task.environment).solve
    if solve is not None and not isinstance(reference.target, ExpectedText):
        return await solve(environment, reference.target)
    match reference.target:
        case DatabaseState():
            # A failure needs no report here, because the grader runs the same SQL and reports it.
            if not isinstance(environment, db.Database):
                raise TypeError(f"{task.id} needs its database to be played")
            await db.play(environment, reference.solution)
            return _DONE
        case StateChecks() | AnswerMatch(answer=None) if reference.solution:
            # A subshell has the shell's variables, and its `exit` does not end the shell.
            command = f"(\n{reference.solution}\n) 2>/dev/null"
            observation = await environment.call(
                "bash", {"command": command, "timeout_seconds": MOST_COMMAND_SECONDS}
            )
            output, _, _ = observation.text.rpartition("\n[")
            return "" if output == "[no output]" else output
    return reference.solution


def scores_of(benchmark: Benchmark, results: Mapping[str, TaskResult]) -> Mapping[str, Any]:
    """Return AgentBench's scores over the tasks that ran."""
    categories = {task.id: task.category or "" for task in benchmark.tasks}
    return scores(
        Outcome(
            categories[task_id],
            result,
            kind_of(benchmark.rows[task_id]),
            is_flat=isinstance(benchmark.references[task_id].target, ExpectedText),
        )
        for task_id, result in results.items()
    )


def _shell_task(record: OsRecord) -> tuple[Task, Reference]:
    setup = OsSetup(
        inits=tuple(_script(script) for script in record.inits),
        start=None if record.start is None else record.start.code,
    )
    example = None if record.example is None else _script(record.example)
    match = record.match
    if match is None:
        checks = [None if check is None else _script(check) for check in record.checks]
        target: PlainData = StateChecks(tuple(checks), example)
        expected = "" if record.example is None else record.example.code
    else:
        target = AnswerMatch(match.text, match.pattern, match.strip)
        expected = str(match.text if match.pattern is None else match.pattern)
    task = Task(
        record.task_id,
        _NAME,
        "os",
        shell_prompt(record),
        category="os",
        setup=setup,
        tags=record.labels,
    )
    return task, Reference(record.task_id, _solution(record), target, expected)


def _database_task(record: DatabaseRecord, row: Row) -> tuple[Task, Reference]:
    try:
        table = make_table(record.table, record.columns, record.rows)
    except ValueError as error:
        raise row.error(str(error), field="table") from error
    setup = DatabaseSetup((table,))
    task = Task(record.task_id, _NAME, "db", database_prompt(record), category="db", setup=setup)
    if record.kind == "SELECT":
        answer = json.dumps(record.labels, ensure_ascii=False)
        return task, Reference(record.task_id, answer, DatabaseAnswer(record.labels), answer)
    sql = str(record.sql)
    target = DatabaseState((table,), table.name, sql, record.answer_md5)
    return task, Reference(record.task_id, sql, target, sql)


def _flat_task(record: FlatRecord) -> tuple[Task, Reference]:
    task = Task(
        record.task_id,
        _NAME,
        record.category,
        flat_prompt(record),
        category=record.category,
        setup=_SETUPS.get(record.category),
    )
    expected = record.expected_output
    return task, Reference(record.task_id, expected, ExpectedText(expected), expected)


def _script(script: Script) -> scripts.Script:
    return scripts.Script(script.language, script.code)  # type: ignore[arg-type]  # it is one of LANGUAGES


def _solution(record: OsRecord) -> str:
    """Return the answer if it is one text, else the command that prints it in the task's shell."""
    if record.match is not None and record.match.text is not None:
        return record.match.text
    example = record.example
    if example is None:
        return ""
    return example.code if example.language == "bash" else f"python3 -c {shlex.quote(example.code)}"
