"""Read the logs that the tests of a repository print, and count the tests by the rule of SWE-bench.

Source: swebench 5.0.2, log_parsers/python.py and grading.py, for the published forms and the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
PASSED, FAILED, ERROR, SKIPPED, XFAIL = "PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL"
_STATUSES = (FAILED, PASSED, SKIPPED, ERROR, XFAIL)
_EXIT_CODE = re.compile(r">>>>> Test Exit Code:\s*(-?\d+)")
# The summary of pytest counts skipped tests by their place: `SKIPPED [2] path:line: reason`.
_COUNT = re.compile(r"\[\d+\]")
_OPTION = re.compile(r"(.*?)\[(.*)\]")
_COLOUR = re.compile(r"\[(\d+)m")
_CONTROL_CHARACTERS = dict.fromkeys(range(1, 32))
_SYMPY_FAILURE = re.compile(r"(_*) (.*)\.py:(.*) (_*)")
# Output of the tests may come between the name of a test and its `ok`.
_DJANGO_INTERRUPTED = (
    re.compile(
        r"^(.*?)\s\.\.\.\sTesting against Django installed in (?:(?s:.*?)) silenced\)\.\nok$", re.MULTILINE
    ),
    re.compile(r"^(.*?)\s\.\.\.\sInternal Server Error: /(?:.*)/\nok$", re.MULTILINE),
    re.compile(r"^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$", re.MULTILINE),
)
_DJANGO_STATUSES = {" ... FAIL": FAILED, " ... ERROR": ERROR}
# Two ids of pytest's parameters hold the texts of these values.
_MATPLOTLIB_VALUES = {"MouseButton.LEFT": "1", "MouseButton.RIGHT": "3"}
Statuses = Mapping[str, str]
_OF_PROJECTS = {
    "astropy": "pytest_v2",
    "flask": "pytest",
    "pylint": "pytest_options",
    "requests": "pytest_options",
    "scikit": "pytest_v2",
    "sphinx": "pytest_v2",
    "xarray": "pytest",
}


def _summary_lines(log: str) -> Iterator[tuple[str, str]]:
    """Yield the status and the first word after it, for each line that begins with a status."""
    for line in log.split("\n"):
        if line.startswith(_STATUSES):
            words = (line.replace(" - ", " ") if line.startswith(FAILED) else line).split()
            if len(words) > 1 and not (words[0] == SKIPPED and _COUNT.fullmatch(words[1])):
                yield words[0], words[1]


def read_pytest(log: str) -> Statuses:
    """Return the statuses in the short summary of pytest, by test id."""
    return {test: status for status, test in _summary_lines(log)}


def read_pytest_options(log: str) -> Statuses:
    """Return the statuses in the summary of pytest, without the folders of parameters that are paths."""
    found = {}
    for status, test in _summary_lines(log):
        option = _OPTION.search(test)
        if option is not None:
            name, value = option.groups()
            if value.startswith("/") and not value.startswith("//") and "*" not in value:
                value = "/" + value.split("/")[-1]
            test = f"{name}[{value}]"
        found[test] = status
    return found


def read_pytest_words(log: str) -> Statuses:
    """Return the statuses in the output of pytest, whose ids may hold blanks and whose status may be last."""
    found = {}
    for raw in log.split("\n"):
        line = _COLOUR.sub("", raw).translate(_CONTROL_CHARACTERS)
        if line.startswith(_STATUSES):
            words = (line.split(" - ", 1)[0] if line.startswith(FAILED) else line).split()
            if len(words) > 1 and not (words[0] == SKIPPED and _COUNT.fullmatch(words[1])):
                found[" ".join(words[1:])] = words[0]
        elif line.endswith(_STATUSES):
            words = line.split()
            if len(words) > 1:
                found[" ".join(words[:-1])] = words[-1]
    return found


def read_matplotlib(log: str) -> Statuses:
    """Return the statuses in the summary of pytest, with the values of enumerations as numbers."""
    for text, value in _MATPLOTLIB_VALUES.items():
        log = log.replace(text, value)
    return read_pytest(log)


def read_seaborn(log: str) -> Statuses:
    """Return the statuses in the output of pytest, whose status may follow the id."""
    found = {}
    for line in log.split("\n"):
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith((FAILED, PASSED)) and not (line.startswith(PASSED) and f" {PASSED} " in line):
            found[words[1]] = FAILED if line.startswith(FAILED) else PASSED
        elif f" {PASSED} " in line and words[1] == PASSED:
            found[words[0]] = PASSED
    return found


def read_django(log: str) -> Statuses:
    """Return the statuses in the verbose output of unittest, as Django's runner prints it."""
    found: dict[str, str] = {}
    previous: str | None = None
    for raw in log.split("\n"):
        line = raw.strip()
        if "--version is equivalent to version" in line:
            found["--version is equivalent to version"] = PASSED
        if " ... " in line:
            previous = line.split(" ... ")[0]
        suffix = next((each for each in (" ... ok", " ... OK", " ...  OK") if line.endswith(each)), None)
        if suffix is not None:
            if line.startswith("Applying sites.0002_alter_domain_unique...test_no_migrations"):
                line = line.split("...", 1)[-1].strip()
            found[line.rsplit(suffix, 1)[0]] = PASSED
        if " ... skipped" in line:
            found[line.split(" ... skipped")[0]] = SKIPPED
        for ending, status in _DJANGO_STATUSES.items():
            if line.endswith(ending):
                found[line.split(ending)[0]] = status
        if line.startswith(("FAIL:", "ERROR:")) and len(line.split()) > 1:
            found[line.split()[1]] = FAILED if line.startswith("FAIL:") else ERROR
        if line.startswith("ok") and previous is not None:
            found[previous] = PASSED
    for pattern in _DJANGO_INTERRUPTED:
        found |= {match[1]: PASSED for match in pattern.finditer(log)}
    return found


