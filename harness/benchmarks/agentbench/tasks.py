"""AgentBench's records as tasks and references, and how the oracle plays them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.benchmarks.agentbench.options import AgentBenchOptions
from harness.benchmarks.agentbench.records import DatabaseRecord, FlatRecord, OsRecord, Script, kind_of, parse
from harness.benchmarks.agentbench.scores import Outcome, scores
from harness.benchmarks.agentbench.worlds import worlds
from harness.benchmarks.benchmark import Benchmark, TaskResult
from harness.benchmarks.data.rows import Row
from harness.core.scoring.answers import drop_thoughts
from harness.core.types import PlainData, Reference, Submission, Task
from harness.environments import environment_spec
from harness.environments.base import Environment
from harness.environments.db import environment as db
from harness.environments.db.environment import DatabaseSetup, make_table
from harness.environments.db.grader import DatabaseAnswer, DatabaseState
from harness.environments.os import scripts
from harness.environments.os.environment import MOST_COMMAND_SECONDS, OsSetup
from harness.environments.os.grader import AnswerMatch, StateChecks
from harness.environments.text.expected_text import ExpectedText

_SHELL = """\
You are root in a Linux machine of your own, without a network. The tool `bash` runs a command in one \
shell that stays open: its folder, variables and background jobs are there at the next call. Nobody can \
type into a program, so use none that asks for input. Long output is cut in the middle.

{end}

Task: {task}
"""
_SHELL_END = """\
When the task asks for something, call `submit` with the bare answer: a number without its unit, a name or \
a path alone, no sentence. When it asks you to do something, do it, and then call `submit` with `done` or \
with what the task wants told."""
_TEXT_END = "When you know the answer, call `submit` with it, as short as the task allows."

_DATABASE = """\
You work on a SQLite database with the tool `sql`, which runs SQL and returns the first rows. The dialect is \
SQLite's, and every column is of type TEXT: use CAST to compare or sum numbers, mind that a cell may hold \
thousands separators, units or blanks, and quote the names of tables and columns: "like this".

{end}

{about}Task: {task}
"""
_ANSWER = """\
{end}

Task: {task}
"""
_SELECT_END = """\
When you know the answer, call `submit` with a JSON list of strings, one for each value asked for, as the \
table has them: ["42"] or ["Ada", "Grace"]. Where nothing fits, submit ["none"]."""
_MUTATION_END = """\
Change the table as the task says, once and nothing else in it: the state of the table is what counts. \
Then call `submit` with `done`."""


def shell_prompt(record: OsRecord) -> str:
    """Return the prompt of a task in a shell."""
    return _SHELL.format(end=_SHELL_END, task=record.description.strip())


def database_prompt(record: DatabaseRecord) -> str:
    """Return the prompt of a task on a table. It names the table and its columns, as upstream's does."""
    about = record.add_description.strip() or (
        f"The table is named {record.table}; its columns are {', '.join(record.columns)}."
    )
    return _DATABASE.format(
        end=_SELECT_END if record.kind == "SELECT" else _MUTATION_END,
        about=f"{about}\n\n",
        task=record.description.strip(),
    )


def flat_prompt(record: FlatRecord) -> str:
    """Return the prompt of a flat record, whose environment is empty or has no tool but `submit`."""
    template = {"os": _SHELL, "db": _DATABASE}.get(record.category, _ANSWER)
    return template.format(end=_TEXT_END, about="", task=record.instruction.strip())


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
