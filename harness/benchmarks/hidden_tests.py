"""Build targets from hidden tests of your own, which are plain values: texts, numbers, lists and JSON."""

from __future__ import annotations

import json
import keyword
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from harness.benchmarks.programs import build_from_solution, drop_empty, find_missing_names, parse
from harness.benchmarks.replies import REPLY_FIELDS, CodeRule, extract_code, remark_on_code
from harness.core.errors import UsageError
from harness.core.inputs.json_text import MAX_TEST_DIGITS, parse_json, write_json
from harness.core.invalid_values import describe_first_error
from harness.core.types import ProgramTests, Submission
from harness.environments.python.call_programs import CallTest, CallTests
from harness.environments.python.languages import PYTHON, find_language
from harness.environments.python.stdin_programs import StdinTest, StdinTests
from harness.environments.python.verdicts import MOST_STDOUT_BYTES

# The CPU time of a program on one test, in seconds.
TEST_SECONDS = 6.0
MOST_TEST_SECONDS = 600.0
MAX_TESTS = 10_000
# One test has to fit into one request, together with the program.
MAX_TEST_BYTES = 32 << 20
# Source travels in the header of a request, as JSON in ASCII, which also holds the program.
MAX_SOURCE_BYTES = 4 << 20

HiddenTarget: TypeAlias = StdinTests | CallTests | ProgramTests
"""A target that these functions build."""


def build_stdin_tests(
    tests: Iterable[tuple[str, str]],
    *,
    preamble: str = "",
    seconds: float = TEST_SECONDS,
    tolerance: float = 0.0,
    checker: str = "",
    language: str = PYTHON,
) -> StdinTests:
    """Return the target of a program that reads standard input and prints.

    Args:
        tests: the input and the expected output of each test. docs/verdicts.md has the rules of comparison.
        preamble: Python source that runs before the program.
        seconds: the CPU time of one test.
        tolerance: numbers that differ by at most this, or by this share of the expected one, are equal.
        checker: Python source that judges each output instead, for problems with several right ones: a
            function `check(input, output, expected)` that returns whether the output is right, or a script
            of testlib's protocol, which reads the files that its three arguments name and exits with 0, 1 or
            2. It runs in a sandbox that the program has never met.
        language: the language of the program, such as `cpp`. docs/languages.md lists them.

    Raises:
        UsageError: if there is no test, a value has the wrong type or is too large, or the language is not
            known.
    """
    built = []
    for number, (given, expected) in enumerate(_list_pairs(tests), start=1):
        _require_text(given, f"the input of test {number}", MAX_TEST_BYTES)
        _require_text(expected, f"the output of test {number}", MOST_STDOUT_BYTES)
        built.append(StdinTest(given, expected))
    require_source(preamble, "the preamble")
    require_source(checker, "the checker")
    if find_language(language).name != PYTHON and preamble:
        raise UsageError(f"a preamble is Python, and the program is {language}", hint="leave it out")
    if checker and tolerance:
        raise UsageError("a checker compares numbers itself", hint="leave out tolerance or checker")
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 <= tolerance < 1:
        raise UsageError(f"tolerance must be a number from 0 to 1, not {tolerance!r:.40}")
    return StdinTests(
        *(tuple(built), 0, preamble, _bound_seconds(seconds)),
        checker=checker,
        tolerance=float(tolerance),
        language=language,
    )


def build_call_tests(
    function: str,
    tests: Iterable[tuple[Sequence[Any], Any]],
    *,
    preamble: str = "",
    seconds: float = TEST_SECONDS,
) -> CallTests:
    """Return the target of a program that defines `function`, or a class `Solution` with such a method.

    A result is compared with the JSON value by exact value, except that a tuple at its top equals a list.

    Args:
        function: the name of the function.
        tests: the list of arguments of each call, and the expected result. Both must be values of JSON.
        preamble: Python source that runs before the program.
        seconds: the CPU time of one call.

    Raises:
        UsageError: if there is no test, or a value has the wrong type or is too large.
    """
    _require_name(function)
    built = []
    for number, (arguments, result) in enumerate(_list_pairs(tests), start=1):
        if not isinstance(arguments, (list, tuple)):
            raise UsageError(
                f"the arguments of test {number} must be a list, not {type(arguments).__name__}",
                hint=f"write one argument as [{arguments!r:.40}]",
            )
        lines = [_encode(value, f"an argument of test {number}") for value in arguments]
        test = CallTest("\n".join(lines), _encode(result, f"the result of test {number}"))
        _require_text(test.arguments + test.result, f"test {number}", MAX_TEST_BYTES)
        built.append(test)
    require_source(preamble, "the preamble")
    return CallTests(tuple(built), function, 0, preamble, _bound_seconds(seconds))


