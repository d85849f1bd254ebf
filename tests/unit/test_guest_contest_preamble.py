"""The preamble that is prepared before a fork has the effects of its text."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The process replaces what a child replaces before its program runs, and prints the names that differ.
CHECK = """
import sys, types
from harness.environments.python.guest import contest_preamble

prepared = types.ModuleType("__main__")
contest_preamble.prepare(prepared)
sys.stdin, sys.argv, sys.orig_argv = object(), ["candidate.py"], ["python3"]
set_limit = sys.setrecursionlimit
sys.setrecursionlimit = lambda limit: set_limit(limit)
sys.getrecursionlimit = lambda: 7
plain = types.ModuleType("__main__")
exec(compile(contest_preamble.PREAMBLE, "plain", "exec", dont_inherit=True), plain.__dict__)
sys.set_int_max_str_digits(5000)
set_limit(1000)
found = contest_preamble.find(contest_preamble.PREAMBLE.encode())
assert found is prepared
contest_preamble.finish(prepared.__dict__)
ours, theirs = vars(prepared), vars(plain)
ours.pop("__builtins__"), theirs.pop("__builtins__")
print(sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) is not theirs.get(name)))
print(sys.get_int_max_str_digits())
print(contest_preamble.find("import math"), contest_preamble.find(b""))
"""


@pytest.fixture(scope="module")
def printed() -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", CHECK], check=True, capture_output=True, text=True
    ).stdout.split("\n")


def test_the_prepared_names_are_those_of_the_text(printed: list[str]) -> None:
    assert printed[:2] == ["[]", "50000"]


def test_another_preamble_is_not_replaced(printed: list[str]) -> None:
    assert printed[2] == "None None"
