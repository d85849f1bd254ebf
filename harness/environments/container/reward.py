"""Read the reward that a task's own tests have written, and check that those tests have run.

The files come from a machine where code of an agent may have run. They are bounded bytes, and nothing in
them is believed beyond its type.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.text import escape_text, shorten

REWARD_JSON, REWARD_TEXT = "/logs/verifier/reward.json", "/logs/verifier/reward.txt"
OUTPUT = "/logs/verifier/test-stdout.txt"
MAX_REWARD_BYTES = 1 << 20
MAX_KEYS = 100
MAX_KEY_CHARACTERS = 100
PASS_AT = 1.0
REWARD = "reward"
# The report of pytest's option -rA, and with it the files of CTRF.
_REPORTED = re.compile(
    r"^(?:PASSED|FAILED|ERROR|XFAIL|XPASS|SKIPPED) .*?(?P<file>[\w.-]+\.py)::(?P<test>[\w:]+)", re.MULTILINE
)
_SKIPPED = re.compile(r"^(?:SKIPPED|XFAIL).*?(?P<file>[\w.-]+\.py):(?P<line>\d+)", re.MULTILINE)
_PYTEST_FILE = re.compile(r"test_.+\.py|.+_test\.py")
# The options that make pytest name each test, with its outcome, in the output or in a file.
_REPORT_OPTIONS = re.compile(r"(?<!\S)(-r\w*[Aap]\w*|-\w*v\w*|--verbose|--ctrf)(?!\S)")
# The variables for a script without them.
REPORT_VARIABLES = {"PYTEST_ADDOPTS": "-rA"}
_PYTEST = re.compile(r"\bpytest\b")
# The options that leave out tests.
_SELECTION = re.compile(r"(?<!\S)(-k|-m(?!\s+pytest\b)|--deselect|--ignore\S*|--lf|-x)\b|\.py::")
# The line of pytest with the outcome of a test, under -v, and its last line.
_VERBOSE = r"^.*{}::{}(?:\[.*\])? .*\b(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b"
_END = re.compile(
    r"^(?:=+ )?\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed)\b.* in [\d.]+s", re.MULTILINE
)
# A shell, a package manager or an interpreter says so if it cannot start the program of a test.
_NOT_STARTED = re.compile(
    r"^(?:.*: (?:line )?\d+: .*(?:not found|No such file or directory)"
    r"|.*/python[\d.]*: No module named (?:pytest|pip|uv)\b.*"
    r"|(?:ModuleNotFoundError|ImportError): .*"
    r"|E: (?:Unable to locate package|Failed to fetch|Package .* has no installation candidate).*"
    r"|curl: \(\d+\) .*"
    r"|error: Failed to (?:fetch|download|install|spawn).*"
    r"|  × No solution found when resolving.*)$",
    re.MULTILINE,
)


class InvalidReward(ValueError):
    """The tests of a task left no reward, or one that is not a number."""


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of one grading. `values` are all numbers of reward.json, or the one of reward.txt."""

    score: float
    values: Mapping[str, float] = field(default_factory=dict)
    # Whether the score is a mean, because none of several values has the name `reward`.
    no_reward_key: bool = False


def describe_reward(reward: Reward) -> dict[str, Any]:
    """Return the metrics of a reward."""
    metrics: dict[str, Any] = {REWARD: reward.score}
    if set(reward.values) != {REWARD}:
        metrics["rewards"] = dict(reward.values)
    if reward.no_reward_key:
        metrics["no_reward_key"] = 1
    return metrics


def read_reward(of_json: bytes | None, of_text: bytes | None) -> Reward:
    """Return the reward in the contents of reward.json, or of reward.txt if that does not exist.

    Raises InvalidReward if neither exists, and if the one that counts is not a finite number. An object in
    reward.json must be flat and have finite numbers alone.
    """
    if of_json is not None:
        return _read_json(of_json)
    if of_text is None:
        raise InvalidReward("the tests wrote neither reward.json nor reward.txt")
    return make_reward({REWARD: _require_number(_parse_float(of_text), "reward.txt")})


def _read_json(content: bytes) -> Reward:
    try:
        value = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidReward(f"reward.json is not JSON: {shorten(str(error), 100)}") from error
    if not isinstance(value, dict):
        return make_reward({REWARD: _require_number(value, "reward.json")})
    if not 0 < len(value) <= MAX_KEYS:
        raise InvalidReward(f"reward.json has {len(value)} keys instead of 1 to {MAX_KEYS}")
    values = {
        escape_text(shorten(key, MAX_KEY_CHARACTERS)): _require_number(
            each, f"'{shorten(key, 100)}' in reward.json"
        )
        for key, each in value.items()
    }
    return make_reward(values)


