"""Make rows in SWE-bench's form over a small repository of its own: six issues, solutions, hidden tests.

Each row has the Dockerfile that makes the image from packages. pytest judges three issues. A runner of the
repository, which prints as Django's does, judges the others.
"""

from __future__ import annotations

import base64
import difflib
import functools
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.environments.repository.logs import END, START

FILES = {
    "stock/__init__.py": '"""Small sums for a small stock."""\n',
    "stock/counting.py": '''"""Counts of goods."""


def total(counts):
    """Return the sum of all counts."""
    return sum(counts[:-1]) if len(counts) > 1 else sum(counts)


def average(counts):
    """Return the mean of all counts. Raises ValueError without any."""
    return sum(counts) // max(len(counts), 1)


def shelves(count, size):
    """Return the number of shelves of a size that a count of goods needs."""
    return count // size
''',
    "stock/labels.py": '''"""Labels of goods."""


def initials(name):
    """Return the first letters of the words in a name."""
    return name[:1]


def shorten(text, width):
    """Return a text in at most a number of characters."""
    return text if len(text) <= width else text[:width] + "..."


def is_leap(year):
    """Return whether a year on a label has a 29th of February."""
    return year % 4 == 0
''',
    "tests/__init__.py": "",
    "tests/test_counting.py": """import pytest

from stock import counting


def test_nothing():
    assert counting.total([]) == 0
    assert counting.total([3]) == 3


def test_even_average():
    assert counting.average([2, 2]) == 2


def test_full_shelves():
    assert counting.shelves(6, 3) == 2
""",
    "tests/test_labels.py": """import unittest

from stock import labels


class LabelTests(unittest.TestCase):
    def test_one_word(self):
        self.assertEqual(labels.initials("Ada"), "A")

    def test_short_text(self):
        self.assertEqual(labels.shorten("ab", 5), "ab")

    def test_leap_year(self):
        self.assertTrue(labels.is_leap(2024))
""",
    "tests/runtests.py": """import sys
import unittest

found = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])
sys.exit(not unittest.TextTestRunner(sys.stdout, verbosity=2).run(found).wasSuccessful())
""",
    "setup.py": "from setuptools import setup\n\nsetup(name='stock', version='1', packages=['stock'])\n",
    "setup.cfg": "[tool:pytest]\naddopts = -p no:cacheprovider\n",
}


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue: the wrong lines of a file, the right ones, and the tests that tell them apart."""

    name: str
    path: str
    wrong: str
    right: str
    tests: str
    text: str


ISSUES = (
    Issue(
        "total",
        "stock/counting.py",
        "sum(counts[:-1]) if len(counts) > 1 else sum(counts)",
        "sum(counts)",
        "\n\ndef test_total():\n    assert counting.total([1, 2]) == 3\n"
        "    assert counting.total([4, 5, 6]) == 15\n",
        "`total` leaves out the last of several counts.",
    ),
    Issue(
        "average",
        "stock/counting.py",
        "return sum(counts) // max(len(counts), 1)",
        'if not counts:\n        raise ValueError("no counts")\n    return sum(counts) / len(counts)',
        "\n\ndef test_average():\n    assert counting.average([1, 2]) == 1.5\n"
        "    with pytest.raises(ValueError):\n        counting.average([])\n",
        "`average` rounds down, and returns 0 without any counts instead of raising ValueError.",
    ),
    Issue(
        "shelves",
        "stock/counting.py",
        "return count // size",
        "return -(-count // size)",
        '\n\n@pytest.mark.parametrize("count", [1, 5])\ndef test_shelves(count):\n'
        "    assert counting.shelves(count, 4) == count // 4 + 1\n    assert not counting.shelves(0, 4)\n",
        "`shelves` has no room for the rest of the goods.",
    ),
    Issue(
        "initials",
        "stock/labels.py",
        "return name[:1]",
        'return "".join(word[0] for word in name.split())',
        '\n    def test_initials(self):\n        self.assertEqual(labels.initials("Ada Lovelace"), "AL")\n'
        '        self.assertEqual(labels.initials(""), "")\n',
        "`initials` returns the first letter of the first word only.",
    ),
    Issue(
        "shorten",
        "stock/labels.py",
        'text[:width] + "..."',
        'text[: width - 3] + "..."',
        '\n    def test_shorten(self):\n        self.assertEqual(labels.shorten("abcdefgh", 6), "abc...")\n'
        '        self.assertLessEqual(len(labels.shorten("x" * 99, 9)), 9)\n',
        "`shorten` returns texts that are longer than `width`.",
    ),
    Issue(
        "leap",
        "stock/labels.py",
        "return year % 4 == 0",
        "return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
        "\n    def test_centuries(self):\n        self.assertFalse(labels.is_leap(1900))\n"
        "        self.assertTrue(labels.is_leap(2000))\n",
        "`is_leap` calls 1900 a leap year.",
    ),
)
_DOCKERFILE = """FROM python:3.11-slim-bookworm
RUN command -v git || (apt-get update && apt-get install -y --no-install-recommends git)
RUN python3 -c 'import pytest, setuptools' || python3 -m pip install --no-cache-dir pytest setuptools
WORKDIR /testbed
RUN mkdir stock.egg-info \\
    && printf 'Metadata-Version: 2.1\\nName: stock\\nVersion: 1\\n' > stock.egg-info/PKG-INFO \\
    && printf '[tools]\\nstock = stock\\n' > stock.egg-info/entry_points.txt
