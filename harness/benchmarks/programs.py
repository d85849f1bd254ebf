"""Read the program in a sample or in a model's reply, and make the tests that call it.

The names that trusted source defines and uses are read from its syntax tree. Nothing is run.
"""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.benchmarks.replies import CodeRule, extract_code, remark_on_code, stands_alone
from harness.core.types import ProgramTests, Submission, Task

# The methods that decorators add to a class.
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_DATACLASS = ("__eq__", "__repr__")
_UNIT = "    "
# A line that ends in one of these is not the end of its statement.
_OPEN_ENDS = (":", "(", "[", "{", ",", "\\")
_QUOTES = ('"""', "'''")
WRITE_PROGRAM = "Reply with the whole program in one ```python block."
"""The instruction that agrees with the rule `fenced`."""
_BUILTINS = frozenset(dir(builtins))


def parse(source: str) -> ast.Module:
    """Return the syntax tree of a program, and suppress the warnings that are for its author.

    Raises SyntaxError or ValueError as `ast.parse` does, and SyntaxError for a program nested too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # A file may begin with a byte order mark, which Python skips.
            return ast.parse(source.removeprefix("\ufeff"))
        except (RecursionError, MemoryError) as error:
            raise SyntaxError("nested too deeply") from error


def top_level_names(module: ast.Module) -> dict[str, ast.stmt]:
    """Return the statements that define names at the top level of a program, by name and in order."""
    defined: dict[str, ast.stmt] = {}
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for name in _stored(node):
                defined[name] = node
    return defined


def names_used(tests: ast.Module) -> set[str]:
    """Return the names that tests read but do not define themselves."""
    read_names = {
        part.id for part in ast.walk(tests) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
    }
    imported = {
        bound_name(alias)
        for part in ast.walk(tests)
        if isinstance(part, (ast.Import, ast.ImportFrom))
        for alias in part.names
    }
    return read_names - _stored(tests) - imported


def imports_of(solution: ast.Module, wanted: Iterable[str]) -> list[str]:
    """Return the top-level imports that define names in `wanted` which are not built in."""
    names = {name for name in wanted if not hasattr(builtins, name)}
    return [
        ast.unparse(node)
        for node in solution.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and any(bound_name(alias) in names for alias in node.names)
    ]


def class_attributes(node: ast.ClassDef) -> tuple[str, ...]:
    """Return the names that a class defines: in its body, by its decorator, and on `self`."""
    names: set[str] = set()
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(statement.name)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            names |= _stored(statement)
    for part in ast.walk(node):
        if (
            isinstance(part, ast.Attribute)
            and isinstance(part.ctx, ast.Store)
            and isinstance(part.value, ast.Name)
        ):
            names.add(part.attr)
    decorators = " ".join(map(ast.unparse, node.decorator_list))
    if "dataclass" in decorators:
        names |= {*_DATACLASS}
    if "total_ordering" in decorators or "order=True" in decorators:
        names |= {*_ORDER}
    return tuple(sorted(names))


def bound_name(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return (alias.asname or alias.name).partition(".")[0]


def _stored(node: ast.AST) -> set[str]:
    return {
        part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


@dataclass(frozen=True, slots=True)
class SubmitProgram:
    """The `submit` of a benchmark that grades programs: a rule for each field, and a user's rule for all.

    A `solution` or an `answer` is a whole program as it is.
    """

    completion: CodeRule = CodeRule.NONE
    reply: CodeRule = CodeRule.FENCED
    continues_prompt: bool = False
    """Whether a completion continues the prompt, and also a reply that does not define the entry point."""
    chosen: CodeRule | None = None
    """The rule of `--extract`. It applies to every field, because a user who names a rule expects it to."""

    def __call__(self, task: Task, field: str, text: str) -> Submission:
        rule = self.rule_of(field)
        program = extract_code(text, rule, entry_point=task.entry_point)
        remark = remark_on_code(text, rule, program)
        if self.continues_prompt and field in ("completion", "reply"):
            prompt = task.prompt if task.statement is None else task.statement
            if field == "completion" and rule is CodeRule.NONE:
                # A completion of the published format is joined to the prompt without any change.
                program = prompt + program
            elif task.entry_point is None or not stands_alone(program, task.entry_point):
                program = continue_prompt(prompt, program)
        return Submission(program, agent_output=text, remark=remark)

    def rule_of(self, field: str) -> CodeRule:
        """Return the rule that chooses the program in a text of this field."""
        if self.chosen is not None:
            return self.chosen
        return {"completion": self.completion, "reply": self.reply}.get(field, CodeRule.NONE)


def continue_prompt(prompt: str, body: str) -> str:
    """Return the prompt with the body of its last function, indented as the prompt's last line is.

    The indentation is repaired where only one repair is possible: the whole body has another indentation, or
    its first line alone lost it. Any other body stays as it is, and so does one with a text over several
    lines, because a repair would change that text.
    """
    start = prompt if prompt.endswith("\n") else f"{prompt}\n"
    last = prompt.rstrip().rpartition("\n")[2]
    return start + _repair_indentation(body, _leading_blanks(last) or _UNIT)


def _repair_indentation(body: str, unit: str) -> str:
    lines = body.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    blanks = [_leading_blanks(lines[number]) for number in filled]
    if not filled or blanks[0] == unit or any("\t" in each for each in (unit, *blanks)):
        return body
    if any(line.count(quotes) % 2 for line in lines for quotes in _QUOTES):
        return body
    first, widths = len(blanks[0]), [len(each) for each in blanks[1:]]
    least = min(widths, default=first)
    if least < first:
        return body
    end = lines[filled[0]].partition("#")[0].rstrip()[-1:]
    # Only the first line lost its indentation, as after `reply.strip()`, if all others still have theirs.
    lost = bool(widths) and first < len(unit) <= least
    if end == ":":
        lost = lost and widths[0] > len(unit)
    elif widths and widths[0] > first and end not in _OPEN_ENDS and not lost:
        return body
    moved = {filled[0]} if lost else set(filled)
    return "\n".join(unit + line[first:] if number in moved else line for number, line in enumerate(lines))


def _leading_blanks(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def build_from_solution(solution: ast.Module, tests: Sequence[str], setup: str) -> ProgramTests | None:
    """Return tests that call what a reference program defines, or None if they use none of its names.

    `setup` is source that runs before the tests, and before the program. Raises SyntaxError and ValueError
    for source that is not Python.
    """
    used = names_used(ast.Module([*parse(setup).body, *parse("\n".join(tests)).body], []))
    defined = top_level_names(solution)
    exports = [name for name in defined if name in used]
    if not exports:
        return None
    return ProgramTests(
        setup="\n".join([setup, *imports_of(solution, used - set(exports))]),
        preamble=setup,
        statements=drop_empty(tests),
        exports={name: name for name in exports},
        classes={
            name: class_attributes(node)
            for name, node in defined.items()
            if name in exports and isinstance(node, ast.ClassDef)
        },
    )


def drop_empty(tests: Sequence[str]) -> tuple[str, ...]:
    """Return the tests that have any source."""
    return tuple(test for test in tests if test.strip())


def find_missing_names(source: str) -> list[str]:
    """Return the names that source reads, and that neither it nor Python defines, in their order.

    The rules are Python's own. Raises SyntaxError for source that is not Python.
    """
    read: dict[str, None] = {}
    defined: set[str] = set()
    scopes = [symtable.symtable(source, "<tests>", "exec")]
    while scopes:
        scope = scopes.pop(0)
        is_module = scope.get_type() == "module"
        for symbol in scope.get_symbols():
            if not is_module and not symbol.is_global():
                continue
            if symbol.is_assigned() or symbol.is_imported():
                defined.add(symbol.get_name())
            if symbol.is_referenced():
                read[symbol.get_name()] = None
        scopes += scope.get_children()
    return [name for name in read if name not in defined and name not in _BUILTINS]
