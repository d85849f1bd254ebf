"""A sandbox: one hardened container, and the calls that its guest carries out."""

from __future__ import annotations

import contextlib
import math
import secrets
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from harness.core.errors import SandboxError, UsageError
from harness.core.portal import SyncFace, hold_face
from harness.sandbox import reaper
from harness.sandbox.backends import open_default_backend
from harness.sandbox.backends.base import Backend, ForeignImage, SandboxSpec
from harness.sandbox.connection import Connection, Receiver, hold_container, open_connection
from harness.sandbox.disk_watch import watch_disk
from harness.sandbox.failures import SandboxClosed, SandboxUnresponsive, raise_refusal
from harness.sandbox.guest.frames import MAX_BODY_BYTES
from harness.sandbox.guest_calls import GRACE_SECONDS, GuestCaller
from harness.sandbox.layout import SHARED_FOLDERS, WORK_FOLDER, job_environment
from harness.sandbox.limits import MIB, Limits, bound_seconds
from harness.sandbox.relay import Accept, RelayListener, open_relay
from harness.sandbox.results import (
    WINDOW_BYTES,
    ExecResult,
    OnOutput,
    PassedOutput,
    encode_stdin,
    read_exec_result,
)
from harness.sandbox.snapshots import Snapshot, take_snapshot
from harness.sandbox.streaming import OutputStream, Terminal, open_output, open_terminal
from harness.sandbox.time_factor import extend_wait

if TYPE_CHECKING:
    from harness.sandbox.guest.messages import Exec, Get, Hello, JobLimits, JobReply, OpenTerminal, Put

HELLO_SECONDS = 60.0
FILE_SECONDS = 40.0
KEEP_BYTES = 64 * 1024
# The connections of a relay. The host and the guest each hold up to 256 KiB of each in both directions.
MOST_RELAYED = 64
# The user ids of jobs lie above any Debian package's, and within the range of a remapped user namespace.
FIRST_UID, LAST_UID = 10_000, 65_000


