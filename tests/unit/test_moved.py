"""Modules are found under their names of earlier releases."""

from __future__ import annotations

import importlib
import sys

import pytest
from case_checks import each_case

from harness import moved


@each_case("old", sorted(moved._MOVED))
def test_an_old_name_is_the_module_itself(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(FutureWarning, match=f"{old} is now {moved.find_new_name(old)}"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(moved.find_new_name(old) or "")
    assert module.__spec__ is not None
    assert module.__spec__.name == moved.find_new_name(old)


def test_an_unknown_module_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"harness\.nothing"):
        importlib.import_module("harness.nothing")
