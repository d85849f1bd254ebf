"""A sandbox where the agent is root and has a persistent shell.

Root can use its own files, users and processes and has no further capability. It has no network, and it can
neither inspect nor control PID 1. It can change or ruin everything else. Therefore nothing trusted runs there
once the agent has acted, and its files are copied into another sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from harness.core.errors import SandboxError, UsageError
from harness.environments.os.file_entries import (
    MAX_BATCH,
    MAX_COPIED_BYTES,
    CopyPlan,
    FileEntry,
    FileRange,
    ReadContents,
    Snapshot,
    UnreadableFiles,
    file_entries,
    file_page,
    name_first_links,
    read_paths,
    split_ranges,
)
from harness.environments.os.guest.contents import page_order
from harness.sandbox.failures import build_fault
from harness.sandbox.guest.durations import find_longest
from harness.sandbox.layout import ROOT_ENVIRONMENT
from harness.sandbox.limits import MIB
from harness.sandbox.results import ExecResult, Stream, read_exec_result, read_streams
from harness.sandbox.sandbox import KEEP_BYTES, Sandbox

if TYPE_CHECKING:
    from harness.environments.os.guest.messages import (
        Describe,
        List,
        Make,
        OpenShell,
        ReadRanges,
        RemoveLinks,
        Run,
        RunReply,
        RunScript,
    )
    from harness.sandbox.guest.messages import JobFacts, JobReply


# In the shell's pipe, a quote takes four bytes, and the shell reads that pipe byte by byte.
MAX_COMMAND_BYTES = 64 * 1024
SHELL_KEEP_BYTES = 16 * 1024
# The shell has this time for its whole life. Each command has its own wall limit.
SHELL_CPU_SECONDS = 600
END_SECONDS = 10.0
# The guest itself ends its work on files earlier.
FILE_SECONDS = 30.0
# The guest answers these calls at once.
CALL_SECONDS = 1.0
# gVisor computes the two times apart, so they may differ by less than this.
CLOCK_TOLERANCE_NS = 5_000_000
# The host has this much of all changed files in its memory, without their contents.
MAX_LISTING_BYTES = 256 * MIB
# The files of a snapshot that other machines start from.
MAX_KEPT_FILES = 50_000


class ShellEnd(StrEnum):
    """How a command in a persistent shell ended: by itself, by a limit, or with its shell."""

    DONE = "done"
    SHELL_ENDED = "shell"
    WALL = "wall"
    OUTPUT = "output"
    MEMORY = "memory"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class ShellResult:
    """The result of one command in a persistent shell."""

    # The command's stdout and stderr, in the order that it wrote them.
    output: Stream
    # The exit code of the command, or of the shell if the shell ended. Negative for a signal.
    exit_code: int
    ended: ShellEnd
    # Whether the next command finds the same shell.
    shell_lives: bool
    # Whether this command started a new shell.
    renewed: bool
    # Whether the command reached the limit on processes.
    refused_forks: bool
    duration_seconds: float


def read_shell_result(header: RunReply, body: bytes) -> ShellResult:
    """Return the result of a command in the shell. Raises SandboxError."""
    output, _ = read_streams(cast("JobFacts", header), body)
    return ShellResult(
        output=output,
        exit_code=header["exit_code"],
        ended=ShellEnd(header["ended"]),
        shell_lives=header["shell"],
        renewed=header["renewed"],
        refused_forks=header["refused_forks"] > 0,
        duration_seconds=header["duration_seconds"],
    )


class RootSandbox(Sandbox):
    """A sandbox whose agent is root. Its image must be `os`, whose guest has these procedures."""

    _root_agent = True

    async def open_shell(self) -> None:
        """Start the shell as a login in /root. The caller must do this once, before the first `run`.

        Returns after the shell has read its start-up files, so later changes to them have no effect.
        """
        request: OpenShell = {
            "environment": self.environment,
            "folder": ROOT_ENVIRONMENT["HOME"],
            "limits": {**self.job_limits(), "cpu_seconds": SHELL_CPU_SECONDS},
        }
        await self.call("open_shell", request, timeout=CALL_SECONDS)
        await self.run("true")

    async def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        keep_bytes: int = SHELL_KEEP_BYTES,
        typed: bool = False,
    ) -> ShellResult:
        """Run a command in the shell and return its result. All commands share the state of the shell.

        The result keeps `keep_bytes` of the output, half of it from the start and half from the end. After
        `timeout` seconds the guest interrupts the command as Ctrl-C does. If that does not help, it kills the
        command's processes, and then the shell. If the shell has ended, the next command starts a new one
        without start-up files, because the agent may have changed them. A `typed` command may read the
        shell's input. So if it starts another shell, as `su` does, that shell replaces this one. Raises
        UsageError if the text cannot be a command.
        """
        try:
            text = command.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise UsageError(f"a command must not contain {error.object[error.start]!r}") from error
        if b"\0" in text:
            raise UsageError("a command must not contain NUL bytes")
        if len(text) > MAX_COMMAND_BYTES:
            raise UsageError(f"the command has {len(text)} bytes; the limit is {MAX_COMMAND_BYTES}")
        limits = self.job_limits(timeout, keep_bytes)
        request: Run = {"limits": limits, "typed": typed}
        header, body = await self.call("run", request, text, timeout=limits["wall_seconds"])
        await self._look_at_disk(if_written=True)
        with self.catch_unreadable():
            return read_shell_result(cast("RunReply", header), body)

    async def run_script(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        keep_bytes: int = KEEP_BYTES,
        output_bytes: int = 8 * MIB,
        confined: bool = False,
    ) -> ExecResult:
        """Run a trusted command as root in /root, apart from the shell. Processes that it leaves live on.

        Returns when its first process has ended, even if others hold its outputs open.
        `guest.script_job` describes `confined`.
        """
        limits = self.job_limits(timeout, keep_bytes)
        request: RunScript = {
            "argv": list(argv),
            "environment": {**self.environment, **(env or {})},
            "folder": "",
            "limits": {**limits, "output_bytes": output_bytes},
            "confined": confined,
        }
        # The guest does not count the time that the command waits for a processor.
        header, body = await self.call("run_script", request, timeout=find_longest(limits["wall_seconds"]))
        with self.catch_unreadable():
            return read_exec_result(cast("JobReply", header), body)

    async def end_all(self) -> None:
        """End all processes of all users but the guest, and measure once more what they wrote.

        Raises SandboxError if a process is left, or if the sandbox is over its limit.
        """
        header, _ = await self.call("end_all", {}, timeout=END_SECONDS)
        with self.catch_unreadable():
            left = [int(pid) for pid in header["left"]]
        if left:
            # Nothing that a program does keeps the kernel from ending it.
            raise build_fault(f"the machine did not end the processes {left[:20]} of a sandbox in time")
        await self._look_at_disk()

    async def end_shell(self) -> None:
        """End the agent's shell, and no process that it has left in the background."""
        await self.call("end_shell", {}, timeout=END_SECONDS)

    async def pause_all(self) -> None:
        """Stop all processes but the guest, so that files can be read as after their end."""
        await self.call("pause_all", {}, timeout=END_SECONDS)

    async def resume_all(self) -> None:
        """Let the processes go on that `pause_all` has stopped."""
        await self.call("resume_all", {}, timeout=END_SECONDS)

    async def begin(self) -> int:
        """Return a time in nanoseconds that separates the changes before this call from those after it."""
        header, _ = await self.call("begin", {}, timeout=CALL_SECONDS)
        with self.catch_unreadable():
            return int(header["now_ns"])

    async def list_changed(self, since_ns: int | None = None) -> list[FileEntry]:
        """Return every file that was changed at this time or later, sorted.

        None means the sandbox's start. The list is complete only for changes by processes that are dead.
        Raises UnreadableFiles, and SandboxError if somebody set the machine's clock back, because the times
        then hide changes.
        """
        request: List = {"since_ns": since_ns}
        listing = await self._work_on_files("list", request)
        with self.catch_unreadable():
            entries = file_entries(listing)
        await self._require_clock()
        return entries

    async def list_all_changed(self, most: int, *, since_ns: int | None = None) -> list[FileEntry]:
        """Return every file that was changed at this time or later, sorted, in any number up to `most`.

        Raises UnreadableFiles and SandboxError as `list_changed` does.
        """
        entries: list[FileEntry] = []
        after, size = "", 0
        while True:
            request: List = {"since_ns": since_ns, "after": after}
            listing = await self._work_on_files("list", request)
            with self.catch_unreadable():
                page, is_last = file_page(listing)
            entries += page
            size += len(listing)
            if len(entries) > most:
                raise UnreadableFiles(f"more than {most:,} files were changed")
            if size > MAX_LISTING_BYTES:
                # Names, targets of links and attributes can be long.
                raise UnreadableFiles(f"the list of changed files has more than {MAX_LISTING_BYTES:,} bytes")
            if is_last or not page:
                break
            after = max((entry.path for entry in page), key=page_order)
        await self._require_clock()
        return sorted(entries, key=lambda entry: entry.path)

    async def _require_clock(self) -> None:
        header, _ = await self.call("clock", {}, timeout=CALL_SECONDS)
        with self.catch_unreadable():
            back_ns = int(header["back_ns"])
        if back_ns > CLOCK_TOLERANCE_NS:
            # No program in a sandbox can set it.
            raise SandboxError(
                f"the machine's clock was set back by {back_ns / 1e9:.3f} s, so the times of files hide "
                "changes",
                hint="let the time service slow the clock down instead, or run harness when the clock is "
                "right",
                outside=True,
            )

    async def describe(self, paths: Sequence[str]) -> dict[str, FileEntry]:
        """Return the entries of the paths among these that exist. Raises UnreadableFiles."""
        request: Describe = {"paths": list(paths)}
        listing = await self._work_on_files("describe", request)
        with self.catch_unreadable():
            return {entry.path: entry for entry in file_entries(listing)}

    async def read_ranges(self, ranges: Sequence[FileRange]) -> bytes:
        """Return the bytes of these ranges of regular files, one after the other. Raises UnreadableFiles."""
        request: ReadRanges = {"ranges": list(ranges)}
        data = await self._work_on_files("read_ranges", request)
        if len(data) != sum(length for _path, _offset, length in ranges):
            raise UnreadableFiles("the sandbox sent a wrong number of bytes")
        return data

    async def make_files(
        self,
        *,
        make: Sequence[Mapping[str, Any]] = (),
        fill: Sequence[FileRange] = (),
        data: bytes = b"",
        finish: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Create files, write `data` into ranges of them, and set owners, modes and times, in this order.

        `guest.contents` describes the entries. Raises UnreadableFiles if these files cannot be created.
        """
        request: Make = {"make": make, "fill": list(fill), "finish": finish}
        await self._work_on_files("make", request, data)

    async def remove_links(self, paths: Sequence[str], kept_out: Sequence[str]) -> list[str]:
        """Remove the links among these that lead to or below a path of `kept_out`. Return their paths.

        Raises UnreadableFiles.
        """
        request: RemoveLinks = {"paths": list(paths), "kept_out": list(kept_out)}
        removed = await self._work_on_files("remove_links", request)
        with self.catch_unreadable():
            return read_paths(removed)

    async def snapshot_files(self, since_ns: int | None = None, *, most: int | None = None) -> Snapshot:
        """Return the files that were changed since a time or since the start. Raises UnreadableFiles.

        There may be up to `most` of them, by default as many as one listing holds.
        """
        if most is None:
            entries = await self.list_changed(since_ns)
        else:
            entries = await self.list_all_changed(most, since_ns=since_ns)
        contents = {entry.path: bytearray() for entry in entries if entry.kind == "file"}
        for piece in split_ranges(entries):
            data = await self.read_ranges(piece)
            start = 0
            for path, _offset, length in piece:
                contents[path] += data[start : start + length]
                start += length
        return Snapshot(tuple(entries), {path: bytes(data) for path, data in contents.items()})

    async def keep_files(self, since_ns: int | None = None) -> Snapshot:
        """Return the files that were changed since a time or the start, while no process changes them.

        Raises UsageError if there are too many of them, or one cannot be read, and SandboxError.
        """
        await self.pause_all()
        try:
            return await self.snapshot_files(since_ns, most=MAX_KEPT_FILES)
        except UnreadableFiles as error:
            raise UsageError(f"the files of the machine cannot be kept: {error}") from error
        finally:
            await self.resume_all()

    async def copy_files(
        self, plan: CopyPlan, read: ReadContents, *, max_bytes: int = MAX_COPIED_BYTES
    ) -> None:
        """Create the files of the plan here, with contents from `read`.

        Raises UnreadableFiles if the files are too large for a copy or cannot be created.
        """
        absent: list[Mapping[str, Any]] = [{"path": path, "kind": "absent"} for path in plan.absent]
        entries = list(name_first_links(plan))
        for batch in _batches([*absent, *entries]):
            await self.make_files(make=batch)
        further_names = {entry["path"] for entry in entries if "same_as" in entry}
        copied = [entry for entry in plan.entries if entry.path not in further_names]
        for piece in split_ranges(copied, max_bytes):
            await self.make_files(fill=piece, data=await read(piece))
        # Folders after their files, because a file that is made changes the time of its folder.
        for batch in reversed(list(_batches(entries))):
            await self.make_files(finish=batch)

    async def bring_files(self, kept: Snapshot) -> None:
        """Give this machine files of one of the same image in place of its own. Raises SandboxError."""
        try:
            await self.copy_files(kept.plan(), kept.read_ranges)
        except UnreadableFiles as error:
            raise self.build_failure(f"the files of a snapshot cannot be made: {error}") from error

    async def _work_on_files(self, procedure: str, request: Mapping[str, object], data: bytes = b"") -> bytes:
        header, body = await self.call(procedure, request, data, timeout=FILE_SECONDS)
        if "refused" in header:
            raise UnreadableFiles(str(header["refused"])[:500])
        return body


@contextlib.asynccontextmanager
async def list_ahead(
    listing: Coroutine[Any, Any, list[FileEntry]],
) -> AsyncIterator[asyncio.Task[list[FileEntry]]]:
    """List the files of a machine while the block starts another one, which takes as long."""
    task = asyncio.create_task(listing)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # asyncio warns of an exception that nobody retrieves


def _batches(entries: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    return (entries[start : start + MAX_BATCH] for start in range(0, len(entries), MAX_BATCH))
