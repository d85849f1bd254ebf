"""The command `harness` as a user runs it: the console script, in separate processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import pytest
from docker import APIClient

FORK_SERVER = Path(__file__).with_name("fork_server.py")
# Variables that the interpreter itself reads at its start, so that a fork would ignore them.
READ_AT_START = ("PYTHON", "LC_", "LANG", "TERM", "COLUMNS")
SCRIPT = Path(sys.executable).with_name("harness")
# Nobody listens there. It stands for an engine that must not be asked, and for the hub.
CLOSED = "127.0.0.1:1"
# A run without a sandbox, in which every attempt fails.
SHORT_RUN = ("run", "-b", "gsm8k", "--data", "bundled", "--agent", "null", "-n", "4")
NO_ENGINE = {"DOCKER_HOST": f"tcp://{CLOSED}"}
# A pipe of Linux takes this much without a reader.
PIPE_BYTES = 65_536
# This keeps a test from hanging for ever. No test passes or fails because of it.
HANG_SECONDS = 800.0


def wait_until(happened: Callable[[], Any], what: str, *, seconds: float = 60.0) -> Any:
    """Poll until the answer is true, and return the answer. Fail the test after `seconds`.

    A question takes at most a quarter of a processor, however much one answer costs. The other tests and the
    command under test need the rest.
    """
    deadline = time.monotonic() + seconds
    while True:
        asked = time.thread_time()
        if answer := happened():
            return answer
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {seconds:g} s")
        time.sleep(max(0.01, 3 * (time.thread_time() - asked)))


_TIMES_AND_IDS = re.compile(
    r'("(?:(?:cpu_|duration_|model_|sandbox_|waiting_)?seconds|run_id|started_at)": )[^,}\n]*'
)


def remove_times_and_ids(text: str) -> str:
    """Return a text of JSON without the values that no two runs share."""
    return _TIMES_AND_IDS.sub(r"\1null", text)


@dataclass(frozen=True)
class RunFolder:
    """A run folder, read as a user would read it."""

    path: Path

    @property
    def manifest(self) -> dict[str, Any]:
        return dict(json.loads((self.path / "manifest.json").read_text()))

    @property
    def run_id(self) -> str:
        return str(self.manifest["run_id"])

    @property
    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.path / "summary.json").read_text()))

    @property
    def raw_attempts(self) -> bytes:
        """Return the complete lines of attempts.jsonl."""
        try:
            data = (self.path / "attempts.jsonl").read_bytes()
        except FileNotFoundError:
            return b""
        return data[: data.rfind(b"\n") + 1]

    @property
    def attempts(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.raw_attempts.splitlines()]

    def change_manifest(self, section: str | None = None, **values: Any) -> None:
        """Change values of the manifest, or of a section of it such as `config`."""
        manifest = self.manifest
        (manifest if section is None else manifest[section]).update(values)
        (self.path / "manifest.json").write_text(json.dumps(manifest))

    def copy_to(self, place: Path) -> RunFolder:
        """Copy the folder, and return the copy, which a test may change."""
        return RunFolder(Path(shutil.copytree(self.path, place)))

    def containers(self, client: APIClient, *, running: bool = False) -> list[str]:
        """Return the ids of the run's containers: of all that exist, or only of the sandboxes that run."""
        labels = [f"harness.run={self.run_id}", *(["harness.role=sandbox"] if running else [])]
        listed = client.containers(all=not running, filters={"label": labels})
        return [container["Id"] for container in listed]


class ForkedCommand(subprocess.Popen[str]):
    """A command that the fork server runs, as `subprocess` has a process that it has started itself."""

    def __init__(self, arguments: Sequence[str], answers: BinaryIO, *outputs: TextIO) -> None:
        self.args = arguments
        self.stdin = None
        self.stdout, self.stderr = outputs
        self.pid = int(answers.readline())
        self.returncode: Any = None
        self.text_mode, self._input, self._communication_started = True, None, False
        self._answers = answers

    def _internal_poll(self, *_arguments: Any) -> Any:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> Any:
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._answers.readline())
            self._answers.close()
        return self.returncode