class Sandbox(GuestCaller):
    """One hardened container. Make it with `Sandbox.open`, whose block destroys it at its end.

    Every job runs under separate limits. A `SandboxError` means that the sandbox itself failed.
    """

    # Whether the agent is root, in a root file system that it can write.
    _root_agent: ClassVar[bool] = False

    def __init__(
        self, backend: Backend, container_id: str, connection: Connection, spec: SandboxSpec
    ) -> None:
        super().__init__(backend, container_id, connection)
        self._spec = spec
        self._environment = job_environment(root=spec.root_agent)
        # Whether a program under tests may have left a message for the next one in a counter.
        self.marked = False

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        image: str = "python",
        *,
        limits: Limits | None = None,
        runtime: str = "runc",
        seccomp: Literal["default", "strict"] = "default",
        network: Literal["own", "shared"] = "own",
        writable_root: bool = False,
        terminals: bool = False,
        relay: bool = False,
        foreign: ForeignImage | None = None,
        deadline_seconds: float = 600.0,
        run_id: str | None = None,
        backend: Backend | None = None,
    ) -> AsyncIterator[Self]:
        """Start a sandbox on an image of harness and yield it; destroy it at the end of the block.

        Args:
            image: The name of an image, which means its current build, or the id of a build.
            limits: The limits of the container, and of each job in it. The default is `Limits()`.
            runtime: The name of a container runtime that the engine knows, such as `runc` or `runsc`.
            seccomp: The filter of system calls. `strict` is for programs under tests. It allows local sockets
                only, and no System V IPC.
            network: With `shared`, the sandbox runs programs under tests alone, which procedures confine, and
                no commands. Programs get no sockets but local pairs. It needs `seccomp="strict"`.
            writable_root: Programs may write to the root file system. The sandbox is destroyed once they have
                written more than `disk_mb` there.
            terminals: Programs may open terminals. Without it, `terminal` does not work.
            relay: Programs may open sockets of TCP, so that they reach the port of `relay`. Without it,
                `relay` does not work. Where the kernel does not count the buffers of these sockets, they are
                small, and too many sockets end the sandbox.
            foreign: The container runs this image instead, with the guest of `image`.
            deadline_seconds: The sandbox ends itself after this many seconds, whatever its host does.
            run_id: The label that the containers of a run are found by.
            backend: Starts the container. Without it, the sandbox makes its own connection to the Docker
                engine of the environment.

        Raises:
            EngineUnavailableError: No engine answers.
            ImageMissingError: The engine does not have the image.
            SandboxError: The container did not start, or its guest did not answer.
            UsageError: The deadline is not positive and finite, the engine does not know the runtime, or
                the sandbox cannot have `network="shared"`.
        """
        deadline_seconds = bound_seconds("deadline_seconds", deadline_seconds)
        writable_root = writable_root or cls._root_agent
        if relay and seccomp != "default":
            raise UsageError(f"relay=True needs seccomp='default', because '{seccomp}' allows no TCP")
        if network == "shared" and (seccomp != "strict" or writable_root or terminals):
            raise UsageError(
                "network='shared' is only for sandboxes with seccomp='strict', a read-only root file system "
                "and no terminals"
            )
        async with contextlib.AsyncExitStack() as stack:
            if backend is None:
                backend = await stack.enter_async_context(open_default_backend())
            limits = limits or Limits()
            spec = SandboxSpec(
                image=image,
                limits=limits,
                name=f"harness-{secrets.token_hex(8)}",
                runtime=runtime,
                seccomp=seccomp,
                network=network,
                writable_root=writable_root,
                root_agent=cls._root_agent,
                terminals=terminals,
                relay=relay,
                foreign=foreign,
                labels=reaper.make_labels(
                    run_id or "none",
                    role="sandbox",
                    deadline_seconds=deadline_seconds + extend_wait(GRACE_SECONDS),
                ),
            )
            container = await stack.enter_async_context(hold_container(backend, spec))
            connection = await stack.enter_async_context(open_connection(container))
            sandbox = cls(backend, container.id, connection, spec)
            hello: Hello = {
                "first_uid": FIRST_UID,
                "last_uid": LAST_UID,
                "work_folder": WORK_FOLDER,
                "shared_folders": list(SHARED_FOLDERS),
                "deadline_seconds": deadline_seconds,
                "root_agent": cls._root_agent,
            }
            if container.guest_counts:
                counted = container.guest_counts
                hello["watch"] = {
                    "processes": spec.limits.processes if "processes" in counted else sys.maxsize,
                    "memory_bytes": spec.limits.memory_mb * MIB if "memory_mb" in counted else sys.maxsize,
                }
            if container.most_sockets is not None:
                hello["most_sockets"] = container.most_sockets
            try:
                await sandbox._request({"verb": "hello", **hello}, seconds=extend_wait(HELLO_SECONDS))
            except SandboxUnresponsive as error:
                # The guest alone is at fault, because no program runs in the sandbox yet.
                raise SandboxError(error.message, acted_in=False) from error
            if writable_root:
                watching = watch_disk(backend, container.id, limits.disk_mb, connection)
                sandbox._disk = await stack.enter_async_context(watching)
            yield sandbox

    @classmethod
    def open_sync(cls, image: str = "python", **options: Any) -> contextlib.AbstractContextManager[SyncFace]:
        """Return a context manager that opens a sandbox for blocking calls, without an event loop.

        It takes the arguments of `open`.
        """
        return hold_face(lambda: cls.open(image, **options), SandboxClosed)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        keep_bytes: int = KEEP_BYTES,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        """Run a command as the agent's user; return its result once all of its processes are gone.

        A command that cannot be found ends with exit code 127. A command that reaches a limit does not
        raise, because the result names the limit.

        Args:
            argv: The command and its arguments.
            timeout: Seconds of wall time, by default the `wall_seconds` of the sandbox.
            stdin: The whole standard input. Text is sent as UTF-8.
            env: Environment variables in addition to the few that every job has.
            cwd: The working folder, relative to the agent's folder, which is also HOME.
            keep_bytes: The bytes of each stream in the result: half from its start, half from its end.
            on_output: Gets the name of a stream, `stdout` or `stderr`, and its next bytes, as they come and
                all of them. It is called on the event loop and must not block. If it raises an error, the
                command is ended, and `exec` raises that error.

        Raises:
            UsageError: The command, the timeout or `stdin` cannot be used, or is too large for one request,
                or the sandbox has `network="shared"`.
            SandboxError: The sandbox failed. SandboxLimitReached means that a limit cost the whole sandbox.
        """
        passed = None if on_output is None else PassedOutput(on_output)
        request = self._build_exec(argv, timeout, env, cwd, keep_bytes)
        result = await self._exec(request, stdin, passed)
        if passed is not None and passed.error is not None:
            raise passed.error
        return result

    def stream(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        keep_bytes: int = KEEP_BYTES,
    ) -> contextlib.AbstractAsyncContextManager[OutputStream]:
        """Return a context manager that runs a command as `exec` does, and yields its output as it comes.

            async with sandbox.stream(["make", "test"], timeout=60) as stream:
                async for chunk in stream:
                    print(chunk.stream, chunk.data)
            print(stream.result.exit_code)

        Every byte comes, whatever the result keeps. A caller who takes no more makes the command wait, so
        that memory stays bounded, but the wall time of the command goes on. The end of the block ends the
        command. It takes the arguments of `exec`.

        Raises UsageError as `exec` does, and the block and the stream raise SandboxError.
        """
        request = self._build_exec(argv, timeout, env, cwd, keep_bytes)
        return open_output(lambda output: self._exec(request, stdin, output))

    def _build_exec(
        self,
        argv: Sequence[str],
        timeout: float | None,
        env: Mapping[str, str] | None,
        cwd: str,
        keep_bytes: int,
    ) -> Exec:
        if isinstance(argv, str) or not argv or any(type(part) is not str or "\0" in part for part in argv):
            raise UsageError("a command is a non-empty list of strings without NUL bytes")
        self._require_own_network()
        return {
            "argv": list(argv),
            "environment": {**self._environment, **(env or {})},
            "folder": cwd,
            "limits": self.job_limits(timeout, keep_bytes),
        }

    async def _exec(self, request: Exec, stdin: bytes | str, receiver: Receiver | None) -> ExecResult:
        if receiver is not None:
            request["window_bytes"] = WINDOW_BYTES
        header, body = await self._request(
            {"verb": "exec", **request},
            encode_stdin(stdin),
            seconds=request["limits"]["wall_seconds"] + extend_wait(GRACE_SECONDS),
            receiver=receiver,
        )
        result = self.read_result(header, body)
        await self._look_at_disk()
        return result

    def job_limits(self, timeout: float | None = None, keep_bytes: int = KEEP_BYTES) -> JobLimits:
        """Return the limits of a job for a request, as `Limits.of_job` computes them."""
        return self.limits.of_job(timeout, keep_bytes)

    @property
    def time_factor(self) -> float:
        """How many times their limit on CPU time the programs under tests may use on this machine."""
        return self.limits.time_factor

    @property
    def limits(self) -> Limits:
        """The limits of the container, and of each job in it."""
        return self._spec.limits

    @property
    def is_root_agent(self) -> bool:
        """Whether the agent is root, in a root file system that it can write."""
        return self._root_agent

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a job that runs as the agent's user."""
        return dict(self._environment)

    def read_result(self, header: Mapping[str, Any], body: bytes) -> ExecResult:
        """Return the result in the reply of a job. Raises SandboxError if the reply cannot be read."""
        with self.catch_unreadable():
            result = read_exec_result(cast("JobReply", header), body)
        self.clean = self.clean and result.clean
        return result

    def terminal(
        self,
        argv: Sequence[str] = ("/bin/bash", "--login"),
        *,
        rows: int,
        columns: int,
        timeout: float,
        env: Mapping[str, str] | None = None,
    ) -> contextlib.AbstractAsyncContextManager[Terminal]:
        """Return a context manager that runs a program on a terminal of this size as the agent's user.

        `argv` starts with the program's absolute path. `rows` and `columns` are in characters, and `timeout`
        is in seconds of wall time. The end of the block ends the program, but not its processes in the
        background. Raises UsageError for an invalid timeout, and the block raises SandboxError.
        """
        self._require_own_network()
        limits = self.job_limits(timeout)
        limits["cpu_seconds"] = math.ceil(limits["wall_seconds"])
        request: OpenTerminal = {
            "argv": list(argv),
            "environment": {**self._environment, **(env or {})},
            "rows": rows,
            "columns": columns,
            "limits": limits,
        }
        return open_terminal(self._connection, request, self.diagnose)

    def relay(
        self, accept: Accept, *, max_connections: int = MOST_RELAYED
    ) -> contextlib.AbstractAsyncContextManager[RelayListener]:
        """Return a context manager that opens a port inside the sandbox, and carries its connections here.

        The block gets the `RelayListener`, whose `port` programs of the sandbox reach at 127.0.0.1. Nothing
        listens on the host. At the end of the block the guest has confirmed that the port and all connections
        are closed.

        Args:
            accept: Takes over one end of a pair of connected, non-blocking stream sockets for each
                connection. It is called on the event loop, must not block, and closes the socket at the end.
            max_connections: The connections that are carried at the same time. Further clients wait until one
                has ended, so a server should close idle connections soon.

        Raises UsageError for a sandbox without `relay=True` and for a number of connections out of range, and
        the block raises SandboxError.
        """
        if not self._spec.relay:
            raise UsageError("this sandbox has no relay", hint="open it with relay=True")
        if not 0 < max_connections <= MOST_RELAYED:
            raise UsageError(f"max_connections must be from 1 to {MOST_RELAYED}, not {max_connections}")
        return open_relay(self._connection, accept, max_connections, self)

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file of at most 64 MiB as the agent's user. Relative paths start at the agent's folder.

        Missing folders are created. Raises UsageError if the file cannot be written there, and SandboxError.
        """
        request: Put = {"path": path, "mode": mode}
        header, _ = await self._request({"verb": "put", **request}, data, seconds=extend_wait(FILE_SECONDS))
        raise_refusal(f"cannot write {path}", header)
        await self._look_at_disk()

    async def read_file(self, path: str, *, limit: int = MAX_BODY_BYTES) -> bytes:
        """Return the content of a regular file that the agent's user can read.

        Raises UsageError for any other file and for one of more than `limit` bytes (by default 64 MiB), and
        SandboxError.
        """
        request: Get = {"path": path, "limit": limit}
        header, body = await self._request({"verb": "get", **request}, seconds=extend_wait(FILE_SECONDS))
        raise_refusal(f"cannot read {path}", header)
        return body

    async def snapshot(self) -> Snapshot:
        """Return the files of the sandbox. `fork` of a host opens further sandboxes with them.

        It has no processes. Raises UsageError if the agent can write elsewhere than to folders in memory, or
        the files have more than 64 MiB, and SandboxError.
        """
        if self._spec.writable_root:
            raise UsageError(
                "a snapshot has files of folders in memory alone, and this root file system can be written"
            )
        return await take_snapshot(self, self._spec.image, terminals=self._spec.terminals)

    def _require_own_network(self) -> None:
        """Raise UsageError for a sandbox of programs without sockets, which runs no commands."""
        if self._spec.network == "shared":
            raise UsageError(
                "a sandbox with network='shared' runs programs under tests alone, and no commands",
                hint="open it with network='own'",
            )
