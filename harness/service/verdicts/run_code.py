"""`/run_code`: run a program once, in the protocol of SandboxFusion, for the clients that speak it.

The service runs what the client sends, so the client judges the output. The outcome of a program is never
`SandboxError`, which clients count as a fault of the service: a program that crashes, runs out of memory or
attacks its sandbox gets `Failed`.

Source: https://bytedance.github.io/SandboxFusion/docs/api/run-code-run-code-post.
"""

from __future__ import annotations

import base64
import binascii
import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.core.errors import HarnessError, UsageError
from harness.core.logger import get_logger
from harness.environments.python.client import run_on_inputs
from harness.environments.python.languages import LANGUAGES, PYTHON
from harness.environments.python.needed_sockets import may_need_sockets
from harness.host.local import LocalHost
from harness.sandbox.failures import SandboxLimitReached
from harness.sandbox.limits import Limits
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import Sandbox
from harness.service.errors import BusyError, InvalidRequestError
from harness.service.operations import Called, make_router

_LOGGER = get_logger(__name__)
# SandboxFusion keeps this much of each stream, from its start.
KEPT_BYTES = 1 << 20
# A program may write more, which the reply leaves out. At this size it is ended.
_MOST_OUTPUT_BYTES = 8 << 20
# Clients wait for the sum of both timeouts and this much longer (verl and SkyRL: `API_TIMEOUT`). They try a
# refused request three times within seconds and then count a miss, so it is held for as long as they wait.
CLIENT_SECONDS = 10.0
# The reply, or the refusal, must arrive before.
_REPLY_SECONDS = 1.0
# A program that could not even start in the time that is left need not begin.
_LEAST_RUN_SECONDS = 1.0
# The files of a request, and those that it fetches.
MOST_FILES = 1024
# The files of one reply together. The untrusted program decides how large each one is.
MOST_FETCHED_BYTES = 32 << 20
DEFAULT_MEMORY_MB = 1024
MOST_MEMORY_MB = 8192
_KEEP = 2 * KEPT_BYTES
_TRIES = 2
_KILLED = -9
_TIME_LIMITS = frozenset({"wall_seconds", "cpu_seconds"})


class RunCodeRequest(BaseModel):
    """A program and its input."""

    # Clients of other versions send further fields.
    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    code: str
    """The program."""
    language: str
    """`python`, `bash`, `cpp`, `go`, `java`, `nodejs`, `php`, `ruby`, `rust` or `typescript`."""
    stdin: str | None = None
    """The standard input of the program."""
    compile_timeout: float = Field(default=10.0, ge=0, le=600, allow_inf_nan=False)
    """The wall time of the compiler, in seconds. The program may wait in the queue for this long, less the
    time of its compiler, and for the ten seconds that clients wait in addition."""
    run_timeout: float = Field(default=10.0, gt=0, le=600, allow_inf_nan=False)
    """The wall time of the program, in seconds."""
    memory_limit_MB: int = Field(default=-1, le=MOST_MEMORY_MB)
    """The memory of the sandbox in MiB, -1 for 1024. A smaller limit than 64 means 64."""
    files: dict[str, str | None] = Field(default_factory=dict, max_length=MOST_FILES)
    """Files in the program's folder: content in base64 by path."""
    fetch_files: list[str] = Field(default_factory=list, max_length=MOST_FILES)
    """The paths of files to return after the run. Missing files are left out, and so are
    files that do not fit into 32 MiB together with the files before them."""


class CommandRunResult(BaseModel):
    """The outcome of one command."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    """`Finished` for every program that ended before its time, by itself or by a signal."""
    execution_time: float | None = None
    """Seconds of wall time."""
    return_code: int | None = None
    """The exit code, negative for a signal, None after a timeout."""
    stdout: str | None = None
    """At most the first MiB. `message` of the reply says if it was cut."""
    stderr: str | None = None
    """At most one MiB. `message` of the reply says if it was cut."""


class RunCodeResponse(BaseModel):
    """The outcome of a program."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    status: Literal["Success", "Failed", "SandboxError"]
    """`Success` for exit code 0. `Failed` also for a program that does not compile. `SandboxError` for a
    fault of the service alone."""
    message: str = ""
    """The fault of the service, the limit that ended the program or its compiler, and whether its output was
    cut."""
    compile_result: CommandRunResult | None = None
    """The outcome of the compiler, None for a language without one."""
    run_result: CommandRunResult | None = None
    """None with `SandboxError`, and for a program that does not compile."""
    executor_pod_name: str | None = None
    """Always None."""
    files: dict[str, str] = Field(default_factory=dict)
    """The fetched files, in base64."""


router = make_router()