def read_sympy(log: str) -> Statuses:
    """Return the statuses in the output of SymPy's own runner."""
    found = {f"{match[2]}.py:{match[3]}": FAILED for match in _SYMPY_FAILURE.finditer(log)}
    endings = {" E": ERROR, " F": FAILED, " ok": PASSED}
    for raw in log.split("\n"):
        line = raw.strip()
        if line.startswith("test_"):
            for ending, status in endings.items():
                if line.endswith(ending):
                    found[line.split()[0]] = status
    return found


_GENERAL: Mapping[str, Callable[[str], Statuses]] = {
    "pytest": read_pytest,
    "pytest_options": read_pytest_options,
    "pytest_v2": read_pytest_words,
    "django": read_django,
    "matplotlib": read_matplotlib,
    "seaborn": read_seaborn,
    "sympy": read_sympy,
}
# Each form of logs by the name in published rows.
PARSERS: Mapping[str, Callable[[str], Statuses]] = {
    **{f"parse_log_{name}": read for name, read in _GENERAL.items()},
    **{f"parse_log_{name}": _GENERAL[form] for name, form in _OF_PROJECTS.items()},
}


def read_log(log: str, parser: str) -> Statuses | None:
    """Return the status of each test in a log, by id. None for a log that does not describe a whole run.

    The markers must be there. A test command that failed must have a test that failed.
    """
    if START not in log or END not in log:
        return None
    read = PARSERS[parser]
    statuses = read(log.split(START)[1].split(END)[0]) or read(log)
    code = _EXIT_CODE.search(log)
    if not statuses:
        return None
    if code is not None and int(code[1]) != 0 and not {FAILED, ERROR}.intersection(statuses.values()):
        return None
    return statuses


def find_status(test: str, statuses: Statuses) -> str | None:
    """Return the status of a test, None if the log does not tell it.

    Published ids that are cut short within their parameter have more `[` than `]`. Such an id stands for all
    tests that begin with it, if they agree.
    """
    if test in statuses or test.count("[") <= test.count("]"):
        return statuses.get(test)
    found = [status for name, status in statuses.items() if name.startswith(test)]
    return found[0] if len({status in (PASSED, XFAIL) for status in found}) == 1 else None


def has_passed(test: str, statuses: Statuses) -> bool:
    """Return whether a test has passed. A skipped test has not."""
    return find_status(test, statuses) in (PASSED, XFAIL)


@dataclass(frozen=True, slots=True)
class RepairCounts:
    """The tests that keep a patch from being resolved, and the number of all."""

    unrepaired: tuple[str, ...]
    broken: tuple[str, ...]
    tests: int

    @property
    def resolved(self) -> bool:
        """Whether every test that must be repaired passes, and no other is broken."""
        return not self.unrepaired and not self.broken


def count_tests(fail_to_pass: Iterable[str], pass_to_pass: Iterable[str], statuses: Statuses) -> RepairCounts:
    """Return the tests that fail in a log. A test to repair must pass, any other may be skipped as well."""
    wanted, kept = list(fail_to_pass), list(pass_to_pass)
    return RepairCounts(
        tuple(test for test in wanted if not has_passed(test, statuses)),
        tuple(test for test in kept if find_status(test, statuses) not in (PASSED, XFAIL, SKIPPED)),
        len(wanted) + len(kept),
    )
