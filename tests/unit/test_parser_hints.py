from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from case_checks import each_case

from harness.benchmarks.options import parse_options
from harness.cli import errors, options
from harness.cli.app import app
from harness.cli.commands import COMMANDS, EXAMPLES
from harness.core.errors import UsageError


def test_an_option_that_has_taken_the_next_option_as_its_value_is_named() -> None:
    arguments = ["run", "-b", "mbpp", "--model", "m", "--base-url", "--max-concurrent", "16"]
    with pytest.raises(UsageError, match="--base-url needs a value"):
        app(arguments, standalone_mode=False)


@cache
def whole_command() -> Any:
    """Return the command with all subcommands, which takes long to make."""
    return typer.main.get_command(app)


def list_commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from list_commands(command, *names, name)
        else:
            yield (*names, name), command


def test_every_option_that_takes_one_value_is_refused_if_it_is_given_twice() -> None:
    taken, number = [], 0
    whole = whole_command()
    for names, command in list_commands(whole):
        for param in command.get_params(typer.Context(command)):
            if param.param_type_name != "option" or param.is_flag or param.count or param.multiple:
                continue
            number += 1
            words = (*param.opts, *param.opts)[:2]
            try:
                whole.main([*names, words[0], "1", words[1], "2"], standalone_mode=False)
            except UsageError as error:
                if error.message == f"{max(param.opts, key=len)} may be given once, but is given 2 times":
                    continue
            taken.append((*names, param.opts[0]))
    assert taken == []
    assert number > 100


def test_a_repeated_name_of_one_option_is_refused() -> None:
    for texts in (["release=v1", "release=v2"], ["weights.os=1", "weights.os=2"]):
        with pytest.raises(UsageError, match="is given twice"):
            parse_options(texts)


def test_the_table_of_commands_has_the_texts_of_their_docstrings() -> None:
    whole = whole_command()
    listed = {name: whole.get_command(None, name).get_short_help_str(200) for name in COMMANDS}
    assert listed == {name: line for name, (_, line) in COMMANDS.items()}


def test_every_command_has_examples_that_the_parser_takes() -> None:
    whole = whole_command()
    names = {" ".join(names) for names, _ in list_commands(whole)}
    assert names <= set(EXAMPLES)
    for words in {example for examples in EXAMPLES.values() for example in examples}:
        arguments = shlex.split(words.partition(" < ")[0])
        command, context = whole, whole.make_context("harness", arguments)
        while hasattr(command, "commands"):
            name, command, arguments = command.resolve_command(context, arguments)
            context = command.make_context(name, arguments, parent=context)


@each_case(
    ("typed", "meant"),
    [
        (["help"], ["--help"]),
        (["help", "images", "build"], ["images", "build", "--help"]),
        (["version"], ["--version"]),
        (["run", "version"], ["run", "version"]),
    ],
)
def test_help_and_version_work_as_commands(typed: list[str], meant: list[str]) -> None:
    assert errors._correct(typed) == meant


def test_names_of_benchmarks_come_from_a_file_until_a_package_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert options.complete_benchmark("human") == ["humaneval", "humaneval-plus"]
    (kept,) = tmp_path.rglob("*.json")
    stored = json.loads(kept.read_text())
    kept.write_text(json.dumps({**stored, "facts": [{"name": "humane"}]}))
    assert options.complete_benchmark("human") == ["humane"]
    kept.write_text(json.dumps({"state": [], "facts": [{"name": "humane"}]}))
    assert options.complete_benchmark("human") == ["humaneval", "humaneval-plus"]
    assert json.loads(kept.read_text()) == stored
