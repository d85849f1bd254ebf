"""What jobs come to, read from the guest's answers: trusted as to facts, bounded all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.errors import SandboxError

# Which limit ended a job, in the guest's words and in those of `Limits`.
LIMIT_NAMES = {
    "cpu": "cpu_seconds",
    "wall": "wall_seconds",
    "memory": "memory_mb",
    "processes": "processes",
    "output": "output_mb",
    "file": "file_mb",
}


@dataclass(frozen=True, slots=True)
class Stream:
    """One output stream: what was kept of it, and how many bytes there were."""

    head: bytes
    tail: bytes
    total: int

    @property
    def truncated(self) -> bool:
        return self.total > len(self.head) + len(self.tail)

    @property
    def data(self) -> bytes:
        """What was kept, with a line in the middle that says how much is missing."""
        if not self.truncated:
            return self.head + self.tail
        missing = self.total - len(self.head) - len(self.tail)
        return b"%s\n[... %d bytes left out ...]\n%s" % (self.head, missing, self.tail)

    def __str__(self) -> str:
        return self.data.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended.

    `exit_code` is negative for a signal (-9: killed). `limit` names the limit (a field of
    `Limits`) that ended it, or None. `str(result.stdout)` is its text, `.data` its bytes.
    """

    exit_code: int
    limit: str | None
    stdout: Stream
    stderr: Stream
    cpu_seconds: float
    duration_seconds: float
    clean: bool


class ShellEnd(StrEnum):
    """How a command in a shell that stays came to its end: by itself, by a limit, or with its shell."""

    DONE = "done"
    SHELL_ENDED = "shell"
    WALL = "wall"
    OUTPUT = "output"
    MEMORY = "memory"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class ShellResult:
    """What came of one command in a shell that stays.

    `output` is what it wrote to stdout and stderr, in order. `exit_code` is that of the command, or of
    the shell where this ended (negative for a signal). `shell_lives`: the next command finds the same
    shell. `renewed`: this one found a new one. `refused_forks`: it met the limit on processes.
    """

    output: Stream
    exit_code: int
    ended: ShellEnd
    shell_lives: bool
    renewed: bool
    refused_forks: bool
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """What a service said, a line without its end, or None where it ended before it did.

    `ended` then says how: a field of `Limits`, `signal`, `killed` or `exited`. `stderr` is the last of it.
    """

    line: bytes | None
    ended: str | None = None
    exit_code: int = 0
    stderr: str = ""
    clean: bool = True


@dataclass(frozen=True, slots=True)
class TestReport:
    """What trusted tests said of a program.

    `results` has True or False for each statement in order, always all of them: what was not
    reported as passed has failed; `ran` is how many there are reports of. `ended` says how the
    candidate's process came to its end where that ended the tests: a field of `Limits`, `signal`,
    `killed` or `exited`; else None.
    """

    __test__ = False  # not a pytest class

    results: tuple[bool, ...]
    evidence: str | None
    error: str | None
    breach: str | None
    ended: str | None
    exit_code: int
    stdout: Stream
    stderr: Stream
    cpu_seconds: float
    duration_seconds: float
    memory_kills: int
    refused_forks: int
    clean: bool
    ran: int = 0


@dataclass(frozen=True, slots=True)
class InputRun:
    """How one run of a program on one input ended, and what it wrote.

    `ended` is `exited`, `signal`, `killed`, or the limit (a field of `Limits`) that ended it.
    """

    ended: str
    exit_code: int
    stdout: Stream
    stderr: Stream
    cpu_seconds: float
    duration_seconds: float
    memory_kills: int
    refused_forks: int
    clean: bool

    @property
    def well(self) -> bool:
        """Whether the program came to its end by itself, without an error."""
        return self.ended == "exited" and self.exit_code == 0 and self.clean


def exec_result(header: Mapping[str, Any], body: bytes) -> ExecResult:
    """Read the answer to `exec`."""
    stdout, stderr = _streams(header, body)
    return ExecResult(
        exit_code=header["exit_code"],
        limit=LIMIT_NAMES.get(header["ended"]),
        stdout=stdout,
        stderr=stderr,
        cpu_seconds=header["cpu_seconds"],
        duration_seconds=header["duration_seconds"],
        clean=header["clean"],
    )


def service_answer(header: Mapping[str, Any], body: bytes) -> ServiceAnswer:
    """Read the answer to `ask`."""
    if "ended" not in header:
        return ServiceAnswer(body)
    facts = header["ended"]
    return ServiceAnswer(
        None,
        ended=LIMIT_NAMES.get(facts["by"], facts["by"]),
        exit_code=facts["exit_code"],
        stderr=facts["stderr"],
        clean=facts["clean"],
    )


def shell_result(header: Mapping[str, Any], body: bytes) -> ShellResult:
    """Read the answer to `run`."""
    output, _ = _streams(header, body)
    return ShellResult(
        output=output,
        exit_code=header["exit_code"],
        ended=ShellEnd(header["ended"]),
        shell_lives=header["shell"],
        renewed=header["renewed"],
        refused_forks=header["refused_forks"] > 0,
        duration_seconds=header["duration_seconds"],
    )


def test_report(header: Mapping[str, Any], body: bytes, *, expected: int) -> TestReport:
    """Read the answer to `test`, of which `expected` results make it complete."""
    stdout, stderr = _streams(header, body)
    report = header["report"]
    passed = [] if report is None else [result == "passed" for result in report["results"][:expected]]
    ended = header["ended"]
    if report is not None and report.get("timeout") is not None:
        ended = report["timeout"]
    return TestReport(
        results=tuple(passed + [False] * (expected - len(passed))),
        evidence=None if report is None else report["evidence"],
        error=None if report is None else report["error"],
        breach=None if report is None else report["breach"],
        ended=LIMIT_NAMES.get(ended, ended),
        exit_code=header["exit_code"],
        stdout=stdout,
        stderr=stderr,
        cpu_seconds=header["cpu_seconds"],
        duration_seconds=header["duration_seconds"],
        memory_kills=header["memory_kills"],
        refused_forks=header["refused_forks"],
        clean=header["clean"],
        ran=0 if report is None else len(report["results"]),
    )


test_report.__test__ = False  # type: ignore[attr-defined]


def input_runs(header: Mapping[str, Any], body: bytes) -> list[InputRun]:
    """Read the answer to `inputs`: one entry for each run that there was."""
    runs = []
    for facts in header["runs"]:
        size = sum(facts[name][part] for name in ("stdout", "stderr") for part in ("head", "tail"))
        stdout, stderr = _streams(facts, body[:size])
        body = body[size:]
        runs.append(
            InputRun(
                ended=LIMIT_NAMES.get(facts["ended"], facts["ended"]),
                exit_code=facts["exit_code"],
                stdout=stdout,
                stderr=stderr,
                cpu_seconds=facts["cpu_seconds"],
                duration_seconds=facts["duration_seconds"],
                memory_kills=facts["memory_kills"],
                refused_forks=facts["refused_forks"],
                clean=facts["clean"],
            )
        )
    if body:
        raise SandboxError("the guest's answer does not add up")
    return runs


def _streams(header: Mapping[str, Any], body: bytes) -> tuple[Stream, Stream]:
    streams = []
    position = 0
    for name in ("stdout", "stderr"):
        facts = header[name]
        head = body[position : position + facts["head"]]
        position += facts["head"]
        tail = body[position : position + facts["tail"]]
        position += facts["tail"]
        streams.append(Stream(head, tail, facts["total"]))
    if position != len(body):
        raise SandboxError("the guest's answer does not add up")
    return streams[0], streams[1]
