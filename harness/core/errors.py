"""Every error that a user can meet. Its message names the fault and its place, its hint the next step.

HarnessError
 ├─ UsageError                 a name, an option or a combination that cannot be used
 │   ├─ AgentUnusableError     the settings of an agent fit no attempt, such as a program that is not there
 │   ├─ ModelRefusedError      the server of a model refuses every request
 │   └─ UnknownSpendingError   a budget whose figure the server does not report
 ├─ DataError                  a data or samples file that cannot be used
 │   └─ HubUnreachableError    the dataset hub does not answer
 ├─ EngineUnavailableError     no container engine answers
 ├─ ImageMissingError          an image that a run needs was not built
 ├─ StorageError               a run folder or a result cannot be written
 ├─ RunStoppedError            a run was stopped, because going on would fail every further attempt
 ├─ RewardUnavailableError     a trainer's completion got no verdict, which is not a reward of 0
 ├─ ModelError                 the server of a model failed until the time of a request was over
 ├─ ServiceUnreachableError    no `harness serve` answers at an address
 ├─ ServiceBusyError           a `harness serve` had no room within the time of a call
 └─ SandboxError               the sandbox or its engine failed
     ├─ SandboxClosed          the block that opened the sandbox was left
     ├─ SandboxUnresponsive    the guest did not answer within a limit that it enforces itself
     └─ SandboxLimitReached    a program reached a limit, which cost the whole sandbox
         ├─ SandboxOutOfMemory
         └─ SandboxOutOfDisk

AgentError is not in this tree, because agents raise it. It ends an attempt, and no command.
"""

from __future__ import annotations

import difflib
import itertools
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

# The name to install, as in pyproject.toml. The import name and the command are `harness`.
DISTRIBUTION = "sealed-harness"
# A message quotes at most this many characters of a value that somebody else wrote.
QUOTED_CHARACTERS = 200
# A hint lists all of this many names.
_LISTED_NAMES = 16
# The task ids among which an error looks for a similar one.
_COMPARED_IDS = 10_000
# The problems of one value that pydantic lists within a few hundredths of a second.
_MOST_LISTED = 5000
# Our own wording, because pydantic's messages name types and functions of Python.
_REQUIREMENTS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "finite_number": "must be a finite number",
    "literal_error": "must be {expected}",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must match {pattern}",
    "value_error": "{error}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list, such as [a, b]"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be keys and values"),
    "string_type": "must be text",
    "too_short": "has too few entries, and needs at least {min_length}",
    "too_long": "has too many entries, and may have at most {max_length}",
    "union_tag_invalid": "needs {expected_tags} as {discriminator}",
    "union_tag_not_found": "lacks {discriminator}",
    "extra_forbidden": "is not a known field",
    "missing": "is missing",
}
# The value says nothing more, or is not the fault.
_WITHOUT_VALUE = frozenset(
    (
        *("missing", "value_error", "string_too_short", "extra_forbidden", "too_short", "too_long"),
        *("union_tag_invalid", "union_tag_not_found"),
    )
)


class HarnessError(Exception):
    """Base of all errors that end a command with a message instead of a traceback.

    `hint` names the next step; `exit_code` is the exit code of the command.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint is not None:
            # A traceback shows notes, so that a script or a notebook shows the hint too.
            self.add_note(f"hint: {hint}")


def describe_installation(extra: str) -> str:
    """Return the hint that installs the packages of an extra of `pyproject.toml`."""
    return f"run: {install_command(f'{DISTRIBUTION}[{extra}]')}"


def install_command(requirement: str) -> str:
    """Return the command that installs a requirement where harness runs, by the tool that made the place.

    It names this Python or this environment, because the pip of another one would not change it.
    """
    import importlib.util  # here, because most commands install nothing

    prefix, needed = PurePath(sys.prefix), shlex.quote(requirement)
    if os.path.isfile(prefix / "pipx_metadata.json"):
        return f"pipx runpip {shlex.quote(prefix.name)} install {needed}"
    python = shlex.quote(sys.executable)
    # An environment of uv has no pip.
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {python} {needed}"
    return f"{python} -m pip install {needed}"


class UsageError(HarnessError):
    """A name, option, config key or combination that cannot be used."""


class DataError(HarnessError):
    """A data or samples file that cannot be used, with the file, line and field if they are known."""

    def __init__(
        self,
        message: str,
        *,
        path: PurePath | str | None = None,
        line: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        where = "" if path is None else f"{path}:" if line is None else f"{path}:{line}:"
        what = f"field '{field}': {message}" if field else message
        super().__init__(f"{where} {what}".strip(), hint=hint)
        self.path = path
        self.line = line
        self.field = field


class EngineUnavailableError(HarnessError):
    """No Docker engine answers."""


class ImageMissingError(HarnessError):
    """An image that a run needs is not on the engine."""


class SandboxError(HarnessError):
    """The sandbox or the engine failed: an `infra_error`, unless an agent had acted in the sandbox.

    With `outside`, the engine failed, or one of its users ended the sandbox, so that no program in the
    sandbox can be the cause. `acted_in` is whether an agent had acted in the sandbox that failed; None if the
    error does not name that sandbox. With `lasting`, another try would fail in the same way.
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        outside: bool = False,
        acted_in: bool | None = None,
        lasting: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.outside = outside
        self.acted_in = acted_in
        self.lasting = lasting