def make_reward(values: Mapping[str, float]) -> Reward:
    """Return the reward of the numbers of a grading, which are not empty."""
    if REWARD in values:
        return Reward(values[REWARD], values)
    mean = math.fsum(values.values()) / len(values)
    return Reward(mean, values, no_reward_key=len(values) > 1)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a finite number")


def _parse_float(content: bytes) -> object:
    try:
        text = content.decode("ascii").strip()
        return float(text) if "_" not in text else text
    except ValueError:
        return content


def _require_number(value: object, place: str) -> float:
    """Return a finite number. Raises InvalidReward for anything else; a bool is not a number."""
    if type(value) is int or type(value) is float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    shown = escape_text(shorten(repr(value), 100))
    raise InvalidReward(f"{place} holds {shown or 'nothing'} instead of a finite number")


@dataclass(frozen=True, slots=True)
class HiddenTest:
    """A test of a file of pytest, with the lines of its definition."""

    file: str
    name: str
    first_line: int
    last_line: int


def list_tests(paths: Iterable[Path], script: str) -> tuple[HiddenTest, ...]:
    """Return the tests that a run of `script` must report: of each pytest file in `paths` that it names.

    A script that names none and selects no tests runs all files. The files are parsed and not run.
    """
    if not _PYTEST.search(script):
        return ()
    files = [path for path in sorted(paths) if _PYTEST_FILE.fullmatch(path.name)]
    named = [path for path in files if path.name in script]
    if not named and not _SELECTION.search(script):
        named = files
    return tuple(test for path in named for test in _tests_in(path))


def asks_for_reports(script: str) -> bool:
    """Return whether a script makes pytest name each test with its outcome."""
    return _REPORT_OPTIONS.search(script) is not None


def _tests_in(path: Path) -> Iterator[HiddenTest]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return
    for owner, body in (("", tree.body), *_test_classes(tree.body)):
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                name = f"{owner}::{node.name}" if owner else node.name
                yield HiddenTest(path.name, name, first, node.end_lineno or node.lineno)


def _test_classes(body: Iterable[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt]]]:
    for node in body:
        if not isinstance(node, ast.ClassDef) or not node.name.startswith("Test"):
            continue
        # A constructor makes pytest skip the class.
        if not any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in node.body):
            yield node.name, node.body


def find_unreported(tests: Iterable[HiddenTest], output: str, reports: Iterable[bytes] = ()) -> list[str]:
    """Return the names of the tests that neither the output nor a report in the form CTRF mentions.

    A program that ends the process of the tests early leaves such tests, although its exit code says that all
    passed. The lines of a run without its last line are of no use, because a test has more parts than one.
    """
    seen = {(found["file"], found["test"]) for found in _REPORTED.finditer(output)}
    skipped = {(found["file"], int(found["line"])) for found in _SKIPPED.finditer(output)}
    named = {name for report in reports for name in _names_in_ctrf(report)}
    verbose = {
        (each.file, each.name)
        for each in tests
        if re.search(_VERBOSE.format(re.escape(each.file), re.escape(each.name)), output, re.MULTILINE)
        and _END.search(output)
    }
    missing = []
    for test in tests:
        is_skipped = any(
            file == test.file and test.first_line <= line <= test.last_line for file, line in skipped
        )
        simple = test.name.rpartition("::")[2]
        if not ((test.file, test.name) in seen | verbose or is_skipped or simple in named):
            missing.append(f"{test.file}::{test.name}")
    return missing


def _names_in_ctrf(report: bytes) -> Iterator[str]:
    try:
        listed: Any = json.loads(report)["results"]["tests"]
        names = [each["name"] for each in listed]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    for name in names:
        if isinstance(name, str):
            yield name.rpartition("::")[2].partition("[")[0]


def find_missing_tool(output: str) -> str | None:
    """Return the line of the tests' output that says that a tool of the tests did not start, or None."""
    if re.search(r"=+ (?:test session starts|\d+ (?:passed|failed|error))", output):
        return None
    found = _NOT_STARTED.search(output)
    return None if found is None else escape_text(shorten(found[0].strip(), 200))
