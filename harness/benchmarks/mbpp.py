"""MBPP (Austin et al. 2021, arXiv 2108.07732): write a function from a sentence and its tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from harness.benchmarks import humaneval
from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row, WatchedFields
from harness.benchmarks.data.splits import HubDataset, Split
from harness.benchmarks.programs import (
    WRITE_PROGRAM,
    SubmitProgram,
    class_attributes,
    imports_of,
    names_used,
    parse,
    top_level_names,
)
from harness.core.types import ProgramTests, Reference, Task

# A completion is a whole program too, because MBPP has no prompt to continue.
submit = SubmitProgram()
_HUB = "google-research-datasets/mbpp"
_ALL_SPLITS = "prompt+test+validation+train"
# Task ids of the splits (the paper, section 2.1). The hub calls dev `validation`.
_SPLITS = {"prompt": range(1, 11), "test": range(11, 511), "dev": range(511, 601), "train": range(601, 975)}
_SANITIZED = {"prompt": 7, "test": 257, "dev": 43, "train": 120}
_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)


def read(row: Row) -> tuple[Task, Reference[ProgramTests]]:
    """Return the task and reference of a row in either published schema.

    Sanitized: task_id, prompt, code, test_imports, test_list. Full: task_id, text, code, test_setup_code,
    test_list. Further tests may be in `test`. Raises DataError, with file and line, for a broken row.

    Source: the folder `mbpp` of google-research/google-research, and the paper for the prompt (section 4.1).
    """
    task_id = str(row.integer("task_id"))
    text, code = row.text("prompt" if "prompt" in row.values else "text"), row.text("code")
    asserts = row.texts("test_list")
    if not asserts:
        raise row.error("has no test", field="test_list")
    # The rows of MBPP+ on the hub have further tests, as one text.
    further = row.optional_text("test") or ""
    _parse_field(row, "test", further)
    statements = [*asserts, *filter(None, [further])]
    imports = row.texts("test_imports") if "test_imports" in row.values else []
    preamble = "\n".join([*imports, row.optional_text("test_setup_code") or ""])
    _parse_field(row, "test_imports" if imports else "test_setup_code", preamble)
    solution = _parse_field(row, "code", code)
    defined = top_level_names(solution)
    used = names_used(_parse_field(row, "test_list", "\n".join([preamble, *statements])))
    exports = [name for name in defined if name in used]
    functions = [name for name in exports if isinstance(defined[name], ast.FunctionDef)]
    if not functions:
        raise row.error("has no test that uses a function of the code", field="test_list")
    tests = ProgramTests(
        setup="\n".join([preamble, *imports_of(solution, used - set(exports))]),
        preamble=preamble,
        statements=tuple(statements),
        exports={name: name for name in exports},
        classes={
            name: class_attributes(node)
            for name, node in defined.items()
            if name in exports and isinstance(node, ast.ClassDef)
        },
        parts={"base": len(asserts), "plus": len(statements)} if further else {},
    )
    # The prompt that the paper gives to models is in its section 4.1.
    prompt = (
        f"You are an expert Python programmer, and here is your task: {text} "
        "Your code should pass these tests:\n\n" + "\n".join(asserts) + "\n"
    )
    task = Task(
        id=task_id,
        benchmark="mbpp",
        environment="python",
        prompt=prompt,
        entry_point=functions[0],
        statement=f"{text}\n\n" + "\n".join(asserts),
        instruction=WRITE_PROGRAM,
    )
    return task, Reference(task_id, code, tests, expected_output=code)


def humaneval_shape(row: Row) -> dict[str, Any]:
    """Return a row with the fields of HumanEval's schema added, under the same task id.

    `prompt` is the program up to and including the header of the function under test, with the text as its
    docstring. `canonical_solution` is the rest. `test` defines `check(candidate)`.
    """
    task, reference = read(row)
    entry_point = str(task.entry_point)
    text = row.text("prompt" if "prompt" in row.values else "text")
    code = _INDENTATION.sub(lambda blanks: blanks[0].expandtabs(8), row.text("code").replace("\r\n", "\n"))
    function = next(
        node for node in parse(code).body if isinstance(node, ast.FunctionDef) and node.name == entry_point
    )
    lines = code.split("\n")
    first_line = _first_line(function.body[0])
    indent = lines[first_line - 1][: function.body[0].col_offset]
    if indent.strip():
        # The body is on the header's line. Write the function out, so that it can be cut between the two.
        top = _first_line(function)
        lines[top - 1 : function.end_lineno] = ast.unparse(function).split("\n")
        first_line, indent = top + len(function.decorator_list) + 1, " " * 4
    header = "\n".join(lines[: first_line - 1])
    docstring = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').strip()
    body = [
        ast.unparse(_Renamed(entry_point).visit(parse(statement)))
        for statement in reference.target.statements
    ]
    setup = [line for line in reference.target.setup.split("\n") if line.strip()]
    check = "\n".join(f"    {line}" for statement in body for line in statement.split("\n"))
    return {
        **(row.values.values_unseen if isinstance(row.values, WatchedFields) else row.values),
        "task_id": row.integer("task_id"),
        "prompt": f'{header}\n{indent}"""{docstring}\n{indent}"""\n',
        "entry_point": entry_point,
        "canonical_solution": "\n".join(lines[first_line - 1 :]) + "\n",
        "test": "\n".join([*setup, "", "def check(candidate):", check, ""]),
    }


def read_humaneval_shape(row: Row) -> tuple[Task, Reference[ProgramTests]]:
    """Return the task and reference of a row of MBPP in HumanEval's shape."""
    shaped = humaneval_shape(row)
    task_id = str(shaped["task_id"])
    task, reference = humaneval.read(replace(row, values={**shaped, "task_id": task_id}))
    # The tests may use more of the program than the function under test. They have their own copy of the
    # prompt's functions, and take everything else from the candidate.
    own = top_level_names(parse(reference.target.setup))
    full = read(row)[1].target
    candidates = {name: name for name in full.exports if not isinstance(own.get(name), ast.FunctionDef)}
    exports = {**reference.target.exports, **candidates}
    tests = replace(reference.target, exports=exports, classes=full.classes)
    return task, replace(reference, target=tests)


