"""Carry the changes of a machine, as bounded data, into one of the pristine image, and find its artifacts.

Every process of the first machine is dead, and none but the guest has run in the second one. The guest of the
second one makes each file without following a link, so no path of the agent leads elsewhere. The files of
declared artifacts are found without following a link.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.environments.container.machine import Machine, list_parents
from harness.environments.container.proxied.separation import AGENT_GID, FILES_UID
from harness.environments.container.scene import Change, ImageFile, Scene, find_optional
from harness.environments.container.seal import (
    ARTIFACTS,
    LOGS,
    SOLUTION,
    TESTS,
    Level,
    divide,
    paths_to_describe,
)
from harness.environments.container.task_toml import MAIN, Artifact
from harness.environments.os.file_entries import MAX_BATCH, CopyPlan, FileEntry, UnreadableFiles
from harness.environments.os.machine_files import MAX_USERS_BYTES, SHELLS, USERS, behind_links, login_shells
from harness.environments.os.root_sandbox import RootSandbox

MAX_BYTES = 4 << 30
MAX_FILES = 500_000
# The metadata of a package, whose description follows them.
MAX_METADATA_BYTES = 1 << 14
# A link of the agent to one of these would show the tests their own answers, or lead their writes elsewhere.
_KEPT_FROM_LINKS = (TESTS, SOLUTION, LOGS, "/proc", "/opt/harness")
# The folder that is an artifact of every task.
ALWAYS = Artifact(source=ARTIFACTS)


@dataclass(frozen=True, slots=True)
class Carried:
    """The number of changes that reached the second machine, and of the others by reason."""

    files: int = 0
    bytes: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


async def list_changes(machine: Machine) -> list[FileEntry]:
    """Return the files that were changed since a machine started. All of its processes must be dead.

    Raises UnreadableFiles if there are more than MAX_FILES, and SandboxError.
    """
    return await machine.sandbox.list_all_changed(MAX_FILES)


async def carry_changes(
    entries: Sequence[FileEntry],
    source: Machine,
    target: Machine,
    level: Level,
    scene: Scene,
    *,
    has_tools: bool = False,
) -> Carried:
    """Make the files in `target` that `source` has changed, as far as a seal level allows.

    `entries` are the result of `list_changes`. `scene` comes without the facts of the image and of the
    changes. With `has_tools`, the image of `target` has further tools, which no change removes.
    Raises UnreadableFiles if the files have more than MAX_BYTES, or if one cannot be read or made, and
    SandboxError.
    """
    listed = {entry.path: entry for entry in entries}
    changes = [Change(entry.path, entry.kind) for entry in entries if entry.path != "/"]
    image = await _describe(target.sandbox, ["/", *paths_to_describe(changes, scene)])
    gone = () if level == "artifacts" else _removed(listed, image)
    absent = [Change(path, "absent") for path in gone if not (has_tools and scene.is_tool(path))]
    image |= await _describe(target.sandbox, [change.path for change in absent])
    scene = replace(
        scene,
        image={
            path: ImageFile(entry.kind, entry.mode, frozenset(entry.names)) for path, entry in image.items()
        },
        changed=frozenset(listed),
        links={entry.path: entry.to for entry in (*image.values(), *entries) if entry.kind == "link"},
    )
    scene = replace(scene, optional=await _find_optional(target.sandbox, scene))
    carried, dropped = divide([*changes, *absent], level, scene)
    made = {change.path: listed[change.path] for change in carried if change.kind != "absent"}
    if USERS in made and await _find_strange_shell(source, target) is not None:
        del made[USERS]
        dropped = {**dropped, "login shell": 1}
    made |= _missing_parents(made, listed, image)
    if level == "proxied":
        made = {path: set_apart(entry) for path, entry in made.items()}
    plan = CopyPlan(
        tuple(made[path] for path in sorted(made)),
        absent=tuple(change.path for change in carried if change.kind == "absent"),
    )
    target.sandbox.agent_acted = True
    await target.sandbox.copy_files(plan, source.sandbox.read_ranges, max_bytes=MAX_BYTES)
    links = [entry.path for entry in plan.entries if entry.kind == "link"]
    removed = await target.sandbox.remove_links(links, _KEPT_FROM_LINKS) if links else []
    counted = {**dropped, "link to the grader": len(removed)} if removed else dropped
    size = sum(entry.size for entry in plan.entries)
    return Carried(len(plan.entries) + len(plan.absent) - len(removed), size, counted)


def set_apart(entry: FileEntry) -> FileEntry:
    """Return a file of the agent with the owner and the mode that keep it from the tests' processes."""
    # A list of access rights, or a capability, would open the file again.
    entry = replace(entry, xattrs=tuple(pair for pair in entry.xattrs if pair[0].startswith("user.")))
    if entry.kind == "folder":
        # The tests make files beside the agent's, and the agent's code must not move them.
        return replace(entry, uid=0, gid=0, mode=entry.mode & 0o1777 | 0o755)
    group = (entry.mode & 0o500) >> 3 | 0o040
    return replace(entry, uid=FILES_UID, gid=AGENT_GID, mode=group)


