"""Judge a check by its structure: sound, or trusting, or one whose programs can be judged as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from harness.environments.os.checks.python_analysis import analyse_python
from harness.environments.os.checks.shell_analysis import analyse_shell
from harness.environments.os.checks.shell_syntax import NotUnderstood
from harness.environments.os.checks.shell_values import Trusting
from harness.environments.os.scripts import Script


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of one check.

    A `sound` check only looks at the machine and compares. A check of the kind `data` starts programs of the
    agent, and captures their output; `starts` are the offsets of these commands. A `trusting` check believes
    the agent, or is not understood.
    """

    kind: Literal["sound", "data", "trusting"]
    # A sentence about the check, "" for a sound one.
    reason: str = ""
    starts: tuple[int, ...] = ()


@cache
def judge_check(script: Script) -> Judgement:
    """Return the judgement of a check. A check that is not understood counts as trusting."""
    if script.is_compiled:
        return Judgement("trusting", "its check is a program that must be compiled, which is not analysed")
    try:
        if script.language == "python":
            analyse_python(script.code)
        else:
            analyse_shell(script.code)
        return Judgement("sound")
    except (Trusting, NotUnderstood, RecursionError) as error:
        reason = _describe(error)
    if script.language == "bash":
        try:
            starts = analyse_shell(script.code, allow_programs=True).starts
        except (Trusting, NotUnderstood, RecursionError) as error:
            return Judgement("trusting", _describe(error))
        return Judgement("data", reason, starts)
    return Judgement("trusting", reason)


def _describe(error: Exception) -> str:
    if isinstance(error, Trusting):
        return f"its check {error}"
    return f"its check is not understood: {error}"
