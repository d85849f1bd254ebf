"""The environment of AgentBench's `db`: a SQLite database that an agent queries and changes by SQL."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from harness.core.errors import SandboxError, UsageError
from harness.core.tools import SUBMIT, Arguments, LastObservation, TextCall, TextFault, Tool
from harness.core.types import Task
from harness.environments.base import EnvironmentContext, SandboxEnvironment
from harness.environments.db.client import Table, ask, create_tables, reset
from harness.environments.text_protocol import (
    HOW_TO_ACT,
    LONGER_FENCE,
    Published,
    TextForm,
    make_tool,
    read_parentheses,
)
from harness.environments.written_actions import WrittenAction, WrittenReply
from harness.sandbox.failures import build_fault
from harness.sandbox.pool import SandboxSettings
from harness.sandbox.sandbox import Sandbox

TURNS = 15
# The time of one call of the reference's own SQL, in seconds.
REFERENCE_SECONDS = 20.0
# The names of the guest, whose module takes long to import.
FILE, JOURNAL = "database.sqlite", "database.sqlite-journal"
# The key of the sandboxes where trusted code alone runs the SQL of references.
REFERENCES = "references of db"

_EXECUTE = make_tool(
    "execute_sql",
    "Executes a given SQL statement on the database and returns the result.",
    query=(str, "The SQL query to be executed."),
)
_COMMIT = make_tool(
    "commit_final_answer",
    "Commits the final answer after all operations are completed.",
    answers=(list[str], "The list of final answers to commit."),
)
# The time of a query upstream, in seconds.
_PUBLISHED_SECONDS = 60.0

OPERATION, ANSWER = "operation", "answer"
_FINAL_ANSWER = re.compile(
    r"(?P<before>[ \t>*_#`-]*+)final[ \t]++answer[ \t*_`]*+[:：][ \t]*+(?P<bold>\*{0,2}+)(?P<answer>.*)",
    re.IGNORECASE | re.ASCII,
)

_ADVICE = (
    "Write a line `Action: Operation` and the SQL in a block ```sql, or the lines `Action: Answer` and "
    "`Final Answer: ANSWER`."
)


@dataclass(frozen=True, slots=True)
class DatabaseSetup:
    """The tables of a task's database before an agent acts. `make_table` makes each of them."""

    tables: tuple[Table, ...]


class Sql(Arguments):
    """The arguments of `sql`."""

    sql: str = Field(description="SQL for SQLite: one statement, or several separated by semicolons")


SQL = Tool(
    "sql",
    "Run SQL on the task's SQLite database and see the results, each row a JSON list. All columns are TEXT. "
    "SHOW TABLES, DESCRIBE and much of MySQL's dialect are understood.",
    Sql,
)


