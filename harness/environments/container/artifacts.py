"""Find the files of declared artifacts in a machine, without following a link."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from harness.environments.container.machine import Machine, list_parents
from harness.environments.container.seal import ARTIFACTS
from harness.environments.container.task_toml import MAIN, Artifact
from harness.environments.os.file_copies import MAX_BATCH
from harness.environments.os.root_sandbox import FileEntry, RootSandbox, UnreadableFiles

MAX_FILES = 500_000
# The folder that is an artifact of every task.
ALWAYS = Artifact(source=ARTIFACTS)


@dataclass(frozen=True, slots=True)
class FoundArtifact:
    """The files of a declared artifact. `problem` says why it has none that are kept."""

    source: str
    # The path of the source in the folder of kept artifacts.
    destination: str
    entries: tuple[FileEntry, ...] = ()
    problem: str | None = None


async def find_artifacts(machine: Machine, artifacts: Sequence[Artifact]) -> list[FoundArtifact]:
    """Return the artifacts of a task, with the one that every task has.

    Of artifacts that lie at or below the same destination, the first is kept. Raises SandboxError.
    """
    found: list[FoundArtifact] = []
    for artifact in (ALWAYS, *artifacts):
        source = posixpath.normpath(artifact.source)
        destination = posixpath.normpath(artifact.destination or source.lstrip("/") or ".")
        made = FoundArtifact(source, destination)
        taken = next((each for each in found if _overlap(each.destination, destination)), None)
        if artifact.service != MAIN:
            made = FoundArtifact(source, destination, problem=f"it is in the service {artifact.service}")
        elif taken is not None:
            made = FoundArtifact(source, destination, problem=f"{taken.source} has the same place")
        else:
            try:
                entries = await list_below(machine, source, artifact.exclude)
                made = FoundArtifact(source, destination, tuple(entries), None if entries else "missing")
            except UnreadableFiles as error:
                made = FoundArtifact(source, destination, problem=str(error))
        if artifact is not ALWAYS or len(made.entries) > 1:
            found.append(made)
    return found


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/") or "." in (one, other)


async def list_below(machine: Machine, source: str, exclude: Sequence[str] = ()) -> list[FileEntry]:
    """Return the entries of a path and of all files below it, sorted; none if a link leads it elsewhere.

    A pattern of `exclude` leaves out a file by its name or by its path below the source, and everything below
    a folder. Raises UnreadableFiles for more than MAX_FILES, and SandboxError.
    """
    parents = await _describe(machine.sandbox, list_parents(source))
    if any(entry.kind != "folder" for entry in parents):
        return []
    entries: list[FileEntry] = []
    paths = [source]
    while paths:
        found = await _describe(machine.sandbox, paths)
        entries += found
        if len(entries) > MAX_FILES:
            raise UnreadableFiles(f"{source} has more than {MAX_FILES:,} files")
        inside = [f"{each.path.rstrip('/')}/{name}" for each in found for name in each.names]
        paths = [path for path in inside if not _is_left_out(path, source, exclude)]
    return sorted(entries, key=lambda entry: entry.path)


def _is_left_out(path: str, source: str, exclude: Sequence[str]) -> bool:
    relative = path.removeprefix(source.rstrip("/")).lstrip("/")
    names = (relative, *relative.split("/"))
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in exclude)


async def list_artifacts(machine: Machine, artifacts: Sequence[Artifact]) -> list[FileEntry]:
    """Return the files of declared artifacts, changed or not, and the folders above them.

    Raises UnreadableFiles and SandboxError.
    """
    found: dict[str, FileEntry] = {}
    for artifact in (ALWAYS, *artifacts):
        source = posixpath.normpath(artifact.source)
        entries = await list_below(machine, source, artifact.exclude)
        parents = await _describe(machine.sandbox, list_parents(source)) if entries else []
        found |= {entry.path: entry for entry in (*parents, *entries)}
    return sorted(found.values(), key=lambda entry: entry.path)


async def _describe(sandbox: RootSandbox, paths: Sequence[str]) -> list[FileEntry]:
    found: list[FileEntry] = []
    for start in range(0, len(paths), MAX_BATCH):
        found += (await sandbox.describe(paths[start : start + MAX_BATCH])).values()
    return found
