from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from harness.benchmarks.options import parse_options
from harness.cli.app import app
from harness.core.errors import UsageError


def test_an_option_that_has_taken_the_next_option_as_its_value_is_named() -> None:
    arguments = ["run", "-b", "mbpp", "--model", "m", "--base-url", "--max-concurrent", "16"]
    with pytest.raises(UsageError, match="--base-url needs a value"):
        app(arguments, standalone_mode=False)


def list_commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, *names, name)
        else:
            yield (*names, name), command


def test_every_option_that_takes_one_value_is_refused_if_it_is_given_twice() -> None:
    taken, number = [], 0
    whole = typer.main.get_command(app)  # once, because it takes long to make
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
