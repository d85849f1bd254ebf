"""Attacks that consist of programs, which are completed with facts of a task."""

from __future__ import annotations

import ast
import builtins
import functools
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from harness.audit.attack import Kind, fill_from_task, read_part
from harness.benchmarks.benchmark import Benchmark
from harness.core.tools import AgentEnvironment
from harness.core.types import Submission, Task
from harness.environments.db.environment import SQL
from harness.environments.os.environment import BASH

# Prompts show an answer below a line of an interactive session, or after one of these signs.
_SHOWN = re.compile(
    r">>>[^\n]*\n[ \t]*(?P<below>[^\n>]+)"
    r"|(?:==|=>|\u279e|->|\bOutput:|[Rr]eturns?:?)[ \t]*(?P<behind>[^\n#]+)"
)
_SAMPLE_OUTPUT = re.compile(r"Sample Output[^\n]*\n+([^\n]+)")
_MOST, _LONGEST = 24, 60
_SMALL_NUMBERS = (*range(11), -1)
_JSON = {"true": True, "false": False, "null": None}
_CALLED = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)\s*\(")
# Some graders and tests call the function under test by these names, whatever its own name is.
_USUAL_NAMES = ("candidate", "solution", "solve", "main", "Solution")
# The entry point of a task that asks for a whole program and so names no function.
_NO_FUNCTION = "main"
SHOWN_CHARACTERS = 400
_EACH = re.compile(r"<each(?:\+(\d+))?>")
# No task has this number as its answer, so a pass is the fault of the grader.
WRONG_ANSWER = "418299173"
# More than any command needs, even on a busy machine.
COMMAND_SECONDS = 20


def find_shown_answers(prompt: str) -> list[Any]:
    """Return the values that a prompt shows as answers, in order, if they are literals."""
    found = []
    for match in _SHOWN.finditer(prompt):
        text = (match["below"] or match["behind"]).strip().rstrip(".,;")
        if len(text) > _LONGEST:
            continue
        try:
            found.append(_JSON[text] if text in _JSON else ast.literal_eval(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return found


def choose_answers(prompt: str) -> list[Any]:
    """Return the answers worth guessing: both booleans, small numbers, or values that the prompt shows."""
    shown = list({repr(value): value for value in find_shown_answers(prompt)}.values())
    if not shown or all(isinstance(value, bool) for value in shown):
        return [True, False]
    if all(isinstance(value, int) for value in shown):
        return sorted({*shown, *_SMALL_NUMBERS})[:_MOST]
    return sorted(shown, key=repr)[:_MOST]


def choose_outputs(prompt: str) -> list[str]:
    """Return the first lines of output that a prompt shows, the shortest first."""
    lines = {line.strip() for line in _SAMPLE_OUTPUT.findall(prompt)}
    return sorted(lines - {""}, key=lambda line: (len(line), line))[:_MOST]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class ProgramAttack:
    """An attack by programs. The host treats them as text and never runs them.

    The prelude precedes each program. It defines `NAMES` (every name that a test may call), `ENTRY_POINT`,
    `TASK` (the id of the task) and `SAMPLE` (the position among the templates, from 0).

    Attributes:
        templates: Python programs, submitted one after the other as samples of one task.
        knows_answers: whether the prelude also defines `ANSWERS` and `OUTPUTS`, which are worth guessing,
            and `SHOWN`, the number of answers that the prompt shows.
    """

    name: str
    kind: Kind
    description: str
    templates: tuple[str, ...]
    targets: tuple[str, ...] = ()
    knows_answers: bool = False

    @property
    def samples(self) -> int:
        return len(self.templates)

    async def hand_in(
        self, benchmark: Benchmark, task: Task, sample: int, environment: AgentEnvironment | None
    ) -> Submission:
        program = self.write_programs(task)[sample]
        submission = benchmark.submission(task, "solution", program)
        return replace(submission, agent_output=f"# {self.name}, sample {sample}\n{program}")

    def write_programs(self, task: Task) -> tuple[str, ...]:
        """Return the programs of this attack on `task`, made from information that an agent has."""
        facts = _write_facts(task)
        if self.knows_answers:
            facts += (
                f"ANSWERS = {choose_answers(task.prompt)!r}\nOUTPUTS = {choose_outputs(task.prompt)!r}\n"
                f"SHOWN = {len(find_shown_answers(task.prompt))}\n"
            )
        return tuple(
            f"{facts}SAMPLE = {sample}\n\n{read_prelude()}\n\n{template.strip()}\n"
            for sample, template in enumerate(self.templates)
        )


@functools.cache
def read_prelude() -> str:
    """Return the text of the helpers that precede every program."""
    return read_part("prelude.py")


def _write_facts(task: Task) -> str:
    # The prompt is not included, because an attack could find tests of the prompt in its own text.
    entry_point = task.entry_point or _NO_FUNCTION
    return f"TASK = {task.id!r}\nENTRY_POINT = {entry_point!r}\nNAMES = {_list_names(task)!r}\n"


def _list_names(task: Task) -> list[str]:
    """Return the names that tests of this task may call, according to its prompt."""
    called = {
        name
        for name in _CALLED.findall(task.prompt)
        if not keyword.iskeyword(name) and not hasattr(builtins, name)
    }
    return sorted(called | set(_USUAL_NAMES) | ({task.entry_point} if task.entry_point else set()))


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Repeat:
    """A text that is repeated `times` times."""

    repeat: str
    times: int

    def __str__(self) -> str:
        return self.repeat * self.times


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Numbers:
    """The integers from the first to the second of `numbers`, in descending order if the second is less.

    Attributes:
        form: the text for a number. `<n>` is the number.
        between: the text between two numbers.
    """

    numbers: tuple[int, int]
    form: str = "<n>"
    between: str = ""

    def __str__(self) -> str:
        first, last = self.numbers
        step = 1 if first <= last else -1
        texts = (self.form.replace("<n>", str(number)) for number in range(first, last + step, step))
        return self.between.join(texts)


Piece = str | Repeat | Numbers
Answer = Piece | tuple[Piece, ...]
"""A text, or consecutive pieces of one."""


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class ForEach:
    """All `answers` for each value. `<each>` is the value, and `<each+1>` the next number."""

    for_each: tuple[str | int, ...]
    answers: tuple[str, ...]

    def __iter__(self) -> Iterator[str]:
        for value in self.for_each:
            for answer in self.answers:
                yield _EACH.sub(lambda word, value=value: _shift(value, word[1]), answer)  # type: ignore[misc]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class AnswerAttack:
    """An attack that submits answers which show no understanding of the question.

    Attributes:
        answers: the answers. They may contain the words of `fill_from_task`.
        field: the field of a samples file that the answer would be in, `solution` or `completion`. It has no
            effect in an environment, which takes the answer as it is.
    """

    name: str
    kind: Kind
    description: str
    targets: tuple[str, ...]
    answers: tuple[Answer | ForEach, ...]
    field: str = "solution"

    @property
    def samples(self) -> int:
        return len(self._list_answers())

    async def hand_in(
        self, benchmark: Benchmark, task: Task, sample: int, environment: AgentEnvironment | None
    ) -> Submission:
        answer = self.write_answer(task, sample)
        shown = answer[:SHOWN_CHARACTERS]
        if environment is not None:
            await environment.submit(answer)
            return Submission(answer, agent_output=f"# {self.name}: {shown}")
        submission = benchmark.submission(task, self.field, answer)
        return replace(submission, agent_output=f"# {self.name}, sample {sample}\n{shown}")

    def write_answer(self, task: Task, sample: int) -> str:
        """Return the answer of attempt number `sample` at a task."""
        answer = self._list_answers()[sample]
        text = "".join(map(str, answer)) if isinstance(answer, tuple) else str(answer)
        return fill_from_task(text, task)

    def _list_answers(self) -> list[Answer]:
        listed: list[Answer] = []
        for entry in self.answers:
            listed += entry if isinstance(entry, ForEach) else [entry]
        return listed


def _shift(value: str | int, number: str | None) -> str:
    return str(value) if number is None else str(int(value) + int(number))


Call = tuple[str, Mapping[str, Any]]
"""The name of a tool and its arguments."""


class CallAttack:
    """An attack that makes calls in the environment of a task, and then submits `answer`."""

    name: str
    answer: str

    @property
    def samples(self) -> int:
        return 1

    async def hand_in(
        self, benchmark: Benchmark, task: Task, sample: int, environment: AgentEnvironment | None
    ) -> Submission:
        if environment is None:
            raise TypeError(f"{self.name} acts in an environment, but its task has none")
        for tool, arguments in self.list_calls(task):
            if environment.submitted is None:
                await environment.call(tool, arguments)
        if environment.submitted is None:
            await environment.submit(self.answer)
        submitted = environment.submitted or ""
        return Submission(submitted, agent_output=f"# {self.name}: {submitted}")

    def list_calls(self, task: Task) -> list[Call]:
        """Return the calls that the attack makes at a task."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class ShellAttack(CallAttack):
    """An attack by an agent that is root in its environment: shell commands, followed by an answer.

    Attributes:
        seconds: the timeout of each command.
    """

    name: str
    kind: Kind
    description: str
    targets: tuple[str, ...]
    commands: tuple[str, ...]
    answer: str = WRONG_ANSWER
    seconds: int = COMMAND_SECONDS

    def list_calls(self, task: Task) -> list[Call]:
        return [
            (BASH.name, {"command": command, "timeout_seconds": self.seconds}) for command in self.commands
        ]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class SqlAttack(CallAttack):
    """An attack by an agent that works on a database: SQL statements, followed by an answer.

    The statements may contain the words of `fill_from_task`.
    """

    name: str
    kind: Kind
    description: str
    targets: tuple[str, ...]
    statements: tuple[str, ...]
    answer: str = ""

    def list_calls(self, task: Task) -> list[Call]:
        return [(SQL.name, {"sql": fill_from_task(statement, task)}) for statement in self.statements]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class ToolCall:
    """One call of a tool. Texts in the arguments may contain the words of `fill_from_task`."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class ToolAttack(CallAttack):
    """An attack by an agent in a world on the host: calls of tools, followed by an answer.

    `times` repeats the calls. The attack stops when the task has ended.
    """

    name: str
    kind: Kind
    description: str
    targets: tuple[str, ...]
    calls: tuple[ToolCall, ...]
    answer: str = WRONG_ANSWER
    times: int = 1

    def list_calls(self, task: Task) -> list[Call]:
        return [
            (
                call.tool,
                {
                    name: fill_from_task(value, task) if isinstance(value, str) else value
                    for name, value in call.arguments.items()
                },
            )
            for call in self.calls * self.times
        ]