def _first_line(statement: ast.stmt) -> int:
    """Return the line where a statement begins, with its decorators."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


class _Renamed(ast.NodeTransformer):
    """Renames the function under test to `candidate`, as HumanEval's tests call it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name("candidate", node.ctx) if node.id == self._name else node


def _parse_field(row: Row, field: str, source: str) -> ast.Module:
    try:
        return parse(source)
    except (SyntaxError, ValueError) as error:
        raise row.error(f"is not Python: {error}", field=field) from error


def _is_of(ids: range, row: Row) -> bool:
    return row.integer("task_id") in ids


def _definition(name: str, description: str, tasks: int, config: str, **changed: Any) -> Definition:
    settings: Mapping[str, Any] = {
        "environments": ("python",),
        "licence": "CC BY 4.0",
        "split": "all",
        "splits": {
            name: Split(
                HubDataset(_HUB, config, "validation" if name == "dev" else name),
                _SANITIZED[name] if config == "sanitized" else len(ids),
                partial(_is_of, ids),
            )
            for name, ids in _SPLITS.items()
        },
        "formats": (
            ("sanitized-mbpp.json", "its rows as JSONL")
            if config == "sanitized"
            else ("mbpp.jsonl", "its rows as JSON")
        ),
        "hub": HubDataset(_HUB, config, _ALL_SPLITS),
        "bundled": "mbpp.json",
        "read": read,
        # The paper does not use these tests.
        "unused_fields": frozenset(("challenge_test_list",)),
        "submit": submit,
        **changed,
    }
    return Definition(name=name, description=description, tasks=tasks, **settings)


BENCHMARKS = (
    _definition("mbpp", "write a Python function (the 427 verified problems)", 427, "sanitized"),
    _definition("mbpp-full", "write a Python function (all 974 problems)", 974, "full"),
    _definition(
        "mbpp-humaneval",
        "the 427 problems of mbpp in the shape of HumanEval",
        427,
        "sanitized",
        read=read_humaneval_shape,
        submit=humaneval.submit,
    ),
)
