"""The commands and the Python code in the documentation exist: nothing is run, only parsed."""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from harness.cli.app import app

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(harness|make)( [^`\n]+)`")
SHELL = ("", "bash", "sh", "shell", "console")
# The words before `harness` in a command: a prompt, variables, or the path of an environment.
COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S* )*(?:[\w./]*/)?(harness|make)(?= |$)(.*)", re.DOTALL)
# Modules that a page of docs/adding tells the reader to write.
MADE_BY_READER = {"harness.environments.notes", "harness.environments.notes.environment"}
# The text in place of words that a reader fills in.
OPEN_END = re.compile(r"\.\.\.|\[|<\w")


def list_pages() -> list[Path]:
    """Return the pages that describe the present. The changelog also names commands of the past."""
    pages = [*REPOSITORY.glob("*.md"), *sorted((REPOSITORY / "docs").rglob("*.md"))]
    return [page for page in pages if page.name != "CHANGELOG.md"]


def list_commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield the program and the arguments of each command in the shell blocks of a page."""
    for _, kind, block in BLOCK.findall(text):
        if kind in SHELL:
            for line in block.replace("\\\n", " ").splitlines():
                for part in re.split(r" && | \|\|? |; ", line.strip()):
                    if found := COMMAND.match(part):
                        yield found[1], found[2]


def find_fault(whole: Any, arguments: str, *, is_complete: bool) -> str | None:
    """Return why the parser of the command line refuses the arguments, None if it takes them.

    Of a command that is only named, the values of its last option and its arguments may be missing.
    """
    rest = shlex.split(re.split(r" +(?:\d?>|<|&$)", arguments)[0], comments=True)
    command, context = whole, whole.make_context("harness", [], resilient_parsing=True)
    while isinstance(command, TyperGroup) and rest and rest[0][:1] != "-":
        command, name = command.get_command(context, rest[0]), rest.pop(0)
        if command is None:
            return f"no command {name}"
        context = type(context)(command, parent=context, info_name=name)
    try:
        if is_complete and not {"-h", "--help", "--version"} & {*rest}:
            command.make_context(context.info_name, rest, parent=context.parent)
        else:
            command.make_parser(context).parse_args(rest)
    except Exception as error:
        message = getattr(error, "message", "") or str(error) or type(error).__name__
        return message if is_complete or "requires an argument" not in message else None
    return None


def list_missing(module: str, names: list[ast.alias]) -> list[str]:
    """Return the names that a module does not have, by its source, because some modules need an extra."""
    path = REPOSITORY / module.replace(".", "/")
    source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    if not source.exists():
        return [] if module in MADE_BY_READER else [f"no module {module}"]
    text = source.read_text()
    return [
        f"{module} has no {each.name}"
        for each in names
        if not re.search(rf"\b{each.name}\b", text) and not [*path.glob(f"{each.name}*")]
    ]


@pytest.fixture(scope="module")
def whole() -> Any:
    return typer.main.get_command(app)


def test_the_command_line_takes_every_documented_command(whole: Any) -> None:
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    faults, checked = [], 0
    for page in list_pages():
        text = page.read_text()
        named = [(*found, False) for found in SPAN.findall(BLOCK.sub("", text)) if "COMMAND" not in found[1]]
        typed = [(program, rest, not OPEN_END.search(rest)) for program, rest in list_commands(text)]
        for program, arguments, is_complete in [*named, *typed]:
            checked += 1
            if program == "make":
                goals = [each for each in shlex.split(arguments, comments=True) if each[:1].islower()]
                fault = next((f"no target {goal}" for goal in goals if goal not in targets), None)
            else:
                fault = find_fault(whole, arguments, is_complete=is_complete)
            if fault is not None:
                faults.append(f"{page.relative_to(REPOSITORY)}: {program}{arguments}: {fault}")
    assert faults == [], "\n".join(["", *faults])
    assert checked > 300


def test_every_documented_python_block_compiles_and_its_imports_exist() -> None:
    faults, checked = [], 0
    for page in list_pages():
        for _, kind, block in BLOCK.findall(page.read_text()):
            if kind not in ("python", "py"):
                continue
            checked += 1
            source = textwrap.dedent(block)
            place = f"{page.relative_to(REPOSITORY)}: {source[:40]!r}"
            try:
                tree = compile(source, str(page), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            except SyntaxError as error:
                faults.append(f"{place}: {error}")
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "harness":
                    faults += [f"{place}: {each}" for each in list_missing(str(node.module), node.names)]
    assert faults == [], "\n".join(["", *faults])
    assert checked > 40
