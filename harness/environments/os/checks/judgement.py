"""Judge a check by its structure: sound, or trusting, or one whose programs can be judged as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from harness.environments.os.checks.python_analysis import analyse_python
from harness.environments.os.checks.shell_analysis import ShellAnalysis
from harness.environments.os.checks.shell_parser import parse_shell
from harness.environments.os.checks.shell_syntax import NotUnderstood
from harness.environments.os.checks.shell_values import Kind, Trusting
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
            analyse_python(script.code, _is_fixed)
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


@dataclass(frozen=True, slots=True)
class ShellFindings:
    """The findings about a bash check that does not believe an agent.

    `starts` are the offsets of its commands that run a program of the agent. There are none unless the
    analysis allows them.
    """

    starts: tuple[int, ...] = ()
    is_fixed: bool = False


def analyse_shell(code: str, *, strict: bool = False, allow_programs: bool = False) -> ShellFindings:
    """Return the findings about a bash check.

    Args:
        code: the check.
        strict: whether the caller may use either status of the check, so that no command may fail by a
            text of the agent.
        allow_programs: whether the check may start programs of the agent inside `$(...)`. Their output
            then counts as text of the check, because the reference's programs will print it.

    Raises:
        Trusting: for a check that believes an agent.
        NotUnderstood: for syntax that is not analysed.
    """
    script = parse_shell(code)
    analysis = ShellAnalysis(script, code, is_fixed=_is_fixed, allow_programs=allow_programs)
    output = analysis.settle()
    analysis.require_sound_flow(strict=strict)
    analysis.require_data_only()
    is_fixed = output is None or output.kind is Kind.FIXED
    return ShellFindings(tuple(sorted(analysis.starts)), is_fixed)


def _is_fixed(code: str) -> bool:
    """Return whether the output of a shell's code in a check is fixed. Raises Trusting."""
    return analyse_shell(code, strict=True).is_fixed


def _describe(error: Exception) -> str:
    if isinstance(error, Trusting):
        return f"its check {error}"
    return f"its check is not understood: {error}"