async def _describe(sandbox: RootSandbox, paths: Sequence[str]) -> dict[str, FileEntry]:
    found: dict[str, FileEntry] = {}
    for start in range(0, len(paths), MAX_BATCH):
        found |= await sandbox.describe(paths[start : start + MAX_BATCH])
    return found


async def _find_optional(sandbox: RootSandbox, scene: Scene) -> frozenset[str]:
    """Return the modules that packages of the image import if they are there, if the agent made modules."""
    if not any((path.rpartition("/")[0] or "/") in scene.start_folders for path in scene.changed):
        return frozenset()
    listed = await _describe(sandbox, scene.lists_of_packages)
    ranges = [
        (path, 0, min(entry.size, MAX_METADATA_BYTES))
        for path, entry in listed.items()
        if entry.kind == "file"
    ]
    return find_optional([(await sandbox.read_ranges(ranges[:MAX_BATCH])).decode("utf-8", "replace")])


async def _find_strange_shell(source: Machine, target: Machine) -> str | None:
    """Return a login shell that the agent gave to a user, and that is not a shell of the image.

    Tests that act as that user would trust the exit code of a program of the agent.
    """
    after = (await source.read_files([USERS], limit=MAX_USERS_BYTES)).get(USERS, b"")
    before = (await target.read_files([USERS], limit=MAX_USERS_BYTES)).get(USERS, b"")
    kept = set(login_shells(before))
    new = (shell for user, shell in login_shells(after) if (user, shell) not in kept)
    return next((shell for shell in new if not SHELLS & {shell, behind_links(shell)}), None)


def _removed(listed: Mapping[str, FileEntry], image: Mapping[str, FileEntry]) -> Iterable[str]:
    """Yield the paths of the image that the changed folders no longer have."""
    for path, entry in listed.items():
        if entry.kind == "folder" and path in image:
            for name in sorted(set(image[path].names).difference(entry.names)):
                yield f"{path.rstrip('/')}/{name}"


def _missing_parents(
    made: Mapping[str, FileEntry], listed: Mapping[str, FileEntry], image: Mapping[str, FileEntry]
) -> dict[str, FileEntry]:
    """Return the new folders where carried files lie, although the folders alone are not carried."""
    found: dict[str, FileEntry] = {}
    for path in made:
        parent = path.rpartition("/")[0]
        while parent and parent not in image and parent not in made and parent not in found:
            if parent in listed:
                found[parent] = listed[parent]
            parent = parent.rpartition("/")[0]
    return found


@dataclass(frozen=True, slots=True)
class FoundArtifact:
    """The files of a declared artifact. `problem` is the reason why none are kept."""

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
    if any(entry.kind != "folder" for entry in parents.values()):
        return []
    entries: list[FileEntry] = []
    paths = [source]
    while paths:
        found = (await _describe(machine.sandbox, paths)).values()
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
        found |= await _describe(machine.sandbox, list_parents(source)) if entries else {}
        found |= {entry.path: entry for entry in entries}
    return sorted(found.values(), key=lambda entry: entry.path)