RUN git init -q && echo stock.egg-info > .git/info/exclude \\
    && git config user.email a@b && git config user.name a
RUN echo {base} | base64 -d | tar xz && git add -A && git commit -q -m base
RUN echo {fixed} | base64 -d | tar xz && git checkout -q -b later && git commit -q -a -m fixed \\
    && git checkout -q -
"""
_SCRIPT = """#!/bin/bash
set -uxo pipefail
cd /testbed
export PYTHONPATH=/testbed
git config --global --add safe.directory /testbed
python3 setup.py --version
git checkout HEAD {file}
git apply -v - <<'EOF_114329324912'
{patch}
EOF_114329324912
: '{start}'
{command}
CODE=$?
: '{end}'
git checkout HEAD {file}
echo ">>>>> Test Exit Code: $CODE"
"""
_PYTEST = "python3 -m pytest -rA --tb=no tests/test_counting.py"
_RUNNER = "python3 tests/runtests.py tests.test_labels"


def make_diff(path: str, before: str, after: str) -> str:
    """Return the change of a file as a patch of git. The text before is empty for a new file."""
    old = f"a/{path}" if before else "/dev/null"
    head = f"diff --git a/{path} b/{path}\n" + ("" if before else "new file mode 100644\n")
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), old, f"b/{path}")
    return head + "".join(lines)


def _pack(files: Mapping[str, str]) -> str:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=9) as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    content = bytearray(archive.getvalue())
    content[4:8] = bytes(4)  # the time, so that the same files have the same image
    return base64.b64encode(bytes(content)).decode()


@functools.cache
def make_dockerfile() -> str:
    """Return the Dockerfile of the repository, whose git has the solutions on a later branch."""
    fixed = dict(FILES)
    for issue in ISSUES:
        fixed[issue.path] = fixed[issue.path].replace(issue.wrong, issue.right)
    return _DOCKERFILE.format(base=_pack(FILES), fixed=_pack(fixed))


def make_rows() -> list[dict[str, Any]]:
    """Return a row for each issue."""
    dockerfile = make_dockerfile()
    return [_make_row(issue, dockerfile) for issue in ISSUES]


def _make_row(issue: Issue, dockerfile: str) -> dict[str, Any]:
    file = "tests/test_counting.py" if issue.path == "stock/counting.py" else "tests/test_labels.py"
    uses_pytest = file == "tests/test_counting.py"
    patch = make_diff(file, FILES[file], FILES[file] + issue.tests)
    before = FILES[issue.path]
    return {
        "instance_id": f"harness__stock-{issue.name}",
        "repo": "harness/stock",
        "base_commit": "HEAD",
        "problem_statement": issue.text,
        "patch": make_diff(issue.path, before, before.replace(issue.wrong, issue.right)),
        "test_patch": patch,
        "FAIL_TO_PASS": json.dumps(_list_tests(file, issue.tests, uses_pytest=uses_pytest)),
        "PASS_TO_PASS": json.dumps(_list_tests(file, FILES[file], uses_pytest=uses_pytest)),
        "difficulty": "<15 min fix",
        "log_parser": "parse_log_pytest" if uses_pytest else "parse_log_django",
        "eval_script": _SCRIPT.format(
            file=file, patch=patch, start=START, end=END, command=_PYTEST if uses_pytest else _RUNNER
        ),
        "dockerfile": dockerfile,
    }


def _list_tests(file: str, source: str, *, uses_pytest: bool) -> list[str]:
    names = [line.split("def ")[1].split("(")[0] for line in source.splitlines() if "def test" in line]
    if not uses_pytest:
        return [f"{name} (tests.test_labels.LabelTests.{name})" for name in names]
    # The test with a parameter has two values of it.
    values = {"test_shelves": ("[1]", "[5]")}
    return [f"{file}::{name}{value}" for name in names for value in values.get(name, ("",))]


def write_rows(path: Path) -> None:
    """Write the rows as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in make_rows()), encoding="utf-8")
