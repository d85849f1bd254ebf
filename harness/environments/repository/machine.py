"""The machine of a repository: its image, its history without a future, and patches into it and out of it.

No program of an agent has run in a machine when these functions use git there. The set-up of a machine and
the tests of a repository are plain data.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, replace

from harness.environments.base import EnvironmentContext
from harness.environments.container.changes import MAX_FILES, carry_changes, list_changes
from harness.environments.container.images import build_text, pull_image
from harness.environments.container.machine import Machine, describe_failure, open_machine
from harness.environments.container.scene import Change, Scene
from harness.environments.container.seal import find_reason
from harness.environments.os.file_entries import UnreadableFiles
from harness.sandbox.backends.base import BuiltImage
from harness.sandbox.pool import SandboxSettings
from harness.sandbox.results import ExecResult

BUILD_SECONDS = 3600.0
GIT_SECONDS = 300.0
MAX_PATCH_BYTES = 64 << 20
_TOOLS = "/opt/grading"
_PATCH = f"{_TOOLS}/patch.diff"
# git refuses the repository of another user unless a setting of its own user allows it.
_VARIABLES = {"HOME": f"{_TOOLS}/home", "GIT_TERMINAL_PROMPT": "0"}
# The commits that HEAD is made of stay, and nothing else: no branch, tag, stash, reflog or lost object. Files
# and changes that the image has beside its commit stay too.
_CUT_HISTORY = """set -e
git config --global safe.directory '*'
rm -rf .git.new
git clone --quiet --bare --single-branch --no-tags "file://$PWD" .git.new
for kept in config info modules; do
    [ ! -e .git/$kept ] || { rm -rf .git.new/$kept; mv .git/$kept .git.new/; }
done
for remote in $(git -C .git.new remote); do git -C .git.new remote remove $remote; done
rm -rf .git
mv .git.new .git
git reset --quiet
"""
# As swebench applies a patch: in the first of these ways that works. The last one would write into `.git`.
_APPLY = """for how in '--verbose' '--verbose --3way' '--verbose --reject'; do
    git apply $how {patch} && exit 0
    git checkout -- . ; git clean -fdq
done
mv .git {tools}/git
patch --batch --forward --fuzz=5 -p1 -i {patch}
ended=$?
rm -rf .git
mv {tools}/git .git
[ $ended = 0 ] || git apply --check --reverse {patch}
"""
# SWE-bench counts each file with one of these words in its path as a part of the tests, so that no patch of a
# solution has one.
_TEST_WORDS = frozenset(("test", "tests", "testing", "e2e"))
_BUILD_FILES = ("setup.py", "noxfile.py", "Makefile")


@dataclass(frozen=True, slots=True)
class RepositorySetup:
    """The machine of a repository, as the setup of a task."""

    # The image that has the repository at its commit.
    image: str
    # The text of the Dockerfile that makes the image, None for a published image.
    dockerfile: str | None = None
    folder: str = "/testbed"


@dataclass(frozen=True, slots=True)
class RepositoryTests:
    """The tests that judge a patch, as the target of a reference."""

    setup: RepositorySetup
    # The patch of the solution, and the patch that brings the hidden tests.
    gold: str
    test_patch: str
    # The script that brings the tests, runs them, and prints their log between two markers.
    script: str
    # The name of the form of the log (`logs.PARSERS`).
    parser: str
    # The ids of tests that a solution repairs, and of those that it must not break.
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]


async def find_image(context: EnvironmentContext, setup: RepositorySetup, name: str) -> BuiltImage:
    """Return the image of a repository, pulled or built once.

    Raises UsageError, DataError and SandboxError.
    """
    if setup.dockerfile is None:
        return await pull_image(context, setup.image, name, BUILD_SECONDS)
    return await build_text(context, setup.dockerfile, name, BUILD_SECONDS)


@contextlib.asynccontextmanager
async def open_prepared(
    context: EnvironmentContext,
    image: BuiltImage,
    setup: RepositorySetup,
    *,
    seconds: float,
    settings: SandboxSettings | None = None,
    network: bool = False,
    nested: bool = False,
) -> AsyncIterator[Machine]:
    """Start a machine of a repository whose git knows no later commit, and yield it. Raises SandboxError."""
    opening = open_machine(
        context.pool,
        image.id,
        seconds=seconds,
        settings=settings or context.settings,
        limits=context.settings.limits,
        cwd=setup.folder,
        network=network,
        nested=nested,
    )
    async with opening as machine:
        await machine.make_folders([_VARIABLES["HOME"]], mode=0o755)
        await _require(machine, _CUT_HISTORY)
        yield machine


async def _run_git(machine: Machine, script: str, paths: Collection[str] = ()) -> ExecResult:
    """Run a script of git commands as root in the folder of the repository, with paths as its input."""
    stdin = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    return await machine.exec(script, user="0", env=_VARIABLES, timeout=GIT_SECONDS, stdin=stdin)


async def _require(machine: Machine, script: str, paths: Collection[str] = ()) -> None:
    result = await _run_git(machine, script, paths)
    if result.exit_code != 0:
        raise describe_failure("git in the image of the task", result)


async def put_text(machine: Machine, path: str, text: str) -> None:
    """Write a file of the grader."""
    folder, name = posixpath.split(path)
    await machine.put_contents({name: text.encode("utf-8", "surrogateescape")}, folder)


async def apply_patch(machine: Machine, patch: str) -> str | None:
    """Apply a patch to the files of a repository as swebench does. Return why that failed, else None."""
    await put_text(machine, _PATCH, patch)
    result = await _run_git(machine, _APPLY.format(patch=_PATCH, tools=_TOOLS))
    if result.exit_code == 0 and result.limit is None:
        return None
    return (str(result.stdout) + str(result.stderr)).strip()[-500:] or "no output"


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of a repository's files at a time. `take_patch` looks for changes since then."""

    since_ns: int
    # The files that the image has and git does not know, such as the results of a build.
    untracked: frozenset[str]