@router.post("/run_code", summary="Run a program in one of ten languages, in the protocol of SandboxFusion.")
async def run_code(request: RunCodeRequest, call: Called) -> RunCodeResponse:
    """Return the outcome of a program, before the client gives up.

    Raises BusyError if the time of the client does not suffice, or too many requests wait, and
    InvalidRequestError.
    """
    if request.language not in LANGUAGES:
        raise InvalidRequestError(
            f"'language': {request.language[:40]!r} is not served; use one of {', '.join(LANGUAGES)}",
            status=422,
        )
    files = {path: _decode(path, content) for path, content in request.files.items() if content is not None}
    client_seconds = request.compile_timeout + request.run_timeout + CLIENT_SECONDS
    ends = time.monotonic() + client_seconds - _REPLY_SECONDS
    failure: HarnessError | None = None
    for _ in range(_TRIES):
        rest = ends - time.monotonic() - _LEAST_RUN_SECONDS
        if failure is not None and rest <= 0:
            break
        async with call.service.work(call.client, wait_seconds=rest, hold=True):
            try:
                seconds = max(ends - time.monotonic(), _LEAST_RUN_SECONDS)
                item = ProgramRun(request, files, call.client, seconds)
                response = await call.service.workers.perform(item, seconds=seconds + _REPLY_SECONDS)
            except UsageError as error:
                raise InvalidRequestError(error.message, status=422) from error
            except HarnessError as error:
                failure = error
                call.service.metrics.faults.inc()
                _LOGGER.warning("fault: %s", error.message)
                continue
        if response is None:
            raise BusyError(
                f"the queue left {seconds:.1f} s for the program, of its {request.run_timeout:g} s, and "
                "it has not ended by then",
                retry_seconds=_REPLY_SECONDS,
            )
        return response
    assert failure is not None  # noqa: S101  because the first try never ends the loop otherwise
    if ends - time.monotonic() <= _LEAST_RUN_SECONDS:
        # The client's time is over, and another try of its own may get a machine that is less busy.
        raise BusyError(
            f"the queue left {seconds:.1f} s for the program, and it has not ended by then: "
            f"{failure.message}",
            retry_seconds=_REPLY_SECONDS,
        )
    return RunCodeResponse(status="SandboxError", message=failure.message)


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program that some machine runs. Implements `WorkItem`."""

    request: RunCodeRequest
    # The decoded files of the request.
    files: dict[str, bytes]
    # Programs of different clients never share a sandbox.
    client: str
    # The time until the result must be there.
    seconds: float

    async def perform(self, host: LocalHost) -> RunCodeResponse | None:
        """Run the program and return its outcome. Raises HarnessError.

        The outcome is None if the program has used up a time that is shorter than its own limit, because
        its own end is unknown.
        """
        request = self.request
        if request.language == PYTHON and not self.files and not request.fetch_files:
            try:
                response = await self._run_program(host.pool)
            except SandboxLimitReached as error:
                response = _reply(None, _describe_lost(error))
        else:
            response = await self._run_command(host.pool)
        result = response.run_result or response.compile_result
        is_late = result is not None and result.status == "TimeLimitExceeded"
        asked = request.run_timeout
        if request.language != PYTHON and LANGUAGES[request.language].compile:
            asked += request.compile_timeout
        return None if is_late and self.seconds < asked else response

    @property
    def _run_seconds(self) -> float:
        """The wall time of the program."""
        return min(self.request.run_timeout, self.seconds)

    async def _run_program(self, pool: SandboxPool) -> RunCodeResponse:
        """Run a program in Python in a sandbox that the client's earlier programs have used.

        Each has its own process, user and folder, and leaves nothing behind.
        """
        request, ends = self.request, time.monotonic() + self.seconds
        sockets = may_need_sockets((request.code,))
        settings = SandboxSettings(
            "python",
            _choose_limits(request.memory_limit_MB),
            seccomp="strict",
            network="own" if sockets else "shared",
        )
        key = ("run_code", self.client)
        async with pool.lease(
            settings, seconds=self.seconds + _REPLY_SECONDS, key=key, working=True
        ) as sandbox:
            (run,) = await run_on_inputs(
                sandbox,
                program=request.code.encode("utf-8", "surrogatepass"),
                inputs=[(request.stdin or "").encode("utf-8", "surrogatepass")],
                stdout_bytes=_MOST_OUTPUT_BYTES,
                stderr_bytes=KEPT_BYTES,
                wall_seconds=self._run_seconds,
                wall_seconds_in_all=max(ends - time.monotonic(), self._run_seconds),
            )
        limit = None if run.ended in ("exited", "signal", "killed") else run.ended
        described = _describe(
            limit=limit,
            exit_code=run.exit_code,
            seconds=run.duration_seconds,
            stdout=run.stdout.head + run.stdout.tail,
            stderr=run.stderr.data,
            sizes={"stdout": run.stdout.total, "stderr": run.stderr.total},
        )
        return _reply(None, described)

    async def _run_command(self, pool: SandboxPool) -> RunCodeResponse:
        """Compile and run a program with its files in a new sandbox, which ends with it."""
        request, limits = self.request, _choose_limits(self.request.memory_limit_MB)
        language = LANGUAGES[request.language]
        file, compiler, command = language.place(request.code, limits.memory_mb)
        ends = time.monotonic() + self.seconds
        compiled: _Described | None = None
        seconds = request.compile_timeout + 2 * self._run_seconds + 60.0
        try:
            async with pool.lease(
                SandboxSettings(language.image, limits), seconds=seconds, working=True
            ) as sandbox:
                files = {**self.files, file: request.code.encode("utf-8", "surrogatepass")}
                for path, content in files.items():
                    await sandbox.write_file(path, content)
                if compiler:
                    compiled = _LOST_COMPILER
                    most = min(request.compile_timeout, self.seconds)
                    compiled = _describe_result(await sandbox.exec(compiler, timeout=most, keep_bytes=_KEEP))
                    if compiled.result.status != "Finished" or compiled.result.return_code != 0:
                        return _reply(compiled, None)
                rest = min(self._run_seconds, max(ends - time.monotonic(), _LEAST_RUN_SECONDS))
                ran = await sandbox.exec(command, stdin=request.stdin or "", timeout=rest, keep_bytes=_KEEP)
                fetched = await _fetch_all(sandbox, request.fetch_files)
        except SandboxLimitReached as error:
            lost = _describe_lost(error)
            return _reply(lost, None) if compiled is _LOST_COMPILER else _reply(compiled, lost)
        return _reply(compiled, _describe_result(ran)).model_copy(update={"files": fetched})


async def _fetch_all(sandbox: Sandbox, paths: Sequence[str]) -> dict[str, str]:
    """Return the content of files in base64, as far as they are there and fit into a reply."""
    fetched: dict[str, str] = {}
    rest = MOST_FETCHED_BYTES
    for path in dict.fromkeys(paths):
        try:
            content = await sandbox.read_file(path, limit=rest)
        except UsageError:  # too large, or no regular file that the program's user can read
            continue
        rest -= len(content)
        fetched[path] = base64.b64encode(content).decode()
    return fetched


@functools.lru_cache(maxsize=64)
def _choose_limits(memory_limit_mb: int) -> Limits:
    """Return the limits of the sandbox. Each job has the time limits of its request.

    Most requests ask for the same memory, and the pool compares the same object faster than an equal one.
    """
    memory_mb = DEFAULT_MEMORY_MB if memory_limit_mb <= 0 else max(64, memory_limit_mb)
    return Limits(memory_mb=memory_mb, cpu_seconds=600, wall_seconds=600)


@dataclass(frozen=True, slots=True)
class _Described:
    """The outcome of one command, and remarks on it for people."""

    result: CommandRunResult
    remarks: tuple[str, ...] = ()


# Stays in place of an outcome while a compiler runs.
_LOST_COMPILER = _Described(CommandRunResult(status="Error"))


def _reply(compiled: _Described | None, ran: _Described | None) -> RunCodeResponse:
    """Return the outcome of a program that has ended, or that its compiler has refused."""
    remarks = [f"compiler: {each}" for each in (() if compiled is None else compiled.remarks)]
    remarks += () if ran is None else ran.remarks
    return RunCodeResponse(
        status="Success" if ran is not None and ran.result.return_code == 0 else "Failed",
        message="; ".join(remarks),
        compile_result=None if compiled is None else compiled.result,
        run_result=None if ran is None else ran.result,
    )


def _describe_result(result: ExecResult) -> _Described:
    stdout, stderr = result.stdout, result.stderr
    return _describe(
        limit=result.limit,
        exit_code=result.exit_code,
        seconds=result.duration_seconds,
        stdout=stdout.head + (b"" if stdout.truncated else stdout.tail),
        stderr=stderr.head + (b"" if stderr.truncated else stderr.tail),
        sizes={"stdout": stdout.total, "stderr": stderr.total},
    )


def _describe(
    *,
    limit: str | None,
    exit_code: int,
    seconds: float,
    stdout: bytes,
    stderr: bytes,
    sizes: Mapping[str, int],
) -> _Described:
    """Return the outcome of a command that has ended. `sizes` are the bytes that it wrote to each stream."""
    is_late = limit in _TIME_LIMITS
    result = CommandRunResult(
        status="TimeLimitExceeded" if is_late else "Finished",
        execution_time=seconds,
        return_code=None if is_late else exit_code if limit is None or exit_code else _KILLED,
        stdout=stdout[:KEPT_BYTES].decode("utf-8", "replace"),
        stderr=stderr[:KEPT_BYTES].decode("utf-8", "replace"),
    )
    remarks = [] if limit is None else [f"the program reached the limit {limit}"]
    remarks += [
        f"{name} was cut: the program wrote {size:,} bytes, and the reply has {KEPT_BYTES:,}"
        for name, size in sizes.items()
        if size > KEPT_BYTES
    ]
    return _Described(result, tuple(remarks))


def _describe_lost(error: SandboxLimitReached) -> _Described:
    """Return the outcome of a command that cost its whole sandbox by a limit."""
    result = CommandRunResult(status="Finished", return_code=_KILLED, stdout="", stderr="")
    return _Described(result, (error.message,))


def _decode(path: str, content: str) -> bytes:
    try:
        # Some encoders break the text into lines (RFC 2045).
        return base64.b64decode("".join(content.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequestError(f"'files': {path[:80]!r} is not base64: {error}", status=422) from None
