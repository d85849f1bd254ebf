"""A machine made from any image: commands as its users, files in and out, and the end of its processes.

The machine where an agent acts and the one where tests run are both of this kind. Everything goes through the
guest, which brings its own interpreter, so the image may lack Python, bash, or a C library.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import stat
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from harness.core.errors import ImageMissingError, SandboxError, UsageError
from harness.environments.base import EnvironmentSnapshot
from harness.environments.os.file_entries import CopyPlan, FileEntry, Snapshot, UnreadableFiles, clean_path
from harness.environments.os.root_sandbox import RootSandbox
from harness.sandbox.backends.base import (
    ForeignImage,
    ImageFacts,
    JoinedContainer,
    NetworkPlace,
    RunsForeignImages,
)
from harness.sandbox.guest.durations import find_longest
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.results import ExecResult, read_exec_result
from harness.sandbox.sandbox import KEEP_BYTES

if TYPE_CHECKING:
    from harness.environments.os.guest.messages import OpenShell, RunScript, StartMain
    from harness.sandbox.guest.messages import JobReply

# The image of harness whose guest a machine gets.
GUEST_IMAGE = "container"
# The shells of an image, the best first.
SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
SH = "/bin/sh"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEFAULT_LIMITS = Limits(
    memory_mb=2048,
    processes=1024,
    disk_mb=10240,
    file_mb=10240,
    open_files=65536,
    cpu_seconds=600,
    wall_seconds=600,
)
OUTPUT_BYTES = 256 * MIB
# Processes that stay have this CPU time each, so that no machine computes for ever after a fault of ours.
STAYING_CPU_SECONDS = 24 * 3600
CALL_SECONDS = 5.0
START_SECONDS = 30.0
MAX_PUT_BYTES = 1 << 30
SHOWN_BYTES = 2000


class ContainerSandbox(RootSandbox):
    """A sandbox of a foreign image. Its guest runs programs as any user of the image."""

    async def start_main(self, argv: Sequence[str], *, user: str, cwd: str, env: Mapping[str, str]) -> None:
        """Start the entry point of the image with `sleep infinity`, and wait until its services are ready.

        That means that the sleep runs and that no process has work to do. Its end has no consequence. Raises
        SandboxError.
        """
        request: StartMain = {
            "argv": list(argv),
            "waits_for": ["sleep", "infinity"],
            "environment": dict(env),
            "folder": cwd,
            "limits": {**self.job_limits(), "cpu_seconds": STAYING_CPU_SECONDS},
            "user": user,
        }
        await self.call("start_main", request, timeout=START_SECONDS)

    async def open_image_shell(self, *, user: str, cwd: str, env: Mapping[str, str]) -> str:
        """Start the shell that `run` uses, as a user of the image, and return its path.

        `exec`, `terminal` and the files of `Sandbox` have the same user, folder and variables from now on.
        Raises UsageError if the image has no shell or no such user, and SandboxError.
        """
        request: OpenShell = {
            "environment": dict(env),
            "folder": cwd,
            "limits": {**self.job_limits(), "cpu_seconds": STAYING_CPU_SECONDS},
            "user": user,
            "shells": list(SHELLS),
        }
        header, _ = await self.call("open_shell", request, timeout=CALL_SECONDS)
        if "refused" in header:
            raise UsageError(str(header["refused"])[:500])
        with self.catch_unreadable():
            self._environment = {str(name): str(value) for name, value in header["environment"].items()}
            return str(header["shell"])

    async def run_as(
        self,
        argv: Sequence[str],
        *,
        user: str,
        cwd: str,
        env: Mapping[str, str],
        timeout: float,
        stdin: bytes = b"",
        keep_bytes: int = KEEP_BYTES,
    ) -> ExecResult:
        """Run a command as a user of the image and return its result. Processes that it leaves live on.

        Raises UsageError if the image has no such user, and SandboxError, also if an agent removed the user.
        """
        request: RunScript = {
            "argv": list(argv),
            "environment": dict(env),
            "folder": cwd,
            "limits": {**self.job_limits(timeout, keep_bytes), "output_bytes": OUTPUT_BYTES},
            "confined": False,
            "user": user,
        }
        # The guest does not count the time that the command waits for a processor.
        header, body = await self.call("run_script", request, stdin, timeout=find_longest(timeout))
        if "refused" in header:
            refused = str(header["refused"])[:500]
            # An agent may have removed the user, which must not end the run of all tasks.
            raise SandboxError(refused, acted_in=True) if self.agent_acted else UsageError(refused)
        with self.catch_unreadable():
            result = read_exec_result(cast("JobReply", header), body)
        await self._look_at_disk(if_written=True)
        return result


class Machine:
    """A running machine of an image. Make it with `open_machine`, whose block destroys it at its end."""

    def __init__(
        self, sandbox: ContainerSandbox, facts: ImageFacts, *, user: str, cwd: str, env: Mapping[str, str]
    ) -> None:
        self.sandbox = sandbox
        self.image_id = facts.id
        self.facts = facts
        # The user, the folder and the variables of commands that name no others.
        self.user = user
        self.cwd = cwd
        self.env = {"PATH": DEFAULT_PATH, **facts.environment, **env}
        # Further variables of commands, which name the way out of this machine. No other machine has them.
        self.proxies: Mapping[str, str] = {}

    async def start_main(self) -> None:
        """Start the main process of the image, if it has an ENTRYPOINT. Raises SandboxError."""
        if self.facts.entrypoint:
            await self.sandbox.start_main(
                self.facts.entrypoint,
                user=self.facts.user,
                cwd=self.facts.folder,
                env={**self.env, **self.proxies},
            )

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float,
        stdin: bytes = b"",
        keep_bytes: int = KEEP_BYTES,
    ) -> ExecResult:
        """Run a command and return its result once its first process has ended. Its daemons live on.

        Args:
            command: A text for `/bin/sh -c`, or a program and its arguments, which needs no shell.
            user: `user` or `user:group`, each a name or a number. Default: the machine's.
            cwd: An absolute folder. Default: the machine's.
            env: Variables beside the machine's.
            timeout: Seconds of wall time, after which the command is killed and `limit` is `wall_seconds`.
            stdin: The whole standard input.
            keep_bytes: The bytes of each stream in the result: half from its start, half from its end.

        Raises UsageError for a user that the image does not have, and SandboxError.
        """
        return await self.sandbox.run_as(
            [SH, "-c", command] if isinstance(command, str) else command,
            user=self.user if user is None else user,
            cwd=self.cwd if cwd is None else cwd,
            env={**self.env, **self.proxies, **(env or {})},
            timeout=timeout,
            stdin=stdin,
            keep_bytes=keep_bytes,
        )

    async def put_files(
        self,
        source: Path,
        folder: str,
        *,
        names: Iterable[str] | None = None,
        executable: Collection[str] = (),
        fresh: bool = False,
    ) -> None:
        """Put the files of a folder below a folder of the machine. They belong to root.

        Args:
            source: The folder on this machine.
            folder: The absolute folder, which is made if it is missing. No link may lead to it. Folders that
                are there keep their owners and modes.
            names: The paths below `source` to take. Default: all of them.
            executable: The paths below `source` that everyone may execute, whatever their modes are.
            fresh: Whether everything at `folder` is removed first.

        Raises UnreadableFiles if the machine cannot make them, UsageError for anything but files, folders and
        links, and SandboxError.
        """
        folder = clean_path(folder)
        await self._put(_read_folder(source, folder, names, executable), folder, fresh=fresh)

    async def put_contents(
        self, contents: Mapping[str, bytes], folder: str, *, mode: int = 0o644, fresh: bool = False
    ) -> None:
        """Put files with these contents, by their paths below `folder`. Raises as `put_files`."""
        folder = clean_path(folder)
        files = {_join(folder, name): content for name, content in contents.items()}
        entries = [_make_entry(path, "file", mode, size=len(content)) for path, content in files.items()]
        await self._put(Snapshot(tuple(entries), files), folder, fresh=fresh)

    async def _put(self, files: Snapshot, folder: str, *, fresh: bool) -> None:
        if (size := sum(map(len, files.contents.values()))) > MAX_PUT_BYTES:
            raise UsageError(f"the files have {size:,} bytes; the limit is {MAX_PUT_BYTES:,}")
        entries = {entry.path: entry for entry in files.entries}
        for parent in {parent for path in entries for parent in list_parents(path)}:
            if parent.startswith(f"{folder.rstrip('/')}/"):
                entries.setdefault(parent, _make_entry(parent, "folder", 0o755))
        above = [*list_parents(folder), folder]
        inside = [] if fresh else [path for path, entry in entries.items() if entry.kind == "folder"]
        found = await self.sandbox.describe([*above, *inside])
        for path in inside:
            if path in found and found[path].kind == "folder":
                del entries[path]
        for path in above:
            if path not in found or (fresh and path == folder):
                entries.setdefault(path, _make_entry(path, "folder", 0o755))
        made = tuple(entries[path] for path in sorted(entries))
        plan = CopyPlan(made, absent=(folder,) if fresh else ())
        await self.sandbox.copy_files(plan, files.read_ranges)

    async def make_folders(self, paths: Sequence[str], *, mode: int) -> None:
        """Make folders that belong to root, unless something is there, and the folders above them.

        Raises UnreadableFiles if a link leads one elsewhere, and UsageError for a path with a zero byte.
        """
        paths = [clean_path(path) for path in paths]
        wanted = sorted({*paths, *(parent for path in paths for parent in list_parents(path))})
        found = await self.sandbox.describe(wanted)
        made = [
            _make_entry(path, "folder", mode if path in paths else 0o755)
            for path in wanted
            if path not in found
        ]
        await self.sandbox.copy_files(CopyPlan(tuple(made)), Snapshot().read_ranges)

    async def open_shell(self) -> str:
        """Start the shell of `sandbox.run`, and return its path. Raises UsageError, SandboxError.

        The sandbox's own calls act from now on as the machine's user, in its folder and with its variables.
        """
        return await self.sandbox.open_image_shell(
            user=self.user, cwd=self.cwd, env={**self.env, **self.proxies}
        )

    async def read_files(self, paths: Sequence[str], *, limit: int) -> dict[str, bytes]:
        """Return the contents of regular files by path, without following links. Missing paths are left out.

        Raises UnreadableFiles for any other thing at a path, and if the files have more than `limit` bytes.
        """
        found = await self.sandbox.describe(paths)
        for entry in found.values():
            if entry.kind != "file":
                raise UnreadableFiles(f"{entry.path} is a {entry.kind} and not a file")
        if (size := sum(entry.size for entry in found.values())) > limit:
            raise UnreadableFiles(f"the files have {size:,} bytes; the limit is {limit:,}")
        return {
            path: await self.sandbox.read_ranges([(path, 0, entry.size)]) for path, entry in found.items()
        }

    @contextlib.asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """Stop all processes of the machine but the guest for the duration of the block, so that files rest.

        Raises SandboxError.
        """
        await self.sandbox.pause_all()
        try:
            yield
        finally:
            await self.sandbox.resume_all()

    async def kill_processes(self) -> None:
        """End all processes of the machine but the guest. Its files can still be read.

        Raises SandboxError if a process is left, or if the machine is over its disk limit.
        """
        await self.sandbox.end_all()


@contextlib.asynccontextmanager
async def open_machine(
    pool: SandboxPool,
    image: str,
    *,
    seconds: float,
    settings: SandboxSettings | None = None,
    limits: Limits = DEFAULT_LIMITS,
    user: str | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    network: bool | NetworkPlace | JoinedContainer = False,
    nested: bool = False,
    beside_mb: int = 0,
    starts_main: bool = True,
    start: EnvironmentSnapshot | None = None,
) -> AsyncIterator[Machine]:
    """Start a machine from an image and yield it; destroy it at the end of the block.

    The main process of the image runs: its ENTRYPOINT with `sleep infinity`, as the image's user.

    Args:
        pool: Lends the sandbox.
        image: The tag or id of an image that the engine has.
        seconds: The longest life of the machine.
        settings: The settings that an environment got, whose guest and terminals the machine has.
        limits: The limits of the machine.
        user: Runs the commands. Default: the image's user.
        cwd: The folder of commands. Default: the image's.
        env: Variables beside the image's.
        network: Whether programs reach the network of the engine; else the machine's place in another one.
        nested: As for `SandboxPool.lease`, for a grading that holds a machine already.
        beside_mb: As in `SandboxSettings`, for several machines of one attempt.
        starts_main: Whether the main process runs.
        start: The files that the machine gets before its main process starts.

    Raises ImageMissingError, UsageError if the backend runs no such images, and SandboxError.
    """
    backend = pool.backend
    if not isinstance(backend, RunsForeignImages):
        raise UsageError("the backend of this run cannot start images of task folders", hint="use Docker")
    facts = await inspect_image(backend, image)
    wanted = SandboxSettings(
        GUEST_IMAGE if settings is None else settings.image,
        limits,
        terminals=True,
        relay=True,
        foreign=ForeignImage(facts.id, network=network),
        beside_mb=beside_mb,
        kind=ContainerSandbox,
    )
    async with pool.lease(wanted, seconds=seconds, nested=nested) as sandbox:
        if not isinstance(sandbox, ContainerSandbox):
            raise TypeError(f"the pool leased a {type(sandbox).__name__} instead of a ContainerSandbox")
        machine = Machine(
            sandbox,
            facts,
            user=facts.user if user is None else user,
            cwd=facts.folder if cwd is None else cwd,
            env=env or {},
        )
        if start is not None:
            sandbox.agent_acted = start.agent_acted
            await sandbox.bring_files(start.files)
        if starts_main:
            await machine.start_main()
        yield machine


async def inspect_image(backend: RunsForeignImages, image: str) -> ImageFacts:
    """Return the settings of an image. Raises ImageMissingError if the engine does not have it."""
    facts = await asyncio.to_thread(backend.inspect_image, image)
    if facts is None:
        raise ImageMissingError(
            f"image {image} is not on the engine", hint=f"run: docker pull {image}   (or build it)"
        )
    return facts


def _read_folder(
    source: Path, folder: str, names: Iterable[str] | None, executable: Collection[str]
) -> Snapshot:
    """Return the files of a local folder as they will be below `folder`, as `put_files` describes."""
    if names is None:
        names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*"))
    entries: list[FileEntry] = []
    contents: dict[str, bytes] = {}
    for name in names:
        path, place = source / name, _join(folder, name)
        facts = path.lstat()
        mode = stat.S_IMODE(facts.st_mode) | (0o111 if name in executable else 0)
        made = _make_entry(place, "folder", mode, mtime_ns=facts.st_mtime_ns)
        if stat.S_ISLNK(facts.st_mode):
            made = replace(made, kind="link", to=os.readlink(path))
        elif stat.S_ISREG(facts.st_mode):
            contents[place] = path.read_bytes()
            made = replace(made, kind="file", size=len(contents[place]))
        elif not stat.S_ISDIR(facts.st_mode):
            raise UsageError(f"{path}: is neither a file, a folder nor a link")
        entries.append(made)
    return Snapshot(tuple(entries), contents)


def _join(folder: str, name: str) -> str:
    """Return the path of a name below a folder. Raises UsageError for a name that leads out of it."""
    path = clean_path(posixpath.join(folder, name))
    if not path.startswith(f"{folder.rstrip('/')}/"):
        raise UsageError(f"{name!r} is not below {folder}")
    return path


def list_parents(path: str) -> list[str]:
    """Return the folders above a path, the highest first, without the root."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: n + 1]) for n in range(len(parts))]


def _make_entry(
    path: str, kind: Literal["file", "folder"], mode: int, *, size: int = 0, mtime_ns: int | None = None
) -> FileEntry:
    """Return the entry of a file or a folder of root."""
    mtime_ns = time.time_ns() if mtime_ns is None else mtime_ns
    return FileEntry(path, kind, mode, uid=0, gid=0, mtime_ns=mtime_ns, ctime_ns=0, size=size)


def describe_failure(action: str, result: ExecResult) -> SandboxError:
    """Return the error for a command that failed before any agent acted, with the end of its output."""
    how = f"exit code {result.exit_code}" if result.limit is None else f"the limit {result.limit}"
    output = (str(result.stdout) + str(result.stderr)).strip()[-SHOWN_BYTES:]
    return SandboxError(f"{action} failed with {how}:\n{output}", acted_in=False)