def make_table(name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return the table as the database stores it, with texts or NULL in its cells and unique column names.

    A column without a name becomes `column_N` (N from 1), and a repeated name gets `_2`, `_3`, and so on.
    Raises ValueError if no database can store the table.
    """
    if not name or name.lower().startswith("sqlite_"):
        raise ValueError(f"a table cannot have the name {name!r}")
    if not columns:
        raise ValueError("a table needs at least one column")
    for text in (name, *columns):
        _require_text(text)
    cells = []
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise ValueError(f"row {number} has {len(row)} cells, and the table has {len(columns)} columns")
        cells.append(tuple(None if cell is None else _require_text(str(cell)) for cell in row))
    return Table(name, distinct_names(columns), tuple(cells))


def distinct_names(columns: Sequence[str]) -> tuple[str, ...]:
    """Return a unique name for each column. Case does not count, because SQLite ignores the case of names."""
    existing = {column.lower() for column in columns}
    names: list[str] = []
    taken: set[str] = set()
    for number, column in enumerate(columns, 1):
        name = stem = column if column.strip() else f"column_{number}"
        again = 1
        while name.lower() in taken or (name != column and name.lower() in existing):
            again += 1
            name = f"{stem}_{again}"
        taken.add(name.lower())
        names.append(name)
    return tuple(names)


def _require_text(text: str) -> str:
    if "\0" in text:
        raise ValueError(f"the text {text[:50]!r} contains a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the text {text[:50]!r} contains half of a surrogate pair") from None
    return text


@contextlib.asynccontextmanager
async def open_environment(task: Task, context: EnvironmentContext) -> AsyncIterator[Database]:
    """Open a sandbox that contains the task's database. Raises TypeError if the task has no database.

    Attempts with the key of the context share a sandbox, one after the other, because their agents run no
    program there. At the end of each, the guest removes the agent's user and checks that nothing is left.
    """
    if not isinstance(task.setup, DatabaseSetup):
        raise TypeError(f"{task.id} has no DatabaseSetup")
    settings = trusted_settings(context)
    async with context.pool.lease(settings, seconds=context.seconds, key=context.key) as sandbox:
        async with context.pool.gate:
            if context.start is None:
                await create_tables(sandbox, task.setup.tables)
            else:
                sandbox.agent_acted = context.start.agent_acted
                for name, content in context.start.files.items():
                    await sandbox.write_file(name, content, mode=0o600)
        environment = Database(sandbox, context)
        environment.publish(task, make_published(sandbox))
        yield environment
        if context.key is not None:
            await environment.reset()


def trusted_settings(context: EnvironmentContext) -> SandboxSettings:
    """Return the settings of a sandbox where SQL runs and no program of an agent does."""
    return replace(context.settings, seccomp="strict")


class Database(SandboxEnvironment):
    """The environment of one `db` task."""

    def __init__(self, sandbox: Sandbox, context: EnvironmentContext) -> None:
        super().__init__(
            sandbox, {SQL: self._run_sql}, context, end=functools.partial(_require_all_ended, sandbox)
        )
        # Whether a reference has been in the sandbox. No later attempt may then act there.
        self.holds_reference = False

    async def _run_sql(self, arguments: Sql) -> str:
        return await ask(self.sandbox, arguments.sql)

    async def keep_files(self) -> tuple[dict[str, bytes], int]:
        files = {FILE: await self.sandbox.read_file(FILE)}
        # A call that was killed in a transaction leaves a journal, and the next call undoes it by that.
        with contextlib.suppress(UsageError):
            files[JOURNAL] = await self.sandbox.read_file(JOURNAL)
        return files, sum(map(len, files.values()))

    @contextlib.asynccontextmanager
    async def open_for_reference(self) -> AsyncIterator[Sandbox]:
        """Open the sandbox where the reference's SQL runs after the agent's end. Raises SandboxError.

        If further agents may act in this sandbox, it is another one, where none ever acts.
        """
        if self.context.key is None:
            yield self.sandbox
            return
        settings, seconds = trusted_settings(self.context), self.context.seconds
        async with self.context.pool.lease(settings, seconds=seconds, key=REFERENCES, nested=True) as sandbox:
            yield sandbox

    async def reset(self) -> None:
        """Make the sandbox ready for the next attempt. If that fails, it is destroyed."""
        clean = False
        if self.sandbox.clean and not self.holds_reference:
            # The verdict counts after a failure, because the attempt needs the sandbox no more.
            with contextlib.suppress(SandboxError):
                clean = await reset(self.sandbox)
        self.sandbox.clean = clean
        self.sandbox.agent_acted = not clean


def make_published(sandbox: Sandbox) -> Published:
    """Return AgentBench's function calls for a database."""

    async def execute(arguments: Any) -> str:
        text = await ask(sandbox, arguments.query, seconds=_PUBLISHED_SECONDS)
        return text or "No response from database."

    async def commit(arguments: Any) -> LastObservation:
        return LastObservation("", json.dumps(arguments.answers, ensure_ascii=False))

    def submit(answer: str) -> tuple[str, dict[str, Any]]:
        try:
            answers = json.loads(answer)
        except ValueError:
            answers = answer
        listed = answers if isinstance(answers, list) else [answer]
        return _COMMIT.name, {"answers": [each if isinstance(each, str) else str(each) for each in listed]}

    return Published(
        handlers={_EXECUTE: execute, _COMMIT: commit},
        submit=submit,
        no_call="Internal error: No tool calls found despite finish reason.",
    )


async def play(environment: Database, sql: str) -> str:
    """Run a benchmark's own SQL, of MySQL's dialect, on the task's database, and return the result's text.

    The oracle uses this. The call takes no turn, and reads the SQL as the grader does.
    """
    environment.holds_reference = True
    # The reference is trusted, so a busy machine must not end it by the limit of an agent's call.
    text = await ask(environment.sandbox, sql, seconds=REFERENCE_SECONDS, meant_for_mysql=True)
    environment.context.transcript.write({"kind": "reference", "text": sql, "observation": text})
    return text


async def _require_all_ended(sandbox: Sandbox) -> None:
    """Raise SandboxError unless every process of the agent's SQL is known to have ended with its call."""
    if not sandbox.clean:
        raise build_fault("the machine did not end a process that ran the agent's SQL")


_INSTRUCTIONS = f"""\
{HOW_TO_ACT}

`sql`: {SQL.description}

Action: Operation
```sql
SQL
```

`submit`, where ANSWER is the text to submit:

Action: Answer
Final Answer: ANSWER

For example, to submit a list of two values:

Action: Answer
Final Answer: ["Ada", "Grace"]

{LONGER_FENCE}"""


def _read_operation(_tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    blocks = reply.actions[0].blocks
    blocks = blocks or [each for each in reply.introduction.blocks if each.label == "sql"]
    if not blocks:
        return TextFault("missing block", f"There is no SQL in your reply. {_ADVICE}")
    return TextCall(SQL.name, {"sql": blocks[0].text}, is_complete=blocks[0].is_closed)


def _read_answer(_tools: Mapping[str, Tool], reply: WrittenReply) -> TextCall | TextFault:
    action = reply.actions[0]
    return (
        _find_final_answer(action)
        or read_parentheses(action)
        or _find_final_answer(reply.introduction)
        or TextFault("missing answer", "There is no answer. Write it on the line `Final Answer: ANSWER`.")
    )


def _find_final_answer(action: WrittenAction) -> TextCall | None:
    """Return the call that submits the answer after `Final Answer:`, None if there is none.

    It is the rest of the line. A list may extend to the line that ends with its bracket. An empty rest asks
    for the next block, or else for the next line that is not empty.
    """
    lines = [action.rest, *action.lines]
    for number, line in enumerate(lines):
        found = _FINAL_ANSWER.match(line)
        if found is None:
            continue
        answer = found["answer"].strip()
        if "*" in found["before"] and not found["bold"]:
            answer = answer.removesuffix("**").rstrip()
        if answer.startswith("`["):
            answer = answer.strip("`")
        following = lines[number + 1 :]
        if not answer and action.blocks:
            block = action.blocks[0]
            return TextCall(SUBMIT.name, {"answer": block.text.strip()}, is_complete=block.is_closed)
        if not answer:
            number, answer = _find_text(following)
            following = following[number:]
        answer = _complete_list(answer, following)
        # A line that the server cut off is the last one.
        is_complete = bool(following) or answer.endswith("]")
        return TextCall(SUBMIT.name, {"answer": answer}, is_complete=is_complete) if answer else None
    return None


def _find_text(lines: list[str]) -> tuple[int, str]:
    """Return the first line that is not empty, and the number of lines up to it."""
    found = ((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip())
    return next(found, (len(lines), ""))


def _complete_list(answer: str, following: list[str]) -> str:
    """Return an answer with the lines up to the end of its list, the answer alone if the list has no end."""
    if not answer.startswith("[") or "]" in answer:
        return answer
    for number, line in enumerate(following, 1):
        if line.rstrip().endswith("]"):
            return "\n".join([answer, *following[:number]])
    return answer


TEXT_FORM = TextForm(
    instructions=_INSTRUCTIONS,
    tools=(SQL,),
    advice=_ADVICE,
    result="The result of the SQL:",
    words={
        OPERATION: _read_operation,
        SQL.name: _read_operation,
        ANSWER: _read_answer,
        SUBMIT.name: _read_answer,
    },
    known=("Operation", "Answer"),
    # Upstream accepts a final answer without the line before it.
    read_without_action=lambda _reply, introduction: _find_final_answer(introduction),
    leaves_out=lambda call, action: (
        call.tool != SUBMIT.name and (len(action.blocks) > 1 or _find_final_answer(action) is not None)
    ),
)
"""AgentBench's form: `Action: Operation` with SQL, and `Action: Answer`.

As upstream does, the form takes the first action of a reply, and of an operation the first block. A block or
a final answer before the action counts if none follows it.
Source: the task `dbbench` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""