def describe_requirement(error: Mapping[str, Any]) -> str:
    """Return the requirement that a value violates, and the value: `must be at least 1, not 0`.

    `error` is one of pydantic's `ValidationError.errors()`.
    """
    pattern = _REQUIREMENTS.get(error["type"])
    limits = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in error.get("ctx", {}).items()
    }
    text = error["msg"] if pattern is None else pattern.format(**limits)
    try:
        if error["type"] in _WITHOUT_VALUE or _may_be_secret(error):
            return text
        return f"{text}, not {quote_value(error['input'])}"
    except ValueError:  # Python writes no integer of more than 4,300 digits.
        return f"{text}, not a value with an integer of thousands of digits"


def _may_be_secret(error: Mapping[str, Any]) -> bool:
    """Return whether a value must not be quoted, by its name or those in it."""
    from harness.core.secret_forms import names_secret

    names = [str(part) for part in error.get("loc", ())]
    if any(names_secret(name) or name in ("env", "headers") for name in names):
        return True
    # A group of settings may hold one whose name says so.
    return isinstance(error["input"], dict | list | tuple) and names_secret(str(error["input"]))


def quote_value(value: Any) -> str:
    """Return a value as JSON without the secrets of URLs, or the start and the length of a long one."""
    import json  # here, because `harness --help` loads this file and needs no JSON

    from harness.core.secret_forms import hide_url_secrets

    text = hide_url_secrets(json.dumps(value, ensure_ascii=False, default=str))
    if len(text) <= QUOTED_CHARACTERS:
        return text
    return f"{text[:QUOTED_CHARACTERS]}... ({len(text):,} characters in all)"


def describe_first_error(error: ValidationError, values: object = None) -> str:
    """Return the first requirement that the validated data violate, with its place, in one line.

    An unknown field comes first, together with a missing one, because that may be its right name. With
    `values`, the data themselves, the place has only their keys. Without them it also has the kinds by which
    pydantic has chosen a model. It names none of very many problems, because pydantic can only list all of
    them, which would take seconds.
    """
    if error.error_count() > _MOST_LISTED:
        return f"{error.error_count():,} values do not fit, too many to name one"
    problems = [{**each, "loc": _drop_kinds(each["loc"], values)} for each in error.errors()]
    first = next((each for each in problems if each["type"] == "extra_forbidden"), None)
    if first is None:
        return _describe_problem(problems[0])
    missing = [_describe_problem(each) for each in problems if each["type"] == "missing"]
    return ", and ".join([_describe_problem(first), *missing[:1]])


def _drop_kinds(place: tuple[int | str, ...], values: object) -> tuple[int | str, ...]:
    """Return a place without the parts that are not keys of the data. The last part may be missing there."""
    kept: list[int | str] = []
    for number, part in enumerate(place):
        if isinstance(values, Mapping):
            if part not in values and number + 1 < len(place):
                continue
            values = values.get(part)
        elif isinstance(values, list) and isinstance(part, int) and part < len(values):
            values = values[part]
        kept.append(part)
    return tuple(kept)


def _describe_problem(problem: Mapping[str, Any]) -> str:
    place = ".".join(map(str, problem["loc"]))
    return f"'{place}' {describe_requirement(problem)}" if place else describe_requirement(problem)


def unknown_name(
    kind: str, name: str, known: Iterable[str], *, likely: str | None = None, lister: str | None = None
) -> UsageError:
    """Return the error for an unknown name. It suggests `likely`, or the nearest one, and lists all.

    It lists only the three nearest of many names. `lister` is the command that lists all of them.
    """
    names = sorted(known)
    # Unless a name differs by a slip, the beginning of one is meant more often than similar letters.
    slips = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.85)
    begun = sorted((each for each in names if _letters(each).startswith(_letters(name))), key=len)
    if not likely and not slips and begun and len(_letters(name)) > 2:
        likely = begun[0]
    near = [likely] if likely else difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    suggestion = f"did you mean '{near[0]}'? " if near else ""
    if len(names) <= _LISTED_NAMES:
        return UsageError(f"unknown {kind} '{name}'", hint=f"{suggestion}known: {', '.join(names)}")
    others = difflib.get_close_matches(name.lower(), names, n=4, cutoff=0.3)
    nearest = [*near, *(each for each in others if each not in near)][:3]
    shown = f"the nearest of {len(names)}: {', '.join(nearest)}" if nearest else f"{len(names)} are known"
    end = f"; all: {lister}" if lister else ""
    return UsageError(f"unknown {kind} '{name}'", hint=f"{suggestion}{shown}{end}")


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def unknown_task(task_id: str, known: Collection[str], *, place: str, which: str = "") -> UsageError:
    """Return the error for a task id that `place`, a benchmark or a run, does not have.

    The hint suggests the nearest id, and shows two of the existing ids. `which` follows their number, if
    `place` may have others.
    """
    if not known:
        return UsageError(f"{place}: unknown task '{task_id}'", hint=f"{place} has no tasks yet")
    near = _nearest_id(task_id, known)
    suggestion = f"did you mean '{near}'? " if near is not None else ""
    examples = " and ".join(f"'{each}'" for each in list(known)[:2])
    tasks = "1 task" if len(known) == 1 else f"{len(known):,} tasks"
    if which:
        tasks = f"{tasks} {which}"
    return UsageError(
        f"{place}: unknown task '{task_id}'", hint=f"{suggestion}{place} has {tasks}, such as {examples}"
    )


def _nearest_id(task_id: str, known: Collection[str]) -> str | None:
    """Return the id that a user may have meant. Users often type only its number, or another case."""
    wanted = task_id.lower()
    for each in known:
        if each.lower() == wanted or each.lower().endswith(f"/{wanted}"):
            return each
    # The comparison of a pair takes some microseconds, and there may be a million tasks.
    compared = itertools.islice(known, _COMPARED_IDS)
    near = difflib.get_close_matches(task_id, compared, n=1, cutoff=0.5)
    return near[0] if near else None