def build_assert_tests(
    tests: Sequence[str], *, names: Sequence[str] | None = None, setup: str = "", solution: str | None = None
) -> ProgramTests:
    """Return the target of a program that trusted Python source tests, such as `assert add(1, 2) == 3`.

    The tests run in a process that the program cannot reach, and only plain data crosses. They use the
    program's functions by their names. Tests that use its classes need a `solution`, which says what these
    classes define.

    Args:
        tests: the source of one or more statements each. They run in order in one namespace, and all of them
            must pass.
        names: the names that the program must define. The default is every name that the tests use and
            neither they, `setup` nor Python define. With a `solution`, it is what the solution defines.
        setup: source that runs before the tests, and before the program: imports and helpers.
        solution: a program that passes. It is read and never run.

    Raises:
        UsageError: if source is not Python or too large, or no name of the program is tested.
    """
    if isinstance(tests, str) or not isinstance(tests, Sequence):
        raise UsageError("asserts must be a list of texts", hint="write ['assert add(1, 2) == 3']")
    if names is not None and solution is not None:
        raise UsageError("names and a solution exclude each other, because the solution defines the names")
    require_source(setup, "the setup")
    for number, test in enumerate(tests, start=1):
        require_source(test, f"assert {number}")
    statements = drop_empty(tests)
    if not statements:
        raise UsageError("there are no tests, so any program would pass")
    _require_room([setup, setup, *statements], "the tests and their setup")
    if solution is not None:
        require_source(solution, "the solution")
        built = build_from_solution(parse(solution), statements, setup)
        if built is None:
            raise UsageError("no test uses a name that the solution defines")
        return built
    if names is None:
        try:
            names = find_missing_names("\n".join([setup, *statements]))
        except (SyntaxError, ValueError, RecursionError) as error:
            raise UsageError(f"the tests are not Python: {error}") from error
    if not names:
        raise UsageError(
            "no test uses a name that the program must define",
            hint="call a function of the program in a test, or pass its names",
        )
    for name in names:
        _require_name(name)
    return ProgramTests(statements, {name: name for name in names}, setup=setup, preamble=setup)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class StdinCase(_Strict):
    """One run of a program."""

    input: str
    """The standard input."""
    output: str
    """The expected standard output."""


class FunctionCase(_Strict):
    """One call of a function."""

    arguments: list[JsonValue]
    """The arguments in their order."""
    result: JsonValue
    """The expected result."""


class StdinSuite(_Strict):
    """Tests of a program that reads standard input and prints."""

    kind: Literal["stdin"]
    tests: list[StdinCase]
    preamble: str = ""
    """Source that runs before the program."""
    seconds: float = TEST_SECONDS
    """The CPU time of one test."""
    tolerance: float = 0.0
    """Numbers that differ by at most this, or by this share of the expected one, are equal."""
    checker: str = ""
    """Source of a checker, which judges each output instead."""
    language: str = PYTHON
    """The language of the program, such as `cpp`."""

    def build(self) -> StdinTests:
        """Return the target. Raises UsageError."""
        cases = [(case.input, case.output) for case in self.tests]
        return build_stdin_tests(cases, **self.model_dump(exclude={"kind", "tests"}))


class FunctionSuite(_Strict):
    """Tests of a function."""

    kind: Literal["calls"]
    function: str
    tests: list[FunctionCase]
    preamble: str = ""
    """Source that runs before the program."""
    seconds: float = TEST_SECONDS
    """The CPU time of one call."""

    def build(self) -> CallTests:
        """Return the target. Raises UsageError."""
        cases = [(case.arguments, case.result) for case in self.tests]
        return build_call_tests(self.function, cases, preamble=self.preamble, seconds=self.seconds)


class AssertSuite(_Strict):
    """Trusted source that tests a program."""

    kind: Literal["asserts"]
    tests: list[str]
    names: list[str] | None = None
    """The names that the program must define. Without them, the names that the tests lack."""
    setup: str = ""
    """Source that runs before the tests, and before the program."""
    solution: str | None = None
    """A program that passes, for tests that use its classes."""

    def build(self) -> ProgramTests:
        """Return the target. Raises UsageError."""
        return build_assert_tests(self.tests, names=self.names, setup=self.setup, solution=self.solution)


