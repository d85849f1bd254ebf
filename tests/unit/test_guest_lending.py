"""The tests lend an untrusted program nothing that reads files, runs code or reaches attributes."""

from __future__ import annotations

import builtins
import functools
import importlib
import io
import math
import operator
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from case_checks import each_case

from harness.environments.python.guest import plain, values
from harness.environments.python.guest.peer import Candidate, UnsupportedTestError

# Each of them runs code, opens files, reaches attributes or namespaces, or stops the tests' process.
NEVER_LENT = (
    *("__build_class__", "__import__", "breakpoint", "compile", "copyright", "credits", "delattr", "dir"),
    *("eval", "exec", "exit", "getattr", "globals", "hasattr", "help", "input", "license", "locals"),
    *("memoryview", "open", "quit", "setattr", "super", "vars", "callable", "id", "classmethod"),
    *("staticmethod", "property", "issubclass", "aiter", "anext"),
)
REACHING: dict[str, Callable[..., Any]] = {
    "bound str.format": "{0.__class__}".format,
    "str.format": str.format,
    "bound str.format_map": "{a}".format_map,
    "str.format_map": str.format_map,
    "operator.attrgetter": operator.attrgetter("__class__"),
    "operator.methodcaller": operator.methodcaller("clear"),
    "functools.partial": functools.partial(eval, "1"),
    "object.__getattribute__": object.__getattribute__,
    "type.__getattribute__": type.__getattribute__,
    "type.mro": type.mro,
    "a method of a file": io.BytesIO().read,
    "os.system": os.system,
    "os.open": os.open,
    "sys._getframe": sys._getframe,
    "sys.exit": sys.exit,
    "sys.settrace": sys.settrace,
    "a method of a module": importlib.__getattribute__,
}
if hasattr(operator, "call"):
    REACHING["operator.call"] = operator.call


@pytest.fixture
def candidate() -> Candidate:
    unused: Any = None
    return Candidate(unused, {})


def test_no_lent_builtin_reaches_further() -> None:
    assert set(NEVER_LENT) & set(values.BUILTIN_NAMES) == set()


def test_each_lent_builtin_exists_and_is_named_once() -> None:
    assert len(set(values.BUILTIN_NAMES)) == len(values.BUILTIN_NAMES)
    assert all(hasattr(builtins, name) for name in values.BUILTIN_NAMES)


def test_every_other_builtin_is_refused(candidate: Candidate) -> None:
    refused = []
    others = [name for name in dir(builtins) if name not in values.BUILTIN_NAMES]
    for name in others:
        try:
            candidate._handle(getattr(builtins, name))
        except UnsupportedTestError:
            refused.append(name)
    assert refused == others
    assert {"eval", "open", "__import__"} <= set(refused)


@each_case("name", REACHING)
def test_a_function_that_reaches_further_is_not_lent(candidate: Candidate, name: str) -> None:
    with pytest.raises(UnsupportedTestError, match="not plain data"):
        candidate._handle(REACHING[name])


@each_case("function", [math.sqrt, operator.add, str.upper, list.append, lambda: 1])
def test_a_function_that_only_computes_is_lent(candidate: Candidate, function: Callable[..., Any]) -> None:
    assert candidate._handle(function)[0] == values.CALLBACK


def test_an_object_with_only_the_name_of_a_lent_builtin_is_not_sent_as_it(candidate: Candidate) -> None:
    class len:
        pass

    with pytest.raises(UnsupportedTestError):
        candidate._handle(len)


@each_case("name", ["abs", "print", "sorted", "format", "iter"])
def test_a_program_cannot_name_a_builtin_function_as_a_value(candidate: Candidate, name: str) -> None:
    with pytest.raises(plain.ValueRefused, match="built-in function"):
        candidate._remote(values.BUILTIN, values.BUILTIN_NAMES.index(name))
