"""Puts right the tools of a sandbox in which an agent was root, so that trusted scripts can rely on them.

Such a script runs where the agent acted, and so with the shell, the commands, the interpreters and the
libraries there. Whatever of these was changed since the agent began comes again from an untouched
sandbox of the same image, and what was added in their place goes. What belongs to the agent's world,
commands under new names included, stays as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.errors import SandboxError, UsageError
from harness.sandbox.engine import engine_errors
from harness.sandbox.root_sandbox import Entry, RootSandbox, UnreadableTree

# Here a name that the image does not have is a command of the agent's making, which a check may call.
COMMAND_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
# Here whatever is new can only be meant to be loaded by something else than the agent's own commands.
LIBRARY_PATHS = (
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/libexec",
    "/usr/local/lib",
    "/usr/local/share/perl",
    "/usr/share/awk",
    "/usr/share/perl",
    "/usr/share/perl5",
    "/usr/share/python3",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/nsswitch.conf",
    "/etc/perl",
    "/etc/python3",
    "/etc/python3.11",
)
# For scripts that have to be compiled first; many files.
INCLUDE_FOLDERS = ("/usr/include", "/usr/local/include")
# What leads to all that, and the devices that scripts write to: nobody has a reason to replace these.
FOUNDATIONS = (
    *("/", "/bin", "/sbin", "/lib", "/lib64", "/usr", "/usr/local", "/usr/local/share", "/usr/share", "/etc"),
    *("/dev", "/dev/fd", "/dev/full", "/dev/null", "/dev/random", "/dev/stderr", "/dev/stdin", "/dev/stdout"),
    *("/dev/tty", "/dev/urandom", "/dev/zero", "/proc", "/tmp"),
)
# More than this is no longer put right: all of `/usr/lib` of the image is.
MAX_BYTES = 512 << 20
LIST, ARCHIVE = "/root/.harness-list", "/root/.harness-tools.tar"
TAR_SECONDS = 60.0

OpenPristine = Callable[[], contextlib.AbstractAsyncContextManager[RootSandbox]]


class ToolsLost(Exception):
    """The tools of a sandbox are in a state from which they cannot be put right. The agent did that."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What the tools of a sandbox were before the agent began."""

    foundations: dict[str, Entry]
    commands: dict[str, frozenset[str]]


async def note_tools(sandbox: RootSandbox) -> Tools:
    """Take note of the tools, and of the moment: what is changed from now on is the agent's doing."""
    found = await sandbox.describe((*FOUNDATIONS, *COMMAND_FOLDERS))
    await sandbox.begin()
    return Tools(
        foundations={path: _without_names(found[path]) for path in FOUNDATIONS},
        commands={folder: frozenset(found[folder].names) for folder in COMMAND_FOLDERS},
    )


async def put_right(
    sandbox: RootSandbox, tools: Tools, pristine: OpenPristine, *, compilers: bool = False
) -> tuple[str, ...]:
    """Make the tools what they were, and return the paths that had to be put right.

    Every process of the agent is dead by now. `compilers`: what these read is wanted too. `pristine`
    opens a sandbox of the same image, which is done only where something has changed. Raises
    ToolsLost, SandboxError.
    """
    try:
        await _see_foundations(sandbox, tools)
        paths = (*COMMAND_FOLDERS, *LIBRARY_PATHS, *(INCLUDE_FOLDERS if compilers else ()))
        changed = dict(await sandbox.changed(paths))
        doubtful, shadows = _sorted_out(changed, tools)
        if shadows:
            await sandbox.remove(shadows)
        wrong: list[str] = []
        if doubtful:
            async with pristine() as untouched:
                wrong = await _restore(sandbox, untouched, doubtful, tools)
        if shadows or wrong:
            # What was put right has changed as well: it is not to be found again by the next look.
            await sandbox.begin()
    except (UnreadableTree, UsageError) as error:
        raise ToolsLost(str(error)) from error
    return tuple(sorted({*shadows, *wrong}))


async def _see_foundations(sandbox: RootSandbox, tools: Tools) -> None:
    found = await sandbox.describe(FOUNDATIONS)
    for path, before in tools.foundations.items():
        if _without_names(found[path]) != before:
            raise ToolsLost(f"{path} was replaced: it was a {before.kind} and is a {found[path].kind}")


def _sorted_out(changed: dict[str, Entry], tools: Tools) -> tuple[dict[str, Entry], list[str]]:
    """Tell what has to be compared with the image, and new commands that hide one of the image's."""
    names = frozenset().union(*tools.commands.values())
    doubtful = {}
    shadows = []
    for path, entry in changed.items():
        folder, _, name = path.rpartition("/")
        if path in tools.commands:
            if entry.kind != "folder" or tools.commands[path] - set(entry.names):
                doubtful[path] = entry
        elif folder in tools.commands:
            if name in tools.commands[folder]:
                doubtful[path] = entry
            elif name in names:
                shadows.append(path)
        elif not path.startswith(tuple(f"{folder}/" for folder in COMMAND_FOLDERS)):
            doubtful[path] = entry
    return doubtful, shadows