HiddenTests: TypeAlias = Annotated[StdinSuite | FunctionSuite | AssertSuite, Field(discriminator="kind")]
"""Hidden tests in JSON. The field `kind` is `stdin`, `calls` or `asserts`."""

_ADAPTER: TypeAdapter[StdinSuite | FunctionSuite | AssertSuite] = TypeAdapter(HiddenTests)


def read_hidden_tests(values: Mapping[str, Any]) -> HiddenTarget:
    """Return the target of hidden tests in JSON, such as `{"kind": "stdin", "tests": [...]}`.

    Raises UsageError, with the place of the value, for values that do not fit.
    """
    try:
        suite = _ADAPTER.validate_python(values)
    except ValidationError as error:
        raise UsageError(f"the tests cannot be used: {describe_first_error(error)}") from error
    return suite.build()


def read_submission(target: HiddenTarget, field: str, text: str) -> Submission:
    """Return the program in a text, by the rules for the tests of a user's own benchmark.

    Args:
        target: the target whose function or name the program defines.
        field: the kind of the text, as in samples files: a `solution` or an `answer` counts as it is, and
            from a `reply` or a `completion` the program is taken by the rule `fenced`.
        text: the text.
    """
    rule = CodeRule.FENCED if field in REPLY_FIELDS else CodeRule.NONE
    entry_point = None
    if isinstance(target, CallTests):
        entry_point = target.function
    elif isinstance(target, ProgramTests):
        entry_point = next(iter(target.exports), None)
    program = extract_code(text, rule, entry_point=entry_point)
    return Submission(program, agent_output=text, remark=remark_on_code(text, rule, program))


def _list_pairs(tests: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the tests, each of two values. Raises UsageError for none, for too many and for others."""
    if isinstance(tests, (str, bytes, Mapping)) or not isinstance(tests, Iterable):
        raise UsageError(f"tests must be a list of pairs, not {type(tests).__name__}")
    pairs = []
    for number, test in enumerate(tests, start=1):
        if number > MAX_TESTS:
            raise UsageError(f"there are more than {MAX_TESTS:,} tests")
        if not isinstance(test, (tuple, list)) or len(test) != 2:
            raise UsageError(f"test {number} must be a pair of what is given and what is expected")
        pairs.append((test[0], test[1]))
    if not pairs:
        raise UsageError("there are no tests, so any program would pass")
    return pairs


def _require_text(value: Any, what: str, most: int) -> None:
    if not isinstance(value, str):
        raise UsageError(f"{what} must be text, not {type(value).__name__}")
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > most:
        raise UsageError(f"{what} has {size:,} bytes; the limit is {most:,}")


def _require_room(sources: Sequence[str], what: str) -> None:
    size = sum(len(json.dumps(source)) for source in sources)
    if size > MAX_SOURCE_BYTES:
        raise UsageError(f"{what}: {size:,} bytes as JSON are more than the limit of {MAX_SOURCE_BYTES:,}")


def require_source(source: Any, what: str) -> None:
    """Raise UsageError for a value that is not Python source, or is too large. `what` names it."""
    _require_text(source, what, MAX_SOURCE_BYTES)
    _require_room([source], what)
    try:
        parse(source)
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{what} is not Python: {error}") from error


def _require_name(name: Any) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r:.100} is not the name of a function in Python")


def _bound_seconds(seconds: Any) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise UsageError(f"seconds must be a number, not {type(seconds).__name__}")
    if not 0 < seconds <= MOST_TEST_SECONDS:
        raise UsageError(f"seconds must be more than 0 and at most {MOST_TEST_SECONDS:.0f}, not {seconds}")
    return float(seconds)


def _encode(value: Any, what: str) -> str:
    """Return a value as one line of JSON. Raises UsageError for a value that JSON would change."""
    try:
        text = write_json(value)
        if parse_json(text, max_digits=MAX_TEST_DIGITS) != _as_lists(value):
            raise ValueError("JSON holds other values, such as texts for the keys of an object")
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} cannot be written as JSON: {error}") from error
    return text


def _as_lists(value: Any) -> Any:
    """Return a value with a list for each tuple."""
    if isinstance(value, (list, tuple)):
        return [_as_lists(each) for each in value]
    if isinstance(value, dict):
        return {key: _as_lists(each) for key, each in value.items()}
    return value
