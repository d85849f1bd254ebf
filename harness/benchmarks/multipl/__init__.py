"""MultiPL-E (Cassano et al. 2023, arXiv 2208.08227): the functions of HumanEval in nine other languages.

Upstream's verdict is the exit code of a program that has its tests inside. Here the tests are taken apart
(`forms`), so that a submission meets calls alone, and no expected value.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.hub import HubDataset
from harness.benchmarks.data.rows import Row
from harness.benchmarks.multipl.forms import FORMS, MARK, Form
from harness.benchmarks.options import Options, validate_options
from harness.benchmarks.replies import CodeRule, extract_code, remark_on_code
from harness.core.types import Reference, Submission, Task
from harness.environments.python.printed_values import PrintedValues

Name = Literal["cpp", "go", "java", "js", "php", "rb", "rs", "sh", "ts"]
# The function that the tests call.
_ENTRY = re.compile(
    r"candidate :?= (?:method\(:)?(\w+)|return (\w+)\(\.\.\."
    r"|^    (\w+) \"\$@\"|^    assert\((?!candidate\()(\w+)\(",
    re.MULTILINE,
)
# Published for each language: tasks whose Python has no counterpart there are left out upstream.
_TASKS: Mapping[Name, int] = {
    **dict.fromkeys(("cpp", "js", "php", "rb"), 161),
    "go": 154,
    "java": 158,
    "rs": 156,
    "sh": 158,
    "ts": 159,
}


class MultiPLEOptions(Options):
    """The options of the benchmark."""

    language: Name = "cpp"
    """The language, by the name that the published files have."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Returns the program in a text: a completion of the prompt, or a whole program."""

    form: Form

    def __call__(self, task: Task, field: str, text: str) -> Submission:
        program, remark = text, None
        if field == "reply":
            program = extract_code(text, CodeRule.FENCED)
            remark = remark_on_code(text, CodeRule.FENCED, program)
        continues = field == "completion" or (
            field == "reply" and re.search(rf"\b{task.entry_point}\b", program) is None
        )
        prompt = task.prompt if task.statement is None else task.statement
        make_whole = self.form.complete if continues else self.form.give_head
        program = make_whole(prompt, program)
        return Submission(self.form.open(program), agent_output=text, remark=remark)


def _read(language: Name, row: Row) -> tuple[Task, Reference[PrintedValues]] | None:
    """Return the task and reference of a row: name, language, prompt, tests. Raises DataError."""
    if row.text("language").partition("_")[0] != language:
        return None
    form, prompt, tests = FORMS[language], row.text("prompt"), row.text("tests")
    row.optional_text("test")  # the same text under the name that later tools read
    entry = _ENTRY.search(tests)
    if entry is None:
        raise row.error("does not tell which function it tests", field="tests")
    name = next(filter(None, entry.groups()))
    try:
        pairs = form.split(name, tests)
    except ValueError as error:
        raise row.error(str(error), field="tests") from error
    task_id = row.text("name")
    target = PrintedValues(
        form.language,
        form.print_calls(name, pairs),
        form.print_expected(prompt, name, pairs),
        len(pairs),
        MARK,
        loose=language in ("js", "ts"),
    )
    instruction = (
        "Complete the function. Reply with the whole function, and what it needs, "
        f"in one ```{form.language} block."
    )
    task = Task(task_id, "multipl-e", "python", prompt, entry_point=name, instruction=instruction)
    # The published rows have no solutions.
    solution = row.optional_text("solution") or ""
    return task, Reference(task_id, form.open(form.complete(prompt, solution)), target, solution)


def _configure(definition: Definition, values: Mapping[str, Any]) -> Definition:
    return _choose(definition, validate_options(MultiPLEOptions, values, definition.name).language)


def _choose(definition: Definition, language: Name) -> Definition:
    return replace(
        definition,
        tasks=_TASKS[language],
        hub=HubDataset("nuprl/MultiPL-E", f"humaneval-{language}", "test"),
        read=functools.partial(_read, language),
        submit=Submit(FORMS[language]),
    )


BENCHMARKS = (
    _choose(
        Definition(
            name="multipl-e",
            description="HumanEval in C++, Go, Java, JavaScript, PHP, Ruby, Rust, bash or TypeScript",
            environments=("python",),
            tasks=None,
            licence="MIT",
            missing=dict.fromkeys(("train", "dev"), "it was published with test only"),
            formats=("humaneval-cpp.jsonl and its like", "its rows as JSONL or JSON", "the rows of the hub"),
            hub=None,
            bundled="multipl-e.jsonl",
            reply_rule="the last block of code; without the entry point it continues the prompt",
            read=lambda _row: None,
            submit=lambda _task, _field, text: Submission(text, agent_output=text),
            configure=_configure,
            options=MultiPLEOptions,
        ),
        "cpp",
    ),
)