async def _restore(
    sandbox: RootSandbox, untouched: RootSandbox, doubtful: dict[str, Entry], tools: Tools
) -> list[str]:
    """Make these paths what they are in the untouched sandbox; return those that were not."""
    originals = await untouched.describe(list(doubtful))
    surplus: list[str] = []
    single: list[str] = []
    whole: list[str] = []
    for path, entry in doubtful.items():
        original = originals[path]
        folder = path.rpartition("/")[0]
        if original.kind == "absent":
            # The set-up of the task may have brought the command: then it is part of the world.
            if folder not in tools.commands and path not in tools.commands:
                surplus.append(path)
        elif original.kind != "folder":
            surplus.append(path)
            single.append(path)
        elif entry.kind != "folder":
            surplus.append(path)
            whole.append(path)
        else:
            missing = set(original.names) - set(entry.names)
            whole += [f"{path}/{name}" for name in missing]
            if path not in tools.commands:
                surplus += [f"{path}/{name}" for name in set(entry.names) - set(original.names)]
    # What lies below a path that goes, or comes as a whole, goes and comes with it.
    surplus = _topmost(surplus, surplus)
    whole = _topmost(whole, whole)
    single = [path for path in _topmost(single, whole) if path not in set(whole)]
    if not surplus and not whole and not single:
        return []
    await sandbox.remove(surplus)
    if single or whole:
        await _copy(untouched, sandbox, single, whole)
    await _see_restored(sandbox, originals, tools)
    return sorted({*surplus, *single, *whole})


def _topmost(paths: list[str], others: list[str]) -> list[str]:
    """Those of the paths that do not lie below one of the others."""
    known = set(others)
    return [path for path in paths if known.isdisjoint(map(str, PurePosixPath(path).parents))]


async def _copy(source: RootSandbox, target: RootSandbox, single: list[str], whole: list[str]) -> None:
    """Copy files and links, and folders with all that is in them, under the same paths."""
    for suffix, paths in (("single", single), ("whole", whole)):
        names = "".join(f"{path.lstrip('/')}\0" for path in paths)
        await source.write_file(f"{LIST}-{suffix}", names.encode("utf-8", "surrogateescape"))
    packed = await source.run_script(
        [
            *("tar", "-C", "/", "--null", "-cf", ARCHIVE),
            *("--no-recursion", "-T", f"{LIST}-single", "--recursion", "-T", f"{LIST}-whole"),
        ],
        timeout=TAR_SECONDS,
    )
    if packed.exit_code != 0:
        raise ToolsLost(f"the tools cannot be copied: {str(packed.stderr)[-300:]}")
    archive = await asyncio.to_thread(_fetched, source)
    await asyncio.to_thread(_unpacked, target, archive)


def _fetched(sandbox: RootSandbox) -> bytes:
    with engine_errors("fetch tools from an untouched sandbox"):
        pieces, facts = sandbox.client.get_archive(sandbox.container_id, ARCHIVE)
        if facts["size"] > MAX_BYTES:
            raise ToolsLost(f"{facts['size']} bytes of tools were changed")
        outer = io.BytesIO(b"".join(pieces))
    with tarfile.open(fileobj=outer) as tar:
        member = tar.next()
        file = None if member is None else tar.extractfile(member)
        if file is None:
            raise SandboxError("the engine sent no archive of the tools")
        return file.read()


def _unpacked(sandbox: RootSandbox, archive: bytes) -> None:
    # The engine unpacks it from outside, by no program of the sandbox, and cannot be led out of it.
    with engine_errors("put tools into a sandbox"):
        if not sandbox.client.put_archive(sandbox.container_id, "/", archive):
            raise SandboxError("the engine did not take the tools")


async def _see_restored(sandbox: RootSandbox, originals: dict[str, Entry], tools: Tools) -> None:
    """Raise ToolsLost where a path is still not what it is in the image."""
    for path, found in (await sandbox.describe(list(originals))).items():
        original = originals[path]
        if path in tools.commands:
            right = found.kind == "folder" and set(original.names) <= set(found.names)
        elif path.rpartition("/")[0] in tools.commands and original.kind == "absent":
            right = True
        else:
            right = found == original
        if not right:
            raise ToolsLost(f"{path} cannot be put right")


def _without_names(entry: Entry) -> Entry:
    return Entry(entry.kind, entry.to, (), entry.device)
