"""Checks that only compare their parameters are distinguished from those that may read a machine."""

from __future__ import annotations

from case_checks import each_case

from harness.environments.os.scripts import Script, is_comparison

HEAD = "from sys import argv\n"


@each_case(
    "code",
    [
        HEAD + "if int(argv[1]) == int(argv[2]): exit(0)\nexit(1)",
        HEAD
        + "def norm(s):\n  return s.replace('\\r', '')\nexit(norm(argv[1]).strip() != norm(argv[2]).strip())",
        "import re, json, sys\nsys.exit(0 if re.search(sys.argv[1], json.loads(sys.argv[2])) else 1)",
        HEAD + "assert argv[1].strip() == '/home/user1/file'",
    ],
)
def test_a_plain_comparison_is_recognised(code: str) -> None:
    assert is_comparison(Script("python", code))


@each_case(
    "code",
    [
        "exit(open('/root/state').read() != 'right')",
        "import os\nexit(os.system('calc'))",
        "import subprocess",
        "from os import path",
        "from . import x",
        "import sys.modules",
        "from sys import modules",
        "import sys\nsys.modules['os'].system('calc')",
        "__import__('os').system('calc')",
        "().__class__.__base__.__subclasses__()",
        "exec(argv[1])",
        "eval('1')",
        "print(__builtins__)",
        "getattr(str, 'x')",
        "import collections as c\nc._sys.modules",
        "input()",
        "def f(:",
        "x = '\ud800'",
        "(" * 1000,
    ],
)
def test_a_script_that_may_reach_further_is_no_comparison(code: str) -> None:
    assert not is_comparison(Script("python", code))


def test_a_script_in_another_language_is_no_comparison() -> None:
    assert not is_comparison(Script("bash", "[ $1 = $2 ]"))
