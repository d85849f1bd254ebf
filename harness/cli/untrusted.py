"""The execution of an untrusted command for `harness exec`: its output as it comes, and its end."""

from __future__ import annotations

import asyncio
import math
import select
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from harness.core.discovery import names_python_file
from harness.core.errors import UsageError
from harness.core.inputs.files import read_input
from harness.core.invalid_values import describe_requirement
from harness.core.text import ByteEscaper
from harness.environments import environment_spec
from harness.environments.python.languages import COMPILE_SECONDS, Language, find_language
from harness.sandbox.backends import open_default_backend
from harness.sandbox.backends.base import Backend
from harness.sandbox.failures import SandboxOutOfMemory
from harness.sandbox.guest.frames import MAX_BODY_BYTES
from harness.sandbox.limits import Limits
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.streaming import OutputStream

LIMIT_EXIT_CODE = 124
PROGRAM = "program.py"
# The time between the start of the container and the start of the command.
START_SECONDS = 60.0
# A pipe or a terminal that is ready takes this many bytes (PIPE_BUF of Linux), so the write does not wait.
WRITE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its program file and its standard input."""

    argv: tuple[str, ...]
    program: bytes | None = None
    stdin: bytes = b""
    # The language that the program was said to have. `argv` are then its arguments alone.
    language: Language | None = None

    @classmethod
    def parse(cls, argv: Sequence[str], stdin: BinaryIO, language: str | None = None) -> Command:
        """Return the command of a command line, where `-` and `FILE.py` are Python programs.

        With a `language`, any file is a program in it. Raises UsageError for an empty command line, for a
        program that cannot be read, and for an unknown language.
        """
        if not argv or not argv[0]:
            raise UsageError(
                "the command is missing",
                hint="run: harness exec -- CMD..., harness exec FILE.py, or harness exec -",
            )
        if language is not None:
            return cls._read_program(find_language(language), argv, stdin)
        if argv[0] == "-":
            return cls(("python3", PROGRAM, *argv[1:]), program=_read("standard input", stdin))
        path = Path(argv[0])
        if names_python_file(path.name):
            program = _read_file(path)
            return cls(("python3", PROGRAM, *argv[1:]), program=program, stdin=_read_piped(stdin))
        return cls(tuple(argv), stdin=_read_piped(stdin))

    @classmethod
    def _read_program(cls, language: Language, argv: Sequence[str], stdin: BinaryIO) -> Command:
        arguments = tuple(argv[1:])
        if argv[0] == "-":
            return cls(arguments, _read("standard input", stdin), language=language)
        return cls(arguments, _read_file(Path(argv[0])), _read_piped(stdin), language)


def build_limits(**values: float | None) -> Limits:
    """Return limits from options. Raises UsageError, which names the option."""
    given = {name: value for name, value in values.items() if value is not None}
    wall = given["wall_seconds"]
    most_cpu_seconds = wall * max(given.get("cpus", 1.0), 1.0)
    if math.isfinite(most_cpu_seconds):
        # By default the wall limit also bounds the CPU time, so that one option limits every program.
        given.setdefault("cpu_seconds", max(1, min(600, int(most_cpu_seconds) + 1)))
    try:
        return Limits.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        option = "timeout" if name == "wall_seconds" else name.replace("_", "-")
        raise UsageError(f"--{option} {describe_requirement(dict(first))}") from error


async def carry_out(command: Command, environment: str, limits: Limits, *, runtime: str) -> int:
    """Run a command in a fresh sandbox, print its output as it comes, and return the exit code."""
    image = environment_spec(environment).image if command.language is None else command.language.image
    if image is None:
        raise UsageError(f"environment '{environment}' has no sandbox", hint="harness exec --env python")
    try:
        async with open_default_backend() as backend:
            if command.language is not None:
                await _require_image(backend, image)
            if runtime != "runc":  # every engine has runc, and the query takes time
                # Check the runtime first, because a failed start would be reported as an infrastructure
                # fault.
                await asyncio.to_thread(backend.describe, runtime=runtime)
            async with Sandbox.open(
                image,
                limits=limits,
                runtime=runtime,
                deadline_seconds=limits.wall_seconds + START_SECONDS + COMPILE_SECONDS,
                backend=backend,
            ) as sandbox:
                argv: Sequence[str] = command.argv
                if command.language is not None and command.program is not None:
                    source = command.program.decode("utf-8", "surrogateescape")
                    file, compiler, run = command.language.place(source, limits.memory_mb)
                    await sandbox.write_file(file, command.program)
                    if compiler:
                        async with sandbox.stream(compiler, timeout=COMPILE_SECONDS, keep_bytes=0) as stream:
                            await print_output(stream)
                        if stream.result.limit is not None or stream.result.exit_code != 0:
                            return _report_compiler(stream.result)
                    argv = (*run, *argv)
                elif command.program is not None:
                    await sandbox.write_file(PROGRAM, command.program)
                # The command needs no timeout, because the limits of the sandbox include its wall time.
                async with sandbox.stream(argv, stdin=command.stdin, keep_bytes=0) as stream:
                    await print_output(stream)
                result = stream.result
    except SandboxOutOfMemory:
        _print_note(f"the sandbox ran out of memory (--memory-mb {limits.memory_mb})")
        return LIMIT_EXIT_CODE
    return _report_end(result, limits)


async def _require_image(backend: Backend, image: str) -> None:
    """Build the image of a language if the engine lacks it, and print a line about that."""
    from harness.cli.work import show_log  # the log imports what few commands need
    from harness.runs.run_secrets import make_log_filter

    with show_log(0, _print_note, make_log_filter()):
        await asyncio.to_thread(backend.describe, images=[image])


def _report_compiler(result: ExecResult) -> int:
    """Print a note on a compiler that has failed, and return the exit code."""
    if result.limit is not None:
        _print_note(f"the compiler was ended by its limit {result.limit}")
        return LIMIT_EXIT_CODE
    _print_note("the program does not compile")
    return result.exit_code if result.exit_code > 0 else 128 - result.exit_code


def _report_end(result: ExecResult, limits: Limits) -> int:
    """Print a note if a limit or a signal ended the command, and return the exit code."""
    if result.limit is not None:
        option = "timeout" if result.limit == "wall_seconds" else result.limit.replace("_", "-")
        _print_note(f"ended by the limit --{option} {getattr(limits, result.limit):g}")
        return LIMIT_EXIT_CODE
    if result.exit_code < 0:
        _print_note(f"killed by signal {-result.exit_code}")
        return 128 - result.exit_code
    return result.exit_code


def _print_note(text: str) -> None:
    print(f"harness: {text}", file=sys.stderr)


def _read_file(path: Path) -> bytes:
    try:
        return read_input(path, max_bytes=MAX_BODY_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _read_piped(stdin: BinaryIO) -> bytes:
    """Return the content of standard input, b"" if it is a terminal."""
    return b"" if stdin.isatty() else _read("standard input", stdin)


def _read(name: str, stream: BinaryIO) -> bytes:
    try:
        data = stream.read(MAX_BODY_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_BODY_BYTES:
        raise UsageError(f"{name} is larger than {MAX_BODY_BYTES // (1024 * 1024)} MiB")
    return data


class _Printer:
    """Writes one stream of a command. A terminal gets it with escape sequences made visible."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._escaper = ByteEscaper() if out.isatty() else None
        self._waits = _has_readiness(out)

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        if self._escaper is not None:
            data = self._escaper.escape(data, is_last=is_last).encode("utf-8", "backslashreplace")
        for start in range(0, len(data), WRITE_BYTES):
            if self._waits:
                await _wait_until_ready(self._out.fileno())
            self._out.write(data[start : start + WRITE_BYTES])
            self._out.flush()


async def print_output(stream: OutputStream) -> None:
    """Write each chunk to standard output or standard error of this process, and wait for slow readers.

    The event loop goes on meanwhile, so that signals are handled. Raises OutputError and SandboxError.
    """
    printers = {"stdout": _Printer(sys.stdout.buffer), "stderr": _Printer(sys.stderr.buffer)}
    async for chunk in stream:
        await printers[chunk.stream].write(chunk.data)
    for printer in printers.values():
        await printer.write(b"", is_last=True)


def _has_readiness(out: BinaryIO) -> bool:
    """Return whether the event loop can wait for a stream. It cannot for a file, which is always ready."""
    try:
        with select.epoll() as epoll:
            epoll.register(out.fileno(), select.EPOLLOUT)
    except (OSError, ValueError, AttributeError):
        return False
    return True


async def _wait_until_ready(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)
