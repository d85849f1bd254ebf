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
from collections.abc import Collection, Iterable
from pathlib import PurePath

# The name to install, as in pyproject.toml. The import name and the command are `harness`.
DISTRIBUTION = "sealed-harness"
# A hint lists all of this many names.
_LISTED_NAMES = 16
# The task ids among which an error looks for a similar one.
_COMPARED_IDS = 10_000


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