async def note_moment(machine: Machine) -> Moment:
    """Return the state of the files of a repository now."""
    untracked = frozenset(await _list(machine, "git ls-files -z --others"))
    return Moment(await machine.sandbox.begin(), untracked)


async def list_changed(machine: Machine, moment: Moment, *, with_ignored: bool) -> list[str]:
    """Return the files of a repository that were changed, sorted. Raises UnreadableFiles and SandboxError.

    Only trusted programs may have run in the machine. A path outside of the repository begins with `../`.
    Without `with_ignored`, only files of the repository are there, and neither new ones that git ignores nor
    those that the image has and git does not know.
    """
    folder = machine.cwd
    entries = await machine.sandbox.list_all_changed(MAX_FILES, since_ns=moment.since_ns)
    changed = {
        posixpath.relpath(entry.path, folder)
        for entry in entries
        if entry.kind != "folder" and not entry.path.startswith(f"{_TOOLS}/")
    }
    if any(".git" in path.split("/")[1:] for path in changed):
        # git would read commands from its settings.
        raise UnreadableFiles("a repository within the repository was changed")
    changed |= {*await _list(machine, "git ls-files -z --deleted")}
    changed = {path for path in changed if not path.startswith(".git/")}
    if not with_ignored:
        tracked = {*await _list(machine, "git ls-files -z --cached")}
        changed = {path for path in changed - moment.untracked if not path.startswith("../")}
        new = sorted(changed - tracked)
        changed -= {*await _list(machine, "git check-ignore -z --stdin || true", new)} if new else set()
    return sorted(changed)


async def take_patch(machine: Machine, paths: Collection[str]) -> str:
    """Return the changes of these files since the commit of a repository as a patch. Raises SandboxError."""
    if not paths:
        return ""
    diff = f"{_TOOLS}/taken.diff"
    add = "git --literal-pathspecs add -A -f --pathspec-from-file=- --pathspec-file-nul"
    await _require(machine, f"git reset -q; {add}", paths)
    await _require(
        machine,
        f"git diff --cached --binary --no-color --no-ext-diff --no-textconv HEAD > {diff}; git reset -q",
    )
    content = (await machine.read_files([diff], limit=MAX_PATCH_BYTES))[diff]
    return content.decode("utf-8", "surrogateescape")


def steers_tests(path: str, command: str) -> bool:
    """Return whether a file, by its path in a repository, belongs to the tests or decides how they run.

    `command` is the text of the test command. The rules of the seal decide about files that a tool finds by
    itself, in whichever folder it starts.
    """
    if not _TEST_WORDS.isdisjoint(re.split(r"[ _/.]", path.lower())):
        return True
    if posixpath.basename(path) in _BUILD_FILES or path in command.replace("./", "").split():
        return True
    change = Change(f"/r/{path}", "file")
    top = Scene("", workdir="/r", environment={"PYTHONPATH": "/r/src:/r/lib"})
    beside = replace(top, workdir=posixpath.dirname(change.path), environment={})
    reasons = (find_reason(change, "tools", top), find_reason(change, "tools", beside))
    # A module of a package may have the name of another module.
    return reasons[0] is not None or reasons[1] not in (None, "shadow of a module")


async def bring_changes(source: Machine, target: Machine) -> None:
    """Make the changes of an agent to the files of its repository in a machine that it never touched.

    Every process of the agent must be dead. Raises UnreadableFiles and SandboxError.
    """
    folder = f"{source.cwd}/"
    entries = [
        entry
        for entry in await list_changes(source)
        if entry.path.startswith(folder) and ".git" not in entry.path.removeprefix(folder).split("/")
    ]
    await carry_changes(entries, source, target, "all", Scene("", workdir=source.cwd))


async def _list(machine: Machine, command: str, paths: Collection[str] = ()) -> list[str]:
    """Return the paths that a git command prints, each ended by a zero byte."""
    listing = f"{_TOOLS}/listing"
    await _require(machine, f"({command}) > {listing}", paths)
    content = (await machine.read_files([listing], limit=MAX_PATCH_BYTES))[listing]
    return [path for path in content.decode("utf-8", "surrogateescape").split("\0") if path]