class ForkServer:
    """The process that forks for each call of the command.

    Args:
        environment: its environment. The environments of the commands replace it.
        record: is called with the process id of each command.
        prefix: the program and its arguments that start the process, such as one that changes the user.
    """

    def __init__(
        self, environment: Mapping[str, str], record: Callable[[int], None], prefix: Sequence[str] = ()
    ) -> None:
        self._record = record
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A request with a long environment and many arguments is one packet.
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        with theirs:
            command = [*prefix, sys.executable, str(FORK_SERVER), str(theirs.fileno()), str(SCRIPT)]
            self._process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])

    def run(
        self,
        arguments: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str],
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. Its standard input is /dev/null, or a pipe with at most PIPE_BYTES."""
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8") as out,
            tempfile.TemporaryFile("w+", encoding="utf-8") as err,
            open(os.devnull, "rb") if stdin is None else _fill_pipe(stdin.encode()) as given,
        ):
            process = self._fork(arguments, folder, environment, given, (out, err))
            try:
                code = process.wait()
            except BaseException:  # the time limit of the test
                process.kill()
                raise
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read())
        return subprocess.CompletedProcess(process.args, code, *texts)

    def start(
        self,
        arguments: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str],
        ignoring: Sequence[signal.Signals],
    ) -> ForkedCommand:
        """Start a command, whose outputs are pipes, and return at once."""
        ends = [os.pipe() for _ in range(2)]
        with open(os.devnull, "rb") as null, open(ends[0][1], "w") as out, open(ends[1][1], "w") as err:
            process = self._fork(arguments, folder, environment, null, (out, err), ignoring)
        process.stdout, process.stderr = (os.fdopen(reading, encoding="utf-8") for reading, _ in ends)
        return process

    def _fork(
        self,
        arguments: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str],
        stdin: BinaryIO,
        outputs: tuple[TextIO, TextIO],
        ignoring: Sequence[signal.Signals] = (),
    ) -> ForkedCommand:
        argv = [str(argument) for argument in arguments]
        request = {
            "arguments": argv,
            "folder": str(folder),
            "environment": dict(environment),
            "ignoring": [int(number) for number in ignoring],
        }
        reading, writing = os.pipe()
        try:
            descriptors = [writing, stdin.fileno(), *(each.fileno() for each in outputs)]
            socket.send_fds(self._requests, [json.dumps(request).encode()], descriptors)
        finally:
            os.close(writing)
        # Without a buffer, which would hide the second line from `select`.
        answers = cast(BinaryIO, os.fdopen(reading, "rb", buffering=0))
        process = ForkedCommand([str(SCRIPT), *argv], answers, *outputs)
        self._record(process.pid)
        return process

    def close(self) -> None:
        self._requests.close()
        self._process.wait()


def _fill_pipe(data: bytes) -> BinaryIO:
    """Return the reading end of a pipe that holds these bytes and whose other end is closed."""
    reading, writing = os.pipe()
    with open(writing, "wb") as pipe:
        pipe.write(data)
    return open(reading, "rb")


@dataclass
class Harness:
    """Run the command in `folder`. A call returns the ended process; `start` returns while it runs."""

    folder: Path
    environment: dict[str, str]
    # Without it, each call starts the console script.
    server: ForkServer | None
    _running: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(
        self,
        *arguments: str | Path,
        stdin: str | None = None,
        env: Mapping[str, str] = {},
        folder: Path | None = None,
        file_bytes: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end. `file_bytes` limits the size of its files, as a full disk would.

        The fork server runs it, unless the test is about something that only a start of the script has.
        """
        at_start = file_bytes is not None or len((stdin or "").encode()) > PIPE_BYTES
        if self.server and not at_start and not any(name.startswith(READ_AT_START) for name in env):
            return self.server.run(arguments, folder or self.folder, {**self.environment, **env}, stdin)

        def fill_up() -> None:
            if file_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

        return subprocess.run(
            [SCRIPT, *arguments],
            cwd=folder or self.folder,
            env={**self.environment, **env},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
            preexec_fn=fill_up,
        )

    def succeed(self, *arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, which must be a success."""
        ended = self(*arguments, **options)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended

    def refused(self, *arguments: str | Path, env: Mapping[str, str] = NO_ENGINE) -> tuple[int, str, str]:
        """Run a command that must fail at once, and return its exit code, stdout and stderr."""
        ended = self(*arguments, env=env)
        return ended.returncode, ended.stdout, ended.stderr

    def expect_refusal(self, *arguments: str | Path, env: Mapping[str, str] = NO_ENGINE) -> str:
        """Run a command that must end as a usage error, and return its stderr."""
        code, stdout, stderr = self.refused(*arguments, env=env)
        assert code == 2, stdout + stderr
        return stderr

    def only_run(self, place: str = "runs") -> RunFolder:
        """Return the only run in a folder."""
        (path,) = (self.folder / place).iterdir()
        return RunFolder(path)

    def read_json(self, name: str = "results.json") -> Any:
        return json.loads((self.folder / name).read_text())

    def raw(self, *arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run the command to its end, with input and output as bytes."""
        return subprocess.run(
            [SCRIPT, *arguments],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            timeout=HANG_SECONDS,
            check=False,
        )

    def start(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] = {},
        ignoring: tuple[signal.Signals, ...] = (),
        by_script: bool = False,
    ) -> subprocess.Popen[str]:
        """Start the command and return at once. The process ends with the test at the latest.

        The fork server starts it, unless the test is about a process `by_script`.
        """
        if self.server and not by_script:
            forked = self.server.start(arguments, self.folder, {**self.environment, **env}, ignoring)
            self._running.append(forked)
            return forked

        def ignore() -> None:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN if number in ignoring else signal.SIG_DFL)

        process = subprocess.Popen(
            [SCRIPT, *arguments],
            cwd=self.folder,
            env={**self.environment, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=ignore,
        )
        self._running.append(process)
        return process

    def start_run(self, *arguments: str | Path, finished: int = 1, **options: Any) -> RunningRun:
        """Start a run of the bundled mbpp, and return once `finished` attempts have ended but not all."""
        runs = self.folder / f"runs-{len(self._running)}"
        data = () if "--data" in arguments else ("--data", "bundled")
        process = self.start("run", "-b", "mbpp", *data, "--output-dir", runs, *arguments, **options)
        run = wait_until(lambda: next(iter(runs.glob("*/manifest.json")), None), "a run folder").parent
        started = RunningRun(process, RunFolder(run))
        wait_until(lambda: len(started.folder.attempts) >= finished, f"{finished} finished attempts")
        return started

    def end_all(self) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.communicate()


@dataclass(frozen=True)
class RunningRun:
    """A run that is under way."""

    process: subprocess.Popen[str]
    folder: RunFolder

    def end(self, *signals: signal.Signals) -> tuple[str, str]:
        """Send signals, wait for the end and return stdout and stderr."""
        for number in signals:
            self.process.send_signal(number)
        return self.process.communicate(timeout=HANG_SECONDS)


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended: its output, its run folder and its results file."""

    stdout: str
    stderr: str
    exit_code: int
    folder: RunFolder
    results: dict[str, Any]
