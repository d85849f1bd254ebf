"""The outcome of a check."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from harness.core.errors import SandboxError
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck import probe


class Level(StrEnum):
    """The severity of a finding. Only `FAIL` means that runs on this machine cannot be trusted."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """The evidence that a check has found, and the fix if one is known."""

    level: Level
    found: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the diagnosis: a finding and the name of its check."""

    name: str
    level: Level
    found: str
    fix: str | None = None

    @classmethod
    def of(cls, name: str, finding: Finding) -> Check:
        return cls(name, finding.level, finding.found, finding.fix)


def make_finding(holds: bool, found: str) -> Finding:
    """Return the finding of a canary, which is `OK` if the promise holds and `FAIL` if it does not."""
    return Finding(Level.OK if holds else Level.FAIL, found)


RUN_ID = "doctor"
PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")


async def attempt(
    sandbox: Sandbox, function: Callable[..., Any], *arguments: Any, timeout: float | None = None
) -> ExecResult:
    """Run a function of `probe` as a job in the sandbox and return the job's result. Raises SandboxError."""
    name = getattr(function, "__name__", "")
    return await sandbox.exec([*PYTHON, probe_source(), name, json.dumps(arguments)], timeout=timeout)


async def answer(sandbox: Sandbox, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function of `probe` as a job in the sandbox and return its return value. Raises SandboxError."""
    result = await attempt(sandbox, function, *arguments)
    try:
        return json.loads(result.stdout.data)
    except ValueError as error:
        raise SandboxError(f"the canary ended before it answered: {describe_end(result)}") from error


def describe_end(result: ExecResult) -> str:
    """Return in words how a job ended."""
    if result.limit is not None:
        return f"ended by {result.limit} after {result.duration_seconds:.1f} s"
    if result.exit_code == 0:
        return "ended by itself"
    last_words = str(result.stderr).strip().splitlines()[-1:]
    return ": ".join([f"exit code {result.exit_code}", *last_words])


@cache
def probe_source() -> str:
    """Return the source of `probe`, which runs the function that its arguments name."""
    return Path(probe.__file__).read_text(encoding="utf-8")
